"""A provider without a model: it follows plain requests through tool calls, offline, the same way every time.

It understands ways to say remember, forget, correct, what do you know about and when did I say, in English
and Chinese, and reads, lists and searches files; to anything else it says that no model is configured (P4).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import AsyncGenerator

import anyio.lowlevel

from nacre.messages.blocks import Block, JsonObject, Message, Text
from nacre.messages.events import REFUSAL, CallReady, ProviderEvent, Reply, TextDelta
from nacre.messages.tokens import estimate_blocks, estimate_json
from nacre.messages.usage import Usage
from nacre.messages.wire import canonical, parse_content
from nacre.providers.base import Capabilities, Request
from nacre.providers.embedded_answers import Answer, answer

MODEL = "embedded"
ID_CHARS = 20
"""Of the request's hash: enough that two requests of one session never share an id."""


class EmbeddedProvider:
    """Answers from the request alone: no network, no clock, no chance."""

    @property
    def name(self) -> str:
        return MODEL

    def capabilities(self, model: str) -> Capabilities:
        return Capabilities(counts_tokens=True)

    async def stream(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
        """The answer word by word, its calls, then the whole reply."""
        digest = _digest(request)
        given = answer(request, f"toolu_{MODEL}_{digest}_")
        for word in _WORDS.findall(given.text):
            yield TextDelta(word)
            await anyio.lowlevel.checkpoint()
        for call in given.calls:
            yield CallReady(call)
        blocks = _blocks(given)
        yield Reply(
            message=Message("assistant", blocks),
            usage=_usage(request, blocks),
            stop_reason="tool_use" if given.calls else REFUSAL if given.declines else "end_turn",
            id=f"msg_{MODEL}_{digest}",
            model=MODEL,
        )

    async def count_tokens(self, request: Request) -> int | None:
        """The estimate, which is also what the usage figures are made of."""
        return _base_tokens(request) + _message_tokens(request.messages)

    async def close(self) -> None:
        """Nothing to close."""


def _blocks(given: Answer) -> tuple[Block, ...]:
    text: tuple[Block, ...] = (Text(given.text),) if given.text else ()
    return text + given.calls


def _usage(request: Request, blocks: tuple[Block, ...]) -> Usage:
    """As a cache of append-only prefixes counts: what the previous round sent is read, the rest is new."""
    replies = [index for index, message in enumerate(request.messages) if message.get("role") == "assistant"]
    sent_before = replies[-1] if replies else 0
    read = _base_tokens(request) + _message_tokens(request.messages[:sent_before]) if replies else 0
    prompt = _base_tokens(request) + _message_tokens(request.messages)
    return Usage(input=prompt - read, cache_read=read, output=estimate_blocks(blocks))


def _base_tokens(request: Request) -> int:
    system = estimate_blocks(parse_content(list(request.system)))
    return system + sum(estimate_json(tool) for tool in request.tools)


def _message_tokens(messages: list[JsonObject]) -> int:
    return sum(estimate_blocks(parse_content(message.get("content"))) for message in messages)


def _digest(request: Request) -> str:
    sent = canonical([request.model, list(request.system), list(request.tools), list(request.messages)])
    return hashlib.sha256(sent).hexdigest()[:ID_CHARS]


_WORDS = re.compile(
    r"[\u3000-\u303f\u3400-\u9fff\uff00-\uffef]{1,2}\s*|[^\s\u3000-\u303f\u3400-\u9fff\uff00-\uffef]+\s*|\s+"
)
