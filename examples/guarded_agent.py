"""Permissions in your own program: some calls run, some need an answer, some never run.

The replies are scripted, the tools are real. `ask` stands for a dialog, a web page or a rule of yours.
Run it: python examples/guarded_agent.py
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path
from typing import Any

from nacre import TextDelta, ToolCallEvent, ToolResultEvent, open_agent
from nacre.testing import ScriptedProvider, call, say


async def ask(question: Any) -> Any:
    """Allow one change of a file; refuse to run a program."""
    print(f"asked   {question.preview.splitlines()[-1]!r}; always would mean {question.rule.text}")
    return "once" if question.tool == "Write" else "no"


async def main() -> None:
    provider = ScriptedProvider().script(
        call("Read", file_path="list.txt"),
        call("Write", file_path="list.txt", content="milk\nbread\n"),
        call("Bash", command="wc -l list.txt"),
        call("Bash", command="make dinner"),
        call("Bash", command="rm list.txt"),
        say("The list has bread on it."),
    )
    settings = {"permissions.deny": ["Bash(rm:*)"]}
    refused = 0
    async with open_agent(settings, provider=provider, ask=ask, ephemeral=True) as opened:
        async for event in opened.agent.stream("Put bread on the list, and cook."):
            match event:
                case ToolCallEvent(made):
                    print(f"call    {made.name} {made.input}")
                case ToolResultEvent(_, result):
                    refused += result.is_error
                    print("refused" if result.is_error else "result ", result.text.splitlines()[0])
                case TextDelta(text):
                    print(text, end="")
                case _:
                    pass
    print(f"\n{refused} calls were refused")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        Path("list.txt").write_text("milk\n", encoding="utf-8")
        asyncio.run(main())
