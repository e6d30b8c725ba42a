"""An agent that sends a plan for approval changes nothing until it is approved (A4)."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import anyio

from nacre.messages.blocks import Json, JsonObject
from nacre.providers.base import Request
from nacre.providers.scripted import Scripted
from nacre.testing import Cast, ScriptedProvider, call, say
from tests.stories.test_two_agents_exchange_mail import SAFETY_SECONDS, opened, played, send

PLAN: Json = {"type": "plan_approval_request", "plan": "1. Write out.txt."}


def _request_id(request: Request) -> str:
    """The id of the newest plan that the lead is asked about."""
    return re.findall(r'"request_id\\*": \\*"([^"\\]+)', str(request.messages))[-1]


async def test_who_waits_for_an_approval_changes_nothing_until_it_comes(tmp_path: Path) -> None:
    work = tmp_path / "work"
    writes = call("Write", file_path=str(work / "out.txt"), content="done\n")
    looks = call("Bash", command="ls")
    planner = ScriptedProvider(
        [send("main", PLAN), writes, looks, say("I wait."), writes, send("main", PLAN), say("I wait again."),
         writes, say("Done.")]
    )  # fmt: skip

    def answer(approves: bool) -> Callable[[Request], Scripted]:
        def reply(request: Request) -> Scripted:
            given: JsonObject = {
                "type": "plan_approval_response",
                "request_id": _request_id(request),
                "approve": approves,
            }
            return send("planner", given if approves else {**given, "reason": "Say where."})

        return reply

    main = ScriptedProvider(
        [call("Agent", description="plan", prompt="Be the planner.", name="planner"), answer(False),
         say("Refused."), answer(True), say("Approved.")]
    )  # fmt: skip
    provider = Cast(main, {"Be the planner.": planner})
    async with opened(work, provider) as ready:
        await played(ready, "Have it planned.")
        await _until(lambda: planner.left == 2)
        assert not (work / "out.txt").exists()
        await played(ready, "And now?")
        await _until(lambda: planner.left == 0)
        await _until((work / "out.txt").exists)
    told = str(planner.requests[-1].messages)
    assert told.count("you wait until main approves your plan") == 2
    assert "The plan is not approved." in told and "Say where." in told
    assert "The plan is approved." in told


async def _until(is_so: Callable[[], bool]) -> None:
    with anyio.fail_after(SAFETY_SECONDS):
        while not is_so():
            await anyio.sleep(0.02)
