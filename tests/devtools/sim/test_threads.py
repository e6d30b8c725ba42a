"""Conversations that the provider holds: a client sends only what is new (P6)."""

from __future__ import annotations

from typing import Any

import pytest
from anthropic import AsyncAnthropic, NotFoundError, beta_async_tool

from nacre.devtools.sim import Simulator

BETA = "message-threads-2026-08-12"
MODEL = "claude-sonnet-5-5"
HELLO: Any = [{"role": "user", "content": "What is the weather?"}]


@beta_async_tool
async def weather(city: str) -> str:
    """Return the weather.

    Args:
        city: Where.
    """
    return f"rain in {city}"


async def test_a_tool_runner_that_sends_only_what_is_new_works() -> None:
    call = {"tool_calls": [{"name": "weather", "input": {"city": "Bergen"}}]}
    script = [call, call, "Rain."]
    async with Simulator(script) as sim, AsyncAnthropic(api_key="k", base_url=sim.url) as client:
        runner = client.beta.messages.tool_runner(
            model=MODEL, max_tokens=500, system="Be brief. " * 400, tools=[weather], messages=HELLO
        )
        message = await runner.until_done()
    assert message.content[0].text == "Rain."  # type: ignore[union-attr]
    kinds = [one.body["thread"]["type"] for one in sim.log]  # type: ignore[index, call-overload]
    assert kinds == ["create", "continue", "continue"]
    assert [len(one.body["messages"]) for one in sim.log] == [1, 3, 5]  # type: ignore[arg-type]
    assert all(one.body["system"] for one in sim.log), "the thread keeps system and tools"
    prompts = [one.usage.prompt for one in sim.log]
    assert prompts == sorted(prompts)
    assert prompts[0] > 500


async def test_a_thread_that_is_not_there_is_named_so_that_the_client_starts_again() -> None:
    thread: Any = {"type": "continue", "previous_message_id": "msg_gone"}
    async with Simulator(["Hello."]) as sim, AsyncAnthropic(api_key="k", base_url=sim.url) as client:
        with pytest.raises(NotFoundError) as caught:
            await client.beta.messages.create(
                model=MODEL,
                max_tokens=50,
                messages=HELLO,
                thread=thread,
                betas=[BETA],
            )
    body: Any = caught.value.body
    assert body["error"]["details"] == {"error_code": "thread_not_found"}
