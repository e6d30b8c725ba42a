"""The index of one memory directory: derived, disposable, kept up to date by what changed on disk (R9).

Several processes may use it at once: each reads the file it opened; who saves puts a new one in its place.
"""

from __future__ import annotations

import json
import math
import os
import re
import sqlite3
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import date, datetime
from pathlib import Path

from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.memory.files.folder import TEAM
from nacre.memory.files.scan import MAX_DEPTH, moment_of
from nacre.memory.format.entry import KINDS, Entry, read_entry
from nacre.memory.format.frontmatter import MarkdownFile
from nacre.memory.format.index import INDEX_FILE
from nacre.memory.recall.base import RankedMemory, RecallQuery, Subject
from nacre.memory.recall.ranking.analysis import Doc, analyse
from nacre.memory.recall.ranking.index import PassageIndex, StoredIndex, save_index
from nacre.memory.recall.ranking.ranker import ENOUGH, Ranker, Ranking, Rarity
from nacre.memory.recall.semantic.meaning import SemanticIndex, text_of
from nacre.store import disk

MAX_FILE_BYTES = 256 * 1024
"""Of one file are indexed: a memory is a page; what is longer is a log, and its start tells enough."""
SAVE_FROM = 50
"""Files read anew from which on a save pays: fewer are read again next time in some milliseconds."""
SMALL_PART = 100
"""One in so many files read anew is not worth writing the whole index when it is closed: 10,000 take half a
second to write, and a hundred of them some 50 ms to read again."""
MUCH_DEAD = 10_000
"""Passages of files that are gone, beyond as many as there are of others, from which on all is read anew."""
YOUNG_NS = 50_000_000
"""A file written this shortly before it was looked at may be written again with the same stamp."""
FILE = "index.db"
DAMAGE = (sqlite3.Error, LookupError, TypeError, ValueError)
"""What a file says that is no longer what was written; it is built again once."""
_NUMBER = re.compile(r"\d+")


class LocalIndex:
    """Ranks the memories of one directory; safe to use from several threads."""

    def __init__(
        self,
        directory: Path,
        cache: Path,
        *,
        writes: bool = True,
        meaning: SemanticIndex | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._directory = directory
        self._folder = cache / "recall"
        self.writes = writes
        """Whether what is learnt is kept on disk for the next one; may be switched on later."""
        self._meaning = meaning
        self._clock = clock
        self._lock = threading.RLock()
        self._kept: StoredIndex | None = None
        self._index = PassageIndex()
        self._stamps: dict[str, str] = {}
        self._heads: dict[str, Entry] = {}
        self._is_open = False
        self._unsaved = 0

    def refresh(self) -> None:
        """Notice what changed on disk; only files whose stamp changed are read again."""
        self.catch_up(seconds=math.inf)

    def catch_up(self, *, seconds: float) -> int:
        """The same for about so long; how many files are left. What is known by then can be ranked."""
        with self._lock:
            self._open()
            try:
                left = self._catch_up(seconds)
            except DAMAGE:
                # A half-written or damaged file; everything it said stands in the memories themselves.
                self._discard()
                left = self._catch_up(seconds)
            # While more is to come, only what has doubled is saved: whoever is killed need not begin again.
            if self._unsaved >= max(SAVE_FROM, len(self._stamps) // 2 if left else 0):
                self._save()
            return left

    def rank(self, query: RecallQuery, *, limit: int) -> list[RankedMemory]:
        """The memories that have to do with a query, best first."""
        with self._lock:
            if not self._is_open:
                self.refresh()
            try:
                return self._ranked(query, limit)
            except DAMAGE:
                self._discard()
                self._catch_up(math.inf)
                return self._ranked(query, limit)

    def everything(self) -> list[RankedMemory]:
        """Every memory, unranked; for a store so small that somebody can look at all of it."""
        with self._lock:
            heads = [self._head(file) for file in sorted(self._stamps)]
        return [
            RankedMemory(entry=head, directory=self._directory, score=0.0, confidence=0.0)
            for head in heads
            if head is not None
        ]

    def deepen(self, *, seconds: float) -> int:
        """Work out what files mean, for about so long; how many are left. Nothing without the extra."""
        if self._meaning is None:
            return 0
        with self._lock:
            stamps = dict(self._stamps)
        return self._meaning.catch_up(_Texts(self._directory, stamps), seconds=seconds, stamps=stamps)

    def close(self) -> None:
        """Let the file go; a later call opens it again."""
        if self._meaning is not None:
            self._meaning.close()
        with self._lock:
            if self._is_open and self._is_worth_saving:
                self._save()
            if self._kept is not None:
                self._kept.close()
            self._kept = None
            self._is_open = False
            self._index = PassageIndex()
            self._stamps = {}
            self._heads = {}

    def _ranked(self, query: RecallQuery, limit: int) -> list[RankedMemory]:
        asked = query.now.astimezone().date()
        ranker = Ranker(self._index)
        if self._meaning is not None and self._meaning.is_ready:
            ranking = self._meaning.rank(ranker, query.text, asked=asked, limit=limit)
        else:
            ranking = ranker.rank(query.text, asked=asked, limit=limit)
        heads = {pick.id: entry for pick in ranking.picks if (entry := self._head(pick.id)) is not None}
        return judged(ranking, heads, self._directory, query, self._rarity)

    def _rarity(self, term: str) -> float:
        with self._lock:
            return self._index.idf(term)

    def _open(self) -> None:
        if self._is_open:
            return
        self._is_open = True
        with suppress(sqlite3.Error, OSError, TypeError, ValueError):
            kept = StoredIndex(self._folder / FILE)
            self._kept = kept
            self._index = kept.index
            self._stamps = kept.stamps

    def _discard(self) -> None:
        if self._kept is not None:
            self._kept.close()
        self._kept, self._index, self._stamps, self._heads = None, PassageIndex(), {}, {}
        self._unsaved = SAVE_FROM
        if self.writes:
            with suppress(OSError):
                (self._folder / FILE).unlink()

    def _catch_up(self, seconds: float) -> int:
        until = self._clock.seconds() + seconds
        now = int(self._clock.now().timestamp() * 1e9)
        found = dict(_stamps(self._directory, now))
        if len(self._index.owner) > 2 * self._index.live_passages + MUCH_DEAD:
            self._discard()
        for file in self._stamps.keys() - found.keys():
            self._forget(file)
        changed = sorted(file for file, stamp in found.items() if self._stamps.get(file, "") != stamp)
        for done, file in enumerate(changed, start=1):
            self._learn(file, found[file])
            if self._clock.seconds() >= until:
                return len(changed) - done
        return 0

    def _learn(self, file: str, stamp: str) -> None:
        read = _read(self._directory / file)
        if read is None:
            self._forget(file)
            return
        data, when = read
        entry = read_entry(file, data, written=when)
        self._index.add(analyse(_doc(entry, data)))
        self._heads[file] = replace(entry, body="")
        self._stamps[file] = stamp
        self._unsaved += 1

    def _forget(self, file: str) -> None:
        self._index.remove(file)
        self._heads.pop(file, None)
        if self._stamps.pop(file, None) is not None:
            self._unsaved += 1

    def _head(self, file: str) -> Entry | None:
        if file not in self._heads and self._kept is not None and (text := self._kept.head(file)):
            self._heads[file] = _head_of(file, text)
        return self._heads.get(file)

    @property
    def _is_worth_saving(self) -> bool:
        """When it is closed: much of it is new, or nothing of it is there, because a purge has taken it."""
        much = self._unsaved >= len(self._stamps) // SMALL_PART
        return bool(self._unsaved) and (much or not (self._folder / FILE).exists())

    def _save(self) -> None:
        """Write a new file and put it in the old one's place; what cannot be saved is built again."""
        if not self.writes:
            return
        self._unsaved = 0
        heads = [
            (file, stamp, _head_text(entry))
            for file, stamp in sorted(self._stamps.items())
            if (entry := self._head(file)) is not None
        ]
        # Who only asks needs no file of its own, and waits for everything that is loaded.
        from tempfile import mkstemp  # noqa: PLC0415

        with suppress(OSError, ValueError, sqlite3.Error):
            disk.make_folder(self._folder)
            descriptor, name = mkstemp(dir=self._folder, prefix=".index")
            os.close(descriptor)
            try:
                save_index(self._index, heads, Path(name))
                Path(name).replace(self._folder / FILE)
            finally:
                Path(name).unlink(missing_ok=True)


class _Texts(Mapping[str, str]):
    """What files say, each read when it is asked for."""

    def __init__(self, directory: Path, files: Mapping[str, str]) -> None:
        self._directory = directory
        self._files = files

    def __getitem__(self, file: str) -> str:
        read = _read(self._directory / file) if file in self._files else None
        return text_of(_doc(read_entry(file, read[0]), read[0])) if read else ""

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)


def _read(path: Path) -> tuple[bytes, datetime] | None:
    """The start of a file and its time; none for what is no plain file that can be read."""
    try:
        with os.fdopen(disk.open_regular(path, os.O_RDONLY), "rb") as source:
            return source.read(MAX_FILE_BYTES), moment_of(os.fstat(source.fileno()).st_mtime_ns)
    except OSError:
        return None


def _stamps(directory: Path, now: int) -> Iterator[tuple[str, str]]:
    """Every memory file with what tells one state of it from another; never the same for one just written."""
    waiting = [("", 0)]
    while waiting:
        folder, depth = waiting.pop()
        try:
            listing = os.scandir(directory / folder)
        except OSError:
            continue
        with listing:
            for item in listing:
                name = item.name
                if name.startswith(".") or not name.isprintable():
                    continue
                if item.is_dir(follow_symlinks=False):
                    if depth < MAX_DEPTH and (folder or name != TEAM):
                        waiting.append((f"{folder}{name}/", depth + 1))
                elif name.endswith(".md") and name != INDEX_FILE and item.is_file(follow_symlinks=False):
                    with suppress(OSError):
                        stat = item.stat(follow_symlinks=False)
                        newest = max(stat.st_mtime_ns, stat.st_ctime_ns)
                        stamp = f"{stat.st_mtime_ns}:{stat.st_size}:{stat.st_ctime_ns}"
                        is_young = abs(now - newest) <= YOUNG_NS
                        yield f"{folder}{name}", f"{stamp}?{now}" if is_young else stamp


def _doc(entry: Entry, data: bytes) -> Doc:
    folder, _, name = entry.file.rpartition("/")
    # Files of one folder that are numbered follow each other: what stands beside an answer tells of it.
    number = _NUMBER.search(name)
    # Few have one, and to read a frontmatter a second time is a twentieth of all that indexing a file takes.
    author = MarkdownFile.parse(data).fields.get("author", "") if b"author" in data else ""
    when = entry.modified or entry.written
    return Doc(
        id=entry.file,
        folder=folder,
        order=int(number[0][-9:]) if number else 0,
        when=_day(when),
        name=entry.title,
        description=entry.description,
        author=author if isinstance(author, str) else "",
        body=entry.body,
    )


def _day(when: datetime | None) -> date | None:
    """By the clock on the wall; the first and last days of the calendar have none in every zone."""
    try:
        return when.astimezone().date() if when else None
    except (OverflowError, ValueError, OSError):
        return when.date() if when else None


def _head_text(entry: Entry) -> str:
    """What ranking, listing and attaching need to know of a memory without opening its file."""
    moments = {"modified": entry.modified, "written": entry.written}
    flags = {"local_only": entry.local_only, "pinned": entry.pinned, "is_unlisted": entry.is_unlisted}
    head = {
        "name": entry.name,
        "description": entry.description,
        "kind": entry.kind,
        "origin": entry.origin,
        "bytes": entry.bytes,
        **{name: when.isoformat() for name, when in moments.items() if when},
        **{name: True for name, is_set in flags.items() if is_set},
    }
    return json.dumps(head, ensure_ascii=False)


def _head_of(file: str, text: str) -> Entry:
    head = json.loads(text)
    return Entry(
        file=file,
        name=head["name"],
        description=head["description"],
        kind=head["kind"] if head["kind"] in KINDS else None,
        origin=head["origin"],
        bytes=head["bytes"],
        modified=_moment(head.get("modified")),
        written=_moment(head.get("written")),
        local_only=bool(head.get("local_only")),
        pinned=bool(head.get("pinned")),
        is_unlisted=bool(head.get("is_unlisted")),
    )


def _moment(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


DOCUMENTATION = 0.5
"""What the certainty of a tool's documentation is worth while it is in use (R13): the model knows it."""
WARNING = 1.25
"""What that of a warning about it is worth: in use is exactly when it matters."""

_WARNS = re.compile(
    r"warn|gotcha|caution|careful|pitfall|known issue|bug|breaks?\b|fails?\b|never|don't|do not|avoid"
    r"|注意|警告|小心|不要|避免|陷阱",
    re.IGNORECASE,
)
_DOCUMENTS = re.compile(
    r"usage|how to use|reference|api\b|syntax|options|documentation|docs\b|manual|用法|文档|手册|使い方",
    re.IGNORECASE,
)
_PART = re.compile(r"[_\W]+")


def judged(
    ranking: Ranking, heads: Mapping[str, Entry], directory: Path, query: RecallQuery, rarity: Rarity
) -> list[RankedMemory]:
    """The memories of a ranking that are still there, best first."""
    tools = frozenset(_names(query.recent_tools))
    found: list[RankedMemory] = []
    for pick, confidence in zip(ranking.picks, worth(ranking), strict=True):
        entry = heads.get(pick.id)
        if entry is None:
            continue
        factor = _in_use(entry, tools) if tools else 1.0
        when = entry.modified or entry.written
        terms = pick.subject and pick.subject.at((when.isoformat() if when else "", 0))
        found.append(
            RankedMemory(
                entry=entry,
                directory=directory,
                score=pick.score,
                confidence=min(1.0, confidence * factor),
                parts=pick.parts if factor == 1 else {**pick.parts, "tool_in_use": factor},
                subject=Subject(terms, rarity) if terms else None,
            )
        )
    return found


def _in_use(entry: Entry, tools: frozenset[str]) -> float:
    """How a memory about a tool in use is weighed: its documentation less, a warning about it more."""
    text = f"{entry.title} {entry.description}"
    if not tools & frozenset(_PART.split(text.casefold())):
        return 1.0
    if _WARNS.search(text):
        return WARNING
    return DOCUMENTATION if _DOCUMENTS.search(text) else 1.0


def _names(tools: tuple[str, ...]) -> Iterator[str]:
    """A tool by its name, and one of an MCP server by its server's and its own."""
    for tool in tools:
        yield tool.casefold()
        if "__" in tool:
            yield from (part for part in _PART.split(tool.casefold()) if part not in {"", "mcp"})


WORTH_IT = ENOUGH
"""From here on a pick is attached; both parts of a pick's worth are scaled to it."""
RIVALS = 10
"""Among so many of the best a pick has its share: what lies behind them is noise, however large the store."""
LEAST_SHARE = 0.007
"""Tuned: leaves 3.2 (sessions) to 4.7 (single messages) of five picks and 97.5 % of recall@5 or more."""
_NONE = 1e-30
"""What a hopeless pick is given, so that it can be divided by."""


def worth(ranking: Ranking) -> list[float]:
    """For each pick the confidence that it helps, 0 to 1; the better placed is never the less sure."""
    about = ranking.confidence.relevance
    # Written so that rounding cannot turn two neighbours round.
    return [min(about, 1 / (1 + LEAST_SHARE / share)) for share in shares([p.score for p in ranking.picks])]


def shares(scores: list[float]) -> list[float]:
    """How the chance to be the answer divides among the picks; scores are best first, learnt for this."""
    if not scores:
        return []
    odds = [math.exp(score - scores[0]) for score in scores]
    total = sum(odds[:RIVALS])
    return [max(one / total, _NONE) for one in odds]
