"""The cache is kept warm while a person is waited for: over HTTP, by a clock in hand (C8b, C31c)."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import pytest

from nacre.app.chat_session import keep_cache_warm
from nacre.app.open_agent import open_agent
from nacre.cache.keep_warm import Prefix
from nacre.cache.models import cost, profile
from nacre.cache.warmth import KeepWarmSettings
from nacre.cli.chat.loop_thread import LoopThread
from nacre.devtools.sim import Exchange, SimClock, Simulator
from nacre.errors import Overloaded
from nacre.messages.blocks import Message, Text
from nacre.messages.events import Event, Notice, ProviderEvent, Reply
from nacre.messages.records import Compacted, Noted, Record, Said
from nacre.messages.usage import Usage
from nacre.messages.view import View
from nacre.providers.anthropic import AnthropicProvider
from nacre.providers.base import Capabilities, Request
from nacre.session.agent import SessionAgent
from nacre.session.cache_ttl import (
    LIFETIME,
    TURN_TOKENS,
    ExpectedUse,
    cheapest_lifetime,
    choose_lifetime,
    last_touched,
    pauses_in,
)
from nacre.session.cache_warming import KeepWarm, can_refresh
from nacre.session.log_writer import NullRecordWriter
from nacre.session.meter import KEEP_WARM, SIDE_QUERY, Meter
from nacre.session.session import Base, Session
from nacre.session.settings import SessionSettings
from nacre.settings import load
from nacre.testing import FrozenClock, ScriptedProvider, call, say, together
from nacre.tools.base import Tool, tool
from tests.stories.scenes import bare, environment

MODEL = "claude-sonnet-5-5"
LONG = "These words are many, so that there is something to cache. " * 400
STEP = 270.0


@dataclass
class Scene:
    """A chat whose time is in the test's hand."""

    agent: SessionAgent
    sim: Simulator
    clock: SimClock
    waits: asyncio.Queue[float]
    warmer: KeepWarm | None = None

    async def say(self, text: str) -> list[Event]:
        return [event async for event in self.agent.stream(text)]

    async def refresh(self) -> None:
        """Let time pass until the next refresh is due, and until its answer was heard."""
        wait = await self.waits.get()
        assert wait == pytest.approx(STEP)
        before = len(self.sim.log)
        self.clock.advance(wait)
        await self.sim.arrivals(before + 1)
        while self.waits.empty():
            await asyncio.sleep(0)

    @property
    def refreshes(self) -> list[Exchange]:
        return [one for one in self.sim.log if one.body["max_tokens"] == 0]


@asynccontextmanager
async def scene(tmp_path: Path, *, ephemeral: bool = True, **environ: str) -> AsyncIterator[Scene]:
    clock = SimClock(manual=True)
    waits: asyncio.Queue[float] = asyncio.Queue()

    async def sleep(seconds: float) -> None:
        waits.put_nowait(seconds)
        await clock.reach(clock.seconds() + seconds)

    given = {**environment(tmp_path), "NACRE_KEEP_WARM_MAX_SHARE": "0.5", **environ}
    settings = load(tmp_path, given, cli={"model": MODEL})
    async with AsyncExitStack() as stack:
        sim = await stack.enter_async_context(Simulator(["One.", "Two.", "Three.", "Four."], clock=clock))
        provider = AnthropicProvider(api_key="k", base_url=sim.url)
        stack.push_async_callback(provider.close)
        opening = open_agent(settings, provider=provider, tools=[], ephemeral=ephemeral, clock=clock)
        ready = await stack.enter_async_context(opening)
        warmer = await stack.enter_async_context(keep_cache_warm(ready.agent, settings, sleep=sleep))
        yield Scene(ready.agent, sim, clock, waits, warmer)


async def test_three_refreshes_carry_the_cache_over_seventeen_minutes(tmp_path: Path) -> None:
    """C8b, P6: the next request reads what the last one left, and the books agree with the provider's."""
    async with scene(tmp_path) as chat:
        await chat.say(LONG)
        (first,) = chat.sim.log
        for _ in range(3):
            await chat.refresh()
        chat.clock.advance(17 * 60 - 3 * STEP)
        events = await chat.say("I am back.")
        session = chat.agent.session
        assert [one.usage.cache_write for one in chat.refreshes] == [0, 0, 0]
        last = chat.sim.log[-1]
        assert last.usage.cache_read >= 0.99 * first.usage.cache_write
        assert last.usage.cache_write < 0.01 * first.usage.cache_write
        spent = sum(one.cost_usd or 0.0 for one in chat.refreshes)
        assert Notice(f"kept the cache warm 3 times during the pause: ${spent:.4f}") in events
        assert spent == pytest.approx(3 * 0.05 / 1.25 * (first.cost_usd or 0), rel=0.05)
        assert (session.meter.refreshes, session.meter.refresh_usd) == (3, pytest.approx(spent))
        assert session.meter.cost_usd == pytest.approx(sum(one.cost_usd or 0.0 for one in chat.sim.log))
        assert Meter.of(session.transcript.records) == _about(session.meter)
        assert not [event for event in events if isinstance(event, Notice) and event.level == "warning"]


def _about(meter: Meter) -> Meter:
    return replace(
        meter, cost_usd=pytest.approx(meter.cost_usd), refresh_usd=pytest.approx(meter.refresh_usd)
    )


async def test_without_refreshes_the_same_pause_costs_a_write(tmp_path: Path) -> None:
    """C8b: what the refreshes are for."""
    async with scene(tmp_path, NACRE_KEEP_WARM="false") as chat:
        await chat.say(LONG)
        chat.clock.advance(17 * 60)
        events = await chat.say("I am back.")
        first, last = chat.sim.log
        assert chat.warmer is None
        assert last.usage.cache_read == 0
        assert last.usage.cache_write > first.usage.cache_write
        assert not [event for event in events if isinstance(event, Notice)]


async def test_a_refresh_sends_the_last_request_again_and_changes_no_byte_of_later_ones(
    tmp_path: Path,
) -> None:
    """C8b, C32: same system, tools, messages and markers; only no output is asked for, and no stream."""
    async with scene(tmp_path) as chat:
        await chat.say(LONG)
        await chat.refresh()
        await chat.say("And now?")
        first, refresh, second = (dict(one.body) for one in chat.sim.log)
        assert (refresh.pop("max_tokens"), refresh.pop("stream", None)) == (0, None)
        assert refresh == {key: value for key, value in first.items() if key not in {"max_tokens", "stream"}}
        before, after = first["messages"], second["messages"]
        assert isinstance(before, list)
        assert isinstance(after, list)
        for sent, again in zip(before, after, strict=False):
            assert bare(sent["content"]) == bare(again["content"])
        assert (first["system"], first.get("tools")) == (second["system"], second.get("tools"))


async def test_after_four_refreshes_the_cache_is_let_go_and_the_next_pause_begins_anew(
    tmp_path: Path,
) -> None:
    """C8b: at most four in a pause; C9 applies after the last."""
    async with scene(tmp_path) as chat:
        await chat.say(LONG)
        for _ in range(3):
            await chat.refresh()
        chat.clock.advance(await chat.waits.get())
        await chat.sim.arrivals(5)
        chat.clock.advance(await chat.waits.get())
        chat.clock.advance(STEP)
        assert chat.warmer is not None
        while chat.warmer.last is None or chat.warmer.last.is_worth:
            await asyncio.sleep(0)
        assert chat.agent.session.warmth.is_cold
        await chat.say("Late, sorry.")
        assert len(chat.refreshes) == 4
        await chat.refresh()
        assert len(chat.refreshes) == 5


async def test_refreshes_stop_at_a_tenth_of_what_the_conversation_cost(tmp_path: Path) -> None:
    """C8b: a first write at 1.25 pays for two reads at 0.05, not for three."""
    async with scene(tmp_path, NACRE_KEEP_WARM_MAX_SHARE="0.1") as chat:
        await chat.say(LONG)
        await chat.refresh()
        await chat.refresh()
        chat.clock.advance(await chat.waits.get())
        assert chat.warmer is not None
        while chat.warmer.last is None or chat.warmer.last.is_worth:
            await asyncio.sleep(0)
        assert "may spend" in chat.warmer.last.reason
        assert len(chat.refreshes) == 2


async def test_a_resumed_session_knows_what_the_refreshes_cost_and_when_the_last_was(tmp_path: Path) -> None:
    """C8b, T1: each is booked in the log, with its purpose."""
    async with scene(tmp_path, ephemeral=False) as chat:
        await chat.say(LONG)
        await chat.refresh()
        session = chat.agent.session
        touched, meter = session.warmth.touched_at, session.meter
    records = session.transcript.records
    notes = [one for one in records if isinstance(one, Noted) and one.kind == SIDE_QUERY]
    assert [note.fact("purpose") for note in notes] == [KEEP_WARM]
    assert Meter.of(records) == _about(meter)
    assert last_touched(records) == touched == notes[0].at


async def test_a_machine_that_slept_through_the_moment_sends_nothing(tmp_path: Path) -> None:
    """C8b: refreshing what has expired would be a write."""
    async with scene(tmp_path) as chat:
        await chat.say(LONG)
        chat.clock.advance(3_600)
        assert chat.warmer is not None
        while chat.warmer.last is None:
            await asyncio.sleep(0)
        assert "cold already" in chat.warmer.last.reason
        assert not chat.refreshes


def test_in_a_chat_the_loop_goes_on_while_the_main_thread_waits_for_the_person(tmp_path: Path) -> None:
    """C8b: the task lives between two calls of the loop's thread, as in `nacre chat`."""
    with LoopThread() as loop:
        held = AsyncExitStack()
        chat = loop.call(held.enter_async_context(scene(tmp_path)))
        try:
            loop.call(chat.say(LONG))
            is_refreshed = threading.Event()

            async def later() -> None:
                await chat.refresh()
                is_refreshed.set()

            task = loop.call(_started(later()))
            # The main thread sits in input() now: only the loop's own thread can do anything.
            assert is_refreshed.wait(timeout=30)
            assert task.done() or not task.cancelled()
            events = loop.call(chat.say("back"))
            assert any("kept the cache warm once" in one.text for one in events if isinstance(one, Notice))
            assert len(chat.refreshes) == 1
        finally:
            loop.call(held.aclose())


async def _started(work) -> asyncio.Task[None]:
    return asyncio.create_task(work, name="the person is away")


# Without the network: what must not happen.

CACHED = Usage(cache_write=50_000, input=5)


@dataclass
class Alone:
    """A warmer on a scripted provider; a refresh is due as soon as somebody waits."""

    agent: SessionAgent
    warmer: KeepWarm
    provider: ScriptedProvider
    clock: FrozenClock

    async def say(self, text: str) -> None:
        _ = [event async for event in self.agent.stream(text)]

    async def settle(self) -> None:
        while self.warmer._task is not None and not self.warmer._task.done():
            await asyncio.sleep(0)


def slow_tool(provider: ScriptedProvider) -> Tool:
    """One that is done only when more was asked of the provider meanwhile."""

    @tool
    async def wait() -> str:
        """Take long."""
        asked = provider.calls
        while provider.calls == asked:
            await asyncio.sleep(0)
        return "done"

    return wait


def alone(
    clock: FrozenClock,
    *replies: object,
    refreshes: bool = True,
    ttl: str = "5m",
    model: str = MODEL,
    provider: ScriptedProvider | None = None,
) -> Alone:
    provider = provider or ScriptedProvider(
        [together("hello", usage=CACHED), *replies],  # type: ignore[list-item]
        capabilities=Capabilities(refreshes=refreshes, cache_markers=True),
    )
    settings = SessionSettings(cache_ttl=ttl)  # type: ignore[arg-type]
    session = Session(Base(model, "system", []), settings=settings, clock=clock)
    agent = SessionAgent(session, provider, [slow_tool(provider)])

    async def sleep(seconds: float) -> None:
        clock.advance(seconds)
        await asyncio.sleep(0)

    warmer = KeepWarm(session, provider, settings=KeepWarmSettings(max_share=1.0), sleep=sleep)
    session.add_layers(warmer)
    return Alone(agent, warmer, provider, clock)


def refreshed(usage: Usage) -> object:
    return together(usage=usage)


READ = refreshed(Usage(cache_read=50_000, input=5))


async def test_the_cache_is_kept_warm_while_a_tool_takes_long(clock: FrozenClock) -> None:
    """C8b: an open question or a long command is a pause like any other; the next request ends it."""
    provider = ScriptedProvider(
        [together(call("wait"), usage=CACHED), READ, say("done")],  # type: ignore[list-item]
        capabilities=Capabilities(refreshes=True, cache_markers=True),
    )
    one = alone(clock, provider=provider)
    one.warmer.settings = replace(one.warmer.settings, max_refreshes=1)
    await one.say("hi")
    assert [request.max_tokens for request in one.provider.requests] == [8_192, 0, 8_192]
    notes = one.agent.session.view.noted(SIDE_QUERY)
    assert [note.fact("purpose") for note in notes] == [KEEP_WARM]
    await one.warmer.rest()


async def test_whoever_keeps_an_agent_warm_is_stopped_by_its_next_request_in_the_same_turn(
    clock: FrozenClock, tmp_path: Path
) -> None:
    """C8b: what a refresh cost stands before the reply that ended the pause; nothing goes on behind it."""
    under_way: list[bool] = []

    def ended(_: object) -> object:
        names = {task.get_name() for task in asyncio.all_tasks() if not task.done()}
        under_way.append("keep the cache warm" in names)
        return say("done")

    provider = ScriptedProvider(
        [together(call("wait"), usage=CACHED), READ, ended],  # type: ignore[list-item]
        capabilities=Capabilities(refreshes=True, cache_markers=True),
    )
    agent = SessionAgent(Session(Base(MODEL, "system", []), clock=clock), provider, [slow_tool(provider)])
    switched = {"NACRE_KEEP_WARM_MAX_SHARE": "1.0", "NACRE_KEEP_WARM_MAX_REFRESHES": "1"}
    settings = load(tmp_path, {**environment(tmp_path), **switched}, cli={"model": MODEL})

    async def sleep(seconds: float) -> None:
        clock.advance(seconds)
        # Behind the one refresh it is still waited for, as long as nobody asks.
        await (asyncio.sleep(0) if provider.calls < 2 else asyncio.Event().wait())

    async with keep_cache_warm(agent, settings, sleep=sleep):
        _ = [event async for event in agent.stream("hi")]
        records = agent.session.transcript.records
        kinds = [
            one.kind if isinstance(one, Noted) else one.role
            for one in records
            if isinstance(one, Noted | Said)
        ]
    assert kinds[-2:] == [SIDE_QUERY, "assistant"]
    assert under_way == [False]


async def test_a_failure_ends_it_for_the_pause_and_nobody_is_told(
    clock: FrozenClock, caplog: pytest.LogCaptureFixture
) -> None:
    """C8b: never disturbs the chat; said at debug level, once."""
    one = alone(clock, READ, Overloaded("busy"), say("still here"))
    with caplog.at_level(logging.DEBUG, logger="nacre.session.cache_warming"):
        await one.say("hi")
        await one.settle()
    assert one.provider.calls == 3
    assert [record.levelname for record in caplog.records] == ["DEBUG"]
    touched = one.agent.session.warmth.touched_at
    assert touched is not None
    assert (clock.now() - touched).total_seconds() == STEP
    await one.say("there?")
    assert one.agent.session.meter.refreshes == 1
    await one.warmer.rest()


async def test_a_provider_that_does_not_read_on_it_is_not_asked_again(clock: FrozenClock) -> None:
    """C8b: a refresh that paid for a write was the last of the session."""
    one = alone(clock, refreshed(CACHED), say("yes"))
    await one.say("hi")
    await one.settle()
    assert one.provider.calls == 2
    await one.say("there?")
    await one.settle()
    assert one.provider.calls == 3


@pytest.mark.parametrize(
    "given", [{"refreshes": False}, {"ttl": "1h"}, {"model": "gpt-6-sol"}, {"model": "embedded"}]
)
async def test_nothing_is_sent_where_it_is_not_known_to_help(
    clock: FrozenClock, given: dict[str, object]
) -> None:
    """C8b: off until the provider is known to refresh; never with an hour's lifetime."""
    one = alone(clock, **given)  # type: ignore[arg-type]
    await one.say("hi")
    await one.settle()
    assert one.provider.calls == 1


async def test_what_was_rewritten_in_the_pause_is_not_kept_warm(clock: FrozenClock) -> None:
    """C8b: nobody will read the old prefix again."""
    one = alone(clock)
    await one.say("hi")
    summary = Compacted(id="c", at=clock.now(), summary=(Text("we said hi"),), summary_id="s")
    await one.agent.session.transcript.append(summary)
    await one.settle()
    assert one.provider.calls == 1
    assert one.warmer.last is not None
    assert one.warmer.last.is_worth


async def test_a_turn_that_was_not_answered_leaves_nothing_to_keep_warm(clock: FrozenClock) -> None:
    """C8b: nobody knows what the provider kept of it."""
    one = alone(clock, Overloaded("busy"))
    await one.say("hi")
    await one.warmer.rest()
    calls = one.provider.calls
    with pytest.raises(Overloaded):
        await one.say("again")
    await one.settle()
    assert one.provider.calls == calls + 1
    assert one.warmer._task is None


@pytest.mark.parametrize(
    ("change", "is_taken"),
    [
        ({}, True),
        ({"thinking": "high"}, True),
        ({"thinking": "high", "model": "claude-haiku-4-5"}, False),
        ({"output_schema": {"type": "object"}}, False),
        ({"options": {"output_config": {"format": {"type": "json_schema"}}}}, False),
        ({"options": {"output_config": {"effort": "high"}}}, True),
        ({"options": {"tool_choice": {"type": "auto"}}}, True),
        ({"options": {"tool_choice": {"type": "tool", "name": "x"}}}, False),
        ({"options": {"tool_choice": {"type": "any"}}}, False),
    ],
)
def test_only_what_the_provider_takes_without_output_is_refreshed(
    change: dict[str, object], is_taken: bool
) -> None:
    """C8b: not with manual thinking, an output format or a forced tool."""
    request = Request(model=MODEL, messages=[])
    assert can_refresh(replace(request, **change)) is is_taken  # type: ignore[arg-type]


# The lifetime a session chooses.


async def talk(session: Session, clock: FrozenClock, *pauses: float) -> None:
    """A turn, then for each pause one more."""
    for pause in (0.0, *pauses):
        clock.advance(pause)
        await session.add_user("hello")
        await session.prepare()
        await session.record(Reply(message=Message("assistant", (Text("yes"),)), usage=CACHED))


def markers(session: Session) -> list[object]:
    request = session.request(session.view)
    return [block["cache_control"] for block in request.system if "cache_control" in block]


async def test_auto_begins_with_five_minutes_and_changes_only_where_the_cache_is_cold(
    clock: FrozenClock,
) -> None:
    """C31c: pauses of half an hour are worth an hour, once they have shown."""
    base = Base(MODEL, LONG * 4, [], opening="today")
    session = Session(base, settings=SessionSettings(cache_ttl="auto"), clock=clock)
    await talk(session, clock, *[60.0] * 3)
    notes = session.view.noted(LIFETIME)
    assert (len(notes), session.warmth.lifetime_seconds) == (1, 300 if session.lifetime != "1h" else 3_600)
    await talk(session, clock, *[1_800.0] * 9)
    assert session.lifetime == "1h"
    assert session.warmth.lifetime_seconds == 3_600
    assert markers(session) == [{"type": "ephemeral", "ttl": "1h"}]
    last = session.view.noted(LIFETIME)[-1]
    assert last.fact("lifetime") == "1h"
    costs = last.fact("costs_usd")
    assert isinstance(costs, dict)
    assert min(costs, key=lambda name: costs[name]) == "1h"  # type: ignore[arg-type, return-value]
    writer = NullRecordWriter(session.id)
    resumed = Session(base, session.transcript.records, writer=writer, settings=session.settings, clock=clock)
    assert (resumed.lifetime, resumed.warmth) == (session.lifetime, session.warmth)
    assert resumed.request(resumed.view).body() == session.request(session.view).body()


async def test_over_http_a_person_of_long_pauses_comes_to_read_instead_of_write(tmp_path: Path) -> None:
    """C31c, P6: the provider takes every lifetime that is chosen, and the bill shows it."""
    async with scene(tmp_path, NACRE_CACHE_TTL="auto", NACRE_KEEP_WARM="false") as chat:
        chat.sim.extend(["Well."] * 8)
        await chat.say(LONG * 3)
        for _ in range(9):
            chat.clock.advance(1_800)
            await chat.say("and now?")
        assert all(one.refusal is None for one in chat.sim.log)
        early, late = chat.sim.log[1].usage, chat.sim.log[-1].usage
        assert (early.cache_read < early.cache_write, late.cache_read > 0.99 * late.prompt) == (True, True)
        assert any(one.usage.cache_write_1h for one in chat.sim.log)
        session = chat.agent.session
        assert (session.lifetime, session.warmth.lifetime_seconds) == ("1h", 3_600)
        assert session.meter.cost_usd == pytest.approx(sum(one.cost_usd or 0.0 for one in chat.sim.log))


@pytest.mark.parametrize("lifetime", ["mixed", "1h"])
async def test_over_http_what_a_lifetime_promises_is_still_there(tmp_path: Path, lifetime: str) -> None:
    """C31c, P6: of a mixed one the head outlives ten minutes, of an hour's all does."""
    async with scene(tmp_path, NACRE_CACHE_TTL=lifetime, NACRE_KEEP_WARM="false") as chat:
        session = chat.agent.session
        session.base = Base(MODEL, LONG, [])
        await chat.say(LONG)
        chat.clock.advance(600)
        assert session.warmth.is_cold == (lifetime == "mixed")
        await chat.say("and now?")
        usage = chat.sim.log[-1].usage
        share = usage.cache_read / usage.prompt
        assert share > 0.99 if lifetime == "1h" else 0.3 < share < 0.7


async def test_a_named_lifetime_is_kept_and_nothing_is_noted(clock: FrozenClock) -> None:
    """C31c: only `auto` chooses."""
    session = Session(Base(MODEL, LONG, []), settings=SessionSettings(cache_ttl="mixed"), clock=clock)
    await talk(session, clock, 1_800.0, 1_800.0)
    assert (session.lifetime, session.view.noted(LIFETIME)) == ("mixed", [])
    assert session.warmth.lifetime_seconds == 300


async def test_pauses_run_from_the_last_request_of_a_turn_to_the_next_words(clock: FrozenClock) -> None:
    """C8b: attachments and tools' results end no pause."""
    session = Session(Base(MODEL, "s", [], opening="today"), clock=clock)
    await talk(session, clock, 100.0, 700.0)
    records: list[Record] = list(session.transcript.records)
    assert pauses_in(records).own == (100.0, 700.0)
    assert cost(profile(MODEL), CACHED) is not None


def _said(second: float, role: str, words: str) -> Said:
    at = FrozenClock().now() + timedelta(seconds=second)
    return Said(id=f"{role}-{second}", at=at, role=role, blocks=(Text(words),))  # type: ignore[arg-type]


def test_words_that_follow_other_words_end_no_second_pause() -> None:
    """C8b: a turn that was cancelled before its reply, or words that come in two messages."""
    records = [_said(0, "user", "a"), _said(2, "assistant", "b"), _said(100, "user", "c")]
    assert pauses_in([*records, _said(900, "user", "d")]).own == (100.0,)


def test_a_lifetime_is_chosen_for_turns_as_large_as_they_were_so_far() -> None:
    """C31c: after one turn nothing is known yet."""
    rules = profile(MODEL)
    prefix = Prefix(tokens=90_000, profile=rules, head_tokens=10_000)
    turns = [_said(n, ("user", "assistant")[n % 2], "x") for n in range(8)]
    for records, growth in ((turns[:1], TURN_TOKENS), (turns, 80_000 // 4)):
        expected = cheapest_lifetime(
            pauses_in(records), prefix, ahead=ExpectedUse(turn_tokens=growth, warming=None)
        )
        assert choose_lifetime(View.of(records), prefix, None) == expected


async def test_a_refresh_counts_from_when_it_was_sent_and_one_at_a_time_is_under_way(
    clock: FrozenClock,
) -> None:
    """C8b: an entry lives from the start of a request; a second reply in a turn begins no second task."""
    one = alone(clock, READ)
    one.warmer.settings = replace(one.warmer.settings, max_refreshes=1)
    asked, stream = clock.now(), one.provider.stream

    async def slow(request: Request) -> AsyncGenerator[ProviderEvent, None]:
        clock.advance(20)
        async for event in stream(request):
            yield event

    await one.say("hi")
    one.provider.stream = slow  # type: ignore[method-assign]
    task = one.warmer._task
    one.warmer.begin()
    assert one.warmer._task is task
    await one.settle()
    assert one.agent.session.warmth.touched_at == asked + timedelta(seconds=STEP)
    await one.warmer.rest()


async def test_a_refresh_that_another_model_answered_costs_what_that_one_takes(clock: FrozenClock) -> None:
    """C8b, Q5: a fallback may have taken over; a resumed session comes to the same sum."""
    one = alone(clock, READ)
    one.warmer.settings = replace(one.warmer.settings, max_refreshes=1)
    other, stream = "claude-haiku-5-5", one.provider.stream

    async def by_another(request: Request) -> AsyncGenerator[ProviderEvent, None]:
        async for event in stream(request):
            yield replace(event, model=other) if isinstance(event, Reply) else event

    await one.say("hi")
    one.provider.stream = by_another  # type: ignore[method-assign]
    await one.settle()
    await one.warmer.rest()
    session = one.agent.session
    price = cost(profile(other), Usage(cache_read=50_000, input=5))
    assert price is not None and price != cost(profile(MODEL), Usage(cache_read=50_000, input=5))
    assert session.meter.refresh_usd == pytest.approx(price)
    assert Meter.of(session.transcript.records).refresh_usd == pytest.approx(price)
