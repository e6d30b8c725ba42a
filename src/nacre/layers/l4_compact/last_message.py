"""What a person said last: whatever a compaction takes away, this stays as it was said (C20)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from nacre import prompts
from nacre.messages.blocks import Block, Document, Image, Text, ToolResult
from nacre.messages.facts import Facts
from nacre.messages.facts_words import own_words
from nacre.messages.pairing import Item
from nacre.messages.records import Compacted, Said
from nacre.messages.view import View, live_records

MARK = Text(prompts.load(__package__, "last_message").rstrip("\n"))
"""Stands before the message where it is the last thing in a summary."""


@dataclass(frozen=True, slots=True)
class LastMessage:
    """The message as it was said, with the pictures that were sent behind it."""

    parts: tuple[tuple[str, tuple[Block, ...]], ...] = ()
    """The id of the item that each stands in now, empty where it stands nowhere, and its blocks."""

    def unless_in(self, items: Iterable[Item]) -> tuple[Block, ...]:
        """What does not stand in these items, behind the words that say what it is."""
        there = {item.record_id for item in items if item.parts}
        blocks = tuple(block for item, some in self.parts if item not in there for block in some)
        return (MARK, *blocks) if blocks else ()


def last_message(view: View, facts: Facts) -> LastMessage:
    """From its own record, from the summary that ends with it, or its text where only that is left."""
    live = live_records(view.records)
    parts: list[tuple[str, tuple[Block, ...]]] = []
    lost: tuple[Block, ...] = ()
    for one in reversed(live):
        if not isinstance(one, Said) or not (blocks := _own(one)):
            continue
        if not view.has_record(one.id):
            lost = blocks
            break
        parts.insert(0, (one.id, blocks))
        if own_words(blocks):
            return LastMessage(tuple(parts))
    summary = next((one for one in reversed(live) if isinstance(one, Compacted) and _behind_mark(one)), None)
    if summary is not None:
        # Who resumes behind it has nothing but this, and makes the same of it as who never left.
        parts.insert(0, (summary.summary_id or summary.id, _behind_mark(summary)))
    else:
        parts.insert(0, ("", lost or tuple(Text(one.text) for one in facts.words[-1:])))
    return LastMessage(tuple(parts))


def _own(said: Said) -> tuple[Block, ...]:
    """The blocks a person gave: words with what is attached to them, or a picture alone; no results."""
    if said.role != "user" or said.meta or said.aside is not None:
        return ()
    blocks = tuple(block for block in said.blocks if not isinstance(block, ToolResult))
    is_picture = len(blocks) == len(said.blocks) and any(
        isinstance(block, Image | Document) for block in blocks
    )
    return blocks if is_picture or own_words(blocks) else ()


def _behind_mark(record: Compacted) -> tuple[Block, ...]:
    if MARK not in record.summary:
        return ()
    return record.summary[record.summary.index(MARK) + 1 :]
