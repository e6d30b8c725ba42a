"""The cost of a growing conversation with a stable prefix, and with one line of it changed every time.

The simulator bills by the provider's cache rules; nothing leaves this machine.
Run it: python examples/sim_cache.py
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from typing import Any

from nacre import Agent, Base, Layer, Session
from nacre.testing import Simulator

SYSTEM = "You are a careful engineer. Read before you write, and say what you do not know. " * 100
TURNS = 8
PAGE = "The log says: the worker stopped at 03:12 and nobody restarted it. " * 60


class ClockInPrompt(Layer):
    """Puts the time at the start of the system prompt, as many programs do."""

    def finish_request(self, request: Any, view: Any) -> Any:
        line = {"type": "text", "text": f"The time is 09:{len(view.messages):02}."}
        return replace(request, system=[line, *request.system])


async def talk(title: str, *layers: Layer) -> float:
    """Have the conversation and return its price."""
    async with Simulator([f"Noted, page {turn}." for turn in range(TURNS)]) as sim:
        os.environ.update(ANTHROPIC_API_KEY="none", ANTHROPIC_BASE_URL=sim.url)
        session = Session(Base("claude-sonnet-5-5", SYSTEM), layers=layers)
        print(f"\n{title}\nturn   input  written    read  hit rate        USD")
        async with Agent(session=session) as agent:
            for turn in range(TURNS):
                sim.clock.advance(30)
                result = await agent.run(f"Page {turn}: {PAGE}")
                used = result.usage
                print(
                    f"{turn + 1:>4} {used.input:>7} {used.cache_write:>8} {used.cache_read:>7}"
                    f" {used.hit_rate:>9.0%} {result.cost_usd:>10.6f}"
                )
        return session.meter.cost_usd


async def main() -> None:
    kept = await talk("the prefix as it is")
    moved = await talk("a clock in the system prompt", ClockInPrompt())
    print(f"\nprefix kept ${kept:.4f}, prefix moved ${moved:.4f}: {moved / kept:.1f} times the price")


if __name__ == "__main__":
    asyncio.run(main())
