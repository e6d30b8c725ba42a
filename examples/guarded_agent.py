"""A guard in a program of your own: what goes ahead, what somebody is asked about, what never happens.

The script is played, the tools are real, and `ask` stands for whoever decides: a dialog, a web page, a rule.
Run it: python examples/guarded_agent.py
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from nacre import Agent, Base, Session
from nacre.messages.events import TextDelta, ToolCallEvent, ToolResultEvent
from nacre.testing import ScriptedProvider, call, say
from nacre.tools import default_tools
from nacre.tools.guard import Guard, PermissionAnswer, PermissionQuestion
from nacre.tools.policy import PermissionPolicy
from nacre.tools.rules import parse_rule
from nacre.tools.workspace import Workspace


async def ask(question: PermissionQuestion) -> PermissionAnswer:
    """Changing a file is fine, once; running anything is not."""
    print(f"asked   {question.preview.splitlines()[-1]!r}; always would mean {question.rule.text}")
    return "once" if question.tool == "Write" else "no"


async def main(folder: Path) -> None:
    (folder / "list.txt").write_text("milk\n", encoding="utf-8")
    workspace = Workspace(folder)
    policy = PermissionPolicy(root=workspace.root, rules=(parse_rule("Bash(rm:*)", "deny", "this program"),))
    guard = Guard(policy, workspace, ask=ask)
    tools = guard.stand_before(default_tools(workspace))
    provider = ScriptedProvider().script(
        call("Read", file_path="list.txt"),
        call("Write", file_path="list.txt", content="milk\nbread\n"),
        call("Bash", command="wc -l list.txt"),
        call("Bash", command="make dinner"),
        call("Bash", command="rm list.txt"),
        say("The list has bread on it."),
    )
    agent = Agent(Session(Base("scripted", "You keep a list.", tools)), provider, tools)
    async for event in agent.stream("Put bread on the list, and cook."):
        match event:
            case ToolCallEvent(made):
                print(f"call    {made.name} {made.input}")
            case ToolResultEvent(_, result):
                print("refused" if result.is_error else "result ", result.text.splitlines()[0])
            case TextDelta(text):
                print(text, end="")
            case _:
                pass
    print(f"\n{guard.denials} calls were refused")
    await workspace.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        asyncio.run(main(Path(name)))
