"""Small readings of a provider's JSON that more than one adapter needs."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import TypeVar

from nacre.messages.blocks import Json, JsonObject

_T = TypeVar("_T")

MALFORMED = "_malformed"
"""The key under which arguments that are no JSON object are kept, so that the tool's error can show them."""


def parse_arguments(text: str) -> JsonObject:
    """A tool call's arguments in the key order the model wrote; what is no JSON object is kept as it came."""
    if not text.strip():
        return {}
    try:
        arguments: Json = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return {MALFORMED: text}
    return arguments if isinstance(arguments, dict) else {MALFORMED: text}


def _refuse(name: str) -> Json:
    """Python reads NaN and Infinity; no provider does, and the call stands in every later request."""
    raise ValueError(f"{name} is not JSON")


def as_count(value: Json) -> int:
    """A number of tokens; servers that do not count say null or nothing."""
    return value if isinstance(value, int) else 0


def as_text(value: Json) -> str | None:
    return value if isinstance(value, str) else None


async def with_clean_text(post: Callable[[object], Awaitable[_T]], body: dict[str, object]) -> _T:
    """Posts a body; half a surrogate pair, which no provider takes, becomes a question mark.

    Cut-off emoji in tool output are the usual source. The body is cleaned only after it could not be
    encoded: looking through every request beforehand would cost more than the rare second encoding.
    """
    try:
        return await post(body)
    except UnicodeEncodeError:
        return await post(json.loads(json.dumps(body, ensure_ascii=False).encode(errors="replace")))
