"""All adapters and the retry, through real SDKs and sockets, on the simulator (P1, P5, P6, Q3)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from nacre.devtools.sim import Simulator
from nacre.errors import AuthError, Overloaded, PromptTooLong, ProviderError, StreamBroken
from nacre.messages.blocks import JsonObject
from nacre.messages.events import Reply, StartedOver, TextDelta, Waiting
from nacre.messages.usage import Usage
from nacre.messages.wire import render_blocks
from nacre.providers.anthropic import AnthropicProvider
from nacre.providers.base import Provider, Request, complete
from nacre.providers.openai import OpenAICompatibleProvider
from nacre.providers.retry import RetrySettings, with_retry

SYSTEM: list[JsonObject] = [{"type": "text", "text": "You are thorough. " * 1500}]
TOOLS: list[JsonObject] = [
    {"name": "read", "description": "reads a file", "input_schema": {"type": "object", "properties": {}}}
]
MARK: JsonObject = {"type": "ephemeral"}
MODELS = {"anthropic": "claude-sonnet-5-5", "openai": "gpt-6.1-terra"}


@pytest.fixture
async def sim() -> AsyncIterator[Simulator]:
    async with Simulator() as running:
        yield running


@pytest.fixture(params=["anthropic", "chat", "responses"])
async def provider(request: pytest.FixtureRequest, sim: Simulator) -> AsyncIterator[Provider]:
    made: Provider = (
        AnthropicProvider(api_key="k", base_url=sim.url, timeout=5)
        if request.param == "anthropic"
        else OpenAICompatibleProvider(api_key="k", base_url=f"{sim.url}/v1", timeout=5, api=request.param)
    )
    yield made
    await made.close()


def ask(provider: Provider, messages: list[JsonObject]) -> Request:
    marked = messages
    if provider.name == "anthropic":
        *before, last = messages
        marked = [
            *before,
            {**last, "content": [{"type": "text", "text": last["content"], "cache_control": MARK}]},
        ]
    return Request(model=MODELS[provider.name], system=SYSTEM, tools=TOOLS, messages=marked)


async def test_the_second_round_reads_what_the_first_one_wrote(sim: Simulator, provider: Provider) -> None:
    """P5: the adapters' counters add up to the provider's bill, and an appended conversation stays cached."""
    sim.extend(
        [{"text": "Let me look.", "tool_calls": [{"name": "read", "input": {"z": 1, "a": 2}}]}, "Done."]
    )
    first_ask: list[JsonObject] = [{"role": "user", "content": "look"}]
    first = await complete(provider, ask(provider, first_ask))
    call = first.message.tool_calls[0]
    assert (first.message.text, call.name, list(call.input)) == ("Let me look.", "read", ["z", "a"])
    assert first.stop_reason == "tool_use"
    grown: list[JsonObject] = [
        *first_ask,
        {"role": "assistant", "content": render_blocks(first.message.blocks)},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call.id, "content": "AAA"}]},
        {"role": "user", "content": "go on"},
    ]
    second = await complete(provider, ask(provider, grown))
    assert second.message.text == "Done."
    assert first.usage.cache_write > 5000
    assert first.usage.cache_read == 0
    assert second.usage.cache_read == first.usage.cache_write
    assert [exchange.usage for exchange in sim.log] == [first.usage, second.usage]


FAULTS: list[tuple[Any, type[ProviderError]]] = [
    ("prompt_too_long", PromptTooLong),
    ("too_large", PromptTooLong),
    ("rate_limit", Overloaded),
    ("overloaded", Overloaded),
    ("server_error", Overloaded),
    ("auth", AuthError),
    ("disconnect", StreamBroken),
    ("malformed", StreamBroken),
    ({"kind": "overloaded", "after": 2}, Overloaded),
]


@pytest.mark.parametrize(("fault", "wanted"), FAULTS)
async def test_each_fault_has_its_error(
    fault: Any, wanted: type[ProviderError], sim: Simulator, provider: Provider
) -> None:
    """Q3."""
    sim.extend([{"text": "never heard in full, for it breaks", "fault": fault}])
    with pytest.raises(ProviderError) as caught:
        await complete(provider, ask(provider, [{"role": "user", "content": "q"}]))
    assert type(caught.value) is wanted, caught.value


async def test_a_fault_in_mid_reply_is_waited_out_and_the_words_declared_void(
    sim: Simulator, provider: Provider
) -> None:
    """Q3: the whole way from broken bytes to the reply."""
    sim.extend(
        [
            {"text": "busy", "fault": {"kind": "rate_limit", "retry_after": 7}},
            {
                "text": "a first try that breaks in the middle of what it says",
                "fault": {"kind": "disconnect", "after": 5},
            },
            "whole",
        ]
    )
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    patient = with_retry(provider, RetrySettings(jitter=0), sleep=sleep)
    events = [event async for event in patient.stream(ask(provider, [{"role": "user", "content": "q"}]))]
    void = next(i for i, event in enumerate(events) if isinstance(event, StartedOver))
    assert isinstance(events[0], Waiting)
    assert isinstance(events[void + 1], Waiting)
    assert "".join(event.text for event in events[void:] if isinstance(event, TextDelta)) == "whole"
    assert isinstance(events[-1], Reply)
    assert slept == [7.0, 2.0]
    assert len({str(exchange.body.get("messages", exchange.body.get("input"))) for exchange in sim.log}) == 1


async def test_thinking_comes_back_with_its_signature_and_may_be_sent_again(sim: Simulator) -> None:
    sim.extend([{"thinking": "hm", "text": "so"}, "ok"])
    provider = AnthropicProvider(api_key="k", base_url=sim.url)
    asked: list[JsonObject] = [{"role": "user", "content": "q"}]
    request = Request(model="claude-sonnet-5-5", messages=asked, thinking={"type": "adaptive"})
    reply = await complete(provider, request)
    assert [block["type"] for block in render_blocks(reply.message.blocks) if isinstance(block, dict)] == [
        "thinking",
        "text",
    ]
    grown: list[JsonObject] = [
        *asked,
        {"role": "assistant", "content": render_blocks(reply.message.blocks)},
        {"role": "user", "content": "more"},
    ]
    again = Request(model="claude-sonnet-5-5", messages=grown, thinking={"type": "adaptive"})
    assert (await complete(provider, again)).message.text == "ok"
    counted = await provider.count_tokens(again)
    await provider.close()
    assert isinstance(counted, int)
    assert counted == sim.log[1].usage.prompt
    assert sim.log[0].usage != Usage()


async def test_a_request_for_no_output_reads_the_cache_and_says_nothing(sim: Simulator) -> None:
    """C8b, P1: not streamed, the same prompt byte for byte, read and not written again."""
    one = AnthropicProvider(api_key="k", base_url=sim.url, timeout=5)
    sim.extend(["Hello."])
    asked = ask(one, [{"role": "user", "content": "hello"}])
    try:
        first = await complete(one, asked)
        refreshed = [event async for event in one.stream(replace(asked, max_tokens=0))]
    finally:
        await one.close()
    (reply,) = refreshed
    assert isinstance(reply, Reply)
    assert (reply.message.blocks, reply.stop_reason) == ((), "max_tokens")
    assert reply.usage == Usage(cache_read=first.usage.cache_write, input=first.usage.input)
    sent = [dict(exchange.body) for exchange in sim.log]
    assert [(body.pop("max_tokens"), body.pop("stream", None)) for body in sent] == [(8_192, True), (0, None)]
    assert sent[0] == sent[1]
