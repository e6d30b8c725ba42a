"""What of tool results the model sees whole: followed as the view grows, at the cost of what is new."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field

from nacre.layers.l1_offload.reread import is_numbered
from nacre.messages.blocks import JsonObject, Text, ToolCall, ToolResult
from nacre.messages.pairing import Item
from nacre.messages.view import View

READER = "Read"

Extent = tuple[str, int, int | None]
"""A file and the lines of it that a call asked for."""


@dataclass(frozen=True, slots=True)
class Whole:
    """A result that stands whole in the view."""

    call: ToolCall
    text: str


@dataclass(slots=True)
class Texts:
    """Whole results by what they say, and what was read of which file."""

    same: dict[tuple[str, bool], Whole] = field(default_factory=dict)
    """By text and whether it is an error; the first one counts, because it stays longest where it is."""
    reads: dict[Extent, Whole] = field(default_factory=dict)
    """The last one counts, because the next is most like it."""

    def add(self, call: ToolCall, result: ToolResult) -> None:
        text = only_text(result)
        if text is None:
            return
        whole = Whole(call, text)
        self.same.setdefault((text, result.is_error), whole)
        # A list of changes is no text to compare with: the last whole one stays.
        is_page = call.name == READER and not result.is_error and is_numbered(text)
        if is_page and (extent := extent_of(call.input)) is not None:
            self.reads[extent] = whole


class InView:
    """The tool calls and whole results of one view and those that follow from it; owned by one session."""

    def __init__(self) -> None:
        self._start()

    def _start(self, epochs: int = 0) -> None:
        self._epochs = epochs
        self._seen = 0
        self._reply: str | None = None
        self._is_answered = False
        self._open: dict[str, ToolCall] = {}
        self._used: set[str] = set()
        self.texts = Texts()
        self.round_chars = 0
        """Characters of the results that the current round has recorded already."""

    @staticmethod
    def of(view: View) -> InView:
        return InView().follow(view)

    def follow(self, view: View) -> InView:
        """Take in what came since; after a rewrite of what was in view, everything anew."""
        items = view.items
        if len(view.epochs) != self._epochs or len(items) < self._seen:
            self._start(len(view.epochs))
        for item in items[self._seen :]:
            self._take(item)
        self._seen = len(items)
        return self

    def call(self, call_id: str) -> ToolCall | None:
        """The call that a result answers, as long as it has no answer."""
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
            # Another reply: what answers the one before from now on is not sent (T6).
            self._open.clear()
            self.round_chars = 0
        self._reply = item.reply_id
        self._is_answered = False
        for part in item.parts:
            # A second call with the same id is not sent, so that its result is not seen either.
            if isinstance(part.block, ToolCall) and part.block.id not in self._used:
                self._used.add(part.block.id)
                self._open[part.block.id] = part.block


def only_text(result: ToolResult) -> str | None:
    """The text of a result that is nothing else."""
    match result.content:
        case (Text(text, ()),):
            return text
        case _:
            return None


def chars_of(result: ToolResult) -> int:
    """Characters of its texts; pictures and documents have a price of their own."""
    return sum(len(part.text) for part in result.content if isinstance(part, Text))


def extent_of(arguments: JsonObject) -> Extent | None:
    """What a call of Read asks for; nothing when its arguments are not as they should be."""
    match arguments:
        case {"file_path": str(path)}:
            offset = arguments.get("offset")
            limit = arguments.get("limit")
            if not isinstance(offset, int | None) or not isinstance(limit, int | None):
                return None
            return os.path.normpath(path), max(offset or 1, 1), limit
        case _:
            return None


def _results(item: Item) -> Iterator[ToolResult]:
    return (part.block for part in item.parts if isinstance(part.block, ToolResult))
