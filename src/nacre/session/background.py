"""Owns every task that outlives a turn: named, cancellable, with an outcome; nothing it meets is lost (F5).

What such work wants recorded is handed over with `record` and appended at the next boundary, never between.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from contextvars import ContextVar
from dataclasses import dataclass
from math import ceil
from types import TracebackType
from typing import Any, Literal, TypeAlias

from nacre.errors import SpendCapReached
from nacre.messages.records import Record
from nacre.session.compaction import Compaction
from nacre.session.layer import Layer
from nacre.session.restoration import listed_again
from nacre.session.session import Session
from nacre.session.spending import Spending

Ending: TypeAlias = Literal["done", "failed", "cancelled"]


AGENT_PURPOSE = "agent"
"""The purpose under which the cost of agents is booked."""


IN_BACKGROUND: ContextVar[bool] = ContextVar("in_background", default=False)
"""Whether this task belongs to a supervisor: the end of a turn does not end it, a spend cap does."""


GRACE_SECONDS = 5.0
"""How long work may go on when the session ends: enough to finish writing, short enough to be waited for."""


EXTRACTION_GRACE_SECONDS = 60.0
"""For what a person would miss: memories of what was said last."""


STEP_SECONDS = 1.0
"""Between two lines of the countdown."""


STOP_SECONDS = 5.0
"""How long a cancelled task may take to clean up, before it is left to itself."""


LEAVE_SECONDS = 0.5
"""The same for somebody who asked twice to leave."""


MAX_RESULTS = 100
"""So many are remembered: a long session has thousands, and nobody asks about the oldest."""


_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class BackgroundResult:
    """How a piece of background work ended."""

    name: str
    ending: Ending
    error: str = ""
    """In one line; for a cancelled one the reason, where there is one."""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _RunningTask:
    task: asyncio.Task[object]
    grace: float
    told: str


def _silent(line: str) -> None:
    return None


class Background(Layer):
    """The supervisor of one session."""

    def __init__(
        self, session: Session, spending: Spending | None = None, *, above: Background | None = None
    ) -> None:
        """`above` is the supervisor of the parent session, whose spending limits apply instead."""
        self.tell: Callable[[str], None] = _silent
        """Where the countdown at the end goes, line by line; an empty one says that it is over."""
        self.outcomes: deque[BackgroundResult] = deque(maxlen=MAX_RESULTS)
        self.held = AsyncExitStack()
        """What its work needs, such as another provider; let go once nothing is under way any more."""
        self._session = session
        self._spending = spending
        self._above = above
        self._working: dict[str, _RunningTask] = {}
        self._failures: Counter[str] = Counter()
        self._records: list[Record] = []
        self._refused: set[str] = set()

    def allows(self, purpose: str) -> str | None:
        """Why work of a purpose may not be paid for any more; None while it may."""
        limits = self._above or self._spending
        return limits.allows(purpose) if limits else None

    async def before_turn(self) -> None:
        if self._spending is not None:
            self._spending.begin_turn()

    async def before_request(self) -> None:
        why = self._above.allows(AGENT_PURPOSE) if self._above and IN_BACKGROUND.get() else None
        await self.after_turn()
        if why is not None:
            raise SpendCapReached(why)

    async def after_turn(self) -> None:
        await self.flush()
        if self._spending is not None:
            await self._spending.settle()

    def after_compact(self, done: Compaction) -> None:
        self.record(*listed_again(self._session.view, self._session.clock))

    def start(
        self, name: str, work: Coroutine[Any, Any, object], *, grace: float = GRACE_SECONDS, told: str = ""
    ) -> bool:
        """Begin a piece of work; false where one of this name is under way, or a spend cap is reached.

        `grace` is how long it may go on when the session ends, `told` what the person is told meanwhile.
        """
        why = self.allows(name)
        if why is not None:
            self._tell_once(why)
        if why is not None or name in self._working:
            work.close()
            return False
        token = IN_BACKGROUND.set(True)
        try:
            task: asyncio.Task[object] = asyncio.create_task(work, name=f"background {name}")
        finally:
            IN_BACKGROUND.reset(token)
        self._working[name] = _RunningTask(task=task, grace=grace, told=told)
        clock = self._session.clock
        begun = clock.seconds()
        task.add_done_callback(lambda done: self._ended(name, clock.seconds() - begun, done))
        return True

    def is_running(self, name: str) -> bool:
        return name in self._working

    def running(self) -> tuple[str, ...]:
        """What is under way, by name, the oldest first."""
        return tuple(self._working)

    async def wait(self, name: str, seconds: float | None = None) -> bool:
        """Whether this work has ended, after waiting for it at most so long; it goes on either way."""
        work = self._working.get(name)
        if work is None:
            return True
        done, _ = await asyncio.wait({work.task}, timeout=seconds)
        return bool(done)

    async def cancel(self, name: str) -> bool:
        """Stop one piece of work and wait until it has ended; false where there is none of this name."""
        work = self._working.get(name)
        if work is None:
            return False
        await _stopped([work], STOP_SECONDS)
        return True

    def failures(self, name: str) -> int:
        """How often it has failed in a row."""
        return self._failures[name]

    def record(self, *records: Record) -> None:
        """Hand over what is to be in the log; it is appended at the next boundary."""
        self._records += records

    def take(self) -> list[Record]:
        """What was handed over, for whoever is about to append records of their own behind it."""
        records = self._records
        self._records = []
        return records

    async def flush(self) -> None:
        """A boundary: append what was handed over."""
        await self._session.transcript.append(*self.take())

    async def drain(
        self, deadline: float | None = None, *, tell: Callable[[str], None] | None = None
    ) -> None:
        """Wait for each piece as long as its grace allows, and for none past the deadline; then cancel.

        Being cancelled oneself, as by a second Ctrl-C, cancels what is left and leaves at once.
        """
        patience = STOP_SECONDS
        tell = tell or self.tell
        is_told = bool(self._working)
        try:
            await self._wait_out(deadline, tell)
        except asyncio.CancelledError:
            patience = LEAVE_SECONDS
            raise
        finally:
            if is_told:
                tell("")
            await _stopped(list(self._working.values()), patience)
            await self.flush()

    async def leave(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """The end of the session, as an exit stack tells it: who is stopped or killed is not kept waiting."""
        is_stopped = kind is not None and not issubclass(kind, Exception)
        async with self.held:
            await self.drain(GRACE_SECONDS if is_stopped else None)

    async def _wait_out(self, deadline: float | None, tell: Callable[[str], None]) -> None:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        while self._working:
            gone = loop.time() - begun
            left = {name: _left(work, deadline) - gone for name, work in self._working.items()}
            over = [self._working[name] for name, seconds in left.items() if seconds <= 0]
            if over:
                await _stopped(over, STOP_SECONDS)
                continue
            longest = max(left, key=lambda name: left[name])
            work = self._working[longest]
            tell(f"{work.told or f'finishing {longest}'}: {ceil(left[longest])} s at most")
            tasks = [one.task for one in self._working.values()]
            await asyncio.wait(tasks, timeout=min(STEP_SECONDS, *left.values()))

    def _ended(self, name: str, seconds: float, task: asyncio.Task[object]) -> None:
        del self._working[name]
        error = None if task.cancelled() else task.exception()
        ending: Ending = "failed" if error else "cancelled" if task.cancelled() else "done"
        if isinstance(error, SpendCapReached):
            ending = "cancelled"
            self._tell_once(str(error))
        elif error is not None:
            _LOG.debug("%s failed in the background", name, exc_info=error)
        # Being stopped says nothing about whether the next one would fail.
        if ending != "cancelled":
            self._failures[name] = self._failures[name] + 1 if ending == "failed" else 0
        why = f"{type(error).__name__}: {error}" if ending == "failed" else str(error or "")
        self.outcomes.append(BackgroundResult(name=name, ending=ending, error=why, seconds=seconds))

    def _tell_once(self, why: str) -> None:
        if why not in self._refused:
            self._refused.add(why)
            self._session.notify(why)


def _left(work: _RunningTask, deadline: float | None) -> float:
    return work.grace if deadline is None else min(work.grace, deadline)


async def _stopped(works: Sequence[_RunningTask], seconds: float) -> None:
    """Cancel and wait until they have ended, but not for ever."""
    tasks = [work.task for work in works]
    for task in tasks:
        task.cancel()
    if tasks:
        _, late = await asyncio.wait(tasks, timeout=seconds)
        for task in late:
            _LOG.debug("%s does not stop and is left to itself", task.get_name())
