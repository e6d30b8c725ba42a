"""Give Claude's memory tool a memory that lasts: every write is a commit, nothing leaves the directory.

Anthropic's SDK runs the tool; nacre keeps what it writes, with an index, a history and a way back. The
simulator stands in for the model, so this needs no network and no key.
Run it: python examples/with_anthropic_memory.py
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from anthropic import AsyncAnthropic

from nacre import Memory
from nacre.integrations.anthropic_memory import MemoryTool
from nacre.testing import Simulator

TEA = "/memories/tea.md"


def use(**command: str) -> dict[str, Any]:
    return {"tool_calls": [{"name": "memory", "input": command}]}


SCRIPT: list[Any] = [
    use(command="view", path="/memories"),
    use(command="create", path=TEA, file_text="The person drinks green tea, without sugar.\n"),
    use(command="str_replace", path=TEA, old_str="green", new_str="black"),
    use(command="view", path="/memories/../../etc/passwd"),
    "I will remember that.",
]


async def main(folder: Path) -> None:
    memory = Memory(folder / "memory")
    async with Simulator(SCRIPT) as sim, AsyncAnthropic(api_key="none", base_url=sim.url) as client:
        runner = client.beta.messages.tool_runner(
            model="claude-sonnet-5-5",
            max_tokens=1_000,
            tools=[MemoryTool(memory)],
            messages=[{"role": "user", "content": "Black tea for me from now on, please remember."}],
        )
        message = await runner.until_done()
        print("model", message.content[0].text)  # type: ignore[union-attr]
        messages: Any = sim.log[-1].body["messages"]
    for one in messages[2::2]:
        print("tool ", one["content"][0]["content"].splitlines()[0])
    for commit in await memory.log():
        print("log  ", commit.reason)
    print("index", (await memory.index()).text.strip().splitlines()[-1])


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        os.environ["NACRE_HOME"] = f"{folder}/home"
        asyncio.run(main(Path(folder)))
