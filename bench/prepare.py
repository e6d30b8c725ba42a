"""What nacre adds to a request of about 150,000 tokens whose prefix did not change.

Each request is sent both ways in turn, timed from the call to its last byte at the transport: through nacre,
preparing included, and by the SDK's `post` with a body made beforehand; now and then by its own `create` too.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import httpx2
from anthropic import APIStatusError as AnthropicRefusal
from anthropic import AsyncAnthropic
from anthropic import AsyncStream as AnthropicStream
from openai import APIStatusError as OpenAIRefusal
from openai import AsyncOpenAI
from openai import AsyncStream as OpenAIStream

from bench.machine import bar, middle_us, spread
from bench.made_up import MODEL, PERIOD, records, words
from nacre.errors import InvalidRequest, ProviderError
from nacre.messages.blocks import JsonObject
from nacre.messages.records import Record
from nacre.providers.anthropic import AnthropicProvider
from nacre.providers.base import Provider, Request, complete
from nacre.providers.openai import OpenAICompatibleProvider
from nacre.session.log_writer import NullRecordWriter
from nacre.session.session import Base, Session
from nacre.tools import default_tools
from nacre.tools.workspace import Workspace

LIMIT_US = 1_000.0
"""What preparing may take of nacre's own time, p50."""
LIMIT_RATIO = 1.2
"""What a request through nacre may take beside the SDK's serialisation of the same request, p50."""
SYSTEM_CHARS = 16_000
CHAT_MODEL = "gpt-6-sol"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    messages: int = 75 * PERIOD + 1
    """The last one is the user's, so that a request can follow."""
    message_bytes: int = 840
    """About 150,000 tokens in all, by nacre's own estimate."""
    prompt_tokens: int = 150_000
    rounds: int = 20
    """A conversation grows by so many rounds while it is measured; then it is built again."""
    repeats: int = 15


FULL = Sizes()
TINY = Sizes(messages=2 * PERIOD + 1, rounds=2, repeats=1)


@dataclass(frozen=True, slots=True)
class Vendor:
    """One provider of nacre's, and the SDK behind it, on a transport that only takes the time."""

    model: str
    provider: Provider
    post: Callable[[JsonObject], Awaitable[object]]
    create: Callable[[JsonObject], Awaitable[object]]
    arrival: Arrival
    twin: Provider
    """The same provider on a client that sends nothing."""
    made: Made


class Arrival:
    """A transport that notes when a whole body has arrived, and refuses it."""

    def __init__(self) -> None:
        self.at = 0
        self.body = b""

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        self.at = time.perf_counter_ns()
        self.body = request.content
        return httpx2.Response(400, json={"error": {"type": "invalid_request_error", "message": "no"}})


class Made:
    """Stands for an SDK's client: keeps the body it is given and refuses it."""

    def __init__(self, base_url: object) -> None:
        self.base_url = base_url
        self.body: JsonObject = {}

    async def post(self, path: str, *, body: JsonObject, **rest: object) -> object:
        self.body = body
        raise InvalidRequest(f"{path} is not sent")


def measure(sizes: Sizes = FULL) -> JsonObject:
    return asyncio.run(_measure(sizes))


async def _measure(sizes: Sizes) -> JsonObject:
    claude = await _compare(_anthropic(), sizes)
    chat = await _compare(_openai(), sizes)
    return {
        "messages": sizes.messages,
        "anthropic": claude.figures(),
        "openai": chat.figures(),
        "bars": [
            bar("session.prepare, p50 in microseconds", middle_us(claude.prepare), at_most=LIMIT_US),
            bar("Anthropic: through nacre / the SDK alone", claude.ratio, at_most=LIMIT_RATIO),
            bar("OpenAI: through nacre / the SDK alone", chat.ratio, at_most=LIMIT_RATIO),
        ],
    }


class _Times:
    """What one vendor's requests took."""

    def __init__(self) -> None:
        self.prepare: list[int] = []
        self.prepare_again: list[int] = []
        self.nacre: list[int] = []
        self.post: list[int] = []
        self.create: list[int] = []
        self.body_bytes = 0
        self.tokens = 0
        self.same_bytes = True

    @property
    def ratio(self) -> float:
        return round(middle_us(self.nacre) / middle_us(self.post), 3)

    def figures(self) -> JsonObject:
        return {
            "estimated_tokens": self.tokens,
            "body_bytes": self.body_bytes,
            "same_bytes": self.same_bytes,
            "prepare_after_a_round": spread(self.prepare),
            "prepare_again_unchanged": spread(self.prepare_again),
            "nacre_to_bytes": spread(self.nacre),
            "sdk_post_to_bytes": spread(self.post),
            "sdk_create_to_bytes": spread(self.create),
            "nacre_over_sdk_post": self.ratio,
            "nacre_over_sdk_create": round(middle_us(self.nacre) / middle_us(self.create), 3),
        }


async def _compare(vendor: Vendor, sizes: Sizes) -> _Times:
    """The body made beforehand belongs to a twin of the conversation: neither way finds its words cached."""
    times = _Times()
    for _ in range(sizes.repeats):
        session, twin = _session(vendor.model, sizes), _session(vendor.model, sizes)
        await _send(vendor.provider, await session.prepare())
        await _by_create(vendor, json.loads(vendor.arrival.body), times)
        for number in range(sizes.messages, sizes.messages + 2 * sizes.rounds, 2):
            for one in (session, twin):
                await one.transcript.append(*_round(number, sizes))
            await _send(vendor.twin, await twin.prepare())
            await _both_ways(vendor, session, vendor.made.body, times)
        times.body_bytes = len(vendor.arrival.body)
        times.tokens = session.base.tokens + session.view.estimate
    return times


async def _both_ways(vendor: Vendor, session: Session, body: JsonObject, times: _Times) -> None:
    """In an order that changes every time, so that neither always inherits the caches the other left."""
    if len(times.post) % 2:
        alone = await _by_post(vendor, body, times)
        ours = await _through_nacre(vendor, session, times)
    else:
        ours = await _through_nacre(vendor, session, times)
        alone = await _by_post(vendor, body, times)
    times.same_bytes &= ours == alone
    begun = time.perf_counter_ns()
    await session.prepare()
    times.prepare_again.append(time.perf_counter_ns() - begun)


async def _through_nacre(vendor: Vendor, session: Session, times: _Times) -> bytes:
    begun = time.perf_counter_ns()
    request = await session.prepare()
    times.prepare.append(time.perf_counter_ns() - begun)
    await _send(vendor.provider, request)
    times.nacre.append(vendor.arrival.at - begun)
    return vendor.arrival.body


async def _by_post(vendor: Vendor, body: JsonObject, times: _Times) -> bytes:
    begun = time.perf_counter_ns()
    await vendor.post(body)
    times.post.append(vendor.arrival.at - begun)
    return vendor.arrival.body


async def _by_create(vendor: Vendor, body: JsonObject, times: _Times) -> None:
    begun = time.perf_counter_ns()
    await vendor.create(body)
    times.create.append(vendor.arrival.at - begun)


async def _send(provider: Provider, request: Request) -> None:
    with suppress(ProviderError):
        await complete(provider, request)


def _session(model: str, sizes: Sizes) -> Session:
    with tempfile.TemporaryDirectory() as folder:
        tools = default_tools(Workspace(Path(folder)))
    base = Base(model, words(0, SYSTEM_CHARS), tools, opening="Today is the first of January.")
    history = records(sizes.messages, size=sizes.message_bytes, prompt=sizes.prompt_tokens)
    # Equal ids, because OpenAI's requests carry the session's id as the key of the prompt cache.
    return Session(base, history, writer=NullRecordWriter("bench"))


def _round(number: int, sizes: Sizes) -> list[Record]:
    return list(records(2, start=number, size=sizes.message_bytes, prompt=sizes.prompt_tokens))


def _anthropic() -> Vendor:
    arrival = Arrival()
    client = AsyncAnthropic(
        api_key="none", max_retries=0, http_client=httpx2.AsyncClient(transport=httpx2.MockTransport(arrival))
    )

    async def post(body: JsonObject) -> None:
        with suppress(AnthropicRefusal):
            await client.post(
                "/v1/messages", cast_to=object, body=body, stream=True, stream_cls=AnthropicStream[object]
            )

    async def create(body: JsonObject) -> None:
        with suppress(AnthropicRefusal):
            await client.messages.create(**body)

    made = Made(client.base_url)
    twin = AnthropicProvider(client=cast("AsyncAnthropic", made))
    return Vendor(MODEL, AnthropicProvider(client=client), post, create, arrival, twin, made)


def _openai() -> Vendor:
    arrival = Arrival()
    client = AsyncOpenAI(
        api_key="none", max_retries=0, http_client=httpx2.AsyncClient(transport=httpx2.MockTransport(arrival))
    )

    async def post(body: JsonObject) -> None:
        with suppress(OpenAIRefusal):
            await client.post(
                "/chat/completions", cast_to=object, body=body, stream=True, stream_cls=OpenAIStream[object]
            )

    async def create(body: JsonObject) -> None:
        with suppress(OpenAIRefusal):
            await client.chat.completions.create(**body)

    made = Made(client.base_url)
    twin = OpenAICompatibleProvider(client=cast("AsyncOpenAI", made))
    return Vendor(CHAT_MODEL, OpenAICompatibleProvider(client=client), post, create, arrival, twin, made)
