"""Agents of a session: every way to start one, every limit, who ends with whom, and what is booked."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import anyio
import pytest

from nacre.agents.meter import SIDE_QUERY, Meter
from nacre.agents.opening import UNKEPT, Ready, open_agent
from nacre.agents.team import Team
from nacre.agents.team_disk import read_states
from nacre.messages.events import Event, ResultReady, TurnDone
from nacre.settings import load
from nacre.testing import Cast, FrozenClock, ScriptedProvider, call, say, together
from tests.stories.scenes import environment

MODEL = "claude-sonnet-5-5"
OFF = {"NACRE_NOTES": "0", "NACRE_COMPACT_PREPARE": "0", "NACRE_EXTRACT": "0", "NACRE_DREAM": "0"}


def order(prompt: str, **more: object) -> object:
    """A call that starts an agent."""
    return call("Agent", description="a task", prompt=prompt, **more)  # type: ignore[arg-type]


@asynccontextmanager
async def opened(
    tmp_path: Path, provider: Cast, *, session: str = "new", **environ: str
) -> AsyncIterator[Ready]:
    cwd = tmp_path / "work"
    cwd.mkdir(exist_ok=True)
    settings = load(cwd, {**environment(cwd), **OFF, **environ}, cli={"model": MODEL})
    async with open_agent(settings, provider=provider, session=session, clock=FrozenClock()) as ready:
        yield ready


async def played(ready: Ready, text: str) -> list[Event]:
    return [event async for event in ready.agent.run(text)]


def team_of(ready: Ready) -> Team:
    assert ready.team is not None
    return ready.team


def results(events: list[Event]) -> list[str]:
    return [event.result.text for event in events if isinstance(event, ResultReady)]


def folder_of(ready: Ready) -> Path:
    return ready.agent.session.keeper.folder  # type: ignore[attr-defined,no-any-return]


async def test_a_typed_agent_works_alone_and_its_last_words_are_the_result(tmp_path: Path) -> None:
    """Spawning: fresh context, own system prompt, all that comes back is the report."""
    main = ScriptedProvider([order("Count the files."), say("Two.")])
    child = ScriptedProvider([call("Glob", pattern="*.txt"), say("There are 2 files.")])
    async with opened(tmp_path, Cast(main, {"Count the files.": child})) as ready:
        (tmp_path / "work" / "a.txt").write_text("a")
        events = await played(ready, "How many?")
        (state,) = team_of(ready).states()
    assert results(events)[0].startswith("There are 2 files.")
    assert "[general-1: 1 tool calls" in results(events)[0]
    assert (state.name, state.status, state.rounds, state.calls) == ("general-1", "completed", 2, 1)
    first = child.requests[0]
    assert "You work on one task" in str(first.system)
    assert "How many?" not in str(first.messages)
    assert "You are the agent `general-1`" in str(first.messages)
    assert [one["name"] for one in first.tools] == sorted(str(one["name"]) for one in first.tools)
