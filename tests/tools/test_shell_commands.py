"""A table of command lines, most of them hostile, and what must be said of each."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from nacre.tools.shell import explain

TABLE = Path(__file__).with_name("commands.txt")


def rows() -> list[tuple[str, bool]]:
    found = []
    for line in TABLE.read_text(encoding="utf-8").split("\n"):
        verdict, _, written = line.partition(" ")
        if verdict in ("yes", "no"):
            text = re.sub(r"‹U\+([0-9A-F]{4})›", lambda code: chr(int(code[1], 16)), written)
            found.append((text.replace("⏎", "\n"), verdict == "yes"))
    return found


ROWS = rows()


@pytest.mark.parametrize(("command", "expected"), ROWS, ids=[ascii(row[0]) for row in ROWS])
def test_a_command_line_is_judged_as_the_table_says(command: str, *, expected: bool) -> None:
    """Unknown means no (E5)."""
    verdict = explain(command)
    assert verdict.read_only == expected, verdict
    assert bool(verdict.reason) != expected
    assert "\n" not in verdict.reason


def test_the_table_is_large_and_mostly_hostile() -> None:
    hostile = [command for command, expected in ROWS if not expected]
    assert len(ROWS) == len({command for command, _ in ROWS})
    assert len(ROWS) >= 260
    assert len(hostile) * 2 >= len(ROWS)
