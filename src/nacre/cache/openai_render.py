"""From an OpenAI request, Responses or chat completions, to ordered blocks and where a prefix may end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from nacre.cache.anthropic_render import Count, objects, render
from nacre.cache.anthropic_state import Level, Rendered
from nacre.messages.blocks import Json, JsonObject
from nacre.messages.tokens import FLAT_TOKENS, estimate_json, estimate_text

TOOL_OUTPUTS = frozenset({"tool", "function_call_output", "custom_tool_call_output", "computer_call_output"})
DEVELOPER = frozenset({"developer", "system"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The blocks of a request and where they may be cut."""

    blocks: list[Rendered]
    ends: tuple[int, ...]
    """Blocks that end an eligible message: a user's, the last tool output in a row, the developer's first."""
    developer_end: int
    """The block that ends the leading developer messages, or -1."""
    marked: tuple[tuple[int, str], ...]
    """Blocks with an explicit breakpoint, and its lifetime where it names one."""


def estimate(wire: JsonObject) -> int:
    """Tokens of a block, by its bytes."""
    match wire:
        case {"text": str(text)} | {"content": str(text)} | {"output": str(text)}:
            return estimate_text(text)
        case {"type": "input_image" | "input_file" | "image_url" | "file"}:
            return FLAT_TOKENS
        case _:
            return estimate_json(wire)


def layout(body: JsonObject, count: Count) -> Layout:
    """Tools first, then instructions and the conversation, a block per content part."""
    blocks = [
        render(tool, level="tools", role="", at=(index, -1), count=count)
        for index, tool in enumerate(objects(body.get("tools")))
    ]
    items = list(_items(body))
    leading = next((i for i, item in enumerate(items) if _speaker(item) not in DEVELOPER), len(items))
    ends: list[int] = []
    for index, item in enumerate(items):
        level: Level = "system" if index < leading else "messages"
        for inner, part in enumerate(_parts(item)):
            blocks.append(_rendered(part, level=level, role=_speaker(item), at=(index, inner), count=count))
        if _is_eligible(items, index, leading):
            ends.append(len(blocks) - 1)
    return Layout(
        blocks=blocks,
        ends=tuple(ends),
        developer_end=ends[0] if leading and ends else -1,
        marked=tuple((i, block.marker) for i, block in enumerate(blocks) if block.marker),
    )


def _items(body: JsonObject) -> Iterator[JsonObject]:
    if "messages" in body:
        yield from objects(body["messages"])
        return
    instructions = body.get("instructions")
    if isinstance(instructions, str) and instructions:
        yield {"role": "developer", "content": instructions}
    said: Json = body.get("input")
    if isinstance(said, str):
        yield {"role": "user", "content": said}
    yield from objects(said)


def _speaker(item: JsonObject) -> str:
    """A message's role; what is no message speaks under its type."""
    return str(item.get("role") or item.get("type") or "")


def _parts(item: JsonObject) -> Iterator[JsonObject]:
    content = item.get("content")
    rest = {key: value for key, value in item.items() if key not in {"role", "content", "id"}}
    if isinstance(content, str):
        yield {"type": "text", "text": content}
    elif isinstance(content, list):
        yield from objects(content)
    if item.get("role") is None or "tool_calls" in rest or "tool_call_id" in rest:
        yield rest


def _rendered(part: JsonObject, *, level: Level, role: str, at: tuple[int, int], count: Count) -> Rendered:
    point = part.get("prompt_cache_breakpoint")
    bare = {key: value for key, value in part.items() if key != "prompt_cache_breakpoint"}
    block = render({"role": role, **bare}, level=level, role="", at=at, count=_of_part(count))
    if not isinstance(point, dict):
        return block._replace(role=role)
    return block._replace(role=role, marker=str(point.get("ttl") or "explicit"))


def _of_part(count: Count) -> Count:
    return lambda wire: count({key: value for key, value in wire.items() if key != "role"})


def _is_eligible(items: Sequence[JsonObject], index: int, leading: int) -> bool:
    speaker = _speaker(items[index])
    if index < leading:
        return index == leading - 1
    if speaker in TOOL_OUTPUTS:
        return index + 1 == len(items) or _speaker(items[index + 1]) not in TOOL_OUTPUTS
    return speaker == "user"
