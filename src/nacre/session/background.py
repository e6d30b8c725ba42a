"""Runs tasks that outlive a turn, by name, with their results and failures (F5).

Records of such tasks are passed to `record` and appended at the next boundary: before a request or after a
turn.
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
"""The purpose under which the cost of agents is noted."""


IN_BACKGROUND: ContextVar[bool] = ContextVar("in_background", default=False)
"""Whether this asyncio task runs in the background: a spending limit ends it, the end of a turn does not."""


GRACE_SECONDS = 5.0
"""How long a task may continue when the session ends: enough to finish a write."""


EXTRACTION_GRACE_SECONDS = 60.0
"""The same for extraction, whose memories of the last messages would be missed."""


STEP_SECONDS = 1.0
"""Interval of the countdown."""


STOP_SECONDS = 5.0
"""How long a cancelled task may take to clean up before it is abandoned."""


LEAVE_SECONDS = 0.5
"""The same after a second interrupt."""


MAX_RESULTS = 100
"""How many results are kept; a long session has thousands."""


_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class BackgroundResult:
    """How a background task ended."""

    name: str
    ending: Ending
    error: str = ""
    """One line; for a cancelled task the reason, if there is one."""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _RunningTask:
    task: asyncio.Task[object]
    grace: float
    label: str


class Background(Layer):
    """Runs the background tasks of one session."""

    def __init__(
        self, session: Session, spending: Spending | None = None, *, above: Background | None = None
    ) -> None:
        """`above` belongs to the parent session, whose spending limits apply instead."""
        self.tell: Callable[[str], None] = lambda line: None
        """Called with each line of the countdown at the end; an empty line says that it is over."""
        self.outcomes: deque[BackgroundResult] = deque(maxlen=MAX_RESULTS)
        self.resources = AsyncExitStack()
        """What tasks need, such as another provider; closed when no task is left."""
        self._session = session
        self._spending = spending
        self._above = above
        self._working: dict[str, _RunningTask] = {}
        self._failures: Counter[str] = Counter()
        self._records: list[Record] = []
        self._refused: set[str] = set()

    def allows(self, purpose: str) -> str | None:
        """Return why no more may be spent on a purpose; None if it may."""
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
        self, name: str, work: Coroutine[Any, Any, object], *, grace: float = GRACE_SECONDS, label: str = ""
    ) -> bool:
        """Start a task; return False if one of this name runs or a spending limit is reached.

        `grace` is how long it may continue when the session ends, `label` what the countdown shows then.
        """
        refusal = self.allows(name)
        if refusal is not None:
            self._notify_once(refusal)
        if refusal is not None or name in self._working:
            work.close()
            return False
        token = IN_BACKGROUND.set(True)
        try:
            task: asyncio.Task[object] = asyncio.create_task(work, name=f"background {name}")
        finally:
            IN_BACKGROUND.reset(token)
        self._working[name] = _RunningTask(task=task, grace=grace, label=label)
        clock = self._session.clock
        begun = clock.seconds()
        task.add_done_callback(lambda done: self._ended(name, clock.seconds() - begun, done))
        return True

    def is_running(self, name: str) -> bool:
        return name in self._working

    def running(self) -> tuple[str, ...]:
        """Return the names of the running tasks, oldest first."""
        return tuple(self._working)

    async def wait(self, name: str, seconds: float | None = None) -> bool:
        """Wait for a task at most this long without stopping it; return whether it has ended."""
        work = self._working.get(name)
        if work is None:
            return True
        done, _ = await asyncio.wait({work.task}, timeout=seconds)
        return bool(done)

    async def cancel(self, name: str) -> bool:
        """Cancel a task and wait for its end; return False if there is none of this name."""
        work = self._working.get(name)
        if work is None:
            return False
        await _cancel([work], STOP_SECONDS)
        return True

    def failures(self, name: str) -> int:
        """Return how often a task has failed in a row."""
        return self._failures[name]

    def record(self, *records: Record) -> None:
        """Queue records; they are appended at the next boundary."""
        self._records += records

    def take(self) -> list[Record]:
        """Return and forget the queued records, for a caller that appends its own behind them."""
        records = self._records
        self._records = []
        return records

    async def flush(self) -> None:
        """Append the queued records."""
        await self._session.transcript.append(*self.take())

    async def drain(
        self, deadline: float | None = None, *, tell: Callable[[str], None] | None = None
    ) -> None:
        """Wait for each task as long as its grace allows, for none past the deadline; then cancel.

        When this call is cancelled, as by a second Ctrl-C, the remaining tasks are cancelled at once.
        """
        patience = STOP_SECONDS
        tell = tell or self.tell
        shows_countdown = bool(self._working)
        try:
            await self._wait_for_all(deadline, tell)
        except asyncio.CancelledError:
            patience = LEAVE_SECONDS
            raise
        finally:
            if shows_countdown:
                tell("")
            await _cancel(list(self._working.values()), patience)
            await self.flush()

    async def leave(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the session, as the exit callback of a stack; after an interrupt without the full wait."""
        is_interrupted = kind is not None and not issubclass(kind, Exception)
        async with self.resources:
            await self.drain(GRACE_SECONDS if is_interrupted else None)

    async def _wait_for_all(self, deadline: float | None, tell: Callable[[str], None]) -> None:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        while self._working:
            elapsed = loop.time() - begun
            left = {
                name: (work.grace if deadline is None else min(work.grace, deadline)) - elapsed
                for name, work in self._working.items()
            }
            overdue = [self._working[name] for name, seconds in left.items() if seconds <= 0]
            if overdue:
                await _cancel(overdue, STOP_SECONDS)
                continue
            longest = max(left, key=lambda name: left[name])
            work = self._working[longest]
            tell(f"{work.label or f'finishing {longest}'}: {ceil(left[longest])} s at most")
            tasks = [one.task for one in self._working.values()]
            await asyncio.wait(tasks, timeout=min(STEP_SECONDS, *left.values()))

    def _ended(self, name: str, seconds: float, task: asyncio.Task[object]) -> None:
        del self._working[name]
        error = None if task.cancelled() else task.exception()
        ending: Ending = "failed" if error else "cancelled" if task.cancelled() else "done"
        if isinstance(error, SpendCapReached):
            ending = "cancelled"
            self._notify_once(str(error))
        elif error is not None:
            _LOG.debug("%s failed in the background", name, exc_info=error)
        # A cancellation says nothing about whether the next attempt would fail.
        if ending != "cancelled":
            self._failures[name] = self._failures[name] + 1 if ending == "failed" else 0
        why = f"{type(error).__name__}: {error}" if ending == "failed" else str(error or "")
        self.outcomes.append(BackgroundResult(name=name, ending=ending, error=why, seconds=seconds))

    def _notify_once(self, refusal: str) -> None:
        if refusal not in self._refused:
            self._refused.add(refusal)
            self._session.notify(refusal)


async def _cancel(running: Sequence[_RunningTask], seconds: float) -> None:
    """Cancel tasks and wait at most this long for their end."""
    tasks = [one.task for one in running]
    for task in tasks:
        task.cancel()
    if tasks:
        _, late = await asyncio.wait(tasks, timeout=seconds)
        for task in late:
            _LOG.debug("%s does not stop and is abandoned", task.get_name())
