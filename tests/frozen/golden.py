"""Golden files: a test compares with them, and `python -m tests.frozen.record` writes them anew."""

from __future__ import annotations

import os
from difflib import unified_diff
from pathlib import Path

import pytest

FOLDER = Path(__file__).with_name("golden")
RECORD = "FROZEN_RECORD"
"""The variable that has goldens written instead of compared; not `NACRE_…`, which tests never see."""
SHOWN_LINES = 60
"""Of a difference: more does not help anybody to find its cause."""


def check(name: str, text: str) -> None:
    """Fail where this differs from the golden file of that name."""
    path = FOLDER / name
    if os.environ.get(RECORD):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return
    known = path.read_text(encoding="utf-8") if path.is_file() else ""
    if text == known:
        return
    lines = list(
        unified_diff(known.splitlines(), text.splitlines(), f"golden/{name}", "now", lineterm="", n=2)
    )
    shown = "\n".join(lines[:SHOWN_LINES])
    more = f"\n… {len(lines) - SHOWN_LINES} more lines" if len(lines) > SHOWN_LINES else ""
    pytest.fail(f"{shown}{more}\nIf this is meant: python -m tests.frozen.record", pytrace=False)
