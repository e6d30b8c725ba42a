"""Summarise cost and memories of the last days from logs, histories and usage ledgers.

Read-only. `Stats.unknown` says what the figures leave out. A request that is in two logs because a session
was branched counts once.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import TypeAlias

from nacre.app.memory_locations import memory_paths, memory_places
from nacre.cache.models import use_model_table, with_overrides
from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.errors import StoreError, TranscriptError
from nacre.memory.files.location import memory_base
from nacre.memory.format.index import INDEX_FILE
from nacre.memory.recall.usage import digest, read_tallies
from nacre.memory.transfer.move import MOVED
from nacre.messages.records import Noted, Record, Said
from nacre.session.meter import SIDE_QUERY, Meter
from nacre.session.read_session import SlimReader
from nacre.settings import Settings
from nacre.store.history import History
from nacre.store.lines import parsed, read_lines
from nacre.store.sessions import Sessions
from nacre.store.summaries import SessionSummary, moment

MAX_BYTES = 2_000_000_000
"""Bytes of logs to read, newest first: about half a minute. Older logs are counted as unread."""
PER_REQUESTS = 100
"""Unit of the compaction rate."""
UNNAMED = "unnamed"
"""Purpose of a background request whose note names none."""

Progress = Callable[[int, int], None]
"""Called with bytes read and bytes in total."""
Seen: TypeAlias = "dict[str, tuple[date, Said | Noted]]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Day:
    """Figures of one day in local time."""

    day: date
    meter: Meter = field(default_factory=Meter)
    compactions: int = 0
    saved: int = 0
    recalled: int = 0
    forgotten: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SideRequests:
    """Background requests of one purpose: by forks or as single requests (F4)."""

    purpose: str
    forks: int
    """Number of forks; each may send several requests."""
    meter: Meter

    @property
    def shares(self) -> dict[str, float]:
        """Return the shares of prompt tokens read from the cache, written to it, and neither."""
        usage = self.meter.usage
        whole = usage.prompt or 1
        return {
            "read": usage.cache_read / whole,
            "creation": usage.cache_write / whole,
            "input": usage.input / whole,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """Figures since a given day."""

    since: date
    days: tuple[Day, ...]
    """Days with activity, oldest first."""
    meter: Meter
    compactions: int
    sessions: int
    """Sessions with a request in these days."""
    kept: MemoryCounts
    """Counts of memory changes."""
    asides: tuple[SideRequests, ...] = ()
    """Background requests by purpose, most expensive first; included in the sums above."""
    unread: int = 0
    """Sessions that could not be read or exceed the byte limit."""
    unknown: tuple[str, ...] = ()
    """What these figures leave out, as sentences."""

    @property
    def total(self) -> Day:
        kept = self.kept
        return Day(
            day=self.since,
            meter=self.meter,
            compactions=self.compactions,
            saved=kept.saved.total(),
            recalled=kept.recalled.total(),
            forgotten=kept.forgotten.total(),
        )

    @property
    def compactions_per_100(self) -> float | None:
        """None without requests."""
        asked = self.meter.requests
        return self.compactions * PER_REQUESTS / asked if asked else None


def gather(
    settings: Settings,
    *,
    days: int,
    everywhere: bool = False,
    clock: Clock = SYSTEM_CLOCK,
    progress: Progress | None = None,
) -> Stats:
    """Summarise the last days, today included, for this directory or for all."""
    if settings.models:
        use_model_table(with_overrides({"models": settings.models}))
    since, logs = logs_since(settings, days=days, everywhere=everywhere, clock=clock)
    spent = _Spent(since)
    spent.read(logs, progress)
    start = datetime.combine(since, time()).astimezone()
    kept = read_memory_counts(_places(settings, everywhere=everywhere), start)
    meter = Meter().over(said for _, said in spent.replies.values())
    return Stats(
        since=since,
        days=tuple(_by_day(spent, kept)),
        meter=meter,
        compactions=sum(spent.compactions.values()),
        sessions=spent.sessions,
        kept=kept,
        asides=asides([said for _, said in spent.replies.values()]),
        unread=spent.unread,
        unknown=tuple(_unknown(meter, spent, kept)),
    )


def logs_since(
    settings: Settings, *, days: int, everywhere: bool, clock: Clock = SYSTEM_CLOCK
) -> tuple[date, list[SessionSummary]]:
    """Return the first of the last days, and the sessions that were written since."""
    since = clock.now().astimezone().date() - timedelta(days=days - 1)
    logs = Sessions(settings.home).list(None if everywhere else settings.cwd)
    return since, [each for each in logs if each.modified.astimezone().date() >= since]


def asides(records: Iterable[Record]) -> tuple[SideRequests, ...]:
    """Sum up background requests by purpose, most expensive first."""
    found: dict[str, list[Noted]] = {}
    for record in records:
        if isinstance(record, Noted) and record.kind == SIDE_QUERY:
            found.setdefault(str(record.fact("purpose") or UNNAMED), []).append(record)
    sums = [
        SideRequests(
            purpose=name,
            forks=len({fork for note in notes if isinstance(fork := note.fact("fork"), str)}),
            meter=Meter.of(notes),
        )
        for name, notes in found.items()
    ]
    return tuple(sorted(sums, key=lambda one: (-one.meter.cost_usd, one.purpose)))


class _Spent:
    """Requests and compactions of all logs."""

    def __init__(self, since: date) -> None:
        self.since = since
        self.replies: Seen = {}
        self.compactions: Counter[date] = Counter()
        self.sessions = 0
        self.unread = 0
        self._boundaries: set[str] = set()

    def read(self, logs: Sequence[SessionSummary], progress: Progress | None) -> None:
        """Read logs, newest first, up to the byte limit."""
        total = min(MAX_BYTES, sum(each.bytes for each in logs))
        done = 0
        for each in logs:
            done += each.bytes
            if done > MAX_BYTES:
                self.unread += 1
                continue
            try:
                reader = SlimReader(session_id=each.path.stem)
                for line in read_lines(each.path):
                    if b'"usage"' in line:
                        reader.line(line)
                    if b'"compact_boundary"' in line or b'"compacted"' in line:
                        self._compaction(line)
                found = dict(self._answers(reader.records))
                new = {name: one for name, one in found.items() if name not in self.replies}
                self.sessions += bool(new)
                self.replies |= new
            except TranscriptError:  # deleted or made unreadable since it was listed
                self.unread += 1
            if progress:
                progress(done, total)

    def _answers(self, records: Sequence[Record]) -> Iterator[tuple[str, tuple[date, Said | Noted]]]:
        """Yield replies of these days (of a split one its last record) and background requests.

        Keyed by name and start time: a branch repeats both, while some providers use a name again.
        """
        began: dict[str, datetime] = {}
        for record in records:
            day = record.at.astimezone().date()
            if isinstance(record, Noted) and record.kind == SIDE_QUERY and day >= self.since:
                yield record.id, (day, record)
            if not isinstance(record, Said) or record.reply is None or record.reply.usage is None:
                continue
            name = record.reply.id or record.id
            at = began.setdefault(name, record.at)
            # A reply written by a program was never requested from a model.
            if record.aside != "display" and day >= self.since:
                yield f"{name} {at.isoformat()}", (day, record)

    def _compaction(self, line: bytes) -> None:
        said = parsed(line)
        is_boundary = said.get("subtype") == "compact_boundary" and said.get("isSidechain") is not True
        at = moment(said.get("timestamp"))
        if not (is_boundary or (said.get("type"), said.get("kind")) == ("nacre", "compacted")) or at is None:
            return
        day = at.astimezone().date()
        name = str(said.get("uuid"))
        if day >= self.since and name not in self._boundaries:
            self._boundaries.add(name)
            self.compactions[day] += 1


def _by_day(spent: _Spent, kept: MemoryCounts) -> Iterator[Day]:
    asked: dict[date, list[Said | Noted]] = {}
    for day, said in spent.replies.values():
        asked.setdefault(day, []).append(said)
    for day in sorted({*asked, *spent.compactions, *kept.saved, *kept.recalled, *kept.forgotten}):
        yield Day(
            day=day,
            meter=Meter().over(asked.get(day, ())),
            compactions=spent.compactions[day],
            saved=kept.saved[day],
            recalled=kept.recalled[day],
            forgotten=kept.forgotten[day],
        )


def _places(settings: Settings, *, everywhere: bool) -> list[tuple[Path, Path]]:
    """Return the history and the cache of each memory directory."""
    if everywhere:
        base = memory_base(memory_paths(settings))
        histories = sorted((base / "history").glob("*.git"))
        found = [(each, base / "cache" / each.name.removesuffix(".git")) for each in histories]
        own = settings.memory.location
        return found if own is None else [*found, (own.history, own.cache)]
    return [(each.history, each.cache) for each in memory_places(settings).all]


def _unknown(meter: Meter, spent: _Spent, kept: MemoryCounts) -> Iterator[str]:
    if meter.unpriced:
        yield f"{meter.unpriced:,} requests went to models without a known price, which is not included"
    if spent.unread:
        yield f"{spent.unread:,} sessions could not be read, or were too much to read; they are left out"
    yield from (f"a history cannot be read: {problem}" for problem in kept.problems)
    yield "requests that failed, that are in no log, or that sub-agents logged apart are not counted"
    yield "whether a memory was cited or contradicted is judged by words alone, so both figures are low"
    yield "what was purged has left the history, and these figures with it"


MAX_COMMITS = 100_000
"""Commits of one history that are read."""
SHORT_COMMIT = 10
"""Characters of a commit id in the reason of an undo."""
AUTHORS_TO_REJECT = frozenset({"agent", "extract", "dream", "unconfirmed"})
"""Authors whose memories a user may reject by forgetting them."""
OTHER_WORK = (MOVED, "lint --fix", "synced with the team")
"""Reasons of changes that neither save nor forget a memory."""

_UNDO = re.compile(r"undo ([0-9a-f]{4,40})\b")

Topic: TypeAlias = tuple[str, str]
"""A memory: its cache directory and the digest that its usage ledger knows it by."""


@dataclass(slots=True)
class MemoryCounts:
    """Counts by day, and the memories they refer to."""

    saved: Counter[date] = field(default_factory=Counter)
    recalled: Counter[date] = field(default_factory=Counter)
    forgotten: Counter[date] = field(default_factory=Counter)
    cited: int = 0
    tokens: int = 0
    """Tokens of attached memories, once each."""
    written: set[Topic] = field(default_factory=set)
    """Memories that were saved, by any author."""
    attached: set[Topic] = field(default_factory=set)
    undone: set[Topic] = field(default_factory=set)
    """Saved memories whose save was undone."""
    contradicted: set[Topic] = field(default_factory=set)
    rejected: set[Topic] = field(default_factory=set)
    """Memories saved by an agent that the user forgot."""
    problems: list[str] = field(default_factory=list)

    @property
    def amiss(self) -> set[Topic]:
        return self.undone | self.contradicted | self.rejected

    def share(self, some: set[Topic], among: set[Topic]) -> float | None:
        """None if there is nothing to divide by."""
        return len(some & among) / len(among) if among else None


def read_memory_counts(places: Iterable[tuple[Path, Path]], since: datetime) -> MemoryCounts:
    """Read histories and usage ledgers back to a point in time."""
    kept = MemoryCounts()
    for history, cache in places:
        for one in read_tallies(cache):
            if one.at >= since:
                topic = str(cache), one.of
                kept.recalled[one.day] += one.attached
                kept.cited += one.cited
                kept.tokens += one.tokens
                kept.attached |= {topic} if one.attached else set()
                kept.contradicted |= {topic} if one.contradicted else set()
        try:
            _read_history(History(history), str(cache), since, kept)
        except StoreError as error:
            kept.problems.append(str(error))
    kept.recalled = +kept.recalled
    return kept


def _read_history(history: History, cache: str, since: datetime, kept: MemoryCounts) -> None:
    """Walk from the newest change back, so that the fate of a save is known before the save."""
    taken_back: set[str] = set()
    forgotten_by_hand: set[Topic] = set()
    for commit in _commits(history, since):
        signed = history.head(commit).signature
        is_undone = commit[:SHORT_COMMIT] in taken_back
        if undo := _UNDO.match(signed.reason):
            # An undo that was itself undone has no effect.
            taken_back |= set() if is_undone else {undo[1][:SHORT_COMMIT]}
            continue
        if signed.reason.startswith(OTHER_WORK):
            continue
        day = signed.at.astimezone().date()
        for topic, is_there in _topics(history, commit, cache):
            if not is_there:
                kept.forgotten[day] += 1
                forgotten_by_hand |= {topic} if signed.author == "user" and not is_undone else set()
                continue
            kept.saved[day] += 1
            kept.written.add(topic)
            kept.undone |= {topic} if is_undone else set()
            if topic in forgotten_by_hand and signed.author in AUTHORS_TO_REJECT:
                kept.rejected.add(topic)


def _commits(history: History, since: datetime) -> Iterator[str]:
    at = history.newest
    left = MAX_COMMITS
    while at and left and history.head(at).signature.at >= since:
        yield at
        at = history.head(at).parent
        left = left - 1


def _topics(history: History, commit: str, cache: str) -> Iterator[tuple[Topic, bool]]:
    """Return the memories a commit changed, and whether they exist after it."""
    for file, (_, new) in history.changes(history.head(commit).parent, commit).items():
        if file.endswith(".md") and file.rpartition("/")[2] != INDEX_FILE:
            yield (cache, digest(file)), new is not None
