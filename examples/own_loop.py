"""Keep your own loop and your own SDK; let nacre keep the conversation, the requests and the cache markers.

Anthropic's official SDK talks to nacre's simulator on loopback, so this runs without a network or a key.
Run it: python examples/own_loop.py
"""

from __future__ import annotations

import asyncio
from typing import Any

from anthropic import AsyncAnthropic

from nacre import Base, Request, Session, tool
from nacre.devtools.sim import Simulator
from nacre.messages.blocks import Json, Message
from nacre.messages.events import Reply
from nacre.messages.wire import parse_content
from nacre.providers.anthropic import parse_usage
from nacre.tools.run import run_all

MODEL = "claude-sonnet-5-5"
SYSTEM = "You plan picnics. Look at the weather before you promise anything. " * 40
SCRIPT: list[Json] = [
    {"text": "Let me look.", "tool_calls": [{"name": "weather", "input": {"city": "Bergen"}}]},
    "Rain in Bergen: take the indoor table.",
]


@tool(read_only=True)
async def weather(city: str) -> str:
    """What the sky does over a city today."""
    return f"{city}: rain until the evening"


async def ask(client: AsyncAnthropic, request: Request) -> Reply:
    """Your call, your SDK; nacre only needs to know what came back."""
    arguments: Any = request.body()
    message = await client.messages.create(**arguments)
    body: Any = message.to_dict(mode="json")
    return Reply(
        message=Message("assistant", parse_content(body["content"])),
        usage=parse_usage(body["usage"]),
        stop_reason=body["stop_reason"],
        id=body["id"],
        model=body["model"],
    )


async def main() -> None:
    async with Simulator(SCRIPT) as sim, AsyncAnthropic(api_key="none", base_url=sim.url) as client:
        session = Session(Base(MODEL, SYSTEM, [weather]))
        await session.add_user("Where do we eat today?")
        while True:
            reply = await ask(client, await session.prepare())
            await session.record(reply)
            print(f"read from the cache {reply.usage.cache_read:>4}, written {reply.usage.cache_write:>4}")
            if not reply.message.tool_calls:
                break
            await session.add_results(await run_all(reply.message.tool_calls, {"weather": weather}))
        print(reply.message.text)
        print(f"{session.meter.requests} requests, ${session.meter.cost_usd:.6f}")


if __name__ == "__main__":
    asyncio.run(main())
