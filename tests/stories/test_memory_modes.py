"""Sessions with another kind of memory: the team's over a real git remote, a log of the day, no index."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from nacre.app.open_agent import OpenedAgent, open_agent
from nacre.memory.daily_log import log_file, read_log
from nacre.memory.format.entry import MemoryChange, MemoryDraft
from nacre.memory.memory import Memory
from nacre.messages.events import ToolResultEvent
from nacre.settings import Settings, load
from nacre.testing import FrozenClock, ScriptedProvider, call, say
from tests.memory.clones import BRANCH, bare_repository, clone, git

HAND = MemoryChange(author="user", reason="by hand")
FREEZE = "Nothing is merged on the day before a release."
NOON = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)


def in_clone(shared: Path, base: Path, remote: str = "origin") -> Settings:
    """A person with a clone and a home of their own."""
    project = clone(shared, base / "project")
    environ = {"HOME": str(base), "NACRE_HOME": str(base / "home"), "NACRE_MEMORY_TEAM": "1"}
    return load(project, {**environ, "NACRE_MEMORY_TEAM_REMOTE": remote} if remote else environ)


async def play(ready: OpenedAgent, text: str) -> list[str]:
    """One turn; what the tools answered."""
    return [
        event.result.text async for event in ready.agent.stream(text) if isinstance(event, ToolResultEvent)
    ]


def opening(provider: ScriptedProvider) -> str:
    return str(provider.requests[0].messages[0]["content"])


def shared_files(shared: Path) -> str:
    branches = git("-C", str(shared), "branch", "--list", BRANCH)
    return git("-C", str(shared), "ls-tree", "-r", "--name-only", BRANCH) if branches else ""


async def test_a_session_gives_its_teams_memory_to_the_next_persons_at_its_end(tmp_path: Path) -> None:
    """M18: the end of one session pushes, the start of another pulls; both over git."""
    shared = bare_repository(tmp_path / "shared.git")
    ana, bo = in_clone(shared, tmp_path / "ana"), in_clone(shared, tmp_path / "bo")
    remember = call("remember", text=FREEZE, scope="team", type="project", name="Freeze")
    async with open_agent(ana, provider=ScriptedProvider([remember, say("kept")])) as ready:
        assert await play(ready, "remember the freeze, for everybody") == ["Saved to team/project_freeze.md."]
        assert "project_freeze.md" not in shared_files(shared)
    assert "project_freeze.md" in shared_files(shared)
    theirs = ScriptedProvider([say("hm")])
    async with open_agent(bo, provider=theirs) as ready:
        await play(ready, "may I merge this today, before the release?")
    assert "(project_freeze.md)" in opening(theirs)
    assert FREEZE in str(theirs.requests[0].messages)


@pytest.mark.parametrize(
    ("remote", "told"),
    [
        ("", "team memory stays on this machine: memory.teamRemote names no place to share it"),
        ("nowhere", "team memory was not synced: "),
    ],
)
async def test_a_team_that_cannot_be_reached_is_a_notice_and_the_session_goes_on(
    tmp_path: Path, remote: str, told: str
) -> None:
    """M18: what was saved meanwhile waits on this machine."""
    settings = in_clone(bare_repository(tmp_path / "shared.git"), tmp_path / "ana", remote)
    provider = ScriptedProvider([call("remember", text=FREEZE, scope="team", name="Freeze"), say("kept")])
    async with open_agent(settings, provider=provider) as ready:
        assert [notice for notice in ready.notices if notice.startswith(told)]
        assert await play(ready, "remember the freeze") == ["Saved to team/project_freeze.md."]


def alone(tmp_path: Path, **environ: str) -> Settings:
    (tmp_path / "project").mkdir(exist_ok=True)
    world = {"HOME": str(tmp_path), "NACRE_HOME": str(tmp_path / "home"), **environ}
    return load(tmp_path / "project", world)


async def test_in_daily_mode_a_session_adds_lines_and_finds_them_again(tmp_path: Path) -> None:
    """M17: the log of the clock's date, the manual of that mode, an index that is read and not written."""
    settings = alone(tmp_path, NACRE_MEMORY_MODE="daily", NACRE_DREAM="false")
    memory = await Memory.open(settings.cwd, environ={"NACRE_HOME": str(settings.home)})
    await memory.save(MemoryDraft(body="The person drinks green tea.", name="Tea"), HAND)
    index = (memory.location.directory / "MEMORY.md").read_bytes()
    provider = ScriptedProvider([
        call("remember", text="The demo is on Friday.", type="project"),
        call("recall", query="when is the demo"),
        say("kept"),
    ])  # fmt: skip
    async with open_agent(settings, provider=provider, clock=FrozenClock(NOON)) as ready:
        logged, found = await play(ready, "remember that the demo is on Friday")
    file = log_file(NOON.astimezone().date())
    assert logged == f"Logged in {file}:1."
    assert "The demo is on Friday." in found
    (line,) = read_log(file, (memory.location.directory / file).read_bytes())
    assert (line.text, line.kind) == ("The demo is on Friday.", "project")
    assert (memory.location.directory / "MEMORY.md").read_bytes() == index
    assert "(user_tea.md)" in opening(provider)
    assert "logs/YYYY/MM/YYYY-MM-DD.md" in str(provider.requests[0].system)
    assert "2026-03-04.md" not in str(provider.requests[0].system)


async def test_without_an_index_nothing_is_listed_and_memories_are_still_recalled(tmp_path: Path) -> None:
    """M19: one step to save, nothing ahead of the conversation, found by recall all the same."""
    settings = alone(tmp_path, NACRE_MEMORY_INDEX="0")
    first = ScriptedProvider([call("remember", text=FREEZE, name="Freeze"), say("kept")])
    async with open_agent(settings, provider=first) as ready:
        assert await play(ready, "remember the freeze") == ["Saved to project_freeze.md."]
        directory = ready.memories[0].location.directory
    assert not (directory / "MEMORY.md").exists()
    second = ScriptedProvider([say("no")])
    async with open_agent(settings, provider=second) as ready:
        await play(ready, "may I merge something on the day before a release?")
    assert "<memory-index" not in opening(second)
    assert FREEZE in str(second.requests[0].messages[-1])
    assert "MEMORY.md" not in str(second.requests[0].system)
