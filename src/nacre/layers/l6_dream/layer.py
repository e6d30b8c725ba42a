"""Layer 6 in a session: after each turn, start a consolidation of memory if every gate is open (D1).

`nacre dream` starts one by hand, with the same target and configuration.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path

from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.context.privacy import by_tools
from nacre.errors import NacreError, StoreError
from nacre.layers.l6_dream.by_rule import DreamRules
from nacre.layers.l6_dream.dream import DreamConfig, DreamResult, dream
from nacre.layers.l6_dream.lock import DreamLock
from nacre.layers.l6_dream.policy import DREAM, DreamConditions, DreamSettings, Gate, closed_gate
from nacre.layers.l6_dream.state import DreamState, DreamStateFile
from nacre.layers.l6_dream.with_model import DreamModel, Write
from nacre.loop.fork import SOURCE, Fork
from nacre.memory.dates.relative import resolve_dates
from nacre.memory.files.identity import read_identity
from nacre.memory.files.location import Location
from nacre.memory.memory import Memory
from nacre.memory.recall.drift.check import check_each
from nacre.memory.recall.usage import read_usage
from nacre.messages.facts import Facts
from nacre.messages.records import Noted, Record, Said
from nacre.session.attachments import INSIDE
from nacre.session.background import Background
from nacre.session.layer import Layer
from nacre.session.read_session import read_log, read_view
from nacre.store.home import canonical, slug
from nacre.tools.workspace import Workspace

WORK = "dream"
"""The name of the background task."""
DRIFT_SECONDS = 5.0
"""Time limit for looking up in the project what memories name."""
MAX_QUOTED_SESSIONS = 20
"""The newest sessions whose user messages are compared with what a model writes."""
MAX_TOOL_CHARS = 16_000_000
"""Limit on tool output, newest sessions first, that is compared word by word with what a model writes."""
CITED_WEIGHT = 3
"""A memory that a reply cited was more useful than one that was only attached."""
SUFFIX = ".jsonl"


@dataclass(frozen=True, slots=True)
class RecentSession:
    """The log of a session and the time of its last change."""

    path: Path
    at: float


def sessions_since(
    location: Location, home: Path, since: datetime | None, *, but: str = ""
) -> list[RecentSession]:
    """Return the sessions of all directories that share this memory, newest first, except the one named."""
    try:
        identity = read_identity(location.identity_file)
        directories = [*(identity.directories if identity else ())]
        directories += [str(location.root)] if location.root else []
    except StoreError:
        directories = []
    folders = {home / "projects" / slug(canonical(one)) for one in directories}
    if location.directory.parent.parent.name == "projects":
        folders.add(location.directory.parent)
    oldest = since.timestamp() if since else 0.0
    found = [one for folder in sorted(folders) for one in _sessions_in(folder) if one.at > oldest]
    return sorted((one for one in found if one.path.stem != but), key=lambda one: -one.at)


def _sessions_in(folder: Path) -> Iterator[RecentSession]:
    with contextlib.suppress(OSError), os.scandir(folder) as items:
        for item in items:
            # Older clients keep the logs of sub-agents beside those of sessions.
            if item.name.endswith(SUFFIX) and not item.name.startswith("agent-") and item.is_file():
                yield RecentSession(Path(item.path), item.stat().st_mtime)


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

    def sessions(self, since: datetime | None) -> list[RecentSession]:
        """Return the sessions since then, without the current one."""
        return sessions_since(self.location, self.home, since, but=self.session)


def dream_config(
    target: DreamTarget, *, model: DreamModel | None = None, is_nightly: bool = False
) -> DreamConfig:
    """Return everything that one dream of this target needs."""
    location = target.location
    now = target.clock.now()
    # A cited memory counts more than one that was only attached; a contradicted one counts less.
    useful = {
        file: one.cited * CITED_WEIGHT + one.attached - one.contradicted
        for file, one in read_usage(location).items()
    }
    check = partial(check_each, root=target.root, budget_seconds=DRIFT_SECONDS)
    rules = DreamRules(
        now=now,
        zone=now.astimezone().tzinfo or now.tzinfo or UTC,
        settings=target.settings,
        resolve=resolve_dates,
        check=check if target.checks_drift else None,
        useful=useful,
        has_index=target.has_index,
        is_daily=is_nightly or target.is_daily,
    )
    return DreamConfig(
        location=location,
        rules=rules,
        settings=target.settings,
        model=model,
        sessions=tuple(one.path.stem for one in target.sessions(target.lock.last())),
        session=target.session,
        clock=target.clock,
        watch=target.memory.watch,
    )


def dream_model(target: DreamTarget, fork: Fork, name: str, workspace: Workspace) -> DreamModel:
    """Return the model for a dream: it may search the logs of sessions, but does not see the conversation."""
    paths = [one.path for one in target.sessions(target.lock.last())]

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
        user_texts=lambda: _user_texts(paths[:MAX_QUOTED_SESSIONS]),
        tool_texts=lambda: _tool_texts(paths),
    )


class Dream(Layer):
    """Starts a dream in the background after a turn of one session, if one is due."""

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
        return self._background.start(WORK, self._run(), label="finishing a dream")

    @property
    def last(self) -> DreamState:
        """The state of the current dream or of the last one, in any process."""
        return self._state_file.read()

    @property
    def consolidated(self) -> datetime | None:
        """The time of the last consolidation."""
        return self._lock.last()

    def keep_counts(self) -> None:
        """Add the counts of this session to those of other sessions on disk."""
        if self.stopped:
            self._state_file.count(self.stopped)
            self.stopped = Counter()

    def _closed_gate(self) -> Gate:
        target = self._target
        conditions = DreamConditions(
            now=target.clock.now(),
            is_main=SOURCE.get() == "main",
            is_remote=target.is_remote,
            last=self._lock.last,
            scanned=self._scanned,
            sessions=self._count_sessions,
            failures=self._failures,
            is_daily=target.is_daily,
        )
        return closed_gate(conditions, target.settings) or "open"

    def _count_sessions(self, since: datetime | None) -> int:
        self._scanned = self._target.clock.now()
        return len(self._target.sessions(since))

    def _failures(self) -> tuple[int, date | None]:
        state = self._state_file.read()
        return state.failures, state.last_failure

    async def _run(self) -> None:
        config = await asyncio.to_thread(dream_config, self._target, model=self._model)
        result = await dream(config)
        if line := summary(result):
            self._notify(line)
        if result.state.status == "failed":
            raise NacreError(result.state.error)


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


def _user_texts(paths: Sequence[Path]) -> list[str]:
    """Return the user's messages in these sessions; an unreadable session has none."""
    return [words.text for path in paths for words in Facts.of(_records(path)).words]


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
    with contextlib.suppress(NacreError, OSError):
        if (whole := read_log(path)) is not None:
            return whole.records
        if (end := read_view(path)) is not None:
            return end.view.records
    return ()
