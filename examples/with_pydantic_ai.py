"""Put nacre's layers into a Pydantic AI agent: compaction without a model, inside a small window.

Nothing is put on disk here: when the window is full, a summary made by rule stands for the older rounds, with
the person's words as they were said. The simulator stands in for the model: no network, no key.
Run it: python examples/with_pydantic_ai.py
"""

from __future__ import annotations

import asyncio
from typing import Any

from anthropic import AsyncAnthropic
from pydantic_ai import Agent
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.providers.anthropic import AnthropicProvider

from nacre.integrations.framework_session import Layers
from nacre.integrations.pydantic_ai import NacreCapability
from nacre.testing import Simulator

WINDOW = 20_000
"""Tokens: small, so that a few calls fill it."""
RULE = "never touch generated/"
CALLS: list[Any] = [{"tool_calls": [{"name": "read_part", "input": {"number": n}}]} for n in range(40)]


async def read_part(number: int) -> str:
    """Read a part of the project."""
    return f"# part {number}\n" + "value = 1  # a line of code\n" * 120


async def main() -> None:
    layers = Layers(window=WINDOW, on_notice=lambda line: print("nacre", line))
    async with (
        Simulator([*CALLS, "All read."]) as sim,
        AsyncAnthropic(api_key="none", base_url=sim.url) as client,
    ):
        model = AnthropicModel("claude-sonnet-5-5", provider=AnthropicProvider(anthropic_client=client))
        agent = Agent(model, tools=[read_part], capabilities=[NacreCapability(layers)])
        run = await agent.run(f"Read all parts, but {RULE}.")
        largest = max(line.usage.prompt for line in sim.log)
        last = str(sim.log[-1].body["messages"])
    print("model", run.output)
    print(
        f"the run has {len(run.all_messages())} messages, whole; the largest request held {largest:,} tokens"
    )
    print(f"the rule of the first message is still there, word for word: {RULE in last}")


if __name__ == "__main__":
    asyncio.run(main())
