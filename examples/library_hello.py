"""An agent in one file, without a network or a key: the script is played, the tools are real.

Run it: python examples/library_hello.py
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path

from nacre import open_agent
from nacre.messages.events import TextDelta, ToolCallEvent, ToolResultEvent, TurnDone
from nacre.settings import load
from nacre.testing import ScriptedProvider, call, say


async def main(folder: Path) -> None:
    (folder / "note.txt").write_text("Buy milk.\n", encoding="utf-8")
    provider = ScriptedProvider().script(
        call("Read", file_path="note.txt"),
        say("Your note says: buy milk."),
    )
    settings = load(folder, os.environ)
    async with open_agent(settings, provider=provider, session="unkept") as ready:
        async for event in ready.agent.stream("What does my note say?"):
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
    with tempfile.TemporaryDirectory() as name:
        asyncio.run(main(Path(name)))
