"""Runs tasks that outlive a turn, by name, within spending limits (F5).

Tasks that ask a model can yield to the person: on a server with few slots they would delay the next answer.
They wait for silence, run one at a time, and are cancelled and begun again when the person speaks (F5b).

Records of such tasks are passed to `record` and appended at the next boundary: before a request or after a
turn.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack
from contextvars import ContextVar
from dataclasses import dataclass
from math import ceil
from types import TracebackType
from typing import Any, Literal, TypeAlias

from nacre.errors import SpendCapReached
from nacre.messages.records import Record
from nacre.session.compaction import Compaction, CompactionRequest
from nacre.session.layer import Layer
from nacre.session.restoration import listed_again
from nacre.session.session import Session
from nacre.session.spending import Spending, SpendTotal

Ending: TypeAlias = Literal["done", "failed", "cancelled"]


AGENT_PURPOSE = "agent"
"""The purpose under which the cost of agents is noted."""


IN_BACKGROUND: ContextVar[bool] = ContextVar("in_background", default=False)
"""Whether this asyncio task runs in the background: a spending limit ends it, the end of a turn does not."""


SUMMARY = "compact"
"""The name of the task that makes a summary ahead; a person who asks for one waits for it."""


GRACE_SECONDS = 5.0
"""How long a task may continue when the session ends: enough to finish a write."""


BEFORE_EXPIRY_SECONDS = 60.0
"""Time left of the cached prefix when tasks that wait for a pause begin."""
MAX_LIFETIME_SECONDS = 1_800.0
"""Lifetime of a cache that such tasks wait for: after half an hour few people return."""
EXTRACTION_GRACE_SECONDS = 60.0
"""The same for extraction, whose memories of the last messages would be missed."""


POLL_SECONDS = 0.5
"""How often the queue looks whether a turn is over."""


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
class _DeferredTask:
    """A task that waits for silence."""

    work: Callable[[], Coroutine[Any, Any, object]]
    grace: float
    label: str
    seconds: float
    """How long the silence must be."""
    in_haste: Callable[[], Coroutine[Any, Any, object]] | None = None
    """What runs instead if the session must end at once."""


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
        self.on_progress: Callable[[str], None] = lambda line: None
        """Called with each line of the countdown at the end; an empty line says that it is over."""
        self.outcomes: deque[BackgroundResult] = deque(maxlen=MAX_RESULTS)
        self.resources = AsyncExitStack()
        """What tasks need, such as another provider; closed when no task is left."""
        self.spending: Spending | None = spending or (above.spending if above else None)
        self._session = session
        self._above = above
        self.agent_name = AGENT_PURPOSE
        """Name of the agent in notices, if the session is an agent's."""
        self.quiet_seconds = 0.0
        """How long the person must have been silent before a deferred task begins, whatever it is."""
        self.idle_seconds: float | None = 0.0
        """The same for tasks that can wait, counted from the last request: so old is the cached prefix.
        None: shortly before that expires."""
        self._deferred: dict[str, _DeferredTask] = {}
        self._yielding: tuple[str, _DeferredTask] | None = None
        """The deferred task that runs now."""
        self._pump: asyncio.Task[None] | None = None
        self._is_turn = False
        self._quiet_since = 0.0
        self._working: dict[str, _RunningTask] = {}
        self._failures: Counter[str] = Counter()
        self._records: list[Record] = []
        self._refused: set[str] = set()

    def allows(self, purpose: str) -> str | None:
        """Return why no more may be spent on a purpose; None if it may."""
        return self.spending.allows(purpose) if self.spending else None

    def check_agent(self, name: str, spent: SpendTotal) -> None:
        """Raise `SpendCapReached` if an agent that spent this much may not continue; notify the person."""
        why = self.spending.allows_agent(spent) if self.spending else None
        if why is not None:
            self.notify_once(why, name)
            raise SpendCapReached(why)

    @property
    def yields(self) -> bool:
        """Whether deferred tasks wait for the person."""
        return self.quiet_seconds > 0

    async def before_turn(self) -> None:
        await self._yield()
        if self._above is None and self.spending is not None:
            self.spending.begin_turn()
            # A new turn may reach its limit again; other limits stay reached.
            self._refused = {one for one in self._refused if "spend.turn" not in one}

    async def before_compact(self, request: CompactionRequest) -> CompactionRequest:
        if request.trigger == "manual":
            await self._yield(except_for=SUMMARY)
        return request

    async def _yield(self, except_for: str = "") -> None:
        """Cancel the deferred task that runs, to begin it again after the next silence."""
        self._is_turn = True
        if self._yielding is None or self._yielding[0] in {except_for, *self._deferred}:
            return
        name, task = self._yielding
        if name in self._working:
            # First in line again: it has waited longest.
            self._deferred = {name: task, **self._deferred}
            await self.cancel(name)

    async def before_request(self) -> None:
        await self.settle()
        if self._above is not None or (self.spending is not None and self.spending.is_agent):
            self.check_agent(self.agent_name, SpendTotal.of(self._session.meter))

    async def after_turn(self) -> None:
        self._end_turn()
        await self.settle()

    def on_cancel(self) -> None:
        self._end_turn()

    def _end_turn(self) -> None:
        self._is_turn = False
        self._quiet_since = asyncio.get_running_loop().time()

    async def settle(self) -> None:
        """Append the queued records, and share what was spent with other processes."""
        await self.flush()
        if self.spending is not None:
            await self.spending.settle()

    def after_compact(self, done: Compaction) -> None:
        if done.trigger == "manual":
            self._end_turn()
        self.record(*listed_again(self._session.view, self._session.clock))

    def start(
        self, name: str, work: Coroutine[Any, Any, object], *, grace: float = GRACE_SECONDS, label: str = ""
    ) -> bool:
        """Start a task; return False if one of this name runs or a spending limit is reached.

        `grace` is how long it may continue when the session ends, `label` what the countdown shows then.
        """
        refusal = self.allows(name)
        if refusal is not None:
            self.notify_once(refusal, name)
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

    @property
    def pause_seconds(self) -> float:
        """How long a pause must be for tasks that can wait."""
        if self.idle_seconds is not None:
            return self.idle_seconds
        lifetime = self._session.warmth.lifetime_seconds
        return min(lifetime, MAX_LIFETIME_SECONDS) - BEFORE_EXPIRY_SECONDS

    def defer(
        self,
        name: str,
        work: Callable[[], Coroutine[Any, Any, object]],
        *,
        can_wait: bool = False,
        grace: float = GRACE_SECONDS,
        label: str = "",
        in_haste: Callable[[], Coroutine[Any, Any, object]] | None = None,
    ) -> bool:
        """Start a task when the person is silent, or at once where nothing has to yield.

        A task that `can_wait` begins in a longer pause, together with others, so that their forks become one
        request. `work` is called again if the person interrupts it. A task of this name that waits is
        replaced. At the end of the session a waiting task begins only if its grace is longer than the usual
        one; if the session must end at once, `in_haste` runs instead.
        """
        seconds = self.quiet_seconds or (self.pause_seconds if can_wait else 0.0)
        if not seconds:
            self._deferred.pop(name, None)
            return self.start(name, work(), grace=grace, label=label)
        refusal = self.allows(name)
        if refusal is not None:
            self.notify_once(refusal, name)
        if refusal is not None or name in self._working:
            return False
        self._deferred[name] = _DeferredTask(
            work=work, grace=grace, label=label, seconds=seconds, in_haste=in_haste
        )
        if self._pump is None or self._pump.done():
            self._pump = asyncio.create_task(self._run_deferred(), name="background queue")
        return True

    async def _run_deferred(self) -> None:
        """Run deferred tasks after a silence: one after another if they yield, otherwise together."""
        loop = asyncio.get_running_loop()
        while self._deferred:
            silence = loop.time() - self._quiet_since if self.yields else self._session.warmth.idle_seconds
            left = min(one.seconds for one in self._deferred.values()) - silence
            if self._is_turn:
                await asyncio.sleep(POLL_SECONDS)
            elif left > 0:
                await asyncio.sleep(left)
            elif self.yields:
                await self._run_next()
            else:
                self.start_deferred()

    def start_deferred(self) -> None:
        """Start all tasks that wait for a pause."""
        tasks = self._deferred
        self._deferred = {}
        self._start_together(tasks)

    def _start_together(self, tasks: Mapping[str, _DeferredTask]) -> None:
        """Start tasks whose forks become one request where they can."""
        from nacre.session.merged_forks import MergedForks  # noqa: PLC0415 - only after a pause

        merged = MergedForks()
        participants = {name: merged.participant() for name in tasks}
        for name, task in tasks.items():
            participant = participants[name]
            if not self.start(name, participant.work(task.work), grace=task.grace, label=task.label):
                participant.leave()

    async def _run_next(self) -> None:
        name = next(iter(self._deferred))
        task = self._deferred.pop(name)
        if self.start(name, task.work(), grace=task.grace, label=task.label):
            self._yielding = (name, task)
            await self.wait(name)
            self._yielding = None

    def drop(self, name: str) -> bool:
        """Forget a task that has not begun; return whether there was one."""
        return self._deferred.pop(name, None) is not None

    def is_deferred(self, name: str) -> bool:
        """Whether a task waits for silence."""
        return name in self._deferred

    def is_running(self, name: str) -> bool:
        """Whether a task runs or waits for silence."""
        return name in self._working or name in self._deferred

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
        self, deadline: float | None = None, *, on_progress: Callable[[str], None] | None = None
    ) -> None:
        """Wait for each task as long as its grace allows, for none past the deadline; then cancel.

        When this call is cancelled, as by a second Ctrl-C, the remaining tasks are cancelled at once.
        """
        patience = STOP_SECONDS
        on_progress = on_progress or self.on_progress
        if self._pump is not None:
            self._pump.cancel()
        self._begin_last(deadline)
        shows_countdown = bool(self._working)
        try:
            await self._wait_for_all(deadline, on_progress)
        except asyncio.CancelledError:
            patience = LEAVE_SECONDS
            raise
        finally:
            if shows_countdown:
                on_progress("")
            await _cancel(list(self._working.values()), patience)
            await self.flush()

    def _begin_last(self, deadline: float | None) -> None:
        """Begin the deferred tasks that are worth a wait at the end of the session."""
        last = self._deferred
        self._deferred = {}
        if deadline is None:
            if worth := {name: one for name, one in last.items() if one.grace > GRACE_SECONDS}:
                self._start_together(worth)
            return
        for name, task in last.items():
            if task.in_haste is not None:
                self.start(name, task.in_haste(), grace=task.grace, label=task.label)

    async def leave(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the session, as the exit callback of a stack; after an interrupt without the full wait."""
        is_interrupted = kind is not None and not issubclass(kind, Exception)
        async with self.resources:
            await self.drain(GRACE_SECONDS if is_interrupted else None)

    async def _wait_for_all(self, deadline: float | None, on_progress: Callable[[str], None]) -> None:
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
            on_progress(f"{work.label or f'finishing {longest}'}: {ceil(left[longest])} s at most")
            tasks = [one.task for one in self._working.values()]
            await asyncio.wait(tasks, timeout=min(STEP_SECONDS, *left.values()))

    def _ended(self, name: str, seconds: float, task: asyncio.Task[object]) -> None:
        del self._working[name]
        error = None if task.cancelled() else task.exception()
        ending: Ending = "failed" if error else "cancelled" if task.cancelled() else "done"
        if isinstance(error, SpendCapReached):
            ending = "cancelled"
            self.notify_once(str(error), name)
        elif error is not None:
            _LOG.debug("%s failed in the background", name, exc_info=error)
        # A cancellation says nothing about whether the next attempt would fail.
        if ending != "cancelled":
            self._failures[name] = self._failures[name] + 1 if ending == "failed" else 0
        why = f"{type(error).__name__}: {error}" if ending == "failed" else str(error or "")
        self.outcomes.append(BackgroundResult(name=name, ending=ending, error=why, seconds=seconds))

    def notify_once(self, refusal: str, stopped: str) -> None:
        """Tell the person that a limit is reached, and what it stopped first."""
        if self._above is not None:
            self._above.notify_once(refusal, stopped)
        elif refusal not in self._refused:
            self._refused.add(refusal)
            self._session.notify(f"{refusal} (stopped: {stopped})")


async def _cancel(running: Sequence[_RunningTask], seconds: float) -> None:
    """Cancel tasks and wait at most this long for their end."""
    tasks = [one.task for one in running]
    for task in tasks:
        task.cancel()
    if tasks:
        _, late = await asyncio.wait(tasks, timeout=seconds)
        for task in late:
            _LOG.debug("%s does not stop and is abandoned", task.get_name())
