"""nacre's own agent with its file tools, without a network or a key: the replies are scripted.

Run it: python examples/library_hello.py
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path

from nacre import TextDelta, ToolCallEvent, ToolResultEvent, TurnDone, open_agent
from nacre.testing import ScriptedProvider, call, say


async def main() -> None:
    provider = ScriptedProvider().script(
        call("Read", file_path="note.txt"),
        say("Your note says: buy milk."),
    )
    async with open_agent(provider=provider, ephemeral=True) as opened:
        async for event in opened.agent.stream("What does my note say?"):
            match event:
                case ToolCallEvent(tool_call):
                    print(f"call    {tool_call.name} {tool_call.input}")
                case ToolResultEvent(_, result):
                    print(f"result  {result.text.strip()!r}")
                case TextDelta(text):
                    print(text, end="")
                case TurnDone(rounds=rounds, usage=usage):
                    print(f"\ndone    {rounds} rounds, {usage.hit_rate:.0%} of the prompt from the cache")
                case _:
                    pass


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)  # an agent works in the current directory
        Path("note.txt").write_text("Buy milk.\n", encoding="utf-8")
        asyncio.run(main())
