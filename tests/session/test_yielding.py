"""Background work that yields to the person: it waits for silence, one at a time, and begins again (F5b)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest

from nacre.session.background import EXTRACTION_GRACE_SECONDS, Background
from nacre.session.compaction import CompactionRequest
from nacre.session.session import Base, Session
from nacre.testing import FrozenClock

QUIET = 0.05


class Work:
    """A task that says what happens to it."""

    def __init__(self, name: str, log: list[str]) -> None:
        self.name = name
        self.log = log
        self.may_end = asyncio.Event()
        self.begun = asyncio.Event()

    async def __call__(self) -> None:
        self.log.append(f"{self.name} begins")
        self.begun.set()
        try:
            await self.may_end.wait()
        except asyncio.CancelledError:
            self.log.append(f"{self.name} stops")
            raise
        self.log.append(f"{self.name} ends")


@pytest.fixture
async def background() -> AsyncIterator[Background]:
    one = Background(Session(Base("local", "s"), clock=FrozenClock()))
    one.quiet_seconds = QUIET
    yield one
    await one.drain(0.0)


async def soon(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not is_so():
            await asyncio.sleep(0.01)


async def test_work_waits_until_the_person_is_silent(background: Background) -> None:
    log: list[str] = []
    await background.before_turn()
    background.defer("notes", Work("notes", log))
    await asyncio.sleep(3 * QUIET)
    assert log == [], "a turn is under way, however long it takes"
    assert background.is_deferred("notes")
    assert background.is_running("notes")
    await background.after_turn()
    assert log == []
    await soon(lambda: log == ["notes begins"])


async def test_one_runs_at_a_time(background: Background) -> None:
    log: list[str] = []
    first = Work("notes", log)
    second = Work("extract", log)
    background.defer("notes", first)
    background.defer("extract", second)
    await first.begun.wait()
    await asyncio.sleep(2 * QUIET)
    assert log == ["notes begins"]
    first.may_end.set()
    await second.begun.wait()
    assert log == ["notes begins", "notes ends", "extract begins"]


async def test_a_person_who_speaks_stops_it_and_it_begins_again_later(background: Background) -> None:
    log: list[str] = []
    work = Work("extract", log)
    background.defer("extract", work)
    await work.begun.wait()
    await background.before_turn()
    assert log == ["extract begins", "extract stops"]
    assert background.failures("extract") == 0
    work.may_end.set()
    await asyncio.sleep(2 * QUIET)
    assert len(log) == 2
    await background.after_turn()
    await soon(lambda: log[2:] == ["extract begins", "extract ends"])


async def test_a_turn_that_failed_ends_the_wait_too(background: Background) -> None:
    log: list[str] = []
    await background.before_turn()
    background.defer("notes", Work("notes", log))
    background.on_cancel()
    await soon(lambda: log == ["notes begins"])


async def test_a_person_who_asks_for_a_summary_stops_other_work_only(background: Background) -> None:
    log: list[str] = []
    summary = Work("summary", log)
    background.defer("compact", summary)
    await summary.begun.wait()
    await background.before_compact(CompactionRequest(trigger="manual"))
    assert log == ["summary begins"], "it is what the person waits for"
    summary.may_end.set()
    await background.after_turn()
    notes = Work("notes", log)
    background.defer("notes", notes)
    await notes.begun.wait()
    await background.before_compact(CompactionRequest(trigger="manual"))
    assert log[-1] == "notes stops"


async def test_at_the_end_only_what_would_be_lost_still_begins(background: Background) -> None:
    """Notes are written by rule already; memories of the last messages would be missed."""
    log: list[str] = []
    await background.before_turn()
    extract = Work("extract", log)
    extract.may_end.set()
    background.defer("notes", Work("notes", log))
    background.defer("extract", extract, grace=EXTRACTION_GRACE_SECONDS)
    await background.drain()
    assert log == ["extract begins", "extract ends"]
    assert not background.is_running("notes")


async def test_where_nothing_yields_work_begins_at_once(background: Background) -> None:
    background.quiet_seconds = 0.0
    log: list[str] = []
    work = Work("notes", log)
    await background.before_turn()
    background.defer("notes", work)
    async with asyncio.timeout(1):
        await work.begun.wait()
    await background.before_turn()
    assert log == ["notes begins"], "and nobody stops it"


async def test_the_newest_of_one_name_waits(background: Background) -> None:
    log: list[str] = []
    waiting: list[Callable[[], Coroutine[Any, Any, object]]] = [Work("old", log), Work("new", log)]
    for one in waiting:
        background.defer("extract", one)
    await soon(lambda: bool(log))
    assert log == ["new begins"]
    assert not background.defer("extract", waiting[0]), "one runs"
