"""An agent: one turn at a time, whatever became of the one before."""

from __future__ import annotations

import asyncio

import anyio
import pytest

from nacre.cache.models import cost, profile
from nacre.errors import AgentBusy, AuthError, TranscriptError
from nacre.loop.round import CUT_SHORT, Limits
from nacre.messages.events import Event, Notice, TextDelta, TurnDone
from nacre.messages.records import Record, Said
from nacre.messages.usage import Usage
from nacre.session.agent import EMPTY, SessionAgent
from nacre.session.layer import Layer
from nacre.session.session import Base, Session
from nacre.testing import FrozenClock, ScriptedProvider, call, say, together
from nacre.tools.base import tool


@tool(read_only=True)
async def look(at: str) -> str:
    """Looks."""
    return f"seen {at}"


def agent(provider: ScriptedProvider, clock: FrozenClock, **given: object) -> SessionAgent:
    session = Session(Base("claude-opus-5-5", "s", [look]), clock=clock, **given)  # type: ignore[arg-type]
    return SessionAgent(session, provider, [look], limits=Limits(max_rounds=3))


async def played(one: SessionAgent, text: str) -> list[Event]:
    return [event async for event in one.stream(text)]


def words(one: SessionAgent) -> list[str]:
    return [record.message.text for record in one.session.transcript.records if isinstance(record, Said)]


async def test_a_turn_ends_with_what_it_took(provider: ScriptedProvider, clock: FrozenClock) -> None:
    """Every request of the turn is in its bill, the void attempt too."""
    first, void, last = Usage(input=10, output=1), Usage(input=20, output=2), Usage(input=30, output=3)
    provider.script(
        together(call("look", at="it"), usage=first),
        together("half", usage=void, stop_reason="max_tokens"),
        together("whole", usage=last),
    )
    one = agent(provider, clock)
    done = (await played(one, "go"))[-1]
    spent = first + void + last
    price = cost(profile("claude-opus-5-5"), spent)
    assert done == TurnDone(outcome="answered", rounds=2, usage=spent, cost_usd=pytest.approx(price))
    assert one.session.meter.usage == spent
    assert one.session.meter.cost_usd == pytest.approx(price)


async def test_a_turn_at_its_limit_says_so(provider: ScriptedProvider, clock: FrozenClock) -> None:
    """Query loop, step 12; the next turn goes on from there."""
    provider.script(*[call("look", at="it")] * 3, say("done"))
    one = agent(provider, clock)
    *_, notice, done = await played(one, "go")
    assert isinstance(notice, Notice)
    assert isinstance(done, TurnDone)
    assert (done.outcome, done.rounds) == ("turn_limit", 3)
    last = (await played(one, "go on"))[-1]
    assert isinstance(last, TurnDone)
    assert last.outcome == "answered"


async def test_a_reply_that_declines_is_no_answer(provider: ScriptedProvider, clock: FrozenClock) -> None:
    """One without words is told of: the person would see nothing at all."""
    provider.script(together(stop_reason="refusal"), together("I would rather not.", stop_reason="refusal"))
    one = agent(provider, clock)
    for told in (1, 0):
        events = await played(one, "go")
        done = events[-1]
        assert isinstance(done, TurnDone)
        assert done.outcome == "refused"
        assert len([each for each in events if isinstance(each, Notice)]) == told


@pytest.mark.parametrize("text", ["", " \n"])
async def test_an_empty_reply_says_so(provider: ScriptedProvider, clock: FrozenClock, text: str) -> None:
    provider.script(say(text) if text else together(stop_reason="end_turn"))
    events = await played(agent(provider, clock), "go")
    done = events[-1]
    assert isinstance(done, TurnDone)
    assert done.outcome == "empty"
    assert [each.text for each in events if isinstance(each, Notice)] == [EMPTY]


async def test_an_empty_prompt_is_refused(provider: ScriptedProvider, clock: FrozenClock) -> None:
    with pytest.raises(ValueError, match="the prompt is empty"):
        await agent(provider, clock).run("  ")
    assert provider.calls == 0


async def test_a_turn_nobody_read_to_its_end_is_ended_by_the_next(
    provider: ScriptedProvider, clock: FrozenClock
) -> None:
    """Q2: a reader who breaks out of the loop leaves a valid log, even without closing the generator."""
    provider.script(say("a long answer that comes in several pieces"), say("second"))
    one = agent(provider, clock)
    unfinished = one.stream("first")
    async for event in unfinished:
        if isinstance(event, TextDelta):
            break
    await played(one, "next")
    assert words(one) == ["first", "a long answe", CUT_SHORT, "next", "second"]
    await unfinished.aclose()
    assert words(one)[-1] == "second"


async def test_a_cancelled_turn_leaves_a_session_that_goes_on(
    provider: ScriptedProvider, clock: FrozenClock
) -> None:
    """Q2."""
    provider.script(together("so far", gate=anyio.Event()), say("and on"))
    one = agent(provider, clock)
    heard = asyncio.Event()

    async def read() -> None:
        async for _ in one.stream("first"):
            heard.set()

    task = asyncio.create_task(read())
    await heard.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await played(one, "next")
    assert words(one) == ["first", "so far", CUT_SHORT, "next", "and on"]


async def test_a_second_turn_at_once_is_refused_and_the_first_goes_on(
    provider: ScriptedProvider, clock: FrozenClock
) -> None:
    """Q2: in one line that says what to do, whoever waits: the model, or the reader."""
    gate, heard, read_on = anyio.Event(), asyncio.Event(), asyncio.Event()
    provider.script(together("so far", gate=gate), say("second"))
    one = agent(provider, clock)

    async def read_slowly() -> None:
        async for event in one.stream("first"):
            if isinstance(event, TextDelta) and not heard.is_set():
                heard.set()
                await read_on.wait()

    task = asyncio.create_task(read_slowly())
    await heard.wait()
    with pytest.raises(AgentBusy, match="this agent is running a turn; wait until it ends"):
        await played(one, "at once")
    read_on.set()
    await anyio.wait_all_tasks_blocked()
    with pytest.raises(AgentBusy, match="this agent is running a turn"):
        await played(one, "while the model is waited for")
    with pytest.raises(AgentBusy, match="cancel the task that reads it"):
        await one.cancel()
    gate.set()
    await task
    await played(one, "next")
    assert words(one) == ["first", "so far", "next", "second"]


@pytest.mark.parametrize("when", ["before_turn", "after_turn"])
async def test_what_comes_before_and_after_a_turn_is_part_of_it(
    when: str, provider: ScriptedProvider, clock: FrozenClock
) -> None:
    """What must be at rest in a turn, or is settled once it is over, never runs beside another turn."""
    provider.script(say("first answer"), say("second"))
    one = agent(provider, clock)
    gate = asyncio.Event()

    class Waits(Layer):
        async def before_turn(self) -> None:
            if when == "before_turn":
                await gate.wait()

        async def after_turn(self) -> None:
            if when == "after_turn":
                await gate.wait()

    one.session.add_layers(Waits())
    task = asyncio.create_task(played(one, "first"))
    await anyio.wait_all_tasks_blocked()
    with pytest.raises(AgentBusy):
        await played(one, "at once")
    gate.set()
    await task
    await played(one, "next")
    assert words(one) == ["first", "first answer", "next", "second"]


async def test_a_turn_that_failed_is_not_under_way_while_its_task_lives(
    provider: ScriptedProvider, clock: FrozenClock
) -> None:
    """Q3: who was told of a failure may go on with something else, and another task begins the next turn."""
    provider.script(AuthError("no key"), say("fine"))
    one = agent(provider, clock)
    failed, done = asyncio.Event(), asyncio.Event()

    async def read_and_live_on() -> None:
        with pytest.raises(AuthError):
            await played(one, "first")
        failed.set()
        await done.wait()

    task = asyncio.create_task(read_and_live_on())
    await failed.wait()
    await played(one, "second")
    done.set()
    await task
    assert words(one) == ["first", "second", "fine"]


async def test_a_turn_that_nobody_reads_on_can_be_cancelled_by_another_task(
    provider: ScriptedProvider, clock: FrozenClock
) -> None:
    """As the refusal says."""
    provider.script(say("a long answer that comes in several pieces"), say("second"))
    one = agent(provider, clock)
    stopped, done = asyncio.Event(), asyncio.Event()

    async def read_a_little() -> None:
        unfinished = one.stream("first")
        async for event in unfinished:
            if isinstance(event, TextDelta):
                break
        stopped.set()
        await done.wait()

    task = asyncio.create_task(read_a_little())
    await stopped.wait()
    with pytest.raises(AgentBusy):
        await played(one, "next")
    await one.cancel()
    await played(one, "next")
    done.set()
    await task
    assert words(one) == ["first", "a long answe", CUT_SHORT, "next", "second"]


async def test_a_failed_turn_keeps_the_words_and_the_next_one_works(
    provider: ScriptedProvider, clock: FrozenClock
) -> None:
    """Q3, Q5: the text was recorded before anything was sent."""
    provider.script(AuthError("no key"), say("fine"))
    one = agent(provider, clock)
    with pytest.raises(AuthError):
        await played(one, "first")
    await played(one, "second")
    assert words(one) == ["first", "second", "fine"]


class FullDisk:
    """A writer whose disk is full after so many writes."""

    session_id = "s"

    def __init__(self, room: int) -> None:
        self.room = room
        self.written: list[Record] = []

    async def write(self, records: list[Record]) -> None:
        if self.room == 0:
            raise TranscriptError("disk full")
        self.room -= 1
        self.written += records

    async def sync(self) -> None:
        """Nothing waits."""

    async def close(self) -> None:
        """Nothing is open."""


@pytest.mark.parametrize("room", [0, 1, 2, 3])
async def test_what_could_not_be_written_did_not_happen(
    room: int, provider: ScriptedProvider, clock: FrozenClock
) -> None:
    """T1: on disk first; the view never holds what a resumed session would not."""
    provider.script(call("look", at="it"), say("done"))
    writer = FullDisk(room)
    one = agent(provider, clock, writer=writer)
    with pytest.raises(TranscriptError, match="disk full"):
        await played(one, "go")
    assert list(one.session.transcript.records) == writer.written
    assert provider.calls == (1 if room > 1 else 0), "after the prompt and the note of the base"
    writer.room = 100
    provider.script(say("done"))
    await played(one, "again")
    assert list(one.session.transcript.records) == writer.written
    assert not one.session.view.open_calls


async def test_a_refused_request_leaves_the_cache_as_old_as_it_was(
    provider: ScriptedProvider, clock: FrozenClock
) -> None:
    """C9: what the provider did not read is not kept warm, so that old results are still cleared for free."""
    one = agent(provider, clock)
    provider.script("hello", AuthError("no"), "hello again")
    await played(one, "go")
    clock.advance(400)
    with pytest.raises(AuthError):
        await played(one, "go on")
    assert one.session.warmth.is_cold
    await played(one, "go on")
    assert not one.session.warmth.is_cold
