"""A session goes on after every change of its base and of its view, with every class of model, over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from nacre.app import open_agent as composition
from nacre.app.open_agent import OpenedAgent
from nacre.devtools.sim.faults import Fault
from nacre.devtools.sim.replies import parse_script
from nacre.errors import NothingToCompact
from nacre.layers.l4_compact.layer import undo_compaction
from nacre.messages.blocks import JsonObject
from nacre.messages.events import TextDelta, TurnDone
from nacre.messages.records import Compacted, Noted
from nacre.session.compaction import CompactionRequest
from tests.stories.scenes import call, calls, results, say
from tests.stories.session_world import MODELS, SessionWorld, refused_thinking, span

TOO_LONG = Fault(kind="prompt_too_long")


@dataclass
class Plan:
    """How a session is changed between its turns and how it is opened again."""

    live: Callable[[SessionWorld, OpenedAgent], Awaitable[None]] | None = None
    """What happens in the open session."""
    closed: Callable[[SessionWorld], None] | None = None
    """What happens before it is opened again."""
    log: Callable[[SessionWorld, str], str | None] | None = None
    """What happens to its log before that; it may get another id."""
    in_process: bool = False
    """The next turn is run by another process."""
    refusals: int = 0
    """Requests that a model that binds thinking refuses, because nothing could be known before."""
    kind: str | None = None
    mcp_first: str | None = None
    """An MCP server that is there from the beginning."""
    finds: bool = False
    """The model loads a deferred tool and calls it; without support for that it only calls it."""
    environ: dict[str, str] = field(default_factory=dict)
    settings: JsonObject = field(default_factory=dict)
    system: str = ""
    """Words that another version would have in its system prompt."""


async def compacted(ready: OpenedAgent, request: CompactionRequest) -> None:
    with suppress(NothingToCompact):
        await ready.compact.compact(request)


async def whole(world: SessionWorld, ready: OpenedAgent) -> None:
    await compacted(ready, CompactionRequest())


async def by_rule(world: SessionWorld, ready: OpenedAgent) -> None:
    await compacted(ready, CompactionRequest(by_rule=True))


async def from_the_middle(world: SessionWorld, ready: OpenedAgent) -> None:
    await compacted(ready, CompactionRequest(span=span(ready, first=0.5)))


async def up_to_the_middle(world: SessionWorld, ready: OpenedAgent) -> None:
    await compacted(ready, CompactionRequest(span=span(ready, keeps=0.5)))


async def summary_too_long(world: SessionWorld, ready: OpenedAgent) -> None:
    world.planned.append(TOO_LONG)
    await whole(world, ready)


async def prompt_too_long(world: SessionWorld, ready: OpenedAgent) -> None:
    world.planned.append(TOO_LONG)
    await say(ready.agent, "this one is too long")


async def undone(world: SessionWorld, ready: OpenedAgent) -> None:
    await whole(world, ready)
    await say(ready.agent, "after the compaction")
    await undo_compaction(ready.agent.session)


async def partial_undone(world: SessionWorld, ready: OpenedAgent) -> None:
    await from_the_middle(world, ready)
    await say(ready.agent, "after the compaction")
    await undo_compaction(ready.agent.session)


async def taken_back(world: SessionWorld, ready: OpenedAgent) -> None:
    await ready.rewind.forget(ready.rewind.points()[1])


async def taken_back_over_a_compaction(world: SessionWorld, ready: OpenedAgent) -> None:
    await from_the_middle(world, ready)
    await say(ready.agent, "after the compaction")
    await ready.rewind.forget(ready.rewind.points()[1])


async def taken_back_over_a_clear(world: SessionWorld, ready: OpenedAgent) -> None:
    await cold(world, ready)
    await say(ready.agent, "after the pause", "and on")
    await ready.rewind.forget(ready.rewind.points()[-2])


async def cold(world: SessionWorld, ready: OpenedAgent) -> None:
    world.sim.clock.advance(4_000)


async def full(world: SessionWorld, ready: OpenedAgent) -> None:
    ready.agent.session.window = ready.agent.session.tokens + 6_000


async def interrupted(world: SessionWorld, ready: OpenedAgent) -> None:
    async def turn() -> None:
        async for event in ready.agent.stream("stop in the middle"):
            if isinstance(event, TextDelta):
                task.cancel()

    task = asyncio.create_task(turn())
    with suppress(asyncio.CancelledError):
        await task


PLANS = {
    "tools": Plan(environ={"NACRE_AGENTS": "0"}),
    "web fetch": Plan(environ={"NACRE_WEB_FETCH": "1"}),
    "memory off": Plan(environ={"NACRE_DISABLE_AUTO_MEMORY": "1"}),
    "skill": Plan(closed=SessionWorld.add_skill),
    "server added": Plan(closed=lambda world: world.set_mcp("plain")),
    "server removed": Plan(mcp_first="plain", closed=lambda world: world.set_mcp(None)),
    "deferred": Plan(mcp_first="tracker", finds=True),
    "deferred, compacted": Plan(mcp_first="tracker", finds=True, live=whole),
    "deferred, by rule": Plan(mcp_first="tracker", finds=True, live=by_rule),
    "deferred, up to": Plan(mcp_first="tracker", finds=True, live=up_to_the_middle),
    "deferred, undo": Plan(mcp_first="tracker", finds=True, live=undone),
    "deferred, rewind": Plan(mcp_first="tracker", finds=True, live=taken_back),
    "deferred, full": Plan(mcp_first="tracker", finds=True, live=full),
    "deferred, server removed": Plan(
        mcp_first="tracker", finds=True, closed=lambda world: world.set_mcp(None)
    ),
    "deferred, off": Plan(mcp_first="tracker", finds=True, settings={"tools.deferred": False}),
    "deferred, process": Plan(mcp_first="tracker", finds=True, in_process=True),
    **{
        f"deferred, model {kind}": Plan(mcp_first="tracker", finds=True, kind=kind)
        for kind in ("bound", "stripped", "silent", "responses")
    },
    "process": Plan(in_process=True),
    "log imported": Plan(log=SessionWorld.import_log),
    "log edited": Plan(log=SessionWorld.edit_log, refusals=1),
    "upgrade": Plan(system="You are brief."),
    **{f"model {kind}": Plan(kind=kind) for kind in MODELS},
    "window": Plan(settings={"maxContextTokens": 45_000}),
    "compacted": Plan(live=whole),
    "by rule": Plan(live=by_rule),
    "from": Plan(live=from_the_middle),
    "up to": Plan(live=up_to_the_middle),
    "summary too long": Plan(live=summary_too_long),
    "prompt too long": Plan(live=prompt_too_long),
    "undo": Plan(live=undone),
    "partial undo": Plan(live=partial_undone),
    "rewind": Plan(live=taken_back),
    "rewind over compaction": Plan(live=taken_back_over_a_compaction),
    "rewind over clear": Plan(live=taken_back_over_a_clear),
    "idle": Plan(live=cold),
    "full": Plan(live=full),
    "interrupted": Plan(live=interrupted),
    "tools after compaction": Plan(live=up_to_the_middle, environ={"NACRE_AGENTS": "0"}),
    "tools, then rewind": Plan(environ={"NACRE_AGENTS": "0"}, kind="rewind"),
}
SAMPLE = {
    ("bound", "tools"),
    ("bound", "rewind over clear"),
    ("reasoning", "model bound"),
    ("plain", "up to"),
    ("bound", "deferred, full"),
    ("responses", "deferred, model bound"),
}
"""What `make test` plays; the rest is slow."""


DEFERRING = {"bound", "kept", "stripped"}
"""Models that support deferred tools; another one takes part by a change to such a model."""


def cases() -> list[object]:
    return [
        pytest.param(kind, way, id=f"{kind}-{way}", marks=[] if (kind, way) in SAMPLE else [pytest.mark.slow])
        for kind in MODELS
        for way in PLANS
        if kind in DEFERRING or not PLANS[way].finds or (kind, way) in SAMPLE
    ]


@pytest.mark.parametrize(("kind", "way"), cases())
async def test_a_session_goes_on(
    kind: str, way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = PLANS[way]
    world = SessionWorld(tmp_path / "work", seed=len(kind) * 100 + len(way))
    after = kind if plan.kind in {None, "rewind"} else plan.kind
    world.set_mcp(plan.mcp_first)
    async with world.sim:
        async with world.opened(kind) as ready:
            await say(ready.agent, "one")
            if plan.finds:
                await finds_and_calls(world, ready)
            await say(ready.agent, "two", "three", "four")
            session_id = ready.agent.session.id
            if plan.live is not None:
                await plan.live(world, ready)
            await answers(ready, "five")
            if plan.live is not None:
                await answers(ready, "six")
        if plan.closed is not None:
            plan.closed(world)
        if plan.log is not None:
            session_id = plan.log(world, session_id) or session_id
        if plan.in_process:
            await world.other_process(kind, session_id)
        if plan.system:
            monkeypatch.setattr(composition, "SYSTEM", plan.system)
        for texts in (["seven"], ["eight", "nine"]):
            async with world.opened(
                after or kind, session_id, settings=plan.settings, **plan.environ
            ) as ready:
                if plan.kind == "rewind" and texts == ["seven"]:
                    await answers(ready, "with other tools")
                    await ready.rewind.forget(ready.rewind.points()[-2])
                await answers(ready, *texts)
        # Back to where it was, which is another change.
        async with world.opened(kind, session_id) as ready:
            await answers(ready, "ten", "eleven", "twelve")
            meter = ready.agent.session.meter
    assert len(refused_thinking(world.sim.log)) == (plan.refusals if kind == "bound" else 0)
    bill = sum(one.cost_usd or 0.0 for one in world.sim.log)
    assert meter.cost_usd == pytest.approx(bill, rel=0.05 if way == "interrupted" else 1e-9)
    assert world.logged_cost(session_id).cost_usd == pytest.approx(meter.cost_usd)


async def finds_and_calls(world: SessionWorld, ready: OpenedAgent) -> None:
    name = "mcp__raw__create_issue"
    search = [calls(call("ToolSearch", query=f"select:{name}"))] if "ToolSearch" in ready.agent.tools else []
    world.planned += parse_script([*search, calls(call(name, project="a/b")), "Created."])
    found = results(await say(ready.agent, "create an issue"))
    assert not [one.text for one in found if one.is_error]


async def answers(ready: OpenedAgent, *texts: str) -> None:
    for text in texts:
        done = [event for event in await say(ready.agent, text) if isinstance(event, TurnDone)]
        assert [one.outcome for one in done] == ["answered"]
    records = ready.agent.session.transcript.records
    kinds = [one.kind for one in records if isinstance(one, Noted)]
    assert "base" in kinds or any(isinstance(one, Compacted) for one in records)
