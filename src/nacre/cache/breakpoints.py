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
    elif loaded := [index for index, tool in enumerate(tools) if tool.get("defer_loading") is not True]:
        tools = _with_marker_at(tools, loaded[-1], long)
        room = room - 1
    branches = (branch_at,) if isinstance(branch_at, int) else branch_at or ()
    first = _instructions(messages)
    marked = list(messages)
    for index, inner in _places(messages, branches, room):
        content = list(_blocks(marked[index]))
        block = content[inner]
        assert isinstance(block, dict)
        content[inner] = {**block, "cache_control": _control(long if (index, inner) == first else short)}
        marked[index] = {**marked[index], "content": content}
    return system, tools, marked


def _places(messages: list[JsonObject], branches: Sequence[int], room: int) -> list[_Place]:
    """Return where to place markers, most valuable first, as many as are allowed."""
    # The previous request had all messages before the newest reply.
    sent_before = len(messages)
    while sent_before and messages[sent_before - 1].get("role") != "assistant":
        sent_before -= 1
    while sent_before and messages[sent_before - 1].get("role") == "assistant":
        sent_before -= 1
    ends = (len(messages), *branches, sent_before)
    wanted = [*(_end(messages, count) for count in ends), _instructions(messages)]
    # One block may be wanted for several reasons.
    distinct = dict.fromkeys(spot for spot in wanted if spot is not None)
    return list(distinct)[:room]


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


def _with_marker_at(blocks: list[JsonObject], index: int, lifetime: str) -> list[JsonObject]:
    return [*blocks[:index], {**blocks[index], "cache_control": _control(lifetime)}, *blocks[index + 1 :]]


def _control(lifetime: str) -> JsonObject:
    # Five minutes is the provider's default, so that the field is not needed.
    return {"type": "ephemeral"} if lifetime == "5m" else {"type": "ephemeral", "ttl": lifetime}
