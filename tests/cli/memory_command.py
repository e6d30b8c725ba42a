"""`nacre memory` in this process: what it says, and how it ends."""

from __future__ import annotations

import json
from typing import Any

import pytest

from nacre.cli.main import main

Capture = pytest.CaptureFixture[str]


def said(capture: Capture, *args: str, code: int = 0) -> tuple[str, str]:
    """What a command prints on either stream, once it has ended with this code."""
    capture.readouterr()
    ended = main(["memory", *args])
    out, err = capture.readouterr()
    assert ended == code, err
    return out, err


def document(capture: Capture, *args: str, code: int = 0) -> Any:
    """What it prints where it is asked for one document."""
    return json.loads(said(capture, *args, "--json", code=code)[0])
