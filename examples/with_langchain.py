"""Put nacre's layers into a LangChain agent: long results on disk, old ones cleared, memories at the tail.

What the model is sent stays inside a small window, and its prefix moves only where a line says so; the
agent's own messages stay whole. The simulator stands in for the model: no network, no key.
Run it: python examples/with_langchain.py
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from langchain.agents import create_agent
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool

from nacre import Memory
from nacre.integrations.framework_session import Layers
from nacre.integrations.langchain import NacreMiddleware
from nacre.testing import Simulator

WINDOW = 20_000
"""Tokens: small, so that a few calls fill it."""


@tool
async def read_part(number: int) -> str:
    """Read a part of the project."""
    return f"# part {number}\n" + "value = 1  # a line of code\n" * 120


def script(calls: int) -> list[Any]:
    return [
        *({"tool_calls": [{"name": "read_part", "input": {"number": n}}]} for n in range(calls)),
        "All read.",
    ]


async def main(folder: Path) -> None:
    memory = Memory(folder / "memory")
    await memory.save("When reading parts of the project, never touch generated/ files.")
    layers = Layers(
        results=folder / "results",
        memory=memory,
        window=WINDOW,
        clearable=frozenset({"read_part"}),
        on_notice=lambda line: print("nacre", line.replace(str(folder), "…")),
    )
    async with Simulator(script(40)) as sim:
        model = ChatAnthropic(  # type: ignore[call-arg]
            model="claude-sonnet-5-5",
            api_key="none",  # type: ignore[arg-type]
            base_url=sim.url,
            default_headers={"Connection": "close"},  # so that no socket outlives the simulator
        )
        agent = create_agent(model, [read_part], middleware=[NacreMiddleware(layers)])
        words = HumanMessage("Read all parts of the project, one after another.")
        state = await agent.ainvoke({"messages": [words]}, {"recursion_limit": 200})
        largest = max(line.usage.prompt for line in sim.log)
    print(
        f"the agent has {len(state['messages'])} messages, whole; the largest request held {largest:,} tokens"
    )
    print(f"it stayed inside its window: {largest < WINDOW}")


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        os.environ["NACRE_HOME"] = f"{folder}/home"
        asyncio.run(main(Path(folder)))
