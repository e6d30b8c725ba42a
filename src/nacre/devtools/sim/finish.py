"""Complete a scripted reply to what the model may send: ids, schemas, limits and stop reasons."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

from nacre.devtools.sim.replies import ScriptedReply
from nacre.messages.blocks import Json, JsonObject
from nacre.messages.tokens import BYTES_PER_TOKEN, estimate_text
from nacre.messages.wire import canonical

PREWARMED = ScriptedReply(stop_reason="max_tokens", output_tokens=0)
"""The answer to `max_tokens: 0`: the prompt was read and cached, the reply is empty."""


def is_prewarm(body: JsonObject) -> bool:
    return body.get("max_tokens") == 0


def finish(reply: ScriptedReply, body: JsonObject, *, new_id: Callable[[], str]) -> ScriptedReply:
    """Return the complete reply: whole blocks, within `max_tokens`, in the requested shape."""
    if is_compaction(body):
        return _compacted(reply, new_id)
    content = tuple(_whole_block(block, new_id) for block in reply.content)
    shaped = _shaped(replace(reply, content=content), body)
    cut = _within_limit(shaped, body)
    stop_reason = cut.stop_reason or ("tool_use" if cut.calls_tools else "end_turn")
    return replace(cut, stop_reason=stop_reason, output_tokens=cut.tokens)


def is_compaction(body: JsonObject) -> bool:
    """Return whether the request asks for a summary instead of a reply."""
    asked = body.get("compaction")
    return isinstance(asked, dict) and asked.get("type") == "summarize"


def _compacted(reply: ScriptedReply, new_id: Callable[[], str]) -> ScriptedReply:
    block: JsonObject = {"type": "compaction", "content": reply.text, "signature": f"sim-{new_id()}"}
    tokens = reply.output_tokens if reply.output_tokens is not None else estimate_text(reply.text)
    return replace(reply, content=(block,), stop_reason="compaction", output_tokens=tokens)


def _whole_block(block: JsonObject, new_id: Callable[[], str]) -> JsonObject:
    match block:
        case {"type": "tool_use", "id": str()}:
            return block
        case {"type": "tool_use"}:
            arguments = block.get("input", {})
            return {
                "type": "tool_use",
                "id": f"toolu_{new_id()}",
                "name": block.get("name"),
                "input": arguments,
            }
        case {"type": "thinking"} if not block.get("signature"):
            return {**block, "signature": f"sim-{new_id()}"}
        case _:
            return block


def _shaped(reply: ScriptedReply, body: JsonObject) -> ScriptedReply:
    """Replace a scripted text that is not JSON by the smallest value the schema allows."""
    schema = output_schema(body)
    if schema is None or reply.calls_tools or _is_json(reply.text):
        return reply
    instance: JsonObject = {"type": "text", "text": canonical(minimal_instance(schema)).decode()}
    return replace(reply, content=(*(b for b in reply.content if b.get("type") != "text"), instance))


def output_schema(body: JsonObject) -> JsonObject | None:
    """Return the JSON schema of the answer, if the request names one."""
    match body:
        case {"output_config": {"format": {"type": "json_schema", "schema": dict(schema)}}}:
            return schema
        case {"output_format": {"type": "json_schema", "schema": dict(schema)}}:
            return schema
        case _:
            return None


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _within_limit(reply: ScriptedReply, body: JsonObject) -> ScriptedReply:
    """Cut a plain text longer than `max_tokens`; a token count in the script is not checked."""
    limit: Json = body.get("max_tokens")
    only_text = all(block.get("type") == "text" for block in reply.content)
    if (
        not isinstance(limit, int)
        or reply.output_tokens is not None
        or not only_text
        or reply.tokens <= limit
    ):
        return reply
    text = reply.text.encode()[: limit * BYTES_PER_TOKEN].decode(errors="ignore")
    return replace(
        reply, content=({"type": "text", "text": text},), stop_reason="max_tokens", output_tokens=limit
    )


MAX_DEPTH = 32
"""Maximum depth of a recursive schema; real ones end after three or four levels."""

_FORMATS = {
    "date": "2026-01-01",
    "date-time": "2026-01-01T00:00:00Z",
    "time": "00:00:00Z",
    "email": "a@example.org",
    "uri": "https://example.org/",
    "uuid": "00000000-0000-0000-0000-000000000000",
}


def minimal_instance(schema: JsonObject) -> Json:
    """Return the smallest value the schema allows: required keys only, first choices, lowest numbers."""
    return _instance(schema, schema, 0)


def _instance(schema: Json, root: JsonObject, depth: int) -> Json:
    if not isinstance(schema, dict) or depth > MAX_DEPTH:
        return None
    match schema:
        case {"$ref": str(reference)}:
            return _instance(_referred(reference, root), root, depth + 1)
        case {"const": constant}:
            return constant
        case {"enum": [first, *_]}:
            return first
        case {"anyOf": [first, *_]} | {"oneOf": [first, *_]}:
            return _instance(first, root, depth + 1)
        case {"allOf": [*parts]}:
            return _instance(_merged(parts, root), root, depth + 1)
        case _:
            return _of_type(schema, root, depth)


def _referred(reference: str, root: JsonObject) -> Json:
    here: Json = root
    for step in reference.removeprefix("#").strip("/").split("/"):
        here = (
            here.get(step.replace("~1", "/").replace("~0", "~")) if step and isinstance(here, dict) else here
        )
    return here


def _merged(parts: list[Json], root: JsonObject) -> JsonObject:
    """Merge several object schemas: all their properties, all their required keys."""
    merged: JsonObject = {}
    properties: JsonObject = {}
    required: list[Json] = []
    for part in parts:
        resolved = _referred(str(part["$ref"]), root) if isinstance(part, dict) and "$ref" in part else part
        if isinstance(resolved, dict):
            merged |= resolved
            properties |= _object(resolved.get("properties"))
            required += _list(resolved.get("required"))
    return {**merged, "properties": properties, "required": required}


def _of_type(schema: JsonObject, root: JsonObject, depth: int) -> Json:
    kind = schema.get("type")
    match kind[0] if isinstance(kind, list) and kind else kind:
        case "string":
            return _text(schema)
        case "integer" | "number":
            return _number(schema)
        case "boolean":
            return False
        case "array":
            least = schema.get("minItems")
            item = schema.get("items", {})
            return [_instance(item, root, depth + 1) for _ in range(least if isinstance(least, int) else 0)]
        case "object":
            return _members(schema, root, depth)
        case _:
            return _members(schema, root, depth) if "properties" in schema else None


def _members(schema: JsonObject, root: JsonObject, depth: int) -> JsonObject:
    properties = _object(schema.get("properties"))
    required = _list(schema.get("required"))
    return {name: _instance(part, root, depth + 1) for name, part in properties.items() if name in required}


def _text(schema: JsonObject) -> str:
    least = schema.get("minLength")
    text = _FORMATS.get(str(schema.get("format")), "")
    return text.ljust(least if isinstance(least, int) else 0, "x")


def _number(schema: JsonObject) -> int | float:
    least = schema.get("minimum")
    above = schema.get("exclusiveMinimum")
    most = schema.get("maximum")
    if isinstance(least, int | float):
        return least
    if isinstance(above, int | float):
        return above + 1
    return min(0, most) if isinstance(most, int | float) else 0


def _object(value: Json) -> JsonObject:
    return value if isinstance(value, dict) else {}


def _list(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []
