"""What the Messages API refuses about a body's shape: missing fields, wrong types, empty blocks.

Pairing, roles, markers, system messages, limits and the window are refused by the cache rules themselves.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from nacre.messages.blocks import Json, JsonObject

KNOWN_FIELDS = frozenset(
    {
        "cache_control",
        "compaction",
        "container",
        "context_management",
        "diagnostics",
        "fallback_credit_token",
        "fallbacks",
        "inference_geo",
        "max_tokens",
        "mcp_servers",
        "messages",
        "metadata",
        "model",
        "output_config",
        "output_format",
        "service_tier",
        "speed",
        "stop_sequences",
        "stream",
        "system",
        "temperature",
        "thinking",
        "thread",
        "tool_choice",
        "tools",
        "top_k",
        "top_p",
        "user_profile_id",
        "workspace_id",
    }
)
"""The top-level fields of the API, stable and beta; anything else is refused there and here."""
_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_NEEDED = {
    "text": (("text", str),),
    "tool_use": (("id", str), ("name", str), ("input", dict)),
    "tool_result": (("tool_use_id", str),),
    "thinking": (("thinking", str), ("signature", str)),
}


def first_fault(body: JsonObject, *, counting: bool = False) -> str | None:
    """The first thing wrong with the body, in words a developer can act on, or None."""
    return next(_faults(body, counting), None)


def _faults(body: JsonObject, counting: bool) -> Iterator[str]:
    for name in body:
        if name not in KNOWN_FIELDS:
            yield f"{name}: Extra inputs are not permitted"
    if not counting:
        yield from _limit_faults(body.get("max_tokens"))
    messages = body.get("messages")
    for index, message in enumerate(messages if isinstance(messages, list) else []):
        is_last = isinstance(messages, list) and index == len(messages) - 1
        yield from _message_faults(_object(message), f"messages.{index}", is_last=is_last)
    if isinstance(messages, list) and messages and not _opens(messages[0]):
        yield 'messages: first message must use the "user" role'
    yield from _system_faults(body.get("system"))
    yield from _tool_faults(body.get("tools", []))


def _limit_faults(limit: Json) -> Iterator[str]:
    if limit is None:
        yield "max_tokens: Field required"
    elif isinstance(limit, bool) or not isinstance(limit, int):
        yield "max_tokens: Input should be a valid integer"
    elif limit < 0:
        yield "max_tokens: Input should be greater than or equal to 0"


def _message_faults(message: JsonObject, where: str, *, is_last: bool) -> Iterator[str]:
    content = message.get("content")
    if content in ("", []) and not (is_last and message.get("role") == "assistant"):
        yield f"{where}: all messages must have non-empty content except for the last one of the assistant"
    for place, block in enumerate(content if isinstance(content, list) else []):
        yield from _block_faults(_object(block), f"{where}.content.{place}")


def _block_faults(block: JsonObject, where: str) -> Iterator[str]:
    kind = block.get("type")
    if not isinstance(kind, str):
        yield f"{where}.type: Field required"
        return
    for name, wanted in _NEEDED.get(kind, ()):
        if name not in block:
            yield f"{where}.{kind}.{name}: Field required"
        elif not isinstance(block[name], wanted):
            shape = "a valid dictionary" if wanted is dict else "a valid string"
            yield f"{where}.{kind}.{name}: Input should be {shape}"
    if kind == "text" and not block.get("text"):
        yield f"{where}: text content blocks must be non-empty"


def _opens(message: Json) -> bool:
    """A conversation starts with the user, or with the summary that stands for its beginning."""
    match message:
        case {"role": "user"} | {"content": [{"type": "compaction"}, *_]}:
            return True
        case _:
            return False


def _system_faults(system: Json) -> Iterator[str]:
    if system is not None and not isinstance(system, str | list):
        yield "system: Input should be a text or a list of text blocks"
    for index, block in enumerate(system if isinstance(system, list) else []):
        if _object(block).get("type") != "text":
            yield f"system.{index}: Input should be a text block"
        yield from _block_faults(_object(block), f"system.{index}")


def _tool_faults(tools: Json) -> Iterator[str]:
    if not isinstance(tools, list):
        yield "tools: Input should be a valid list"
        return
    seen: set[str] = set()
    for index, item in enumerate(tools):
        tool = _object(item)
        name = tool.get("name")
        if not isinstance(name, str) or not _TOOL_NAME.fullmatch(name):
            yield f"tools.{index}.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'"
        elif name in seen:
            yield f"tools: Tool names must be unique: {name}"
        elif tool.get("type", "custom") == "custom" and not _is_object_schema(tool.get("input_schema")):
            yield f"tools.{index}.input_schema.type: Input should be 'object'"
        seen.add(str(name))


def _is_object_schema(schema: Json) -> bool:
    return _object(schema).get("type") == "object"


def _object(value: Json) -> JsonObject:
    return value if isinstance(value, dict) else {}
