"""The smallest JSON value that follows a schema, for replies nobody scripted."""

from __future__ import annotations

from nacre.messages.blocks import Json, JsonObject

MAX_DEPTH = 32
"""A schema that refers to itself is followed so far; real ones end after three or four levels."""

_FORMATS = {
    "date": "2026-01-01",
    "date-time": "2026-01-01T00:00:00Z",
    "time": "00:00:00Z",
    "email": "a@example.org",
    "uri": "https://example.org/",
    "uuid": "00000000-0000-0000-0000-000000000000",
}


def minimal_instance(schema: JsonObject) -> Json:
    """The smallest value the schema allows: required keys only, first choices, lowest numbers."""
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
    """Several object schemas as one: all their properties, all their required keys."""
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
