"""The official SDKs and LangChain get the same through the gateway as without it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI

from nacre.devtools.sim.simulator import Simulator
from nacre.messages.blocks import Json
from tests.server.gateway.proxying import Running, gateway

CLAUDE = "claude-sonnet-5-5"
GPT = "gpt-6-sol"
SCRIPT: list[Json] = [
    {"text": "Let me look.", "tool_calls": [{"name": "look", "input": {"place": "the attic"}}]},
    "It is in the attic, as you said: " + "a long answer. " * 40,
]
LONG = "The rules of the house are these. " * 400
SCHEMA: dict[str, Any] = {"type": "object", "properties": {"place": {"type": "string"}}}


@asynccontextmanager
async def both() -> AsyncIterator[tuple[Simulator, Simulator, Running]]:
    """Two simulators with the same script: one is asked directly, the other through a gateway."""
    async with Simulator(SCRIPT) as direct, Simulator(SCRIPT) as behind, gateway(behind.url) as proxy:
        yield direct, behind, proxy


async def claude(url: str, *, stream: bool) -> list[Any]:
    """One turn with a tool call; returns what the SDK gave."""
    client = AsyncAnthropic(base_url=url, api_key="sk-ant-api-secret", max_retries=0)
    system = [{"type": "text", "text": LONG, "cache_control": {"type": "ephemeral"}}]
    tools = [{"name": "look", "description": "Look.", "input_schema": SCHEMA}]
    messages: list[Any] = [{"role": "user", "content": "Where is the box?"}]
    seen: list[Any] = []
    for _ in SCRIPT:
        asked: dict[str, Any] = {
            "model": CLAUDE, "max_tokens": 500, "system": system, "tools": tools, "messages": messages,
        }  # fmt: skip
        if stream:
            async with client.messages.stream(**asked) as events:
                seen += [event.to_dict() async for event in events]
                reply = await events.get_final_message()
        else:
            reply = await client.messages.create(**asked)
        seen.append(reply.to_dict())
        messages.append({"role": "assistant", "content": [block.to_dict() for block in reply.content]})
        calls = [block for block in reply.content if block.type == "tool_use"]
        results = [{"type": "tool_result", "tool_use_id": call.id, "content": "a box"} for call in calls]
        messages.append({"role": "user", "content": results})
    await client.close()
    return seen


async def chat(url: str, *, stream: bool) -> list[Any]:
    client = AsyncOpenAI(base_url=f"{url}/v1", api_key="sk-secret", max_retries=0)
    tools = [{"type": "function", "function": {"name": "look", "parameters": SCHEMA}}]
    messages: list[Any] = [
        {"role": "system", "content": LONG},
        {"role": "user", "content": "Where is the box?"},
    ]
    seen: list[Any] = []
    for _ in SCRIPT:
        asked: dict[str, Any] = {"model": GPT, "messages": messages, "tools": tools}
        if stream:
            given = {**asked, "stream_options": {"include_usage": True}}
            async with client.chat.completions.stream(**given) as events:
                seen += [event.to_dict() async for event in events if event.type == "chunk"]
                reply = await events.get_final_completion()
        else:
            reply = await client.chat.completions.create(**asked)
        message = reply.choices[0].message
        seen.append(reply.to_dict())
        messages.append(message.to_dict(exclude_none=True) | {"role": "assistant"})
        messages[-1].pop("parsed", None)
        for call in message.tool_calls or []:
            messages.append({"role": "tool", "tool_call_id": call.id, "content": "a box"})
    await client.close()
    return seen


async def responses(url: str, *, stream: bool) -> list[Any]:
    client = AsyncOpenAI(base_url=f"{url}/v1", api_key="sk-secret", max_retries=0)
    tools = [{"type": "function", "name": "look", "parameters": SCHEMA, "strict": False}]
    asked: dict[str, Any] = {"model": GPT, "instructions": LONG, "tools": tools}
    given: Any = "Where is the box?"
    previous: str | None = None
    seen: list[Any] = []
    for _ in SCRIPT:
        more = {"previous_response_id": previous} if previous else {}
        if stream:
            async with client.responses.stream(**asked, input=given, **more) as events:
                seen += [repr(event) async for event in events]
                reply = await events.get_final_response()
        else:
            reply = await client.responses.create(**asked, input=given, **more)
        seen.append(repr(reply))
        previous = reply.id
        calls = [item for item in reply.output if item.type == "function_call"]
        given = [
            {"type": "function_call_output", "call_id": call.call_id, "output": "a box"} for call in calls
        ]
    await client.close()
    return seen


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize(
    ("talk", "model"),
    [(claude, CLAUDE), (chat, GPT), (responses, GPT)],
    ids=["messages", "chat", "responses"],
)
async def test_an_official_sdk_gets_the_same_through_it(
    talk: Callable[..., Awaitable[list[Any]]], model: str, stream: bool
) -> None:
    async with both() as (direct, behind, proxy):
        without = await talk(direct.url, stream=stream)
        through = await talk(proxy.url, stream=stream)
        [session] = await proxy.sessions(2)
    assert through == without
    assert [line.body for line in behind.log] == [line.body for line in direct.log]
    # What the gateway reports is what the simulator billed.
    assert (session.model, session.requests, session.failed) == (model, 2, 0)
    assert session.cost_usd == pytest.approx(sum(line.cost_usd or 0.0 for line in behind.log))
    assert session.usage.cache_read == sum(line.usage.cache_read for line in behind.log)
    assert session.usage.hit_rate > 0.3


async def test_langchain_gets_the_same_through_it() -> None:
    from langchain_anthropic import ChatAnthropic

    async def talk(url: str) -> list[str]:
        model = ChatAnthropic(
            model_name=CLAUDE, base_url=url, api_key="sk-ant-api-secret", timeout=10, stop=None
        )
        whole = await model.ainvoke("Where is the box?")
        streamed = [str(part.content) async for part in model.astream("And now?")]
        await model._async_client.close()
        return [str(whole.content), *streamed]

    async with both() as (direct, behind, proxy):
        assert await talk(proxy.url) == await talk(direct.url)
        assert len(await proxy.sessions(2)) == 2
    assert [line.body for line in behind.log] == [line.body for line in direct.log]


async def test_neither_key_nor_text_is_written() -> None:
    async with both() as (_, _, proxy):
        await claude(proxy.url, stream=True)
        await chat(proxy.url, stream=True)
        await proxy.sessions(4)
        written = b"".join(path.read_bytes() for path in proxy.home.rglob("*") if path.is_file())
    assert b'"client":"AsyncAnthropic/Python"' in written
    for text in (b"secret", b"the box", b"the attic", b"rules of the house"):
        assert text not in written
    for line in written.splitlines():
        assert json.loads(line)["session"]
