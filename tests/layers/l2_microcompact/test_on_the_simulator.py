"""Layer 2 through the official SDK, over HTTP, under the provider's real cache rules and a clock we hold."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Literal

import pytest

from nacre.app.open_agent import OpenedAgent, open_agent
from nacre.devtools.cache_models.anthropic_state import AnthropicSwitches
from nacre.devtools.sim import Exchange, Simulator
from nacre.messages.blocks import Json, JsonObject
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
            ["Cleared 10 old tool results"] if idle == "true" else []
        )
    assert left(after["true"][0]) < 0.85 * left(after["false"][0])
    assert cost(after["true"]) < 0.85 * cost(after["false"])


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


def edits_in(one: Exchange) -> list[JsonObject]:
    messages = one.body["messages"]
    assert isinstance(messages, list)
    return [
        block
        for message in messages
        for block in message["content"]  # type: ignore[union-attr, index, call-overload]
        if block["type"] == "cache_edits"  # type: ignore[index, call-overload]
    ]


async def test_results_deleted_from_the_providers_cache_cost_it_nothing(tmp_path: Path) -> None:
    """C10: one edit, sent again at its place; local messages stay; a resume makes the same bytes."""
    cwd, switched = tmp_path / "work", {"NACRE_CLEAR_SERVER": "true"}
    async with Simulator(looking(30), switches=AnthropicSwitches(cache_edits=True)) as sim:
        async with talking(sim, cwd, **switched) as ready:
            events = await say(ready.agent, "look")
            assert not ready.agent.session.view.epochs
        sim.extend(["yes"])
        async with talking(sim, cwd, session="latest", **switched) as ready:
            await say(ready.agent, "still there?")
    assert_accepted(sim.log)
    sent = [edits_in(one) for one in sim.log]
    first = next(n for n, edits in enumerate(sent) if edits)
    assert [len(edits) for edits in sent] == [0] * first + [1] * (len(sent) - first)
    assert len(sent[first][0]["edits"]) == 16  # type: ignore[arg-type]
    assert all(edits == sent[first] for edits in sent[first:])
    # What is deleted takes no room, and the rest is read as if nothing had happened.
    assert left(sim.log[first]) < 0.5 * left(sim.log[first - 1])
    assert_read_on(sim.log[:first])
    assert_read_on(sim.log[first:])
    told = [event.text for event in events if isinstance(event, Notice)]
    assert len(told) == 1 and told[0].startswith("Had the provider delete 16 old tool results (about ")


@pytest.mark.parametrize("clearing", ["stateless", "sticky"])
async def test_what_is_declared_is_sent_the_same_in_every_request(
    clearing: Literal["stateless", "sticky"], tmp_path: Path
) -> None:
    """C11: byte-stable until the cache is cold; then thinking goes, too, and stays gone."""
    switched = {
        "NACRE_CLEAR_DECLARED": "true",
        "NACRE_CLEAR_IDLE": "false",
        "NACRE_AUTOCOMPACT_WINDOW": "100000",
    }
    script = [*looking(90), *looking(3, 200), "thanks"]
    async with (
        Simulator(script, switches=AnthropicSwitches(clearing=clearing)) as sim,
        talking(sim, tmp_path / "work", **switched) as ready,
    ):
        await say(ready.agent, "look")
        before = len(sim.log)
        sim.clock.advance(PAUSE)
        await say(ready.agent, "again", "thanks")
        autocompact = ready.agent.session.thresholds.autocompact
    assert_accepted(sim.log)
    configs = [one.body["context_management"] for one in sim.log]
    assert configs == [configs[0]] * before + [configs[-1]] * (len(configs) - before)
    trigger = autocompact - 20_000
    assert configs[0] == {
        "edits": [
            {"type": "clear_thinking_20251015", "keep": {"type": "all"}},
            {
                "type": "clear_tool_uses_20250919",
                "trigger": {"type": "input_tokens", "value": trigger},
                "keep": {"type": "tool_uses", "value": 3},
                "clear_at_least": {"type": "input_tokens", "value": trigger * 7 // 9},
                "exclude_tools": [
                    "Agent", "SendMessage", "TaskList", "TaskStop", "TeamTasks",
                    "correct", "forget", "recall", "remember",
                ],
            },
        ]
    }  # fmt: skip
    assert configs[-1]["edits"][0]["keep"] == {"type": "thinking_turns", "value": 1}  # type: ignore[index, call-overload]
    kinds = {str(edit["type"]) for one in sim.log for edit in one.applied_edits}
    assert kinds == {"clear_thinking_20251015", "clear_tool_uses_20250919"}


@MOVES
async def test_clearing_where_it_pays_costs_less_on_a_warm_cache(tmp_path: Path) -> None:
    """C12, C31c: the whole bill of a long session without a pause, by the provider's own rules."""
    bills: dict[str, float] = {}
    for economic in ("true", "false"):
        switched = {
            "NACRE_CLEAR_ECONOMIC": economic,
            "NACRE_MICROCOMPACT_KEEP": "3",
            "NACRE_MICROCOMPACT_MIN_GAIN_USD": "0.01",
        }
        script = looking(60)
        async with (
            Simulator(script) as sim,
            talking(sim, tmp_path / f"work-{economic}", **switched) as ready,
        ):
            await say(ready.agent, "look")
            reasons = [note.fact("reason") for note in ready.agent.session.view.noted("clear")]
        assert_accepted(sim.log)
        assert set(reasons) == ({"economic"} if economic == "true" else set())
        assert len(reasons) < 5
        bills[economic] = cost(sim.log)
    assert bills["true"] < 0.9 * bills["false"]
