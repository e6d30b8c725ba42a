"""What a growing conversation costs with the prefix kept, and with one byte of it moved.

The simulator bills by the provider's cache rules; nothing leaves this machine.
Run it: python examples/sim_cache.py
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

from nacre import Base, Request, Session
from nacre.devtools.sim import Simulator
from nacre.messages.blocks import JsonObject
from nacre.providers import complete
from nacre.providers.anthropic import AnthropicProvider

MODEL = "claude-sonnet-5-5"
SYSTEM = "You are a careful engineer. Read before you write, and say what you do not know. " * 100
TURNS = 8
PAGE = "The log says: the worker stopped at 03:12 and nobody restarted it. " * 60


Change = Callable[[Request, int], Request]


def as_it_is(request: Request, turn: int) -> Request:
    return request


def with_a_clock(request: Request, turn: int) -> Request:
    """A clock in the system prompt: one line that differs each time, before everything else."""
    line: JsonObject = {"type": "text", "text": f"The time is 09:{turn:02}."}
    return replace(request, system=[line, *request.system])


async def talk(title: str, change: Change) -> float:
    """The same conversation, with each request changed on its way out; returns its price."""
    async with Simulator([f"Noted, page {turn}." for turn in range(TURNS)]) as sim:
        provider = AnthropicProvider(api_key="none", base_url=sim.url)
        session = Session(Base(MODEL, SYSTEM, []))
        print(f"\n{title}\nturn   input  written    read  hit rate        USD")
        for turn in range(TURNS):
            sim.clock.advance(30)
            paid_before = session.meter.cost_usd
            await session.add_user(f"Page {turn}: {PAGE}")
            reply = await complete(provider, change(await session.prepare(), turn))
            await session.record(reply)
            used, paid = reply.usage, session.meter.cost_usd - paid_before
            print(
                f"{turn + 1:>4} {used.input:>7} {used.cache_write:>8} {used.cache_read:>7}"
                f" {used.hit_rate:>9.0%} {paid:>10.6f}"
            )
        await provider.close()
        return session.meter.cost_usd


async def main() -> None:
    kept = await talk("the prefix as it is", as_it_is)
    moved = await talk("a clock in the system prompt", with_a_clock)
    print(f"\nprefix kept ${kept:.4f}, prefix moved ${moved:.4f}: {moved / kept:.1f} times the price")


if __name__ == "__main__":
    asyncio.run(main())
