"""Your own tool: a function with type hints. Mistakes of the model become results that it can read.

Run it: python examples/custom_tool.py
"""

from __future__ import annotations

import asyncio
from typing import Annotated, Literal

from nacre import Agent, ToolError, ToolResultEvent, tool
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
    agent = Agent(instructions="You know money.", tools=[convert], provider=provider)
    async for event in agent.stream("What are ten euros in kroner?"):
        if isinstance(event, ToolResultEvent):
            print("error " if event.result.is_error else "result", event.result.text)


if __name__ == "__main__":
    asyncio.run(main())
