"""Which lines of a file the model has seen: ranges, joined, and moved along when an edit shifts lines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

ShownLines: TypeAlias = tuple[tuple[int, int], ...]
"""Ranges of line numbers from 1, first and last included, in order, neither touching nor overlapping."""


SPANS = 6
"""How many ranges a text names."""


class EditedLines(NamedTuple):
    """Lines that one replacement touches."""

    first: int
    last: int
    added: int
    """How many lines there are more afterwards; negative for fewer."""
    joins_next: bool = False
    """Whether the line after the last one becomes a part of it."""
    joins_previous: bool = False
    """Whether what follows the replaced text becomes a part of the line before the first one."""


def join(ranges: Iterable[tuple[int, int]]) -> ShownLines:
    """Return ranges in order, joined where they touch or overlap; empty ones are left out."""
    joined: list[tuple[int, int]] = []
    for first, last in sorted(one for one in ranges if one[0] <= one[1]):
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(joined[-1][1], last))
        else:
            joined.append((first, last))
    return tuple(joined)


def covers(shown: ShownLines, first: int, last: int) -> bool:
    """Return whether all lines from the first to the last were shown."""
    return any(start <= first and last <= end for start, end in shown)


def within(shown: ShownLines, other: ShownLines) -> ShownLines:
    """Return the lines that are in both."""
    return join(part for first, last in other for part in _between(shown, first, last, 0))


def after_edits(shown: ShownLines, edits: Sequence[EditedLines]) -> ShownLines:
    """Return the ranges by the new line numbers.

    `edits` are in order, by the old numbers. What replaced shown lines counts as shown, because the model
    wrote it; what replaced other lines does not.
    """
    places: list[EditedLines] = []
    for one in edits:
        if places and one.first - one.joins_previous <= places[-1].last + places[-1].joins_next:
            before = places.pop()
            one = one._replace(
                first=before.first,
                last=max(before.last, one.last),
                added=before.added + one.added,
                joins_previous=before.joins_previous,
            )
        places.append(one)
    moved: list[tuple[int, int]] = []
    begin = 1
    shift = 0
    for place in places:
        is_shown = covers(shown, place.first, place.last)
        # A line that was joined to one that was not shown does not count, either.
        moved += _between(shown, begin, place.first - 1 - (place.joins_previous and not is_shown), shift)
        if is_shown:
            moved.append((place.first + shift, place.last + shift + place.added))
        begin = place.last + 1 + (place.joins_next and not is_shown)
        shift += place.added
    moved += _between(shown, begin, shown[-1][1] if shown else 0, shift)
    return join(moved)


def written(shown: ShownLines) -> str:
    """Return at least one range as text, such as "lines 1-60 and 300"."""
    spans = [str(first) if first == last else f"{first}-{last}" for first, last in shown]
    if len(spans) > SPANS:
        spans[SPANS - 1 :] = [f"{len(spans) - SPANS + 1} more ranges"]
    named = " and ".join(part for part in (", ".join(spans[:-1]), spans[-1]) if part)
    return f"line{'' if named.isdigit() else 's'} {named}"


def _between(shown: ShownLines, begin: int, end: int, shift: int) -> list[tuple[int, int]]:
    """Return the parts of ranges from `begin` to `end`, shifted."""
    return [
        (max(first, begin) + shift, min(last, end) + shift)
        for first, last in shown
        if max(first, begin) <= min(last, end)
    ]
