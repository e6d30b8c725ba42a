"""A small model chooses among the memories, beside the reply and never in its way (R5, R6).

It sees the message, the manifest and the tools in use: nothing else of the conversation. Whatever goes wrong
is an empty selection that says what it was.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from nacre import prompts
from nacre.errors import NacreError
from nacre.memory.format import entry as wording
from nacre.memory.recall.base import MAX_PICKS, Query, Ranked
from nacre.memory.recall.manifest import Manifest, manifest
from nacre.messages.blocks import Json, JsonObject
from nacre.messages.events import Reply
from nacre.messages.untrusted_text import neutralise
from nacre.messages.usage import Usage
from nacre.providers.base import Provider, Request, complete

MAX_OUTPUT_TOKENS = 256
"""Five names and the JSON around them (R5)."""
MAX_MESSAGE_CHARS = 8_000
"""About 2,000 tokens: what a message is about shows in its beginning and its end; a pasted log is neither."""
MAX_TOOLS = 20
MAX_TOOL_CHARS = 100
"""Tools of other people's servers have names of any length."""
MAX_ANSWER_CHARS = 8_192
"""A longer answer is none: 256 tokens are far shorter."""
MAX_TRIES = 20
"""Brackets in an answer that are looked behind for JSON: prose around it has a few, not many."""
SELECTED = "selected_memories"
SCHEMA: JsonObject = {
    "type": "object",
    "properties": {SELECTED: {"type": "array", "items": {"type": "string"}}},
    "required": [SELECTED],
    "additionalProperties": False,
}
REFUSAL = "refusal"
"""The stop reason of a model that will not answer."""

_SYSTEM = prompts.load(__package__, "select")
_JSON = prompts.load(__package__, "select_json")
_ASK = prompts.load(__package__, "select_ask")
_ASK_TOOLS = prompts.load(__package__, "select_ask_tools")
_LEFT_OUT = prompts.load(__package__, "select_left_out")
_OPENING = re.compile(r"[{\[]")
_DECODER = json.JSONDecoder()


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What the selector chose."""

    chosen: tuple[Ranked, ...] = ()
    """In the order of the ranking."""
    usage: Usage | None = None
    """None when no answer came; to be booked as `memdir_relevance`."""
    problem: str = ""
    """Why nothing was chosen, if that was not the selector's will (R6)."""


async def select(
    query: Query,
    candidates: Sequence[Ranked],
    provider: Provider,
    model: str,
    *,
    timeout: float,  # noqa: ASYNC109 - running out of it is an answer, not an error
) -> Selection:
    """The at most five memories a model is sure about; never raises but when cancelled.

    The caller has taken out what may not be shown: seen before, untrusted, local-only (R7, M16b, M27).
    """
    listed = manifest(candidates)
    if not listed.names:
        return Selection()
    has_schema = provider.capabilities(model).structured_output
    try:
        async with asyncio.timeout(timeout):
            reply = await complete(provider, ask(query, listed, model, has_schema=has_schema))
    except TimeoutError:
        return Selection(problem=f"the selector did not answer within {timeout:g} seconds")
    except NacreError as error:
        return Selection(problem=wording.one_line(f"the selector failed: {error}"))
    names = _names(reply)
    if names is None:
        said = "refused" if reply.stop_reason == REFUSAL else "answered something other than a list of names"
        return Selection(usage=reply.usage, problem=f"the selector {said}")
    # Models invent names: only those of the manifest count, which holds them in the order of the ranking.
    chosen = tuple(one for name, one in listed.names.items() if name in names)
    return Selection(chosen=chosen[:MAX_PICKS], usage=reply.usage)


def ask(query: Query, listed: Manifest, model: str, *, has_schema: bool) -> Request:
    """The side query; same memories, message and tools: same bytes."""
    system = _SYSTEM if has_schema else f"{_SYSTEM}\n\n{_JSON}"
    message = neutralise(_shortened(query.text))
    shown = (_clean_name(name) for name in query.recent_tools)
    tools = ", ".join(list(dict.fromkeys(filter(None, shown)))[:MAX_TOOLS])
    text = (
        prompts.render(_ASK_TOOLS, manifest=listed.text, message=message, tools=tools)
        if tools
        else prompts.render(_ASK, manifest=listed.text, message=message)
    )
    return Request(
        model=model,
        system=[{"type": "text", "text": system}],
        messages=[{"role": "user", "content": [{"type": "text", "text": text}]}],
        max_tokens=MAX_OUTPUT_TOKENS,
        output_schema=SCHEMA if has_schema else None,
    )


def _clean_name(name: str) -> str:
    return wording.clipped(neutralise(wording.one_line(name)), MAX_TOOL_CHARS)


def _shortened(text: str) -> str:
    """Beginning and end of a long message, and how much is missing between them."""
    if len(text) <= MAX_MESSAGE_CHARS:
        return text
    half = MAX_MESSAGE_CHARS // 2
    note = prompts.render(_LEFT_OUT, count=f"{len(text) - 2 * half:,}")
    return f"{text[:half]}\n{note}\n{text[-half:]}"


def _names(reply: Reply) -> frozenset[str] | None:
    """What the answer names; None when it is no answer. Models without a schema wrap their JSON in words."""
    text = reply.message.text[:MAX_ANSWER_CHARS]
    place = 0
    if reply.stop_reason == REFUSAL:
        return None
    for _ in range(MAX_TRIES):
        opening = _OPENING.search(text, place)
        if opening is None:
            return None
        try:
            value, place = _DECODER.raw_decode(text, opening.start())
        except (ValueError, RecursionError):
            place = opening.end()
            continue
        listed: Json = value.get(SELECTED) if isinstance(value, dict) else value
        if isinstance(listed, list) and all(isinstance(name, str) for name in listed):
            return frozenset(str(name).strip() for name in listed)
    return None
