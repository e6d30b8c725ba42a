"""Work that outlives a turn: owned, named, waited for at the end, and never lost."""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from nacre.app.layers import add_background
from nacre.errors import SpendCapReached
from nacre.messages.events import Reply
from nacre.messages.records import Noted
from nacre.session import background as supervising
from nacre.session.agent import SessionAgent
from nacre.session.background import IN_BACKGROUND, Background, BackgroundResult
from nacre.session.layer import Layer
from nacre.session.session import Base, Session
from nacre.settings import load
from nacre.testing import FrozenClock, ScriptedProvider, say

FOREVER = 3600.0


@pytest.fixture
def session(clock: FrozenClock) -> Session:
    return Session(Base("scripted"), clock=clock)


@pytest.fixture
def background(session: Session) -> Background:
    return Background(session)


def note(kind: str, clock: FrozenClock) -> Noted:
    return Noted(id=clock.new_id(), at=clock.now(), kind=kind)


async def failing() -> None:
    raise RuntimeError("no such luck")


async def quick() -> str:
    return "done"


def endings(background: Background) -> list[tuple[str, str]]:
    return [(one.name, one.ending) for one in background.outcomes]


async def test_work_is_known_by_name_while_it_runs_and_by_its_outcome_afterwards(
    background: Background,
) -> None:
    """F5: one of a name at a time; what comes second is told so and never runs."""
    go = asyncio.Event()
    assert background.start("notes", go.wait())
    assert not background.start("notes", failing())
    assert background.start("dream", quick())
    assert background.running() == ("notes", "dream")
    assert await background.wait("dream")
    assert not await background.wait("notes", 0.01)
    go.set()
    assert await background.wait("notes")
    assert not background.is_running("notes")
    assert list(background.outcomes) == [
        BackgroundResult(name="dream", ending="done"),
        BackgroundResult(name="notes", ending="done"),
    ]


async def test_a_failure_is_an_outcome_and_a_line_in_the_log_and_failures_are_counted_in_a_row(
    background: Background, caplog: pytest.LogCaptureFixture
) -> None:
    """F5: nothing is fire-and-forget; a cancel neither adds to a row of failures nor ends it."""
    caplog.set_level(logging.DEBUG, logger=supervising.__name__)
    for work in (failing(), failing()):
        background.start("notes", work)
        await background.wait("notes")
    assert background.failures("notes") == 2
    assert background.outcomes[-1].error == "RuntimeError: no such luck"
    assert [one.message for one in caplog.records] == ["notes failed in the background"] * 2
    background.start("notes", asyncio.sleep(FOREVER))
    assert await background.cancel("notes")
    assert background.failures("notes") == 2
    background.start("notes", quick())
    await background.wait("notes")
    assert (background.failures("notes"), background.failures("dream")) == (0, 0)
    assert not await background.cancel("notes")


async def test_work_knows_that_it_is_in_the_background_and_whoever_started_it_is_not(
    background: Background,
) -> None:
    """F2: a turn's cancel is not for it, a spend cap is."""
    seen: list[bool] = []

    async def look() -> None:
        seen.append(IN_BACKGROUND.get())

    background.start("look", look())
    await background.wait("look")
    assert (seen, IN_BACKGROUND.get()) == ([True], False)


async def test_draining_waits_for_what_ends_in_time_with_a_countdown_and_cancels_the_rest(
    background: Background,
) -> None:
    """F5: each piece has a grace of its own."""
    told: list[str] = []
    go = asyncio.Event()

    def tell(line: str) -> None:
        told.append(line)
        go.set()

    async def saving() -> None:
        await go.wait()
        await asyncio.sleep(0.05)

    background.start("extract", saving(), grace=60, label="saving memories")
    background.start("dream", asyncio.sleep(FOREVER), grace=0.01)
    await background.drain(on_progress=tell)
    assert endings(background) == [("dream", "cancelled"), ("extract", "done")]
    assert set(told) == {"saving memories: 60 s at most", ""}
    assert told[-1] == ""
    assert background.running() == ()


async def test_who_is_stopped_or_killed_is_not_kept_waiting_for_a_long_grace(
    background: Background, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F5: five seconds for everything; patched, so that the test need not wait for them."""
    monkeypatch.setattr(supervising, "GRACE_SECONDS", 0.01)
    background.start("extract", asyncio.sleep(FOREVER), grace=FOREVER)
    with pytest.raises(asyncio.CancelledError):
        async with AsyncExitStack() as stack:
            stack.push_async_exit(background.leave)
            raise asyncio.CancelledError
    assert endings(background) == [("extract", "cancelled")]


async def test_no_grace_goes_past_the_deadline(background: Background) -> None:
    """F5: whoever is in a hurry says so."""
    background.start("extract", asyncio.sleep(FOREVER), grace=FOREVER)
    await background.drain(0.01)
    assert endings(background) == [("extract", "cancelled")]


async def test_who_asks_twice_to_leave_leaves_at_once_and_what_was_spent_is_still_recorded(
    background: Background, session: Session, clock: FrozenClock, caplog: pytest.LogCaptureFixture
) -> None:
    """F5: the second Ctrl-C cancels the waiting; what does not stop is left to itself."""
    freed = asyncio.Event()

    async def stubborn() -> None:
        while not freed.is_set():
            try:
                await freed.wait()
            except asyncio.CancelledError:
                continue

    background.start("extract", asyncio.sleep(FOREVER), grace=FOREVER)
    background.start("dream", stubborn(), grace=FOREVER)
    background.record(note("side_query", clock))
    draining = asyncio.create_task(background.drain())
    await asyncio.sleep(0.01)
    with caplog.at_level(logging.DEBUG, logger=supervising.__name__):
        draining.cancel()
        with pytest.raises(asyncio.CancelledError):
            await draining
    assert endings(background) == [("extract", "cancelled")]
    assert len(session.view.noted("side_query")) == 1
    assert "background dream does not stop and is abandoned" in caplog.messages
    freed.set()
    await background.wait("dream")


async def test_what_is_handed_over_is_recorded_at_a_boundary_once_and_in_order(
    background: Background, session: Session, clock: FrozenClock
) -> None:
    """F2: never in between."""
    background.record(note("one", clock), note("two", clock))
    background.record(note("three", clock))
    assert list(session.transcript.records) == []
    await background.flush()
    await background.flush()
    kinds = [record.kind for record in session.transcript.records if isinstance(record, Noted)]
    assert kinds == ["one", "two", "three"]
    background.record(note("four", clock))
    assert [one.kind for one in background.take() if isinstance(one, Noted)] == ["four"]
    await background.flush()
    assert len(session.transcript.records) == 3


async def test_beyond_a_cap_nothing_is_started_and_what_meets_one_ends_with_one_notice(
    session: Session,
) -> None:
    """F5: being stopped is no failure."""
    spent: list[str] = []

    class Capped(Background):
        def allows(self, purpose: str) -> str | None:
            return spent[0] if spent else None

    async def meets() -> None:
        raise SpendCapReached("the day's money is spent")

    background = Capped(session)
    background.start("notes", meets())
    await background.wait("notes")
    spent.append("the day's money is spent")
    assert not background.start("notes", quick())
    assert not background.start("dream", quick())
    assert endings(background) == [("notes", "cancelled")]
    assert background.failures("notes") == 0
    assert [one.text for one in session.notices()] == ["the day's money is spent (stopped: notes)"]


async def test_a_supervised_agent_records_before_it_asks_after_its_turn_and_at_the_end(
    session: Session, clock: FrozenClock, provider: ScriptedProvider, tmp_path: Path
) -> None:
    """F2, F5: these are the boundaries."""
    provider.script(say("one"), say("two"))
    agent = SessionAgent(session, provider)
    settings = load(tmp_path, {"HOME": str(tmp_path)})
    seen: list[int] = []

    class Looks(Layer):
        async def before_request(self) -> None:
            seen.append(len(session.view.noted("side_query")))

        def on_reply(self, reply: Reply) -> None:
            background.record(note("side_query", clock))

        async def after_turn(self) -> None:
            seen.append(len(session.view.noted("side_query")))

    async with AsyncExitStack() as stack:
        background = await add_background(agent, settings, stack)
        session.add_layers(Looks())
        background.record(note("side_query", clock))
        _ = [event async for event in agent.stream("go")]
        background.record(note("side_query", clock))
    assert seen == [1, 2]
    assert len(session.view.noted("side_query")) == 3
