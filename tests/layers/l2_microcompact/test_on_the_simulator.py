"""Layer 2 through the official SDK, over HTTP, under the provider's real cache rules and a clock we hold."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path

import pytest

from nacre.app.open_agent import OpenedAgent, open_agent
from nacre.devtools.sim import Exchange, Simulator
from nacre.messages.blocks import Json
from nacre.messages.events import Notice
from nacre.messages.view import View
from nacre.providers.anthropic import AnthropicProvider
from nacre.settings import load
from tests.layers.l2_microcompact.scenes import BINDING, FREE
from tests.stories.scenes import BAR, call, calls, environment, say

MOVES = pytest.mark.moves_prefix(reason="old results are cleared on a cold cache")
PAUSE = 360.0


def looking(rounds: int, start: int = 0) -> list[Json]:
    """Rounds that each read something else, with a thought before it, and a closing word."""
    made = [
        {**calls(call("Bash", command=f"seq {n} {n + 1_200}")), "thinking": f"number {n} next"}
        for n in range(start, start + rounds)
    ]
    return [*made, "done"]


@asynccontextmanager
async def talking(
    sim: Simulator, cwd: Path, *, model: str = FREE, session: str = "new", **variables: str
) -> AsyncIterator[OpenedAgent]:
    """An agent whose time is the simulator's."""
    cwd.mkdir(exist_ok=True)
    provider = AnthropicProvider(api_key="k", base_url=sim.url)
    given: Mapping[str, str] = {**environment(cwd), **variables}
    try:
        settings = load(cwd, given, cli={"model": model})
        async with open_agent(settings, provider=provider, session=session, clock=sim.clock) as ready:
            yield ready
    finally:
        await provider.close()


def assert_accepted(log: list[Exchange]) -> None:
    assert not [one.refusal for one in log if one.refusal]


def left(one: Exchange) -> int:
    return one.usage.cache_read + one.usage.cache_write


def assert_read_on(log: list[Exchange]) -> None:
    """C32: each request reads what the one before left in the cache."""
    shares = [now.usage.cache_read / left(before) for before, now in pairwise(log)]
    assert all(share >= BAR for share in shares), shares


def cost(log: list[Exchange]) -> float:
    return sum(one.cost_usd or 0.0 for one in log)


@pytest.mark.slow
@MOVES
@pytest.mark.parametrize("model", [FREE, BINDING])
async def test_after_a_pause_a_request_is_smaller_and_cheaper_and_the_next_are_read(
    model: str, tmp_path: Path
) -> None:
    """C9, C12b, C32: and a model that binds its thinking accepts it."""
    after: dict[str, list[Exchange]] = {}
    for idle in ("true", "false"):
        script = [*looking(30), *looking(6, 100), "and done"]
        cwd = tmp_path / f"work-{idle}"
        async with Simulator(script) as sim, talking(sim, cwd, model=model, NACRE_CLEAR_IDLE=idle) as ready:
            await say(ready.agent, "look")
            before = len(sim.log)
            sim.clock.advance(PAUSE)
            events = await say(ready.agent, "look again", "and?")
            session = ready.agent.session
            assert View.of(session.transcript.records) == session.view
        assert_accepted(sim.log)
        after[idle] = sim.log[before:]
        assert_read_on(after[idle])
        told = [event.text for event in events if isinstance(event, Notice)]
        assert [line.split(" (")[0] for line in told] == (
            ["Cleared 20 old tool results"] if idle == "true" else []
        )
    assert left(after["true"][0]) < 0.85 * left(after["false"][0])
    assert cost(after["true"]) < 0.85 * cost(after["false"])


@pytest.mark.slow
@MOVES
async def test_a_resumed_session_clears_once_and_goes_on_with_the_same_bytes(tmp_path: Path) -> None:
    """C9, T3: the day after, from the log; what was cleared is read back without a question."""
    cwd = tmp_path / "work"
    async with Simulator(looking(30)) as sim:
        async with talking(sim, cwd) as ready:
            await say(ready.agent, "look")
        before = len(sim.log)
        sim.clock.advance(86_400)
        sim.extend(["good morning"])
        async with talking(sim, cwd, session="latest") as ready:
            await say(ready.agent, "hello")
            (note,) = ready.agent.session.view.noted("clear")
            first = str(note.fact("folder")) + f"/{note.facts['calls'][0]}.txt"  # type: ignore[index, call-overload]
        sim.extend([calls(call("Read", file_path=first)), "there it is"])
        allowed = {"NACRE_PERMISSIONS_DEFAULT_MODE": "default"}
        async with talking(sim, cwd, session="latest", **allowed) as ready:
            await say(ready.agent, "what did the first command say?")
            assert len(ready.agent.session.view.noted("clear")) == 1
    assert_accepted(sim.log)
    assert_read_on(sim.log[before:])
    assert "1198" in json.dumps(sim.log[-1].body["messages"][-1])  # type: ignore[index, call-overload]
