"""A home that version 0.1 wrote opens: its sessions, memories, permissions, results, notes and agents."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

from nacre.messages.events import ToolResultEvent
from nacre.testing import ScriptedProvider, call, say
from tests.frozen.commands import frozen_time, nacre
from tests.frozen.home_0_1 import unpack
from tests.frozen.scenes import QUIET, Scene


@pytest.fixture
def home(scene: Scene) -> Iterator[Scene]:
    unpack(scene)
    with frozen_time(scene):
        yield scene


def told(scene: Scene, *args: str, code: int = 0) -> Any:
    """What a command prints as JSON."""
    ended = nacre(scene, *args, "--json")
    assert ended.code == code, ended.err
    return json.loads(ended.out)


def sessions(scene: Scene) -> list[str]:
    """The oldest first: one with a compaction, one with a team, one answer."""
    return sorted(path.stem for path in scene.home.glob("projects/*/*.jsonl"))


def test_sessions_are_listed_shown_checked_and_searched(home: Scene) -> None:
    long, team, short = sessions(home)
    listed = {one["session"]: (one["messages"], one["compactions"]) for one in told(home, "sessions", "list")}
    assert listed == {long: (19, 1), team: (13, 0), short: (6, 0)}
    for session in listed:
        checked = told(home, "sessions", "check", session)
        assert (checked["ok"], checked["problems"]) == (True, [])
        assert told(home, "sessions", "show", session)["messages"]
    assert {one["session"] for one in told(home, "sessions", "search", "rivers")} == {long}
    parts = told(home, "context", long)["parts"]
    assert parts["summary"] > 0 and parts["plan"] > 0


def test_the_newest_session_goes_on_with_continue_and_any_other_by_its_id(home: Scene) -> None:
    long, _, short = sessions(home)
    for how, session in (("--continue", short), (f"--resume={long}", long)):
        ended = nacre(home, "-p", "remember that the tea is hot", how, "--output-format", "json")
        assert ended.code == 0, ended.err
        assert json.loads(ended.out)["session"] == session
    assert sorted(path.stem for path in home.home.glob("projects/*/*.jsonl")) == sorted(sessions(home))


def test_a_resumed_session_sends_what_its_compaction_left_and_what_came_back(home: Scene) -> None:
    long, *_ = sessions(home)
    provider = ScriptedProvider([say("I remember.")])

    async def go_on() -> None:
        async with home.opened(home.settings(QUIET), provider=provider, session=long) as ready:
            await home.said(ready, "Where were we?")

    asyncio.run(go_on())
    (request,) = provider.requests
    shown = str(request.messages)
    assert "`two` returns 22 now." in shown, "the summary"
    assert "Never say blue." in shown, "the person's words"
    assert "return 11" in shown and "2. Write." in shown, "a file and the plan"
    assert shown.count("Answer in one line.") == 1, "the instructions are not told again"


def test_results_notes_and_permissions_are_where_they_were(home: Scene) -> None:
    (folder,) = home.home.glob("projects/*/*/tool-results")
    assert (folder / "call_1.txt").read_text().startswith("rivers 0: a fact")
    assert "was changed" in (folder.parent / "session-memory" / "summary.md").read_text()
    provider = ScriptedProvider([call("Bash", command="touch b.py"), call("Bash", command="touch c.py")])
    settings = home.settings({**QUIET, "NACRE_PERMISSIONS_DEFAULT_MODE": "default"})

    async def ask_nobody() -> list[bool]:
        async with home.opened(settings, provider=provider.script(say("Done."))) as ready:
            events = await home.said(ready, "Touch both.")
        return [one.result.is_error for one in events if isinstance(one, ToolResultEvent)]

    assert asyncio.run(ask_nobody()) == [False, True], "only the first was allowed for good"


def test_memories_are_listed_with_their_history_and_a_change_is_taken_back(home: Scene) -> None:
    listed = {one["file"] for one in told(home, "memory", "list")}
    assert listed == {"i_live_in_porto.md", "the_person_drinks_green_tea.md"}
    assert [one["reason"] for one in told(home, "memory", "log")][:2] == ["forgotten by hand", "remember"]
    assert {one["file"] for one in told(home, "memory", "list", "--scope", "user")} == {
        "always_use_tabs.md", "room_12_is_ours.md",
    }  # fmt: skip
    assert len(told(home, "memory", "log", "--scope", "user")) == 2, "a history that git has packed"
    assert told(home, "memory", "undo")["files"] == [
        "MEMORY.md",
        "backups_of_the_orca_database_run_at_night.md",
    ]
    assert len(told(home, "memory", "list")) == 3
    picked = told(home, "recall", "when do backups of the orca database run?")
    assert "backups_of_the_orca_database_run_at_night.md" in json.dumps(picked)


def test_agents_and_teams_are_listed_with_their_letters(home: Scene) -> None:
    listed = told(home, "agents", "list", "--all")
    assert [(one["name"], one["status"]) for one in listed["agents"]] == [("poet", "stopped")]
    assert [one["team"] for one in listed["teams"]] == ["poets"]
    _, team, _ = sessions(home)
    assert "Which style?" in json.dumps(told(home, "agents", "inbox", team, "--all"))


def test_what_old_sessions_left_on_disk_can_be_taken_away(home: Scene) -> None:
    home.clock.advance(90 * 86_400)
    gone = told(home, "gc", "--older-than", "1", "--yes")
    assert gone["files"] > 0
    assert gone["failed"] == []
