"""Converts blocks to and from the provider's JSON; the canonical serialisation (T4)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import assert_never

from nacre.messages.blocks import (
    Block,
    Document,
    Extra,
    Image,
    Json,
    JsonObject,
    Opaque,
    ResultPart,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)

MALFORMED = "_malformed"
"""Key for arguments of a call that are not a JSON object, kept unchanged."""


def parse_content(content: Json) -> tuple[Block, ...]:
    """Parse the `content` of a message, which may be a plain string."""
    if isinstance(content, str):
        return (Text(content),)
    if not isinstance(content, list):
        return ()
    return tuple(parse_block(item) for item in content)


def parse_block(item: Json) -> Block:
    """Parse one block; an unknown shape is kept unchanged."""
    if not isinstance(item, dict):
        return Text(item if isinstance(item, str) else canonical(item).decode())
    match item:
        case {"type": "text", "text": str(text)}:
            return Text(text, _rest(item, "type", "text"))
        case {"type": "thinking", "thinking": str(text)}:
            signature = item.get("signature")
            return Thinking(
                text,
                signature if isinstance(signature, str) else None,
                _rest(item, "type", "thinking", "signature"),
            )
        case {"type": "tool_use", "id": str(call_id), "name": str(name)}:
            arguments = item.get("input", {})
            return ToolCall(
                call_id,
                name,
                # APIs send only objects; anything else in a log is kept visible.
                arguments if isinstance(arguments, dict) else {MALFORMED: arguments},
                _rest(item, "type", "id", "name", "input"),
            )
        case {"type": "tool_result", "tool_use_id": str(call_id)}:
            return ToolResult(
                call_id,
                tuple(map(as_result_part, parse_content(item.get("content") or None))),
                item.get("is_error") is True,
                _rest(item, "type", "tool_use_id", "content", "is_error"),
            )
        case {"type": "image", "source": dict(source)}:
            return Image(source, _rest(item, "type", "source"))
        case {"type": "document", "source": dict(source)}:
            return Document(source, _rest(item, "type", "source"))
        case _:
            wire = {key: value for key, value in item.items() if key != "cache_control"}
            return Opaque(str(item.get("type", "")), wire)


def as_result_part(block: Block) -> ResultPart:
    """Return a block as part of a tool result, where calls and thinking have no place."""
    if isinstance(block, Text | Image | Document | Opaque):
        return block
    return Opaque(type(block).__name__, render_block(block))


def _rest(item: JsonObject, *known: str) -> Extra:
    return tuple((key, value) for key, value in item.items() if key not in known and key != "cache_control")


def render_block(block: Block) -> JsonObject:
    """Return the block in the provider's form, with fixed key order and no cache marker."""
    match block:
        case Text(text, extra):
            return {"type": "text", "text": text, **dict(extra)}
        case Thinking(text, signature, extra):
            signed: JsonObject = {} if signature is None else {"signature": signature}
            return {"type": "thinking", "thinking": text, **signed, **dict(extra)}
        case ToolCall(call_id, name, arguments, extra):
            return {"type": "tool_use", "id": call_id, "name": name, "input": arguments, **dict(extra)}
        case ToolResult(call_id, content, is_error, extra):
            failed: JsonObject = {"is_error": True} if is_error else {}
            return {
                "type": "tool_result",
                "tool_use_id": call_id,
                "content": _render_result(content),
                **failed,
                **dict(extra),
            }
        case Image(source, extra):
            return {"type": "image", "source": source, **dict(extra)}
        case Document(source, extra):
            return {"type": "document", "source": source, **dict(extra)}
        case Opaque(_, wire):
            return wire
        case _:
            assert_never(block)


def _render_result(content: tuple[ResultPart, ...]) -> Json:
    match content:
        case ():
            return ""
        case (Text(text, ()),):
            return text
        case _:
            # A provider refuses a blank text among other blocks, and with it every later request.
            said = [part for part in content if not isinstance(part, Text) or part.text.strip()]
            return render_blocks(said) or ""


def render_blocks(blocks: Iterable[Block]) -> list[Json]:
    return [render_block(block) for block in blocks]


def canonical(value: Json) -> bytes:
    """Return the canonical bytes of a value: compact, key order kept, UTF-8, lone surrogates escaped."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    try:
        return text.encode()
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":")).encode()


def without_system(messages: list[JsonObject]) -> list[JsonObject]:
    """Move system messages into the user message before them, for models that take none."""
    merged: list[JsonObject] = []
    for message in messages:
        if message["role"] == "system" and merged:
            merged[-1] = {**merged[-1], "content": [*_blocks_of(merged[-1]), *_blocks_of(message)]}
        else:
            merged.append(message)
    return merged


def _blocks_of(message: JsonObject) -> list[Json]:
    content = message["content"]
    return content if isinstance(content, list) else []


def timestamp(at: datetime) -> str:
    """Return ISO time in UTC with milliseconds, or microseconds if the value has them."""
    moment = at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    precision = "microseconds" if moment.microsecond % 1000 else "milliseconds"
    return moment.isoformat(timespec=precision).replace("+00:00", "Z")
