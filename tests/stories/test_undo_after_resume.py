"""What a compaction had replaced comes back in a session that was resumed behind it, over HTTP."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from nacre.app.open_agent import OpenedAgent
from nacre.layers.l4_compact.layer import undo_compaction
from nacre.messages.records import Compacted
from nacre.session.compaction import CompactionRequest
from tests.stories.scenes import say
from tests.stories.session_world import SessionWorld, refused_thinking, span


async def undo(ready: OpenedAgent) -> None:
    assert await undo_compaction(ready.agent.session) is not None


async def rewind(ready: OpenedAgent) -> None:
    """Take back a message that the compaction had kept, and all after it."""
    kept = [point for point in ready.rewind.points() if point.words == "four"]
    await ready.rewind.forget(kept[0])


@pytest.mark.parametrize("act", [undo, rewind])
@pytest.mark.parametrize("kind", ["bound", "reasoning"])
async def test_the_conversation_is_whole_without_opening_it_again(
    kind: str, act: Callable[[OpenedAgent], Awaitable[None]], tmp_path: Path
) -> None:
    world = SessionWorld(tmp_path / "work", seed=2)
    async with world.sim:
        async with world.opened(kind) as ready:
            await say(ready.agent, "one", "two", "three", "four", "five")
            await ready.compact.compact(CompactionRequest(span=span(ready, keeps=0.6)))
            session_id = ready.agent.session.id
        async with world.opened(kind, session_id) as ready:
            session = ready.agent.session
            assert any(isinstance(one, Compacted) for one in session.transcript.records)
            assert "one" not in [point.words for point in ready.rewind.points()]
            await act(ready)
            messages = session.view.messages
            assert "one" in [point.words for point in ready.rewind.points()]
            size = session.tokens
            await say(ready.agent, "go on")
            assert size == pytest.approx(world.sim.log[-1].usage.prompt, rel=0.2)
        async with world.opened(kind, session_id) as ready:
            assert ready.agent.session.view.messages[: len(messages) - 1] == messages[:-1]
            await say(ready.agent, "and on")
    assert not refused_thinking(world.sim.log)
