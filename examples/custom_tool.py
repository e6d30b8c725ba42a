"""A tool of your own: an async function with hints; mistakes of the model become results it can read.

Run it: python examples/custom_tool.py
"""

from __future__ import annotations

import asyncio
from typing import Annotated, Literal

from nacre import Agent, Base, Session, tool
from nacre.errors import ToolError
from nacre.messages.events import Reply, ToolResultEvent
from nacre.testing import ScriptedProvider, call, say

RATES = {"EUR": 1.0, "NOK": 11.7, "JPY": 163.0}


@tool(read_only=True)
async def convert(
    amount: Annotated[float, "How much, in euros."],
    currency: Annotated[Literal["NOK", "JPY", "USD"], "What to convert to."],
) -> str:
    """Convert euros to another currency."""
    if currency not in RATES:
        raise ToolError(f"No rate for {currency} today; there are rates for {', '.join(sorted(RATES))}.")
    return f"{amount * RATES[currency]:.2f} {currency}"


async def main() -> None:
    provider = ScriptedProvider().script(
        [call("convert", amount="ten", currency="NOK"), call("convert", amount=10, currency="USD")],
        call("convert", amount=10, currency="NOK"),
        say("Ten euros are 117 kroner."),
    )
    agent = Agent(Session(Base("scripted", "You know money.", [convert])), provider, [convert])
    async for event in agent.stream("What are ten euros in kroner?"):
        match event:
            case ToolResultEvent(_, result):
                print("error " if result.is_error else "result", result.text)
            case Reply(message=message) if message.text:
                print("reply ", message.text)
            case _:
                pass


if __name__ == "__main__":
    asyncio.run(main())
