"""A loop of one's own with the pieces: the same bytes go out as through `Agent.run` (Q4)."""

from __future__ import annotations

from typing import Any

from anthropic import AsyncAnthropic

from nacre import Base, Session
from nacre.devtools.sim import Simulator
from nacre.messages.blocks import Json, Message
from nacre.messages.events import Reply
from nacre.messages.wire import canonical, parse_content
from nacre.providers.anthropic import AnthropicProvider, parse_usage
from nacre.session.agent import SessionAgent
from nacre.testing import FrozenClock
from nacre.tools.base import Tool, tool
from nacre.tools.run import run_all
from tests.stories.scenes import CLAUDE, call, calls, say

SYSTEM = "You look things up before you say them. " * 80
SCRIPT: list[Json] = [
    calls(call("weather", city="Bergen"), call("weather", city="Ålesund"), text="Looking."),
    calls(call("weather", city="nowhere")),
    "Rain.",
    "Still rain.",
]
ASKED = ("What is it like?", "And now?")


@tool(read_only=True)
async def weather(city: str) -> str:
    """What the sky does over a city today."""
    if city == "nowhere":
        raise ValueError("there is no such city")
    return f"{city}: regn hele dagen, ☔"


def base(tools: list[Tool]) -> Base:
    return Base(CLAUDE, SYSTEM, tools, opening="<system-reminder>It is Sunday.</system-reminder>")


async def ask(client: AsyncAnthropic, body: dict[str, Any]) -> Reply:
    """What a person with the official SDK writes."""
    message = await client.messages.create(**body)
    said: Any = message.to_dict(mode="json")
    return Reply(
        message=Message("assistant", parse_content(said["content"])),
        usage=parse_usage(said["usage"]),
        stop_reason=said["stop_reason"],
        id=said["id"],
        model=said["model"],
    )


async def test_a_loop_of_ones_own_sends_the_bytes_that_the_agent_sends() -> None:
    """Q4, T4: prepare, the SDK, record, add_results; the conversation is the same block by block."""
    async with Simulator(SCRIPT) as mine, AsyncAnthropic(api_key="k", base_url=mine.url) as client:
        session = Session(base([weather]), clock=FrozenClock())
        for text in ASKED:
            await session.add_user(text)
            while True:
                request = await session.prepare()
                reply = await ask(client, request.body())
                await session.record(reply)
                if not reply.message.tool_calls:
                    break
                await session.add_results(await run_all(reply.message.tool_calls, {"weather": weather}))

    async with Simulator(SCRIPT) as theirs:
        provider = AnthropicProvider(api_key="k", base_url=theirs.url)
        agent = SessionAgent(Session(base([weather]), clock=FrozenClock()), provider, [weather])
        await say(agent, *ASKED)
        await provider.close()

    assert len(mine.log) == len(theirs.log) == 4
    for ours, other in zip(mine.log, theirs.log, strict=True):
        for part in ("model", "system", "tools", "messages", "max_tokens"):
            assert canonical(ours.body[part]) == canonical(other.body[part]), part
        assert ours.usage == other.usage
    assert session.view.chain == agent.session.view.chain
    assert session.meter == agent.session.meter
    assert mine.log[-1].usage.cache_read > 0
    assert not session.notices()


async def test_preparing_twice_changes_nothing() -> None:
    """Q4: a request that was never sent does not count, and asking again gives the same bytes."""
    session = Session(base([weather]))
    await session.add_user("hello")
    first, second = await session.prepare(), await session.prepare()
    assert canonical(first.body()) == canonical(second.body())
    assert session.meter.requests == 0
    assert not session.notices()
