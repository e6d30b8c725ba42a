"""A conversation that does not fit names ways out that work, and nothing is paid for twice in vain."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nacre.errors import ContextOverflow
from nacre.session.compaction import CompactionRequest
from tests.stories.scenes import say
from tests.stories.session_world import SUMMARY_REQUEST, SessionWorld

HUGE = "Look at this line of a log. " * 9_000
"""About 63,000 tokens."""


def summaries(world: SessionWorld) -> int:
    return sum(SUMMARY_REQUEST in json.dumps(one.body["messages"]) for one in world.sim.log)


@pytest.mark.parametrize("kind", ["bound", "reasoning"])
async def test_a_message_larger_than_the_window_costs_one_summary_at_most(kind: str, tmp_path: Path) -> None:
    world = SessionWorld(tmp_path / "work", seed=3)
    async with world.sim:
        async with world.opened(kind) as ready:
            await say(ready.agent, "one", "two", "three", "four")
            for _ in range(2):
                with pytest.raises(ContextOverflow, match="take the largest message back with /rewind"):
                    await say(ready.agent, HUGE)
                assert summaries(world) == 1, "the same summary is not paid for again"
            session_id = ready.agent.session.id
        async with world.opened(kind, session_id) as ready:
            with pytest.raises(ContextOverflow):
                await say(ready.agent, HUGE)
            assert summaries(world) == 1, "nor by another process"
            points = ready.rewind.points()
            await ready.rewind.forget(next(one for one in points if one.words.startswith("Look at this")))
            await say(ready.agent, "now it fits", "and goes on")
            assert summaries(world) == 1
            bill = sum(one.cost_usd or 0.0 for one in world.sim.log)
            assert ready.agent.session.meter.cost_usd == pytest.approx(bill)


async def test_a_conversation_that_nothing_shortens_is_shortened_by_compact(tmp_path: Path) -> None:
    world = SessionWorld(tmp_path / "work", seed=4)
    off = {"switches.compact": False, "switches.clear_idle": False}
    async with world.sim, world.opened("bound", settings=off) as ready:
        await say(ready.agent, *map(str, range(8)))
        session = ready.agent.session
        # A smaller window from here on, as after a switch to a smaller model.
        session.window = session.tokens
        with pytest.raises(ContextOverflow, match="shorten it with /compact"):
            await say(ready.agent, "go on")
        await ready.compact.compact(CompactionRequest())
        await say(ready.agent, "go on now")


async def test_tools_that_fill_the_window_can_be_turned_off(tmp_path: Path) -> None:
    world = SessionWorld(tmp_path / "work", seed=5)
    async with world.sim:
        async with world.opened("plain") as ready:
            session = ready.agent.session
            # Nothing was measured yet, so only what cannot fit even by the lowest estimate is refused (C2).
            session.window = session.calibration.least(0)
            with pytest.raises(ContextOverflow, match=r"switches\.agents and switches\.skills") as caught:
                await say(ready.agent, "hello")
            assert "/compact" not in str(caught.value)
            assert "/clear" not in str(caught.value), "a new session would have the same tools"
        off = {"switches.agents": False, "switches.skills": False}
        async with world.opened("plain", settings=off) as ready:
            ready.agent.session.window = session.window
            await say(ready.agent, "hello")
