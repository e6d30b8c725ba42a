"""Places cache markers in a request (C31): after the system prompt, the instructions, a fork point, the end.

The end of the previous request is marked again, so that the provider finds it however long the round was: it
searches back from a marker for 20 positions only.
"""

from __future__ import annotations

from collections.abc import Sequence

from nacre.cache.models import ModelProfile
from nacre.cache.warmth import Lifetime
from nacre.messages.blocks import Json, JsonObject

MARKABLE = frozenset({"text", "image", "document", "tool_use", "tool_result", "compaction"})
"""Kinds of block that may have a marker."""


_Place = tuple[int, int]
"""Message and block."""


def place_markers(
    system: list[JsonObject],
    tools: list[JsonObject],
    messages: list[JsonObject],
    *,
    profile: ModelProfile,
    ttl: Lifetime = "5m",
    branch_at: int | Sequence[int] | None = None,
) -> tuple[list[JsonObject], list[JsonObject], list[JsonObject]]:
    """Return the lists with markers; the arguments are not changed, only marked containers are copied.

    `branch_at` is the number of messages that a fork shares with its parent, or several such numbers if
    markers are worthwhile after other messages too (C31c).
    """
    if not profile.cache_markers:
        return system, tools, messages
    long = "5m" if ttl == "5m" else "1h"
    short = "1h" if ttl == "1h" else "5m"
    room = profile.max_markers
    head = _last_markable(system)
    if head is not None:
        system = _with_marker_at(system, head, long)
        room = room - 1
    elif (tool := _last_loaded(tools)) is not None:
        tools = _with_marker_at(tools, tool, long)
        room = room - 1
    places = _places(messages, _counts(branch_at), room)
    first = _instructions(messages)
    marked = list(messages)
    for index, inner in places:
        lifetime = long if (index, inner) == first else short
        marked[index] = _with_marker_in(marked[index], inner, lifetime)
    return system, tools, marked


def _places(messages: list[JsonObject], branches: Sequence[int], room: int) -> list[_Place]:
    """Return where to place markers, most valuable first, as many as are allowed."""
    wanted = [
        _end(messages, len(messages)),
        *(_end(messages, count) for count in branches),
        _end(messages, _sent_before(messages)),
        _instructions(messages),
    ]
    # One block may be wanted for several reasons.
    distinct = dict.fromkeys(spot for spot in wanted if spot is not None)
    return list(distinct)[:room]


def _counts(branch_at: int | Sequence[int] | None) -> Sequence[int]:
    if branch_at is None:
        return ()
    return (branch_at,) if isinstance(branch_at, int) else branch_at


def _sent_before(messages: list[JsonObject]) -> int:
    """Return how many messages the previous request had: all before the newest reply."""
    index = len(messages)
    while index and messages[index - 1].get("role") != "assistant":
        index -= 1
    while index and messages[index - 1].get("role") == "assistant":
        index -= 1
    return index


def _end(messages: list[JsonObject], count: int) -> _Place | None:
    """Return the last block that can be marked in the first `count` messages."""
    for index in range(min(count, len(messages)) - 1, -1, -1):
        message = messages[index]
        # A reminder that expires is missing in the next prompt, so that nothing cached after it is found.
        if message.get("clear_at") == "next_user_message":
            continue
        inner = _last_markable(_blocks(message))
        if inner is not None:
            return index, inner
    return None


def _instructions(messages: list[JsonObject]) -> _Place | None:
    """Return the first block of a conversation, if a prompt follows it."""
    if not messages or messages[0].get("role") != "user":
        return None
    blocks = _blocks(messages[0])
    has_more = len(blocks) > 1 or (len(messages) > 1 and messages[1].get("role") == "user")
    return (0, 0) if has_more and blocks and _is_markable(blocks[0]) else None


def _blocks(message: JsonObject) -> list[Json]:
    content = message.get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return content if isinstance(content, list) else []


def _last_markable(blocks: Sequence[Json]) -> int | None:
    return next((index for index in range(len(blocks) - 1, -1, -1) if _is_markable(blocks[index])), None)


def _is_markable(block: Json) -> bool:
    if not isinstance(block, dict) or block.get("type") not in MARKABLE:
        return False
    text = block.get("text")
    return block["type"] != "text" or (isinstance(text, str) and bool(text.strip()))


def _last_loaded(tools: list[JsonObject]) -> int | None:
    loaded = (
        index for index in range(len(tools) - 1, -1, -1) if tools[index].get("defer_loading") is not True
    )
    return next(loaded, None)


def _with_marker_at(blocks: list[JsonObject], index: int, lifetime: str) -> list[JsonObject]:
    return [*blocks[:index], {**blocks[index], "cache_control": _control(lifetime)}, *blocks[index + 1 :]]


def _with_marker_in(message: JsonObject, inner: int, lifetime: str) -> JsonObject:
    content = list(_blocks(message))
    block = content[inner]
    assert isinstance(block, dict)
    content[inner] = {**block, "cache_control": _control(lifetime)}
    return {**message, "content": content}


def _control(lifetime: str) -> JsonObject:
    # Five minutes is the provider's default, so that the field is not needed.
    return {"type": "ephemeral"} if lifetime == "5m" else {"type": "ephemeral", "ttl": lifetime}
