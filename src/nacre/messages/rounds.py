"""API rounds and the cut points of a view: never between a call and its result or inside a reply."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import pairwise

from nacre.messages.blocks import ToolCall, ToolResult
from nacre.messages.pairing import Item
from nacre.messages.records import Record, Said


def cuts(items: Sequence[Item]) -> list[int]:
    """Return every index at which a kept tail may begin, oldest first, including the end."""
    answered = {
        part.block.call_id for item in items for part in item.parts if isinstance(part.block, ToolResult)
    }
    places: list[int] = []
    is_open: set[str] = set()
    """Calls of the current reply whose result is still to come."""
    reply: int | None = None
    for place, item in enumerate(items):
        goes_on = _goes_on(items, reply, place)
        if item.role == "assistant":
            if not goes_on:
                is_open.clear()  # what was called before and never answered stays unanswered
            reply = place
        is_same_record = place > 0 and items[place - 1].record_id == item.record_id
        if not (is_open or goes_on or is_same_record):
            places.append(place)
        for part in item.parts:
            match part.block:
                case ToolCall() as call if item.role == "assistant" and call.id in answered:
                    is_open.add(call.id)
                case ToolResult() as result:
                    is_open.discard(result.call_id)
                case _:
                    pass
    return [*places, len(items)]


def tail_from(items: Sequence[Item], tokens: int) -> int:
    """Return the index at which the newest rounds of at most `tokens` begin."""
    sizes = [0]
    for item in reversed(items):
        sizes.append(sizes[-1] + item.tokens)
    return next(place for place in cuts(items) if sizes[len(items) - place] <= tokens)


def rounds(items: Sequence[Item]) -> list[tuple[int, int]]:
    """Return the API rounds as ranges of items: each begins with a reply, except the first."""
    starts = [0] if items else []
    for place in cuts(items)[:-1]:
        if place and items[place].role == "assistant":
            starts.append(place)
    return list(pairwise([*starts, len(items)]))


def _goes_on(items: Sequence[Item], reply: int | None, place: int) -> bool:
    """Return whether an item belongs to the same reply as an earlier item."""
    item = items[place]
    if reply is None or item.role != "assistant" or items[reply].reply_id != item.reply_id:
        return False
    return item.reply_id is not None or reply == place - 1


def asked_at(records: Iterable[Record]) -> Iterator[tuple[Said, datetime]]:
    """Return each reply, at its first record, with the time of its request."""
    before: datetime | None = None
    reply_id: str | None = None
    for record in records:
        if not isinstance(record, Said) or record.aside is not None:
            continue
        if record.role != "assistant":
            before = record.at
            continue
        new_id = record.reply.id if record.reply else None
        if new_id is None or new_id != reply_id:
            yield record, before or record.at
        reply_id = new_id
