"""Helpers for a provider's JSON that several adapters share."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import TypeVar

from nacre.messages.blocks import Json, JsonObject

_T = TypeVar("_T")

MALFORMED = "_malformed"
"""The key for arguments that are no JSON object, so that the tool's error can show them."""

OWN = "openai"
"""The extra field of a block that holds what only the Responses API reads."""


def parse_arguments(text: str) -> JsonObject:
    """Parse the arguments of a tool call in the model's key order; invalid JSON is kept as text."""
    if not text.strip():
        return {}
    try:
        arguments: Json = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return {MALFORMED: text}
    return arguments if isinstance(arguments, dict) else {MALFORMED: text}


def _refuse(name: str) -> Json:
    """Refuse NaN and Infinity: no provider accepts them, and the call is part of every later request."""
    raise ValueError(f"{name} is not JSON")


def as_count(value: Json) -> int:
    """Return a token count; 0 where a server sends null, nothing or less than nothing."""
    return max(0, value) if isinstance(value, int) else 0


def as_text(value: Json) -> str | None:
    return value if isinstance(value, str) else None


async def with_clean_text(post: Callable[[object], Awaitable[_T]], body: dict[str, object]) -> _T:
    """Post a body; unpaired surrogates, which no provider accepts, become question marks.

    Cut-off emoji in tool output are the usual source. The body is cleaned only if encoding fails, because
    checking every request would cost more than the rare second encoding.
    """
    try:
        return await post(body)
    except UnicodeEncodeError:
        return await post(json.loads(json.dumps(body, ensure_ascii=False).encode(errors="replace")))


def without_own(messages: list[JsonObject]) -> list[JsonObject]:
    """Return messages for another API: without reasoning and facts that only this one reads."""
    if not any(_has_own(block) for message in messages for block in _blocks(message)):
        return messages
    cleaned: list[JsonObject] = []
    for message in messages:
        blocks = _blocks(message)
        if not any(map(_has_own, blocks)):
            cleaned.append(message)
            continue
        kept: list[Json] = [
            {key: value for key, value in block.items() if key != OWN} if isinstance(block, dict) else block
            for block in blocks
            if not (isinstance(block, dict) and _has_own(block) and block.get("type") == "thinking")
        ]
        cleaned += [{**message, "content": kept}] if kept else []
    return cleaned


def _blocks(message: JsonObject) -> list[Json]:
    content = message.get("content")
    return content if isinstance(content, list) else []


def _has_own(block: Json) -> bool:
    return isinstance(block, dict) and OWN in block
