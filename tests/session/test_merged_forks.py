"""Background tasks that wait for a pause, and whose forks become one request (F5c)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from nacre.loop.fork import PARTICIPANT, Fork, ForkResult, ForkTask
from nacre.messages.blocks import Text
from nacre.messages.records import Said
from nacre.messages.usage import Usage
from nacre.messages.view import View
from nacre.session.background import EXTRACTION_GRACE_SECONDS, Background
from nacre.session.merged_forks import MergedForks, merge_tasks
from nacre.session.session import Base, Session
from nacre.testing import FrozenClock
from nacre.tools.policy import Narrowing
from tests.messages.strategies import moment

VIEW = View().after(Said(id="u1", at=moment(0), role="user", blocks=(Text("go"),)))
NOTES = ForkTask(
    source="session_memory",
    directive="Write notes.",
    access=Narrowing(tools=frozenset({"Edit"}), writes_in=(Path("/notes.md"),)),
    max_rounds=5,
    ends_with_edits=True,
    view=VIEW,
    shown_files=(Path("/notes.md"),),
)
MEMORIES = replace(
    NOTES,
    source="extract_memories",
    directive="Save memories.",
    access=Narrowing(tools=frozenset({"Read", "Write"}), writes_in=(Path("/memory"),)),
    shown_files=(),
)


class Forks:
    """Runs forks as `ForkRunner` does, and remembers them."""

    def __init__(self) -> None:
        self.tasks: list[ForkTask] = []
        self.error: Exception | None = None
        self.may_end = asyncio.Event()
        self.may_end.set()

    async def __call__(self, task: ForkTask) -> ForkResult:
        participant = PARTICIPANT.get()
        return await (participant.run(task, self._run) if participant else self._run(task))

    async def _run(self, task: ForkTask) -> ForkResult:
        self.tasks.append(task)
        await self.may_end.wait()
        if self.error is not None:
            raise self.error
        return ForkResult(source=task.source, replies=(), usage=Usage(), first=Usage())


def asks(fork: Fork, *tasks: ForkTask) -> Callable[[], object]:
    async def work() -> None:
        for task in tasks:
            await fork(task)

    return work


@pytest.fixture
def forks() -> Forks:
    return Forks()


@pytest.fixture
def background(clock: FrozenClock) -> Background:
    one = Background(Session(Base("scripted"), clock=clock))
    one.idle_seconds = 600.0
    return one


async def settled(background: Background) -> None:
    for name in background.running():
        await background.wait(name, 5)


async def test_tasks_that_waited_share_one_request(background: Background, forks: Forks) -> None:
    background.defer("notes", asks(forks, NOTES), can_wait=True)  # type: ignore[arg-type]
    background.defer("extract", asks(forks, MEMORIES), can_wait=True)  # type: ignore[arg-type]
    assert forks.tasks == [] and background.is_deferred("notes")
    background.start_deferred()
    await settled(background)
    (task,) = forks.tasks
    assert task.source == "notes_and_memories"
    assert task.directive.index("Write notes.") < task.directive.index("Save memories.")
    assert isinstance(task.access, Narrowing)
    assert task.access.tools == {"Edit", "Read", "Write"}
    assert task.access.writes_in == (Path("/notes.md"), Path("/memory"))
    assert task.shown_files == (Path("/notes.md"),)
    assert [one.ending for one in background.outcomes] == ["done", "done"]


def test_a_single_task_stays_as_it_is() -> None:
    assert merge_tasks([NOTES]) is NOTES


@pytest.mark.parametrize(
    ("notes", "memories", "merged"),
    [("u1", "u2", "u1"), ("u2", "u1", "u1"), ("u1", None, None), ("u1", "gone", None), (None, None, None)],
)
def test_what_one_of_the_tasks_has_not_seen_is_new(
    notes: str | None, memories: str | None, merged: str | None
) -> None:
    """F7: another model gets all that is new to any of them."""
    view = VIEW.after(Said(id="u2", at=moment(1), role="user", blocks=(Text("on"),)))
    tasks = [replace(NOTES, view=view, seen_to=notes), replace(MEMORIES, view=view, seen_to=memories)]
    assert merge_tasks(tasks).seen_to == merged


async def test_only_the_first_fork_of_a_task_is_shared(background: Background, forks: Forks) -> None:
    background.defer("notes", asks(forks, NOTES, NOTES), can_wait=True)  # type: ignore[arg-type]
    background.defer("extract", asks(forks, MEMORIES), can_wait=True)  # type: ignore[arg-type]
    background.start_deferred()
    await settled(background)
    assert [one.source for one in forks.tasks] == ["notes_and_memories", "session_memory"]


async def test_a_task_that_asks_for_nothing_holds_nobody_up(background: Background, forks: Forks) -> None:
    background.defer("notes", asks(forks), can_wait=True)  # type: ignore[arg-type]
    background.defer("extract", asks(forks, MEMORIES), can_wait=True)  # type: ignore[arg-type]
    background.start_deferred()
    await settled(background)
    assert forks.tasks == [MEMORIES]


@pytest.mark.parametrize(
    "other",
    [
        replace(MEMORIES, view=VIEW.after(Said(id="u2", at=moment(1), role="user", blocks=(Text("on"),)))),
        replace(MEMORIES, ends_with_edits=False),
        replace(MEMORIES, access=None),
    ],
)
async def test_tasks_that_cannot_share_a_request_have_their_own(
    background: Background, forks: Forks, other: ForkTask
) -> None:
    background.defer("notes", asks(forks, NOTES), can_wait=True)  # type: ignore[arg-type]
    background.defer("extract", asks(forks, other), can_wait=True)  # type: ignore[arg-type]
    background.start_deferred()
    await settled(background)
    assert sorted(one.source for one in forks.tasks) == ["extract_memories", "session_memory"]


async def test_an_error_reaches_every_task(background: Background, forks: Forks) -> None:
    forks.error = RuntimeError("no")
    background.defer("notes", asks(forks, NOTES), can_wait=True)  # type: ignore[arg-type]
    background.defer("extract", asks(forks, MEMORIES), can_wait=True)  # type: ignore[arg-type]
    background.start_deferred()
    await settled(background)
    assert [one.ending for one in background.outcomes] == ["failed", "failed"]


async def test_the_request_goes_on_for_a_task_whose_companion_is_cancelled(
    background: Background, forks: Forks
) -> None:
    forks.may_end.clear()
    background.defer("notes", asks(forks, NOTES), can_wait=True)  # type: ignore[arg-type]
    background.defer("extract", asks(forks, MEMORIES), can_wait=True)  # type: ignore[arg-type]
    background.start_deferred()
    async with asyncio.timeout(5):
        while not forks.tasks:
            await asyncio.sleep(0)
    await background.cancel("notes")
    forks.may_end.set()
    await settled(background)
    assert {one.name: one.ending for one in background.outcomes} == {"notes": "cancelled", "extract": "done"}


async def test_a_task_cancelled_before_the_request_leaves_it(forks: Forks) -> None:
    merged = MergedForks()
    parts = [merged.participant() for _ in range(2)]
    first = asyncio.create_task(parts[0].work(asks(forks, NOTES)))  # type: ignore[arg-type]
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.wait({first})
    await parts[1].work(asks(forks, MEMORIES))  # type: ignore[arg-type]
    assert forks.tasks == [MEMORIES]


async def test_what_can_wait_begins_in_a_pause(clock: FrozenClock, forks: Forks) -> None:
    """Counted from the last request, whose cached prefix is about to expire."""
    session = Session(Base("scripted"), clock=clock)
    background = Background(session)
    background.idle_seconds = 0.05
    await background.before_turn()
    session.touch_cache()
    background.defer("notes", asks(forks, NOTES), can_wait=True)  # type: ignore[arg-type]
    clock.advance(60)
    await asyncio.sleep(0.1)
    assert forks.tasks == [], "a turn is under way"
    session.touch_cache()
    await background.after_turn()
    clock.advance(0.06)
    async with asyncio.timeout(5):
        while not forks.tasks:
            await asyncio.sleep(0.01)
    await background.drain(0.0)


@pytest.mark.parametrize(
    ("model", "seconds"),
    [("claude-opus-5-5", 240.0), ("gpt-6.1-sol", 1_740.0), ("gpt-5.5", 1_740.0), ("some-local-model", 240.0)],
)
def test_a_pause_is_long_enough_shortly_before_the_cache_expires(model: str, seconds: float) -> None:
    """F5c: the cache of each provider lives differently long; a setting replaces it."""
    one = Background(Session(Base(model), clock=FrozenClock()))
    assert one.pause_seconds == 0.0, "at once unless an agent is opened"
    one.idle_seconds = None
    assert one.pause_seconds == seconds
    one.idle_seconds = 7.0
    assert one.pause_seconds == 7.0


async def test_at_the_end_what_is_worth_a_wait_runs_and_in_haste_its_substitute(forks: Forks) -> None:
    for deadline, expected in ((None, [MEMORIES]), (5.0, [NOTES])):
        forks.tasks.clear()
        one = Background(Session(Base("scripted"), clock=FrozenClock()))
        one.idle_seconds = 600.0
        one.defer("notes", asks(forks, NOTES), can_wait=True)  # type: ignore[arg-type]
        one.defer(
            "extract",
            asks(forks, MEMORIES),  # type: ignore[arg-type]
            can_wait=True,
            grace=EXTRACTION_GRACE_SECONDS,
            in_haste=asks(forks, NOTES),  # type: ignore[arg-type]
        )
        await one.drain(deadline)
        assert forks.tasks == expected
