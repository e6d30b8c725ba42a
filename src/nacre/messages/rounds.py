"""API rounds, and where a view may be cut: never between a call and its result, nor inside a reply."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from nacre.messages.blocks import Text, ToolCall, ToolResult
from nacre.messages.pairing import Item


def cuts(items: Sequence[Item]) -> list[int]:
    """Every place at which a kept tail may begin, oldest first; the end of the items always is one."""
    places: list[int] = []
    is_open: set[str] = set()
    before: Item | None = None
    for place, item in enumerate(items):
        goes_on = before is not None and item.role == "assistant" and _is_same_reply(before, item)
        if not is_open and not goes_on:
            places.append(place)
        for part in item.parts:
            match part.block:
                case ToolCall() as call if item.role == "assistant":
                    is_open.add(call.id)
                case ToolResult() as result:
                    is_open.discard(result.call_id)
                case _:
                    pass
        if item.role == "assistant":
            before = item
        elif any(isinstance(part.block, Text) for part in item.parts):
            # A person's words end the waiting: what was called and never answered stays unanswered.
            is_open.clear()
    return [*places, len(items)]


def tail_from(items: Sequence[Item], tokens: int) -> int:
    """Where the newest rounds of at most so many estimated tokens begin."""
    sizes = [0]
    for item in reversed(items):
        sizes.append(sizes[-1] + item.tokens)
    return next(place for place in cuts(items) if sizes[len(items) - place] <= tokens)


def rounds(items: Sequence[Item]) -> list[tuple[int, int]]:
    """The API rounds as spans of items: each begins with a reply, the first with whatever came before one."""
    starts = [0] if items else []
    for place in cuts(items)[:-1]:
        if place and items[place].role == "assistant":
            starts.append(place)
    return list(pairwise([*starts, len(items)]))


def _is_same_reply(before: Item, item: Item) -> bool:
    return before.reply_id is not None and before.reply_id == item.reply_id
