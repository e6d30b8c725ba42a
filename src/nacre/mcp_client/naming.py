"""Tool names and schemas that every provider accepts, with stable bytes."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from typing import cast

from nacre.messages.blocks import Json, JsonObject

MAX_NAME_CHARS = 64
"""The longest tool name that every provider accepts."""
DIGEST_CHARS = 8
"""Enough to avoid collisions between the tools of one session."""
COMBINATORS = ("allOf", "anyOf", "oneOf")
LITERAL_KEYS = ("const", "default", "enum", "examples")
"""Their values are literals, not schemas, and keep their order."""
NAMED_KEYS = ("$defs", "definitions", "dependentSchemas", "patternProperties", "properties")
"""Their keys are names chosen by the author, possibly `default`."""


def wire_names(tools: Iterable[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """Return the name for each (server, tool); it depends on the pair alone unless two names collide."""
    names: dict[tuple[str, str], str] = {}
    taken: set[str] = set()
    for pair in sorted(set(tools)):
        name = plain = f"mcp__{pair[0]}__{pair[1]}"
        is_valid = len(plain) <= MAX_NAME_CHARS and bool(re.fullmatch(r"[A-Za-z0-9_-]+", plain))
        bare = re.sub(r"[^A-Za-z0-9_-]", "_", plain)[: MAX_NAME_CHARS - DIGEST_CHARS - 1]
        salt = 0
        while not is_valid or name in taken:
            # A digest of the pair; another one if that name is taken, too.
            whole = "\0".join((*pair, str(salt))).encode(errors="surrogatepass")
            name = f"{bare}_{hashlib.sha256(whole).hexdigest()[:DIGEST_CHARS]}"
            is_valid = True
            salt += 1
        names[pair] = name
        taken.add(name)
    return names


def bounded(text: str, chars: int) -> str:
    """Return the text, cut with an ellipsis if it is too long."""
    return text if len(text) <= chars else text[: chars - 1] + "…"


def stable_schema(schema: JsonObject) -> JsonObject:
    """Return the schema with sorted keys and an object at its root.

    Alternatives at the root, which providers refuse, become properties of the object; the server itself
    checks which of them go together.
    """
    branches = [
        branch for key in COMBINATORS if isinstance(group := schema.get(key), list) for branch in group
    ]
    properties: JsonObject = {}
    for source in (schema, *branches):
        table = source.get("properties") if isinstance(source, dict) else None
        if isinstance(table, dict):
            properties = {**table, **properties}
    rest = {key: value for key, value in schema.items() if key not in {*COMBINATORS, "$schema"}}
    return cast("JsonObject", _sorted({**rest, "type": "object", "properties": properties}))


def _sorted(value: Json) -> Json:
    match value:
        case dict():
            result: JsonObject = {}
            for key in sorted(value):
                member = value[key]
                if key == "required" and isinstance(member, list) and all(isinstance(m, str) for m in member):
                    # A set, which some servers write in the order of a hash table.
                    result[key] = list[Json](sorted(cast("list[str]", member)))
                elif key in NAMED_KEYS and isinstance(member, dict):
                    result[key] = {name: _sorted(member[name]) for name in sorted(member)}
                else:
                    result[key] = member if key in LITERAL_KEYS else _sorted(member)
            return result
        case list():
            return [_sorted(item) for item in value]
        case _:
            return value
