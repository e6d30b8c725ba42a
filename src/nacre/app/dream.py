"""Layer 6 in a session: at the end of a turn the gates are asked, and a dream begins where all are open (D1).

By hand it is begun by `nacre dream`, which brings a session that leaves nothing on disk.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from datetime import date, datetime
from functools import partial
from pathlib import Path

from nacre.agents.toolset import Toolset
from nacre.app.model_for_role import model_for_role
from nacre.app.startup_context import StartupContext
from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.context.privacy import by_tools
from nacre.errors import NacreError, StoreError
from nacre.layers.l6_dream.by_rule import Rules
from nacre.layers.l6_dream.by_rule_marks import checked_in, nothing_checked
from nacre.layers.l6_dream.dream import DreamConfig, DreamResult, dream, recover
from nacre.layers.l6_dream.lock import Lock
from nacre.layers.l6_dream.policy import Gate, Moment, stops_at
from nacre.layers.l6_dream.state import Board, State
from nacre.layers.l6_dream.with_model import Dreamer, Write
from nacre.loop.fork import SOURCE
from nacre.memory.dates.relative import resolved
from nacre.memory.files.identity import read_identity
from nacre.memory.files.location import Location
from nacre.memory.memory import Memory
from nacre.memory.recall.usage import read_usage
from nacre.messages.facts import Facts
from nacre.messages.records import Noted, Record, Said
from nacre.session.agent import Agent
from nacre.session.attachments import INSIDE
from nacre.session.background import Background
from nacre.session.forks import ForkRunner
from nacre.session.layer import Layer
from nacre.session.read_session import look, look_back
from nacre.settings import Settings
from nacre.store.home import canonical, slug

WORK = "dream"
"""The name of a dream among what runs in the background."""
DRIFT_SECONDS = 5.0
"""For looking up what memories name in the project: nobody waits, but a dream is not about this alone."""
HEARD_SESSIONS = 20
"""Of the newest sessions the person's words are read, to look up what a model writes."""
MAX_OUTSIDE_CHARS = 16_000_000
"""Of what tools said, newest sessions first: what a model writes is compared with it word by word."""
CITED_WEIGHT = 3
"""A memory that a reply spoke of did more than one that was only there."""
SUFFIX = ".jsonl"


@dataclass(frozen=True, slots=True)
class Touched:
    """A transcript, and when it was last written to."""

    path: Path
    at: float


def touched_since(location: Location, home: Path, since: datetime | None, *, but: str = "") -> list[Touched]:
    """The transcripts of every directory that shares this memory, newest first; without the one named."""
    folders = {home / "projects" / slug(canonical(one)) for one in _directories(location)}
    if location.directory.parent.parent.name == "projects":
        folders.add(location.directory.parent)
    oldest = since.timestamp() if since else 0.0
    found = [one for folder in sorted(folders) for one in _transcripts(folder) if one.at > oldest]
    return sorted((one for one in found if one.path.stem != but), key=lambda one: -one.at)


def _directories(location: Location) -> Sequence[str]:
    try:
        identity = read_identity(location.identity_file)
    except StoreError:
        return ()
    known = identity.directories if identity else ()
    return (*known, *([str(location.root)] if location.root else []))


def _transcripts(folder: Path) -> Iterator[Touched]:
    with contextlib.suppress(OSError), os.scandir(folder) as items:
        for item in items:
            # Older clients keep the logs of sub-agents beside those of sessions.
            if item.name.endswith(SUFFIX) and not item.name.startswith("agent-") and item.is_file():
                yield Touched(Path(item.path), item.stat().st_mtime)


@dataclass(frozen=True, slots=True, kw_only=True)
class DreamTarget:
    """Whose memory, in whose session, is to be dreamt of."""

    settings: Settings
    memory: Memory
    session: str = ""
    clock: Clock = SYSTEM_CLOCK

    @property
    def location(self) -> Location:
        return self.memory.location

    def touched(self, since: datetime | None) -> list[Touched]:
        return touched_since(self.location, self.settings.home, since, but=self.session)


def night_of(
    occasion: DreamTarget, *, dreamer: Dreamer | None = None, is_nightly: bool = False
) -> DreamConfig:
    """All that a dream of this memory works with."""
    settings = occasion.settings
    location = occasion.location
    clock = occasion.clock
    last = Lock(location.directory, location.cache, clock=clock).last()
    root = settings.project_root
    now = clock.now()
    rules = Rules(
        now=now,
        zone=now.astimezone().tzinfo or now.tzinfo or Rules(now=now).zone,
        settings=settings.dream,
        resolve=resolved,
        check=checked_in(root, DRIFT_SECONDS) if settings.switches.drift_check else nothing_checked,
        useful=_useful(location),
        has_index=settings.memory.index,
        is_daily=is_nightly or settings.memory.mode == "daily",
    )
    return DreamConfig(
        location=location,
        rules=rules,
        settings=settings.dream,
        dreamer=dreamer,
        sessions=tuple(one.path.stem for one in occasion.touched(last)),
        session=occasion.session,
        clock=clock,
        watch=occasion.memory.watch,
    )


def dreamer_of(occasion: DreamTarget, forker: ForkRunner, hands: Toolset) -> Dreamer | None:
    """Who dreams: the model of this role, told nothing of the conversation; none where rules must do (F7)."""
    settings = occasion.settings
    fork = model_for_role(settings.roles.dream, forker, settings)
    can_write = any(tool["name"] == "Write" for tool in forker.session.base.tools)
    if fork is None or not can_write:
        return None
    last = Lock(occasion.location.directory, occasion.location.cache).last()
    paths = [one.path for one in occasion.touched(last)]
    return Dreamer(
        fork=fork,
        model=settings.roles.dream or forker.session.base.model,
        open_to=partial(_owned, hands),
        transcripts=sorted({path.parent for path in paths}),
        said=lambda: _said(paths[:HEARD_SESSIONS]),
        outside=lambda: _outside(paths),
    )


class Dream(Layer):
    """Asks the gates after each turn of one session."""

    def __init__(
        self,
        occasion: DreamTarget,
        background: Background,
        dreamer: Dreamer | None = None,
        *,
        tell: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.stopped: Counter[str] = Counter()
        """How many turns stopped at which gate."""
        self._occasion = occasion
        self._background = background
        self._dreamer = dreamer
        self._tell = tell
        self._lock = Lock(occasion.location.directory, occasion.location.cache, clock=occasion.clock)
        self._board = Board(occasion.location.cache)
        self._scanned: datetime | None = None

    async def after_turn(self) -> None:
        """A turn has ended: begin a dream if one is due; nobody waits for it."""
        gate = "open" if self._background.is_running(WORK) else await asyncio.to_thread(self._gate)
        if gate == "open" and not self._background.is_running(WORK):
            holder = await asyncio.to_thread(self._lock.holder)
            gate = "locked" if holder is not None else "open"
            if holder is None:
                self.begin()
        self.stopped[gate] += 1

    def begin(self) -> bool:
        """Begin a dream beside the conversation, whatever the gates say; false while one is under way."""
        return self._background.start(WORK, self._dreamt(), told="finishing a dream")

    @property
    def last(self) -> State:
        """How far the present dream is, or what became of the last, in whatever process."""
        return self._board.read()

    @property
    def consolidated(self) -> datetime | None:
        """When memory was last consolidated."""
        return self._lock.last()

    def keep_counts(self) -> None:
        """Add what was counted to what other sessions counted."""
        if self.stopped:
            self._board.count(self.stopped)
            self.stopped = Counter()

    def _gate(self) -> Gate:
        settings = self._occasion.settings
        moment = Moment(
            now=self._occasion.clock.now(),
            is_main=SOURCE.get() == "main",
            is_on=settings.switches.dream is not False,
            is_remote=settings.memory.remote,
            last=self._lock.last,
            scanned=self._scanned,
            sessions=self._count,
            failures=self._failures,
            is_daily=settings.memory.mode == "daily",
        )
        return stops_at(moment, settings.dream) or "open"

    def _count(self, since: datetime | None) -> int:
        self._scanned = self._occasion.clock.now()
        return len(self._occasion.touched(since))

    def _failures(self) -> tuple[int, date | None]:
        state = self._board.read()
        return state.failures, state.last_failure

    async def _dreamt(self) -> None:
        night = await asyncio.to_thread(night_of, self._occasion, dreamer=self._dreamer)
        done = await dream(night)
        if line := summary(done):
            self._tell(line)
        if done.state.status == "failed":
            raise NacreError(done.state.error)


async def join_dreaming(
    agent: Agent,
    known: StartupContext,
    hands: Toolset,
    settings: Settings,
    forker: ForkRunner,
    stack: AsyncExitStack,
) -> Dream | None:
    """Let a session's turns ask whether a dream is due, where it keeps a memory and dreams are wanted."""
    session = agent.session
    memory = known.memory
    if memory is None or not known.session or settings.switches.dream is False:
        return None
    occasion = DreamTarget(settings=settings, memory=memory, session=known.session, clock=session.clock)
    # What a process left that died in mid-dream is settled once, so that a turn costs one stat.
    # Where that cannot be written, a conversation begins all the same.
    with contextlib.suppress(NacreError, OSError):
        await asyncio.to_thread(recover, memory.location, clock=session.clock)
    # Somebody who asks once and goes does not wait for a model; what rules do takes a moment.
    dreamer = dreamer_of(occasion, forker, hands) if settings.is_interactive else None
    dreaming = Dream(occasion, forker.background, dreamer, tell=session.notify)
    session.layers.append(dreaming)
    stack.callback(dreaming.keep_counts)
    return dreaming


def summary(done: DreamResult) -> str:
    """What came of a dream, in one line; nothing where there is nothing to tell."""
    state = done.state
    if state.status == "failed":
        return f"the dream changed nothing: {state.error}"
    if state.status != "completed" or not (state.changes or state.proposed):
        return ""
    counts = Counter(str(one["action"]) for one in state.changes)
    parts = [f"{counts[action]} {action}" for action in ("added", "changed", "removed") if counts[action]]
    parts += [f"{len(state.proposed)} proposed (`nacre memory review`)"] if state.proposed else []
    undo = "; `nacre dream undo` takes it back" if state.commit else ""
    return f"memory was consolidated: {', '.join(parts)}{undo}"


@contextmanager
def _owned(hands: Toolset, folder: Path, write: Write) -> Iterator[None]:
    async def writer(path: Path, content: bytes) -> None:
        await asyncio.to_thread(write, path, content)

    hands.workspace.owned[folder] = writer
    try:
        yield
    finally:
        del hands.workspace.owned[folder]


def _useful(location: Location) -> dict[str, float]:
    """How often memories were of use: cited ones before those that were only attached."""
    found = read_usage(location)
    return {file: one.cited * CITED_WEIGHT + one.attached - one.contradicted for file, one in found.items()}


def _said(paths: Sequence[Path]) -> list[str]:
    """What people said in these sessions; one that cannot be read says nothing."""
    return [words.text for path in paths for words in Facts.of(_records(path)).words]


def _outside(paths: Sequence[Path]) -> list[str]:
    """What tools said in these sessions, as much as can be looked through."""
    found: list[str] = []
    room = MAX_OUTSIDE_CHARS
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
    """All of a log, for a search finds what was said before a compaction, too; of a huge one its end."""
    with contextlib.suppress(NacreError, OSError):
        if (whole := look_back(path)) is not None:
            return whole.records
        if (end := look(path)) is not None:
            return end.view.records
    return ()
