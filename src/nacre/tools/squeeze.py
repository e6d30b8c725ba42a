"""Shorter forms of results that lose no text: no colour codes, repeated lines once, matches by file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import NamedTuple

_ESCAPES = re.compile(
    r"\x1b(?:"
    r"\[[0-?]*(?:[A-HJKSTfhlmnsu]| q)"  # colours, cursor movement, modes
    r"|\][^\x07\x1b\n]*(?:\x07|\x1b\\)"  # titles, links
    r"|[()*+#%][0-9A-Za-z@]"  # character sets
    r"|[=>cDEHMNOZ78]"  # keypad, tab stops, saved cursor
    r")"
)
_FOLDED = re.compile(r"\(repeated [\d,]+ more times\)")
BETWEEN = "--"
"""The row between lines of a file that are not adjacent."""
MIN_FOLDED_LINES = 3
"""A shorter run is easier to read as it is."""


def without_escapes(text: str) -> str:
    """Return the text without terminal escape sequences."""
    return _ESCAPES.sub("", text) if "\x1b" in text else text


def fold_repeats(text: str) -> str:
    """Return the text with each run of equal lines as one line and a count, where that is shorter.

    Unchanged if the text itself holds such a count, so that a count always means repeated lines.
    """
    if _FOLDED.search(text):
        return text
    folded: list[str] = []
    for line, run in groupby(text.split("\n")):
        count = sum(1 for _ in run)
        note = f"(repeated {count - 1:,} more times)"
        if count >= MIN_FOLDED_LINES and len(note) < (len(line) + 1) * (count - 1):
            folded += [line, note]
        else:
            folded += [line] * count
    return "\n".join(folded)


class FoundLine(NamedTuple):
    """A row of a search for lines."""

    path: str
    """Empty for a row that is no line of a file, such as the mark between groups."""
    text: str
    """The number, a colon or hyphen, and the line."""


def by_file(rows: Iterable[FoundLine]) -> list[str]:
    """Return the path of each file once, followed by its rows; an empty line comes before the next path."""
    return [*_by_file(rows)]


def _by_file(rows: Iterable[FoundLine]) -> Iterator[str]:
    current: str | None = None
    waiting: list[str] = []
    for row in rows:
        if not row.path:
            waiting.append(row.text)
            continue
        if row.path == current:
            yield from waiting
        else:
            # A mark between two files says no more than the path does.
            yield from (one for one in waiting if one != BETWEEN)
            yield from (("", row.path) if current is not None else (row.path,))
        waiting = []
        current = row.path
        yield row.text
    yield from waiting
