"""Applies rewrites to items: blocks are replaced or removed, a call together with its result."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
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
    """Return the item with its new content; the same object if nothing changes."""
    parts: list[ItemPart] = []
    is_changed = False
    for one in item.parts:
        blocks = stands.get(BlockOf(one.record_id, one.index))
        if blocks is None and isinstance(one.block, ToolResult):
            blocks = stands.get(ResultOf(one.block.call_id))
        if _call_id(one.block) in gone:
            blocks = ()
        is_changed = is_changed or blocks is not None
        parts += [one] if blocks is None else [part(one.record_id, one.index, block) for block in blocks]
    return replace(item, parts=tuple(parts)) if is_changed else item


def unbound_thinking(items: Iterable[Item], sent: Iterable[Item] = ()) -> Iterator[Change]:
    """Return the changes that remove thinking whose preceding bytes differ from those that were sent (C12b).

    `sent` are the items before a rewrite: thinking ahead of the first difference stays valid. Without them
    all thinking is removed.
    """
    now = [(item.role, one) for item in items for one in item.parts]
    then = [(item.role, one.digest) for item in sent for one in item.parts]
    pairs = enumerate(zip(now, then, strict=False))
    moved = (n for n, ((role, one), before) in pairs if (role, one.digest) != before)
    for _, one in now[next(moved, min(len(now), len(then))) :]:
        match one.block:
            case Thinking() | Opaque(kind="redacted_thinking"):
                yield Change(BlockOf(one.record_id, one.index), ())
            case _:
                pass


def drop_thinking(items: Iterable[Item], clock: Clock, *, sent: Iterable[Item] = ()) -> list[Record]:
    """Return the record that removes thinking behind the first difference from `sent`, if there is any."""
    changes = tuple(unbound_thinking(items, sent))
    if not changes:
        return []
    return [Replaced(id=clock.new_id(), at=clock.now(), changes=changes, reason="thinking")]
