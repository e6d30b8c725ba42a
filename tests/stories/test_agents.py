"""Agents as a person has them: one answer with the program itself, and kill -9 while they are at work."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from nacre.agents.registry import read_states, with_process_status
from nacre.app.open_agent import open_agent
from nacre.messages.jsonl import decode
from nacre.messages.view import View
from nacre.settings import load
from nacre.testing import Cast, ScriptedProvider, say
from tests.cli.program import nacre
from tests.stories.processes import Sim, eventually, logs
from tests.stories.scenes import call, calls, environment, project

MODEL = "claude-sonnet-5-5"
DYING = """
import asyncio, sys
from pathlib import Path
from nacre.app.open_agent import open_agent
from nacre.settings import load
from nacre.testing import Cast, ScriptedProvider, call, say, together
from tests.stories.scenes import environment

def order(prompt, **more):
    return call("Agent", description="a task", prompt=prompt, **more)

async def main(cwd):
    main = ScriptedProvider([
        order("Far behind.", name="behind", run_in_background=True), order("In front.", name="front"),
    ])
    parts = {
        "Far behind.": ScriptedProvider([call("Glob", pattern="*.md"), call("Bash", command="sleep 20")]),
        "In front.": ScriptedProvider([call("Glob", pattern="*"), call("Bash", command="sleep 20")]),
    }
    settings = load(cwd, environment(cwd), cli={"model": "claude-sonnet-5-5"})
    async with open_agent(settings, provider=Cast(main, parts)) as ready:
        async for _ in ready.agent.stream("Go"):
            pass

asyncio.run(main(Path(sys.argv[1])))
"""


def test_a_question_is_answered_with_the_help_of_another_agent(tmp_path: Path, sim: Sim) -> None:
    """Spawning, from the command line: `nacre -p`, whose agent reads for it; one log beside the other."""
    project(tmp_path)
    order = call("Agent", description="find it", prompt="What is in README.md?", subagent_type="explore")
    sim.script(
        calls(order),
        calls(call("Read", file_path="README.md")),
        {"text": "It says: nothing to see."},
        {"text": "The README says that there is nothing to see."},
    )
    done = nacre(tmp_path, "-p", "What does the README say?", **sim.environ(NACRE_NOTES="0"))
    assert done.stdout == "The README says that there is nothing to see.\n"
    main, first, second, last = (one["body"] for one in sim.log())
    assert [tool["name"] for tool in first["tools"]] == [
        name for name in ("Glob", "Grep", "Read", "SendMessage") if name in str(first["tools"])
    ]
    assert "What does the README say?" not in str(first["messages"])
    assert "Nothing to see" in str(second["messages"])
    assert "It says: nothing to see." in str(last["messages"])
    assert main["tools"] == last["tools"]
    side = [path for path in logs(tmp_path) if path.parent.name == "subagents"]
    assert len(side) == 1
    (state,) = read_states(side[0].parent.parent)
    assert (state.name, state.status, state.calls) == ("explore-1", "completed", 1)


def test_the_state_of_an_agent_names_the_model_of_its_type(tmp_path: Path, sim: Sim) -> None:
    """Spawning: `small` is a model as well."""
    folder = project(tmp_path) / ".claude" / "agents"
    folder.mkdir(parents=True)
    for name, model in (("careful", "claude-sonnet-5-5"), ("quick", "small")):
        text = f"---\nname: {name}\ndescription: a kind\nmodel: {model}\n---\nDo it.\n"
        (folder / f"{name}.md").write_text(text)
    orders = [
        call("Agent", description="do it", prompt="Do.", subagent_type=one) for one in ("careful", "quick")
    ]
    sim.script(calls(orders[0]), "Done.", calls(orders[1]), "Done.", "Both did it.")
    assert nacre(tmp_path, "-p", "Go.", **sim.environ(NACRE_NOTES="0")).stdout == "Both did it.\n"
    (log, *_) = [path for path in logs(tmp_path) if path.parent.name == "subagents"]
    states = {one.type: one.model for one in read_states(log.parent.parent)}
    assert states == {"careful": "claude-sonnet-5-5", "quick": "claude-haiku-5-5"}
    asked = [one["body"]["model"] for one in sim.log()]
    assert asked == [asked[0], "claude-sonnet-5-5", asked[0], "claude-haiku-5-5", asked[0]]


@pytest.mark.slow
@pytest.mark.moves_prefix(reason="one provider for the lives of two agents")
async def test_agents_that_were_at_work_when_the_program_died_are_told_once_and_can_go_on(
    tmp_path: Path,
) -> None:
    """Crash: kill -9, then resume; both logs are whole, both are told as unfinished, and go on if asked."""
    project(tmp_path)
    dying = subprocess.Popen([sys.executable, "-c", DYING, str(tmp_path)], cwd=Path(__file__).parents[2])
    try:
        home = tmp_path / "home" / "projects"

        def at_work() -> bool:
            states = [one for path in home.glob("*/*.jsonl") for one in read_states(path.with_suffix(""))]
            return sorted((one.name, one.rounds) for one in states) == [("behind", 2), ("front", 2)]

        eventually(at_work, "both agents are at work")
    finally:
        os.kill(dying.pid, signal.SIGKILL)
        dying.wait()
    (log,) = home.glob("*/*.jsonl")
    assert {with_process_status(one).status for one in read_states(log.with_suffix(""))} == {"stopped"}
    settings = load(tmp_path, environment(tmp_path), cli={"model": MODEL})
    main = ScriptedProvider([say("I see."), say("Right."), say("Good."), say("Fine.")])
    again = {name: ScriptedProvider([say(f"{name} is done now.")]) for name in ("behind", "front")}
    cast = Cast(main, {f"You are the agent `{name}`": part for name, part in again.items()})
    for text in ("What now?", "And?"):  # told in the first of two lives, and not in the second
        async with open_agent(settings, provider=cast, session=log.stem) as ready:
            _ = [event async for event in ready.agent.stream(text)]
            assert ready.team is not None
            assert not any(one.is_untold for one in ready.team.states())
    assert str(main.requests[1].messages).count("the program ended while it was running") == 2
    async with open_agent(settings, provider=cast, session=log.stem) as ready:
        assert ready.team is not None
        for name in again:
            await ready.team.resume(name, "Go on.")
            await ready.background.wait(f"agent {name}", 20)
        _ = [event async for event in ready.agent.stream("And now?")]
    told = str(main.requests[-1].messages)
    assert all(told.count(f"{name} is done now.") == 1 for name in again)
    assert "Far behind." in str(again["behind"].requests[0].messages)
    for path in (log.with_suffix("") / "subagents").glob("*.jsonl"):
        loaded = decode(path.read_bytes().splitlines(), subagent=True)
        assert not loaded.problems
        assert not View.of(loaded.records).open_calls
