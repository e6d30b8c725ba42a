"""A reviewer and a fixer write to each other until the tests pass; the session only starts them.

The replies are scripted, so that it costs nothing; the files, the tests and the letters are real.
Run it: python examples/reviewer_and_fixer.py
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

from nacre import Request, open_agent
from nacre.layers.l7_mail.peek import peek
from nacre.providers.scripted import Scripted
from nacre.settings import load
from nacre.testing import Cast, ScriptedProvider, call, say, together

BROKEN = "def add(a, b):\n    return a - b\n"
TEST = "from adding import add\n\nassert add(2, 3) == 5, add(2, 3)\nprint('passed')\n"
RUN = f"{sys.executable} -B test_adding.py"
QUIET = {"NACRE_NOTES": "0", "NACRE_EXTRACT": "0", "NACRE_PERMISSIONS_DEFAULT_MODE": "bypassPermissions"}


def verdict(request: Request) -> Scripted:
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
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        (work / "adding.py").write_text(BROKEN, encoding="utf-8")
        (work / "test_adding.py").write_text(TEST, encoding="utf-8")
        settings = load(work, {"NACRE_HOME": str(work / "home"), "PATH": "/usr/bin:/bin", **QUIET})
        async with open_agent(settings, provider=people()) as ready:
            ready.agent.session.ends_with_answer = True  # nobody comes back: wait until all are done
            async for _ in ready.agent.stream("Have it fixed."):
                pass
            for state in ready.team.states() if ready.team else ():
                print(f"{state.name}: {state.status} after {state.calls} tool calls")
        show(work)


def show(work: Path) -> None:
    """Who wrote what, and what came of it."""
    letters = [
        letter for box in work.glob("home/projects/*/*/inboxes/*.jsonl") for letter in peek(box).received
    ]
    for letter in sorted(letters, key=lambda letter: letter.at):
        print(f"  {letter.sender} to {letter.to}: {letter.text}")
    print(f"adding.py: {(work / 'adding.py').read_text(encoding='utf-8').splitlines()[1].strip()}")


if __name__ == "__main__":
    asyncio.run(main())
