"""Layer 6 in a session: after each turn, start a consolidation of memory if every gate is open (D1).

`nacre dream` starts one by hand, with the same target and configuration.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.context.privacy import by_tools
from nacre.errors import NacreError
from nacre.layers.l6_dream.lock import DreamLock
from nacre.layers.l6_dream.policy import DREAM, DreamConditions, DreamSettings, Gate, closed_gate
from nacre.layers.l6_dream.state import BY_RULE_FILE, FIRST_FILE, DreamState, DreamStateFile
from nacre.loop.fork import SOURCE, Fork
from nacre.memory.files.location import Location
from nacre.memory.memory import Memory
from nacre.memory.past_sessions import RecentSession, sessions_since
from nacre.messages.blocks import JsonObject
from nacre.messages.facts import Facts
from nacre.messages.records import Noted, Record, Said
from nacre.session.background import Background
from nacre.session.layer import INSIDE, Layer
from nacre.tools.workspace import Workspace

if TYPE_CHECKING:
    from nacre.layers.l6_dream.dream import DreamConfig, DreamResult
    from nacre.layers.l6_dream.with_model import DreamModel, Write

WORK = "dream"
"""The name of the background task."""
DREAM_RUN = "dream"
"""The kind of log note with the result of a dream."""
DRIFT_SECONDS = 5.0
"""Time limit for looking up in the project what memories name."""
MAX_QUOTED_SESSIONS = 20
"""The newest sessions whose user messages are compared with what a model writes."""
MAX_TOOL_CHARS = 16_000_000
"""Limit on tool output, newest sessions first, that is compared word by word with what a model writes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DreamTarget:
    """The memory to consolidate, and what the settings say about it."""

    memory: Memory
    home: Path
    root: Path
    """The project, in which the paths and names of memories are looked up."""
    settings: DreamSettings = DREAM
    checks_drift: bool = True
    has_index: bool = True
    is_daily: bool = False
    """Memory is kept as one log per day."""
    is_remote: bool = False
    session: str = ""
    clock: Clock = SYSTEM_CLOCK

    @property
    def location(self) -> Location:
        return self.memory.location

    @property
    def lock(self) -> DreamLock:
        return DreamLock(self.location.directory, self.location.cache, clock=self.clock)

    def last(self, *, with_model: bool) -> datetime | None:
        """Return the last dream that counts for the next one: one by rule does not delay one with a model."""
        by_rule = None if with_model else DreamStateFile(self.location.cache).moment(BY_RULE_FILE)
        return max((at for at in (self.lock.last(), by_rule) if at is not None), default=None)

    def last_or_first(self, *, with_model: bool) -> datetime | None:
        """Return the last dream that counts; before the first one, when the gates were first asked."""
        last = self.last(with_model=with_model)
        if last is not None or self.is_daily:
            return last
        state_file = DreamStateFile(self.location.cache)
        if state_file.moment(FIRST_FILE) is None:
            state_file.mark(FIRST_FILE, self.clock.now())
        return state_file.moment(FIRST_FILE)

    def sessions(self, since: datetime | None) -> list[RecentSession]:
        """Return the sessions since then, without the current one."""
        return sessions_since(self.location, self.home, since, but=self.session)


def dream_config(
    target: DreamTarget, *, model: DreamModel | None = None, is_nightly: bool = False
) -> DreamConfig:
    """Return everything that one dream of this target needs."""
    # Few sessions dream: what only a dream needs is imported when one begins.
    from nacre.layers.l6_dream.by_rule import DreamRules  # noqa: PLC0415
    from nacre.layers.l6_dream.dream import DreamConfig  # noqa: PLC0415
    from nacre.memory.dates.relative import resolve_dates  # noqa: PLC0415
    from nacre.memory.recall.drift.check import check_each, has_code  # noqa: PLC0415
    from nacre.memory.recall.usage import read_usage  # noqa: PLC0415

    location = target.location
    now = target.clock.now()
    useful = {file: one.usefulness for file, one in read_usage(location).items()}
    last = target.last(with_model=model is not None)
    check = partial(check_each, root=target.root, budget_seconds=DRIFT_SECONDS)
    rules = DreamRules(
        now=now,
        zone=now.astimezone().tzinfo or now.tzinfo or UTC,
        settings=target.settings,
        resolve=resolve_dates,
        check=check if target.checks_drift and has_code(target.root) else None,
        useful=useful,
        has_index=target.has_index,
        is_daily=is_nightly or target.is_daily,
        since=last.date() if last else None,
    )
    return DreamConfig(
        location=location,
        rules=rules,
        settings=target.settings,
        model=model,
        sessions=tuple(one.path.stem for one in target.sessions(last)),
        session=target.session,
        clock=target.clock,
        watch=target.memory.watch,
    )


def dream_model(target: DreamTarget, fork: Fork, name: str, workspace: Workspace) -> DreamModel:
    """Return the model for a dream: it may search the logs of sessions, but does not see the conversation."""
    from nacre.layers.l6_dream.with_model import DreamModel  # noqa: PLC0415 - see dream_config

    paths = [one.path for one in target.sessions(target.last(with_model=True))]

    @contextmanager
    def writes_through(folder: Path, write: Write) -> Iterator[None]:
        async def writer(path: Path, content: bytes) -> None:
            await asyncio.to_thread(write, path, content)

        workspace.owned[folder] = writer
        try:
            yield
        finally:
            del workspace.owned[folder]

    return DreamModel(
        fork=fork,
        name=name,
        writes_through=writes_through,
        transcripts=sorted({path.parent for path in paths}),
        user_texts=lambda: [
            quote.text for path in paths[:MAX_QUOTED_SESSIONS] for quote in Facts.of(_records(path)).words
        ],
        tool_texts=lambda: _tool_texts(paths),
    )


class Dream(Layer):
    """Starts a dream in the background after a turn of one session, if one is due."""

    log_kinds = {DREAM_RUN: "drop"}

    def __init__(
        self,
        target: DreamTarget,
        background: Background,
        model: DreamModel | None = None,
        *,
        notify: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.stopped: Counter[str] = Counter()
        """The number of turns that ended at each gate."""
        self._target = target
        self._background = background
        self._model = model
        self._notify = notify
        self._lock = target.lock
        self._state_file = DreamStateFile(target.location.cache)
        self._scanned: datetime | None = None

    async def after_turn(self) -> None:
        """Start a dream if one is due; the turn does not wait for it."""
        gate = "open" if self._background.is_running(WORK) else await asyncio.to_thread(self._closed_gate)
        if gate == "open" and not self._background.is_running(WORK):
            holder = await asyncio.to_thread(self._lock.holder)
            gate = "locked" if holder is not None else "open"
            if holder is None:
                self.begin()
        self.stopped[gate] += 1

    def begin(self) -> bool:
        """Start a dream in the background, without asking the gates; False if one is running."""
        return self._background.defer(WORK, self._run, label="finishing a dream")

    @property
    def last(self) -> DreamState:
        """The state of the current dream or of the last one, in any process."""
        return self._state_file.read()

    @property
    def consolidated(self) -> datetime | None:
        """The time of the last consolidation that has ended."""
        finished = (self._lock.last_finished(), self._state_file.moment(BY_RULE_FILE))
        return max((at for at in finished if at is not None), default=None)

    def keep_counts(self) -> None:
        """Add the counts of this session to those of other sessions on disk."""
        if self.stopped:
            self._state_file.count(self.stopped)
            self.stopped = Counter()

    def _closed_gate(self) -> Gate:
        target = self._target

        def count_sessions(since: datetime | None) -> int:
            self._scanned = target.clock.now()
            return len(target.sessions(since))

        def failures() -> tuple[int, date | None]:
            state = self._state_file.read()
            return state.failures, state.last_failure

        conditions = DreamConditions(
            now=target.clock.now(),
            is_main=SOURCE.get() == "main",
            is_remote=target.is_remote,
            last=partial(target.last_or_first, with_model=self._model is not None),
            scanned=self._scanned,
            sessions=count_sessions,
            failures=failures,
            is_daily=target.is_daily,
        )
        return closed_gate(conditions, target.settings) or "open"

    async def _run(self) -> None:
        config = await asyncio.to_thread(dream_config, self._target, model=self._model)
        from nacre.layers.l6_dream.dream import dream  # noqa: PLC0415 - see dream_config

        try:
            result = await dream(config)
        except asyncio.CancelledError:
            self._background.record(dream_note(self._state_file.read(), self._target.clock))
            raise
        self._background.record(dream_note(result.state, self._target.clock))
        if line := summary(result):
            self._notify(line)
        if result.state.status == "failed":
            raise NacreError(result.state.error)


def dream_note(state: DreamState, clock: Clock) -> Noted:
    """Return the log note about a dream that has ended, for statistics and telemetry."""
    facts: JsonObject = {
        "by": "rule" if state.by == "rules" else "model",
        "status": state.status,
        "files": [*state.files],
        "saved": len(state.changes) if state.commit else 0,
        "proposed": len(state.proposed),
        "refused": {**state.refused},
        "rounds": state.rounds,
        "tokens": state.tokens,
        "denied_writes": state.denied_writes,
        "seconds": state.seconds,
    }
    return Noted(id=clock.new_id(), at=clock.now(), kind=DREAM_RUN, facts=facts)


def summary(result: DreamResult) -> str:
    """Return one line on the result of a dream; empty if there is nothing to report."""
    state = result.state
    if state.status == "failed":
        return f"the dream changed nothing: {state.error}"
    if state.status != "completed" or not (state.changes or state.proposed):
        return ""
    counts = Counter(str(one["action"]) for one in state.changes)
    parts = [f"{counts[action]} {action}" for action in ("added", "changed", "removed") if counts[action]]
    parts += [f"{len(state.proposed)} proposed (`nacre memory review`)"] if state.proposed else []
    undo = "; `nacre dream undo` takes it back" if state.commit else ""
    return f"memory was consolidated: {', '.join(parts)}{undo}"


def _tool_texts(paths: Sequence[Path]) -> list[str]:
    """Return the output of tools in these sessions, up to the limit."""
    found: list[str] = []
    room = MAX_TOOL_CHARS
    for path in paths:
        records = _records(path)
        ours = {str(one.fact(INSIDE)) for one in records if isinstance(one, Noted) and one.fact(INSIDE)}
        texts = [*by_tools([one for one in records if isinstance(one, Said)], ours)]
        found += texts
        room -= sum(map(len, texts))
        if room < 0:
            break
    return found


def _records(path: Path) -> Sequence[Record]:
    """Return all records of a log, also those before a compaction; of a very large log only its end."""
    from nacre.session.read_session import read_log, read_view  # noqa: PLC0415 - see dream_config

    with contextlib.suppress(NacreError, OSError):
        if (whole := read_log(path)) is not None:
            return whole.records
        if (end := read_view(path)) is not None:
            return end.view.records
    return ()
