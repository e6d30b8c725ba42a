"""A teammate in a process of its own is what it would be in the session's: nothing is lost on the way."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from nacre.agents.directory import count_running
from nacre.agents.team_roster import Roster, member_here
from nacre.agents.tools import AgentRequest
from nacre.app.open_agent import OpenedAgent, open_agent
from nacre.errors import ToolError
from nacre.layers.l7_mail.letter import Letter
from nacre.layers.l7_mail.mailbox import Mailbox
from nacre.settings import Settings, load
from nacre.settings.values import AgentSettings, ListEntry, Permissions
from nacre.testing import ScriptedProvider, say
from nacre.tools.base import Tool
from tests.agents.test_team import MODEL, OFF, played, team_of
from tests.stories.scenes import environment

REMOTE = "claude-haiku-5-5"


async def start_mate(ready: OpenedAgent) -> None:
    order = AgentRequest(prompt="Wait.", name="mate", team="crew")
    await ready.toolset.bindings.agents.require().answer(order)


def settings_in(tmp_path: Path, **cli: str | bool | int) -> Settings:
    cwd = tmp_path / "work"
    (folder := cwd / ".claude" / "agents").mkdir(parents=True)
    fields = {"far": f"model: {REMOTE}", "apart": "isolation: worktree", "wise": "memory: project"}
    for name, field in fields.items():
        (folder / f"{name}.md").write_text(f"---\nname: {name}\ndescription: a kind\n{field}\n---\nDo it.\n")
    environ = {**environment(cwd), **OFF, "NACRE_AGENTS_TEAMMATES": "process", "ANTHROPIC_API_KEY": "k"}
    return load(cwd, environ, cli={"model": MODEL, **cli})


async def test_what_the_command_line_said_holds_in_the_process_of_a_teammate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """M27: no memory means none in the team either, and another model is nobody's choice."""
    found, program = tmp_path / "found.json", tmp_path / "python"
    wanted = ["NACRE_MODEL", "NACRE_DISABLE_AUTO_MEMORY", "NACRE_MAX_TURNS", "NACRE_HOME"]
    wanted += ["NACRE_TEAM_ROOT", "NACRE_TEAM_DEPTH", "NACRE_SANDBOX_ENABLED"]
    rules = {"DENY": '["Read(private/**)"]', "ASK": '["Bash(git push:*)"]', "DEFAULT_MODE": "acceptEdits"}
    permissions = {f"NACRE_PERMISSIONS_{name}": value for name, value in rules.items()}
    wanted += permissions
    program.write_text(
        f"#!{sys.executable}\nimport json, os, sys\n"
        f"said = {{name: os.environ.get(name) for name in {wanted!r}}}\n"
        "said = json.dumps(said | {'option': sys.argv[1]})\n"
        f"open({str(found)!r} + '.new', 'w').write(said)\n"
        f"os.rename({str(found)!r} + '.new', {str(found)!r})\n"
    )
    program.chmod(0o755)
    settings = settings_in(tmp_path, disableAutoMemory=True, maxTurns=7, **{"sandbox.enabled": True})
    # As a program sets them, which no file says.
    settings = replace(
        settings,
        permissions=Permissions(
            deny=(ListEntry("Read(private/**)", "a program"),),
            ask=(ListEntry("Bash(git push:*)", "a program"),),
            default_mode="acceptEdits",
        ),
    )
    async with open_agent(settings, provider=ScriptedProvider([say("Hello.")])) as ready:
        await played(ready, "Hi")
        monkeypatch.setattr(sys, "executable", str(program))
        await ready.toolset.bindings.agents.require().answer(
            AgentRequest(prompt="Wait.", name="mate", team="crew")
        )
        with anyio.fail_after(20):
            while not found.exists():  # another process writes it
                await anyio.sleep(0.02)
    said = json.loads(found.read_text())
    assert said == {
        "NACRE_MODEL": MODEL,
        "NACRE_DISABLE_AUTO_MEMORY": "1",
        "NACRE_MAX_TURNS": "7",
        "NACRE_HOME": str(settings.home),
        "NACRE_TEAM_ROOT": ready.agent.session.id,
        "NACRE_TEAM_DEPTH": "1",
        "NACRE_SANDBOX_ENABLED": "1",
        **permissions,
        "option": "-P",  # it runs in the project, whose files must not replace modules
    }
    there = load(settings.cwd, {**environment(settings.cwd), **permissions}).permissions
    assert [one.text for one in (*there.deny, *there.ask)] == ["Read(private/**)", "Bash(git push:*)"]
    assert there.default_mode == "acceptEdits"


async def test_an_agent_starts_no_process_with_tools_that_it_lacks(tmp_path: Path) -> None:
    """The process has every tool of its type; the agent that starts it may have fewer."""

    def fewer(usual: list[Tool]) -> list[Tool]:
        return [one for one in usual if one.name not in {"Bash", "Write"}]

    settings = settings_in(tmp_path)
    async with open_agent(settings, provider=ScriptedProvider([say("Hello.")]), tools=fewer) as ready:
        await played(ready, "Hi")
        with pytest.raises(ToolError, match=r"tools that you lack \(Bash, Write\)"):
            await start_mate(ready)
        assert not team_of(ready).states()


async def test_the_person_is_told_that_a_teammate_was_woken_too_often_and_their_input_is_noted_in_the_team(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = settings_in(tmp_path)
    provider = ScriptedProvider([say("Hello."), say("Yes.")])
    async with open_agent(settings, provider=provider) as ready:
        await played(ready, "Hi")
        monkeypatch.setattr(sys, "executable", "/bin/false")
        await ready.toolset.bindings.agents.require().answer(
            AgentRequest(prompt="Wait.", name="mate", team="crew")
        )
        roster, session = Roster(settings.home, "crew"), ready.agent.session
        at = session.clock.now()
        held = Letter(id="report-held-1", sender="mate", to="main", text="Too often.", at=at)
        Mailbox(roster.inbox_path("main")).put(held)
        told: list[str] = []
        with anyio.fail_after(20):
            while not told:  # another task reads it
                told = [one.text for one in session.notices() if "was woken by messages" in one.text]
                await anyio.sleep(0.02)
        assert told[0].startswith("mate was woken by messages 10 times without input from you")
        before = roster.prompted_at()
        await played(ready, "And?")
        assert roster.prompted_at() > before


async def test_a_teammate_with_a_living_process_counts_as_at_work_and_so_do_its_own_agents(
    tmp_path: Path,
) -> None:
    settings = replace(settings_in(tmp_path), agents=AgentSettings(teammates="process", max_at_once=3))
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\nexec sleep 60\n")
    program.chmod(0o755)

    async with (
        open_agent(settings, provider=ScriptedProvider([say("Hello.")])) as ready,
        open_agent(settings, provider=ScriptedProvider([say("Hello.")])) as mate,
    ):
        await played(ready, "Hi")
        await played(mate, "Hi")
        root = ready.agent.session.id
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(sys, "executable", str(program))
            await ready.toolset.bindings.agents.require().answer(
                AgentRequest(prompt="Wait.", name="mate", team="crew")
            )
        assert count_running(settings.home, root) == 1
        # The process has joined the team with a session of its own, and waits.
        Roster(settings.home, "crew").join(member_here("mate", session=mate.agent.session.id))
        team_of(ready).shared.registry.change("mate", status="idle")
        assert count_running(settings.home, root) == 1
        below = team_of(mate).shared.registry
        below.root = root
        for number in range(2):
            state = replace(team_of(ready).states()[0], id=f"b{number}", name=f"b{number}", team="")
            below.put(replace(state, pattern="typed", status="running"))
        assert count_running(settings.home, root) == 3
        with pytest.raises(ToolError, match="3 agents are at work"):
            await team_of(mate).spawn(AgentRequest(prompt="Go."))


@pytest.mark.parametrize(
    ("order", "why"),
    [
        (AgentRequest(prompt="Go.", name="mate", team="crew", type="far"), "on this machine"),
        (AgentRequest(prompt="Go.", name="mate", team="crew", model=REMOTE), "on this machine"),
        (AgentRequest(prompt="Go.", name="mate", team="crew", isolation="worktree"), "no worktree"),
        (AgentRequest(prompt="Go.", name="mate", team="crew", type="apart"), "no worktree"),
        (AgentRequest(prompt="Go.", name="mate", team="crew", type="wise"), "what wise agents know"),
    ],
)
async def test_what_such_a_process_would_not_heed_is_refused_before_it_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: AgentRequest, why: str
) -> None:
    """M26, M27, Spawning: a file of the repository sends no words away; nothing is left out in silence."""
    monkeypatch.setattr(sys, "executable", "/bin/false")
    async with open_agent(settings_in(tmp_path), provider=ScriptedProvider([say("Hello.")])) as ready:
        await played(ready, "Hi")
        team = team_of(ready)
        monkeypatch.setattr(team, "_parent", replace(team._parent, is_remote=False))
        with pytest.raises(ToolError, match=why):
            await ready.toolset.bindings.agents.require().answer(order)
        assert team_of(ready).states() == ()
