"""Keep your loop and your SDK; let nacre keep the conversation, build the requests and set the cache markers.

Anthropic's SDK talks to nacre's simulator on this machine, so this needs no network and no key.
Run it: python examples/own_loop.py
"""

from __future__ import annotations

import asyncio
from typing import Any

from anthropic import AsyncAnthropic

from nacre import Base, Session
from nacre.testing import Simulator

SYSTEM = "You plan picnics. Look at the weather before you promise anything. " * 40
SCRIPT: list[Any] = [
    {"text": "Let me look.", "tool_calls": [{"name": "weather", "input": {"city": "Bergen"}}]},
    "Rain in Bergen: take the indoor table.",
]


def weather(city: str) -> str:
    """Return today's weather in a city."""
    return f"{city}: rain until the evening"


async def main() -> None:
    async with Simulator(SCRIPT) as sim, AsyncAnthropic(api_key="none", base_url=sim.url) as client:
        session = Session(Base("claude-sonnet-5-5", SYSTEM, [weather]))
        await session.add_user("Where do we eat today?")
        while True:
            request: Any = await session.prepare()
            message = await client.messages.create(**request.body())
            await session.record(message.to_dict(mode="json"))
            used = message.usage
            print(f"read from the cache {used.cache_read_input_tokens:>4}", end=", ")
            print(f"written {used.cache_creation_input_tokens:>4}")
            if not await session.call_tools([weather]):
                break
        print(message.content[0].text)  # type: ignore[union-attr]
        print(f"{session.meter.requests} requests, ${session.meter.cost_usd:.6f}")


if __name__ == "__main__":
    asyncio.run(main())
