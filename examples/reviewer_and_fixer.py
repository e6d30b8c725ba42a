"""A reviewer and a fixer write to each other until the tests pass; the session only starts them.

The replies are scripted, so that it costs nothing; the files, the tests and the letters are real.
Run it: python examples/reviewer_and_fixer.py
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from nacre import open_agent
from nacre.testing import Cast, Scripted, ScriptedProvider, call, say, together

BROKEN = "def add(a, b):\n    return a - b\n"
TEST = "from adding import add\n\nassert add(2, 3) == 5, add(2, 3)\nprint('passed')\n"
RUN = f"{sys.executable} -B test_adding.py"
SETTINGS = {"switches.notes": False, "extract.mode": "off", "permissions.defaultMode": "bypassPermissions"}


def verdict(request: Any) -> Scripted:
    """What the reviewer writes, by what the tests just said."""
    if "passed" in str(request.messages[-1]):
        return call("SendMessage", to="fixer", message="They pass now. Thank you.", summary="passed")
    return call("SendMessage", to="fixer", message="add(2, 3) is -1: the sign is wrong.", summary="fails")


def people() -> Cast:
    """Three scripts; each request is answered by the one whose conversation it is."""
    fixer, reviewer = "You fix what the reviewer finds.", "You run the tests and write to the fixer."
    start = [
        call("Agent", description="fix", prompt=fixer, name="fixer", run_in_background=True),
        call("Agent", description="review", prompt=reviewer, name="reviewer", run_in_background=True),
    ]
    return Cast(
        ScriptedProvider([together(*start), say("They are at work."), *[say("The tests pass.")] * 6]),
        {
            fixer: ScriptedProvider(
                [
                    say("I wait."),
                    call("Read", file_path="adding.py"),
                    call("Edit", file_path="adding.py", old_string="a - b", new_string="a + b"),
                    call("SendMessage", to="reviewer", message="Mended. Try again.", summary="mended"),
                    say("Mended."),
                    say("Good."),
                ]
            ),
            reviewer: ScriptedProvider(
                [
                    call("Bash", command=RUN),
                    verdict,
                    say("I have written to the fixer."),
                    call("Bash", command=RUN),
                    verdict,
                    say("They pass."),
                ]
            ),
        },
    )


async def main() -> None:
    async with open_agent(SETTINGS, provider=people()) as opened:
        opened.agent.session.is_one_shot = True  # there is no next turn: wait until all agents are done
        await opened.agent.run("Have it fixed.")
        for state in opened.team.states() if opened.team else ():
            print(f"{state.name}: {state.status} after {state.calls} tool calls")


def show() -> None:
    """Print the letters and the repaired line."""
    boxes = Path("home").rglob("inboxes/*.jsonl")
    lines = [json.loads(line) for box in boxes for line in box.read_text("utf-8").splitlines()]
    for letter in sorted((one for one in lines if "message" in one), key=lambda one: str(one["at"])):
        print(f"  {letter['from']} to {letter['to']}: {letter['message']}")
    print(f"adding.py: {Path('adding.py').read_text(encoding='utf-8').splitlines()[1].strip()}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        os.environ["NACRE_HOME"] = f"{folder}/home"
        Path("adding.py").write_text(BROKEN, encoding="utf-8")
        Path("test_adding.py").write_text(TEST, encoding="utf-8")
        asyncio.run(main())
        show()
