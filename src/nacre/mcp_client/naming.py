"""Tool names and schemas that every provider accepts, with stable bytes."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from itertools import chain, count
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
        plain = f"mcp__{pair[0]}__{pair[1]}"
        is_valid = len(plain) <= MAX_NAME_CHARS and re.fullmatch(r"[A-Za-z0-9_-]+", plain)
        candidates = chain([plain] if is_valid else [], _with_digests(plain, pair))
        names[pair] = next(name for name in candidates if name not in taken)
        taken.add(names[pair])
    return names


def _with_digests(plain: str, pair: tuple[str, str]) -> Iterator[str]:
    """Yield names with a digest of the pair; later ones are used if the first is taken."""
    bare = re.sub(r"[^A-Za-z0-9_-]", "_", plain)[: MAX_NAME_CHARS - DIGEST_CHARS - 1]
    for salt in count():
        whole = "\0".join((*pair, str(salt))).encode(errors="surrogatepass")
        yield f"{bare}_{hashlib.sha256(whole).hexdigest()[:DIGEST_CHARS]}"


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
            return {key: _sorted_member(key, value[key]) for key in sorted(value)}
        case list():
            return [_sorted(item) for item in value]
        case _:
            return value


def _sorted_member(key: str, value: Json) -> Json:
    if key in LITERAL_KEYS:
        return value
    if key == "required" and isinstance(value, list) and all(isinstance(item, str) for item in value):
        # A set, which some servers write in the order of a hash table.
        return list[Json](sorted(cast("list[str]", value)))
    if key in NAMED_KEYS and isinstance(value, dict):
        return {name: _sorted(value[name]) for name in sorted(value)}
    return _sorted(value)
