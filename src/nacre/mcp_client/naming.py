"""Tools as every provider takes them: valid names, bounded descriptions, schemas with steady bytes."""

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
"""Enough that two tools of one session never share it by chance."""
COMBINATORS = ("allOf", "anyOf", "oneOf")
LITERAL_KEYS = ("const", "default", "enum", "examples")
"""Below these stand values, not schemas; their order is the author's."""
NAMED_KEYS = ("$defs", "definitions", "dependentSchemas", "patternProperties", "properties")
"""Below these the keys are names somebody chose, and one of them may be `default`."""


def wire_names(tools: Iterable[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """The name the model uses for each (server, tool); depends on the pair alone unless two would collide."""
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
    """A name with a digest of the pair; more of them for the case that somebody forged the first."""
    bare = re.sub(r"[^A-Za-z0-9_-]", "_", plain)[: MAX_NAME_CHARS - DIGEST_CHARS - 1]
    for salt in count():
        whole = "\0".join((*pair, str(salt))).encode(errors="surrogatepass")
        yield f"{bare}_{hashlib.sha256(whole).hexdigest()[:DIGEST_CHARS]}"


def bounded(text: str, chars: int) -> str:
    """The text, cut with an ellipsis where it is too long."""
    return text if len(text) <= chars else text[: chars - 1] + "…"


def stable_schema(schema: JsonObject) -> JsonObject:
    """The schema with sorted keys, as an object at its root whatever the server wrote."""
    flat = _flattened({key: value for key, value in schema.items() if key != "$schema"})
    return cast("JsonObject", _sorted({**flat, "type": "object", "properties": flat.get("properties") or {}}))


def _flattened(schema: JsonObject) -> JsonObject:
    """Without alternatives at the root, which providers refuse along with the whole request.

    The model sees the properties of every alternative; which of them go together the server checks itself.
    """
    found = [schema.get(key) for key in COMBINATORS]
    branches = [branch for group in found if isinstance(group, list) for branch in group]
    properties: JsonObject = {}
    for source in (schema, *branches):
        table = source.get("properties") if isinstance(source, dict) else None
        if isinstance(table, dict):
            properties = {**table, **properties}
    return {**{k: v for k, v in schema.items() if k not in COMBINATORS}, "properties": properties}


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
        # A set in meaning, and some servers write it in the order of a hash table.
        return list[Json](sorted(cast("list[str]", value)))
    if key in NAMED_KEYS and isinstance(value, dict):
        return {name: _sorted(value[name]) for name in sorted(value)}
    return _sorted(value)
