"""One suite for every provider: the promises of the port (P1)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest

from nacre.devtools.sim import ScriptedReply, Simulator
from nacre.messages.blocks import Message, Text
from nacre.messages.events import Reply, TextDelta, ToolCallEvent
from nacre.providers.anthropic import AnthropicProvider
from nacre.providers.base import Capabilities, Provider, Request, complete
from nacre.providers.embedded.provider import EmbeddedProvider
from nacre.providers.openai import OpenAICompatibleProvider
from nacre.providers.retry import with_retry
from nacre.providers.scripted import ScriptedProvider, say

SAID = "A sentence that is long enough to arrive in several pieces, with an é and a 漢字 in it."
REQUEST = Request(model="claude-sonnet-5-5", messages=[{"role": "user", "content": "hello there"}])
SETTLING = 20
"""Steps of the loop."""
KINDS = [
    "anthropic", "openai", "responses", "scripted", "embedded", "anthropic with retry", "scripted with retry"
]  # fmt: skip


async def endless(body: object) -> ScriptedReply:
    return ScriptedReply(content=({"type": "text", "text": SAID},))


@pytest.fixture(params=KINDS)
async def provider(request: pytest.FixtureRequest) -> AsyncIterator[Provider]:
    kind = str(request.param)
    async with Simulator(source=endless) as sim:
        made: Provider
        match kind.split()[0]:
            case "anthropic":
                made = AnthropicProvider(api_key="k", base_url=sim.url)
            case "openai":
                made = OpenAICompatibleProvider(api_key="k", base_url=f"{sim.url}/v1")
            case "responses":
                made = OpenAICompatibleProvider(api_key="k", base_url=f"{sim.url}/v1", api="responses")
            case "scripted":
                made = ScriptedProvider(otherwise=say(SAID))
            case _:
                made = EmbeddedProvider()
        made = with_retry(made) if kind.endswith("retry") else made
        yield made
        await made.close()


async def test_a_stream_ends_with_its_one_reply(provider: Provider) -> None:
    events = [event async for event in provider.stream(REQUEST)]
    assert [isinstance(event, Reply) for event in events] == [False] * (len(events) - 1) + [True]


async def test_the_deltas_are_the_text_and_the_calls_are_the_calls(provider: Provider) -> None:
    *events, reply = [event async for event in provider.stream(REQUEST)]
    assert isinstance(reply, Reply)
    streamed = "".join(event.text for event in events if isinstance(event, TextDelta))
    assert streamed == "".join(block.text for block in reply.message.blocks if isinstance(block, Text))
    assert streamed
    assert (
        tuple(event.call for event in events if isinstance(event, ToolCallEvent)) == reply.message.tool_calls
    )


async def test_a_reply_is_the_assistants_and_says_what_it_cost(provider: Provider) -> None:
    reply = await complete(provider, REQUEST)
    assert isinstance(reply.message, Message)
    assert reply.message.role == "assistant"
    assert reply.usage.prompt > 0
    assert reply.usage.output > 0
    assert reply.stop_reason == "end_turn"


async def test_a_provider_answers_again_and_side_by_side(provider: Provider) -> None:
    first = await complete(provider, REQUEST)
    both = await asyncio.gather(complete(provider, REQUEST), complete(provider, REQUEST))
    assert {reply.message.text for reply in both} == {first.message.text}


async def test_a_stream_may_be_left_at_any_time_and_the_provider_still_answers(provider: Provider) -> None:
    """Warnings are errors here: a connection or a task left open would fail the test."""
    async with aclosing(provider.stream(REQUEST)) as events:
        async for _ in events:
            break
    assert (await complete(provider, REQUEST)).message.text


async def test_cancelling_the_reader_leaves_nothing_open(provider: Provider) -> None:
    before = asyncio.all_tasks()
    began = asyncio.Event()

    async def read() -> None:
        async with aclosing(provider.stream(REQUEST)) as events:
            async for _ in events:
                began.set()
                await asyncio.Event().wait()

    reading = asyncio.create_task(read(), name="reader")
    await began.wait()
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert (await complete(provider, REQUEST)).message.text
    await provider.close()
    # Generators inside the vendors' streams are closed by the loop, a few steps later.
    for _ in range(SETTLING):
        await asyncio.sleep(0)
    assert {task for task in asyncio.all_tasks() - before if "nacre/sim" not in repr(task)} == set()


async def test_tokens_are_counted_or_not(provider: Provider) -> None:
    counted = await provider.count_tokens(REQUEST)
    assert counted is None or (isinstance(counted, int) and counted > 0)
    can = provider.capabilities(REQUEST.model)
    assert isinstance(can, Capabilities)
    assert can.window >= can.max_output > 0


async def test_a_request_is_not_changed_by_being_sent(provider: Provider) -> None:
    messages = [
        {"role": "user", "content": [{"type": "text", "text": "q", "cache_control": {"type": "ephemeral"}}]}
    ]
    kept = repr(messages)
    await complete(provider, Request(model="claude-sonnet-5-5", messages=messages))  # type: ignore[arg-type]
    assert repr(messages) == kept


async def test_closing_twice_is_harmless(provider: Provider) -> None:
    await complete(provider, REQUEST)
    await provider.close()
    await provider.close()
