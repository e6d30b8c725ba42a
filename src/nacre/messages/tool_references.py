"""References to tools whose definitions the prompt leaves out: the provider puts each definition in the place
of its reference (P12)."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from nacre.messages.blocks import Json, JsonObject, Opaque, ToolResult
from nacre.messages.pairing import Item

TOOL_REFERENCE = "tool_reference"
"""The kind of block, only allowed inside a tool result."""


def is_deferred(definition: Json) -> bool:
    """Whether the definition of a tool in a request is left out of the prompt."""
    return isinstance(definition, dict) and definition.get("defer_loading") is True


def tool_reference(name: str) -> Opaque:
    """Return a reference to a tool, as part of a tool result."""
    return Opaque(TOOL_REFERENCE, {"type": TOOL_REFERENCE, "tool_name": name})


def referenced_tools(items: Iterable[Item]) -> list[str]:
    """Return the names of the tools that these items refer to, in the order in which they were found."""
    names = {
        str(inner.wire.get("tool_name")): None
        for item in items
        for part in item.parts
        if isinstance(part.block, ToolResult)
        for inner in part.block.content
        if isinstance(inner, Opaque) and inner.kind == TOOL_REFERENCE
    }
    return list(names)


def reference_text(wire: JsonObject) -> str:
    """Return a line in the place of a reference, for models that see all tools from the beginning."""
    return f"{wire.get('tool_name')} can be called."


def without_references(messages: list[JsonObject], deferred: Collection[str] = ()) -> list[JsonObject]:
    """Return messages with a line in the place of each reference, except those to `deferred` tools.

    A provider refuses a reference to a tool that it does not have. A message without such references is the
    same object as before.
    """
    return [_without(message, deferred) for message in messages]


def _without(block: JsonObject, deferred: Collection[str]) -> JsonObject:
    match block:
        case {"type": "tool_reference"} if block.get("tool_name") not in deferred:
            return {"type": "text", "text": reference_text(block)}
        case {"role": "user", "content": list(parts)} | {"type": "tool_result", "content": list(parts)}:
            shown: list[Json] = [_without(one, deferred) if isinstance(one, dict) else one for one in parts]
            is_same = all(new is old for new, old in zip(shown, parts, strict=True))
            return block if is_same else {**block, "content": shown}
        case _:
            return block
