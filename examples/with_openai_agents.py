"""Keep conversations of the OpenAI Agents SDK in nacre's log, and keep what the model is sent small.

The session is a file that another process goes on with; the filter sends long results to disk and recalls
memories, and the prefix stays as it was. The simulator stands in for the model: no network, no key.
Run it: python examples/with_openai_agents.py
"""

from __future__ import annotations

import asyncio
import os
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from agents import Agent, OpenAIChatCompletionsModel, RunConfig, Runner, function_tool
from openai import AsyncOpenAI

from nacre import Memory
from nacre.integrations.framework_session import Layers
from nacre.integrations.openai_agents import NacreFilter, NacreSession, reader
from nacre.testing import Simulator

SCRIPT: list[Any] = [
    {"tool_calls": [{"name": "read_log", "input": {"name": "deploy"}}]},
    "The deploy failed at line 3,900.",
    "Not today: it is Friday.",
]


@function_tool
async def read_log(name: str) -> str:
    """Read a log."""
    return "\n".join(f"{name} {n}: {'failed' if n == 3_900 else 'fine'}" for n in range(4_000))


async def main(folder: Path) -> None:
    memory = Memory(folder / "memory")
    await memory.save("The billing service is never deployed on a Friday.")
    results = folder / "results"
    layers = Layers(
        results=results, memory=memory, on_notice=lambda line: print("nacre", line.partition(" kept in")[0])
    )
    config = RunConfig(call_model_input_filter=NacreFilter(layers), tracing_disabled=True)
    async with Simulator(SCRIPT) as sim, AsyncOpenAI(api_key="none", base_url=f"{sim.url}/v1") as client:
        model = OpenAIChatCompletionsModel("gpt-6-sol", client)
        agent = Agent("helper", model=model, tools=[read_log, reader(results)])
        for words in ("Why did the deploy fail?", "Can the billing service be deployed again today?"):
            # Opened anew, as another process would: the conversation is in the file.
            session = NacreSession("user-42", cwd=folder, home=folder / "home")
            answer = await Runner.run(agent, words, session=session, run_config=config)
            print("model", answer.final_output)
        requests = [str(line.body["messages"]) for line in sim.log]
    whole = sum(len(str(item)) for item in await session.get_items())
    print(f"the session holds {whole:,} characters, the last request held {len(requests[-1]):,}")
    kept = all(later.startswith(before[:-1]) for before, later in pairwise(requests))
    print(f"every request began with the one before: {kept}")


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        os.environ["NACRE_HOME"] = f"{folder}/home"
        asyncio.run(main(Path(folder)))
