"""Applies rewrites to items: blocks are replaced or removed, a call together with its result."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

from nacre.clock import Clock
from nacre.messages.blocks import Block, Opaque, Thinking, ToolCall, ToolResult
from nacre.messages.pairing import Item, ItemPart, part
from nacre.messages.records import Address, BlockOf, Change, Record, Replaced, ResultOf

Stands: TypeAlias = "dict[Address, tuple[Block, ...]]"
"""New content by address."""


def gone_calls(items: Sequence[Item], stands: Stands) -> set[str]:
    """Return calls whose call or result is removed: the other half must be removed, too."""
    gone = {at.call_id for at, blocks in stands.items() if isinstance(at, ResultOf) and not blocks}
    for item in items:
        for one in item.parts:
            call_id = _call_id(one.block)
            blocks = stands.get(BlockOf(one.record_id, one.index))
            if call_id and blocks is not None and call_id not in {_call_id(block) for block in blocks}:
                gone.add(call_id)
    return gone


def _call_id(block: Block) -> str | None:
    if isinstance(block, ToolCall):
        return block.id
    return block.call_id if isinstance(block, ToolResult) else None


def changed(item: Item, stands: Stands, gone: set[str]) -> Item:
    if not any(_touches(one, stands, gone) for one in item.parts):
        return item
    parts = tuple(new for one in item.parts for new in _in_view(one, stands, gone))
    return Item(item.record_id, item.role, item.reply_id, parts)


def _touches(one: ItemPart, stands: Stands, gone: set[str]) -> bool:
    call_id = _call_id(one.block)
    return (
        call_id in gone
        or BlockOf(one.record_id, one.index) in stands
        or (isinstance(one.block, ToolResult) and ResultOf(one.block.call_id) in stands)
    )


def _in_view(one: ItemPart, stands: Stands, gone: set[str]) -> list[ItemPart]:
    if _call_id(one.block) in gone:
        return []
    blocks = stands.get(BlockOf(one.record_id, one.index))
    if blocks is None and isinstance(one.block, ToolResult):
        blocks = stands.get(ResultOf(one.block.call_id))
    return [one] if blocks is None else [part(one.record_id, one.index, block) for block in blocks]


def without_thinking(items: Iterable[Item]) -> Iterator[Change]:
    """Return the changes that remove all thinking, which is bound to the bytes before it (C12b)."""
    for item in items:
        for one in item.parts:
            match one.block:
                case Thinking() | Opaque(kind="redacted_thinking"):
                    yield Change(BlockOf(one.record_id, one.index), ())
                case _:
                    pass


def drop_thinking(items: Iterable[Item], clock: Clock) -> list[Record]:
    """Return the record that removes all thinking from these items; empty without thinking."""
    changes = tuple(without_thinking(items))
    if not changes:
        return []
    return [Replaced(id=clock.new_id(), at=clock.now(), changes=changes, reason="thinking")]
