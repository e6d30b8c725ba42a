"""Everything that can go wrong on request, as the SDKs report it (P6)."""

from __future__ import annotations

import asyncio
import json

import anthropic
import httpx2
import openai
import pytest
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI

from nacre.devtools.sim import Fault, Simulator
from nacre.devtools.sim.faults import FAULT_KINDS, parse_fault, parse_fault_header
from nacre.errors import ConfigError
from nacre.messages.blocks import Json, JsonObject

MODEL = "claude-opus-5-5"
HELLO: list[JsonObject] = [{"role": "user", "content": "Hello."}]
STATUSES = [
    ("prompt_too_long", 400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"),
    ("too_large", 413, "request_too_large", "maximum size"),
    ("rate_limit", 429, "rate_limit_error", "rate limit"),
    ("overloaded", 529, "overloaded_error", "Overloaded"),
    ("server_error", 500, "api_error", "Internal server error"),
    ("auth", 401, "authentication_error", "x-api-key"),
]


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize(("kind", "status", "name", "words"), STATUSES)
async def test_a_refusal_comes_from_the_script_or_the_header(
    sim: Simulator, claude: AsyncAnthropic, kind: str, status: int, name: str, words: str, streaming: bool
) -> None:
    sim.extend([{"fault": kind}, "Fine again."])
    for header in ({}, {"x-sim-fault": kind}):
        with pytest.raises(anthropic.APIStatusError) as caught:
            await claude.messages.create(
                model=MODEL, max_tokens=9, messages=HELLO, stream=streaming, extra_headers=header
            )
        assert (caught.value.status_code, caught.value.body["error"]["type"]) == (status, name)
        assert words in caught.value.message
        assert (sim.log[-1].status, sim.log[-1].fault) == (status, kind)
    reply = await claude.messages.create(model=MODEL, max_tokens=9, messages=HELLO)
    assert reply.content[0].text == "Fine again."


@pytest.mark.parametrize(
    ("kind", "status", "code"),
    [
        ("prompt_too_long", 400, "context_length_exceeded"),
        ("too_large", 413, "request_too_large"),
        ("rate_limit", 429, "rate_limit_exceeded"),
        ("overloaded", 503, "server_error"),
        ("server_error", 500, "server_error"),
        ("auth", 401, "invalid_api_key"),
    ],
)
async def test_openai_is_refused_in_its_own_words(
    gpt: AsyncOpenAI, kind: str, status: int, code: str
) -> None:
    with pytest.raises(openai.APIStatusError) as caught:
        await gpt.chat.completions.create(
            model="gpt-5.5", messages=HELLO, extra_headers={"x-sim-fault": kind}
        )
    assert (caught.value.status_code, caught.value.code) == (status, code)


async def test_a_rate_limit_says_when_to_come_back(sim: Simulator, claude: AsyncAnthropic) -> None:
    sim.extend([{"fault": "rate_limit"}, {"fault": {"kind": "rate_limit", "retry_after": 0.25}}])
    waits = []
    for _ in range(2):
        with pytest.raises(anthropic.RateLimitError) as caught:
            await claude.messages.create(model=MODEL, max_tokens=9, messages=HELLO)
        waits.append(caught.value.response.headers["retry-after"])
    assert waits == ["1", "0.25"]


async def test_the_sdk_s_own_retries_get_through(sim: Simulator) -> None:
    sim.extend([{"fault": {"kind": "overloaded", "retry_after": 0.01}}, "At last."])
    async with AsyncAnthropic(api_key="any", base_url=sim.url, max_retries=2) as client:
        reply = await client.messages.create(model=MODEL, max_tokens=9, messages=HELLO)
    assert (reply.content[0].text, [line.status for line in sim.log]) == ("At last.", [529, 200])


async def streamed(client: AsyncAnthropic, fault: str) -> list[str]:
    seen: list[str] = []
    stream = await client.messages.create(
        model=MODEL, max_tokens=99, messages=HELLO, stream=True, extra_headers={"x-sim-fault": fault}
    )
    async with stream:
        try:
            async for event in stream:
                seen.append(event.type)
        except (httpx2.HTTPError, anthropic.APIError, ValueError) as error:
            seen.append(type(error).__name__)
    return seen


async def test_a_stream_is_dropped_after_so_many_events(claude: AsyncAnthropic) -> None:
    """The second event of a stream is a ping, which the SDK keeps to itself."""
    assert await streamed(claude, "disconnect; after=1") == ["message_start", "RemoteProtocolError"]
    long = await streamed(claude, "disconnect; after=4")
    assert long == ["message_start", "content_block_start", "content_block_delta", "RemoteProtocolError"]


async def test_a_drop_asked_for_after_the_end_still_takes_the_last_event(claude: AsyncAnthropic) -> None:
    seen = await streamed(claude, "disconnect; after=99")
    assert seen[-2:] == ["message_delta", "RemoteProtocolError"]


async def test_an_error_can_strike_in_mid_stream(claude: AsyncAnthropic) -> None:
    seen = await streamed(claude, "overloaded; after=3")
    assert seen == ["message_start", "content_block_start", "APIStatusError"]


async def test_a_garbled_event_cannot_be_parsed(claude: AsyncAnthropic) -> None:
    seen = await streamed(claude, "malformed; after=3")
    assert seen == ["message_start", "content_block_start", "JSONDecodeError"]


async def test_a_stream_cut_inside_an_event_ends_without_its_stop(claude: AsyncAnthropic) -> None:
    seen = await streamed(claude, "truncate_json; after=4")
    assert seen == ["message_start", "content_block_start", "content_block_delta"]


async def raw(sim: Simulator, fault: str) -> httpx2.Response:
    async with httpx2.AsyncClient() as client:
        return await client.post(
            f"{sim.url}/v1/messages",
            json={"model": MODEL, "max_tokens": 9, "messages": HELLO},
            headers={"x-api-key": "any", "anthropic-version": "2023-06-01", "x-sim-fault": fault},
        )


@pytest.mark.parametrize("fault", ["malformed", "truncate_json"])
async def test_a_whole_reply_can_be_something_else_than_json(sim: Simulator, fault: str) -> None:
    answer = await raw(sim, fault)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    with pytest.raises(json.JSONDecodeError):
        answer.json()


async def test_a_whole_reply_can_be_dropped(sim: Simulator, claude: AsyncAnthropic) -> None:
    sim.extend([{"text": "lost", "fault": "disconnect"}])
    with pytest.raises(anthropic.APIConnectionError):
        await claude.messages.create(model=MODEL, max_tokens=9, messages=HELLO)


@pytest.mark.parametrize("streaming", [False, True])
async def test_a_hanging_request_hangs_until_the_client_leaves(sim: Simulator, streaming: bool) -> None:
    sim.extend([{"fault": "hang"}, "Next."])
    async with AsyncAnthropic(api_key="any", base_url=sim.url, max_retries=0) as client:
        waiting = asyncio.create_task(
            client.messages.create(model=MODEL, max_tokens=9, messages=HELLO, stream=streaming)
        )
        await sim.arrivals(1)
        done, _ = await asyncio.wait({waiting}, timeout=0.05)
        assert not done
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        reply = await client.messages.create(model=MODEL, max_tokens=9, messages=HELLO)
    assert reply.content[0].text == "Next."


async def test_a_stream_can_fall_silent_after_its_first_words(claude: AsyncAnthropic) -> None:
    stream = await claude.messages.create(
        model=MODEL,
        max_tokens=99,
        messages=HELLO,
        stream=True,
        timeout=0.2,
        extra_headers={"x-sim-fault": "hang; after=4"},
    )
    seen = []
    async with stream:
        with pytest.raises((httpx2.TimeoutException, anthropic.APITimeoutError)):
            async for event in stream:
                seen.append(event.type)
    assert seen == ["message_start", "content_block_start", "content_block_delta"]


async def test_openai_streams_break_too(gpt: AsyncOpenAI) -> None:
    async def seen(fault: str) -> str:
        stream = await gpt.chat.completions.create(
            model="gpt-5.5", messages=HELLO, stream=True, extra_headers={"x-sim-fault": fault}
        )
        async with stream:
            try:
                async for _ in stream:
                    pass
            except (httpx2.HTTPError, openai.APIError, ValueError) as error:
                return type(error).__name__
        return "whole"

    assert await seen("disconnect; after=1") == "APIConnectionError"
    assert await seen("overloaded; after=1") == "APIError"
    assert await seen("malformed; after=1") == "JSONDecodeError"


async def test_counting_tokens_fails_on_request(claude: AsyncAnthropic) -> None:
    with pytest.raises(anthropic.RateLimitError):
        await claude.messages.count_tokens(
            model=MODEL, messages=HELLO, extra_headers={"x-sim-fault": "rate_limit"}
        )


async def test_an_unknown_fault_is_refused_by_name(claude: AsyncAnthropic) -> None:
    with pytest.raises(anthropic.BadRequestError, match="unknown fault 'gremlins'"):
        await claude.messages.create(
            model=MODEL, max_tokens=9, messages=HELLO, extra_headers={"x-sim-fault": "gremlins"}
        )


@pytest.mark.parametrize("kind", FAULT_KINDS)
def test_a_fault_is_a_name_or_an_object(kind: str) -> None:
    assert parse_fault(kind) == parse_fault({"kind": kind}) == parse_fault_header(f" {kind} ")


def test_a_fault_takes_settings() -> None:
    expected = Fault(kind="rate_limit", after=2, retry_after=0.5)
    assert parse_fault({"kind": "rate_limit", "after": 2, "retry_after": 0.5}) == expected
    assert parse_fault_header("rate_limit; after=2; retry_after=0.5") == expected


@pytest.mark.parametrize(
    "bad",
    [
        3,
        None,
        {"kind": "x"},
        {"kind": "hang", "after": -1},
        {"kind": "hang", "after": True},
        {"kind": "hang", "retry_after": "soon"},
        {"kind": "hang", "untill": 3},
    ],
)
def test_a_wrong_fault_is_refused_in_one_line(bad: Json) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_fault(bad)
    assert "\n" not in str(caught.value)


async def test_a_stream_that_breaks_is_billed_up_to_there(sim: Simulator, claude: AsyncAnthropic) -> None:
    words = "One two three four five six seven eight. " * 50
    sim.extend([words, {"text": words, "fault": {"kind": "disconnect", "after": 8}}])
    await streamed(claude, "")
    await streamed(claude, "")
    whole, broken = sim.log
    assert 0 < broken.usage.output < whole.usage.output / 2, "of 23 events"
    assert broken.cost_usd is not None and whole.cost_usd is not None
    assert broken.cost_usd < whole.cost_usd
