"""Results that refer to earlier results in view: a file read again, and the index of what is in view (C4)."""

from __future__ import annotations

import os
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from nacre.messages.blocks import JsonObject, Text, ToolCall, ToolResult
from nacre.messages.pairing import Item
from nacre.messages.results import PAGED
from nacre.messages.view import View

WORTH = 0.5
"""Share of the whole text; a longer list of changes is harder to read than the text."""
_NUMBERED = re.compile(r" *([0-9]{1,15})([\t→])")
"""Start of a numbered line: nacre's Read puts a tab after the number, Claude Code's an arrow.

Claude Code indents the number, as nacre did before.
"""


@dataclass(frozen=True, slots=True)
class ReadPage:
    """Numbered lines as Read returns them, with the remark after them, if any."""

    first: int
    lines: tuple[str, ...]
    remark: str | None = None
    sign: str = "\t"
    """Separator between a number and its line."""
    width: int = 0
    """Characters of a number with the spaces before it, if there are spaces."""

    @property
    def is_part(self) -> bool:
        """Whether it is the beginning of a large file with an outline: lines that left it are not gone."""
        return PAGED.match(self.remark or "") is not None


@dataclass(frozen=True, slots=True)
class ReadChanges:
    """The differences between two reads of a file."""

    text: str
    """Text for the model, without the sentence that names the earlier read."""
    lines: int
    """Number of lines added or removed."""


def changes(before: str, now: str) -> ReadChanges | None:
    """Return the changes from an earlier read to this one; None if they are not clearly shorter."""
    old = page_of(before)
    new = page_of(now)
    if old is None or new is None or old.first != new.first or old.is_part or new.is_part:
        return None
    shown: list[str] = []
    count = 0
    for (start, end), (begin, stop) in _steps(old.lines, new.lines):
        is_same = old.lines[start:end] == new.lines[begin:stop]
        count += 0 if is_same else max(end - start, stop - begin)
        was = _span(old.first + start, old.first + end)
        are = _span(new.first + begin, new.first + stop)
        if is_same:
            shown.append(f"[{are} as before]" if was == are else f"[{are} as before, where {was} stood]")
        elif begin == stop:
            shown.append(f"[the earlier {was} gone]")
        else:
            shown.append(f"[in place of the earlier {was}:]" if start < end else "[new:]")
            shown += [row(new.first + n, new.lines[n], new.sign, new.width) for n in range(begin, stop)]
    text = "\n".join(shown if new.remark is None else [*shown, new.remark])
    return ReadChanges(text, count) if len(text) < len(now) * WORTH else None


def page_of(text: str) -> ReadPage | None:
    """Parse numbered lines; None if the text does not begin with one."""
    begins = _NUMBERED.match(text)
    if begins is None:
        return None
    first = int(begins[1])
    sign = begins[2]
    rows = text.split("\n")
    lines: list[str] = []
    for number, each in enumerate(rows, start=first):
        mark = _NUMBERED.match(each)
        if mark is None or int(mark[1]) != number or mark[2] != sign:
            break
        lines.append(each[mark.end() :])
    # The remark is always shown unchanged, so it need not be parsed.
    behind = rows[len(lines) :]
    width = begins.start(2) if text.startswith(" ") else 0
    return ReadPage(first, tuple(lines), "\n".join(behind) if behind else None, sign, width)


def is_numbered(text: str) -> bool:
    """Return whether a text begins with a numbered line."""
    return _NUMBERED.match(text) is not None


def row(number: int, line: str, sign: str = "\t", width: int = 0) -> str:
    """Return a line as Read formats it."""
    return f"{str(number).rjust(width)}{sign}{line}"


def _span(start: int, end: int) -> str:
    return f"line {start}" if end - start == 1 else f"lines {start}-{end - 1}"


_Step = tuple[tuple[int, int], tuple[int, int]]
"""A range of old lines and the range of new lines that replaces it."""


def _steps(old: Sequence[str], new: Sequence[str]) -> Iterator[_Step]:
    """Return ranges in order, equal and different ones; together they cover both texts."""
    at = 0
    to = 0
    for start, begin, length in [*_matches(old, new), (len(old), len(new), 0)]:
        if (at, to) != (start, begin):
            yield (at, start), (to, begin)
        if length:
            yield (start, start + length), (begin, begin + length)
        at = start + length
        to = begin + length


def _matches(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int, int]]:
    """Return equal ranges: the start, the end, and around lines that occur once in both texts.

    Costs little more than reading both, where the usual way can take seconds on lines that repeat.
    """
    head = _alike(old, new)
    tail = _alike(old[head:][::-1], new[head:][::-1])
    rest = old[head : len(old) - tail]
    other = new[head : len(new) - tail]
    found = [(0, 0, head)]
    at = 0
    to = 0
    for start, begin in _anchors(rest, other):
        if start < at:
            continue  # inside the stretch before
        while start > at and begin > to and rest[start - 1] == other[begin - 1]:
            start = start - 1
            begin = begin - 1
        length = _alike(rest, other, start, begin)
        found.append((head + start, head + begin, length))
        at = start + length
        to = begin + length
    return [one for one in (*found, (len(old) - tail, len(new) - tail, tail)) if one[2]]


def _alike(one: Sequence[str], other: Sequence[str], start: int = 0, begin: int = 0) -> int:
    """Return how many lines are equal from these indexes on."""
    most = min(len(one) - start, len(other) - begin)
    return next((n for n in range(most) if one[start + n] != other[begin + n]), most)


def _anchors(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    """Return lines that occur once in both texts, in the longest common order."""
    once = {line for line, count in Counter(old).items() if count == 1}
    once &= {line for line, count in Counter(new).items() if count == 1}
    places = {line: place for place, line in enumerate(new) if line in once}
    pairs = [(place, places[line]) for place, line in enumerate(old) if line in once]
    ends: list[int] = []
    links: list[tuple[int, int, int]] = []
    last: list[int] = []
    for start, begin in pairs:
        length = bisect_left(ends, begin)
        before = last[length - 1] if length else -1
        if length == len(ends):
            ends.append(begin)
            last.append(len(links))
        else:
            ends[length], last[length] = begin, len(links)
        links.append((start, begin, before))
    chain = []
    link = last[-1] if last else -1
    while link >= 0:
        start, begin, link = links[link]
        chain.append((start, begin))
    return chain[::-1]


READER = "Read"

Extent = tuple[str, int, int | None]
"""A file and the range of lines that a call read."""


@dataclass(frozen=True, slots=True)
class WholeResult:
    """A result that the view holds whole."""

    call: ToolCall
    text: str


@dataclass(slots=True)
class ShownTexts:
    """Whole results by text, and the last read of each range of a file."""

    same: dict[tuple[str, bool], WholeResult] = field(default_factory=dict)
    """By text and error flag; the first result counts, because it stays in view longest."""
    reads: dict[Extent, WholeResult] = field(default_factory=dict)
    """The last read counts, because the next one is most similar to it."""

    def add(self, call: ToolCall, result: ToolResult) -> None:
        text = only_text(result)
        if text is None:
            return
        whole = WholeResult(call, text)
        self.same.setdefault((text, result.is_error), whole)
        # A list of changes cannot be compared with; the last whole read stays.
        is_page = call.name == READER and not result.is_error and is_numbered(text)
        if is_page and (extent := extent_of(call.input)) is not None:
            self.reads[extent] = whole


class ResultsInView:
    """Index of the tool calls and whole results of a session's view."""

    def __init__(self) -> None:
        self._start()

    def _start(self, epochs: int = 0) -> None:
        self._epochs = epochs
        self._seen = 0
        self._reply: str | None = None
        self._is_answered = False
        self._open: dict[str, ToolCall] = {}
        self._used: set[str] = set()
        self.texts = ShownTexts()
        self.round_chars = 0
        """Characters of the results already recorded in the current round."""

    @staticmethod
    def of(view: View) -> ResultsInView:
        return ResultsInView().follow(view)

    def follow(self, view: View) -> ResultsInView:
        """Add new items of the view; after a rewrite, build the index again."""
        items = view.items
        if len(view.epochs) != self._epochs or len(items) < self._seen:
            self._start(len(view.epochs))
        for item in items[self._seen :]:
            self._take(item)
        self._seen = len(items)
        return self

    def call(self, call_id: str) -> ToolCall | None:
        """Return the unanswered call with this id."""
        return self._open.get(call_id)

    def _take(self, item: Item) -> None:
        if item.role == "assistant":
            self._hear(item)
            return
        self._is_answered = True
        for result in _results(item):
            self.round_chars += chars_of(result)
            if (call := self._open.pop(result.call_id, None)) is not None:
                self.texts.add(call, result)

    def _hear(self, item: Item) -> None:
        if item.reply_id != self._reply or (item.reply_id is None and self._is_answered):
            # After another reply, later results of the previous one are not sent (T6).
            self._open.clear()
            self.round_chars = 0
        self._reply = item.reply_id
        self._is_answered = False
        for part in item.parts:
            # A second call with the same id is not sent, nor is its result.
            if isinstance(part.block, ToolCall) and part.block.id not in self._used:
                self._used.add(part.block.id)
                self._open[part.block.id] = part.block


def only_text(result: ToolResult) -> str | None:
    """Return the text of a result that has no other content; otherwise None."""
    match result.content:
        case (Text(text, ()),):
            return text
        case _:
            return None


def chars_of(result: ToolResult) -> int:
    """Return the characters of its texts; images and documents are counted elsewhere."""
    return sum(len(part.text) for part in result.content if isinstance(part, Text))


def extent_of(arguments: JsonObject) -> Extent | None:
    """Return the range that a Read call asks for; None if it begins within a line or is invalid."""
    match arguments:
        case {"file_path": str(path)} if arguments.get("column") is None:
            offset = arguments.get("offset")
            limit = arguments.get("limit")
            if not isinstance(offset, int | None) or not isinstance(limit, int | None):
                return None
            return os.path.normpath(path), max(offset or 1, 1), limit
        case _:
            return None


def _results(item: Item) -> Iterator[ToolResult]:
    return (part.block for part in item.parts if isinstance(part.block, ToolResult))
