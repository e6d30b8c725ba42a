"""Ranks the memories of one directory with an index that follows the changes on disk (R9).

Several processes may use it at once: each reads the file it opened; a save replaces the file.
"""

from __future__ import annotations

import codecs
import json
import math
import os
import re
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.memory.files.folder import TEAM
from nacre.memory.files.scan import MAX_DEPTH, moment_of
from nacre.memory.format.entry import KINDS, Entry, read_entry
from nacre.memory.format.frontmatter import MarkdownFile
from nacre.memory.format.index import INDEX_FILE
from nacre.memory.recall.base import RankedMemory, RecallQuery, Subject
from nacre.memory.recall.ranking.index import PassageIndex, StoredIndex, save_index
from nacre.store import disk

if TYPE_CHECKING:
    from nacre.memory.recall.ranking.analysis import Doc
    from nacre.memory.recall.ranking.notes import Note, NoteSet
    from nacre.memory.recall.ranking.order import Rarity
    from nacre.memory.recall.ranking.ranker import Ranker, Ranking, ScoredFile
    from nacre.memory.recall.semantic.meaning import SemanticIndex

MAX_FILE_BYTES = 256 * 1024
"""Bytes of a file that are indexed: a memory is a page; of a longer file the start is enough."""
SAVE_FROM = 50
"""Changed files before a save: fewer are read again next time in a few milliseconds."""
SMALL_PART = 100
"""On closing, fewer than one in this many changed files are not saved: an index of 10,000 files takes half a
second to write, and a hundred of them 50 ms to read again."""
MUCH_DEAD = 10_000
"""Dead passages beyond twice the live ones before the index is rebuilt."""
MAX_KNOWN_NOTES = 2_000
"""Notes kept in memory, about 2 kB each; those of a small store stay there between two messages."""
YOUNG_NS = 50_000_000
"""A file changed this recently may change again without a new stamp."""
FILE = "index.db"
DAMAGE = (sqlite3.Error, LookupError, TypeError, ValueError)
"""Raised on reading a damaged index file, which is then rebuilt once."""
_NUMBER = re.compile(r"(\d+)")
_LAST_NUMBER = re.compile(r"(\d+)\D*$")


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
        """Vectors are used if the extra `embed` is installed, or with those of `meaning`."""
        self._directory = directory
        self._folder = cache / "recall"
        self._writes = writes
        if meaning is not None:
            self._meaning = meaning
        self._clock = clock
        self._lock = threading.RLock()
        self._stored: StoredIndex | None = None
        self._index = PassageIndex()
        self._stamps: dict[str, str] = {}
        self._heads: dict[str, Entry] = {}
        self._notes: dict[int, Note | None] = {}
        """By file number what was read for a query; None for a file that is no note."""
        self._note_set: NoteSet | None = None
        """All notes of a small store, until a file changes."""
        self._is_open = False
        self._unsaved = 0

    @cached_property
    def _meaning(self) -> SemanticIndex | None:
        """The vectors, if numpy is installed; not imported before there is a memory."""
        return _semantic_index(self._folder.parent, writes=self._writes)

    @property
    def writes(self) -> bool:
        """Whether the index is saved; may be switched on later."""
        return self._writes

    @writes.setter
    def writes(self, writes: bool) -> None:
        self._writes = writes
        if (meaning := self.__dict__.get("_meaning")) is not None:
            meaning.writes = writes

    def __len__(self) -> int:
        """Return the number of indexed memories."""
        return len(self._stamps)

    def refresh(self) -> None:
        """Read the files whose stamp changed."""
        self.catch_up(seconds=math.inf)

    def catch_up(self, *, seconds: float) -> int:
        """Read changed files for about that long; return how many are left. The others can be ranked."""
        with self._lock:
            if not self._is_open:
                self._is_open = True
                with suppress(sqlite3.Error, OSError, TypeError, ValueError):
                    self._stored = StoredIndex(self._folder / FILE)
                    self._index = self._stored.index
                    self._stamps = self._stored.stamps
            try:
                left = self._catch_up(seconds)
            except DAMAGE:
                # The index file is damaged; everything in it comes from the memories.
                self._discard()
                left = self._catch_up(seconds)
            # With files left, save only after the index has doubled: a killed process need not start again.
            if self._unsaved >= max(SAVE_FROM, len(self._stamps) // 2 if left else 0):
                self._save()
            return left

    def rank(self, query: RecallQuery, *, limit: int) -> list[RankedMemory]:
        """Return the memories that match a query, best first."""
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
        """Return every memory, unranked."""
        with self._lock:
            heads = [self._head(file) for file in sorted(self._stamps)]
        return [
            RankedMemory(entry=head, directory=self._directory, score=0.0, confidence=0.0)
            for head in heads
            if head is not None
        ]

    def deepen(self, *, seconds: float) -> int:
        """Compute missing vectors for about that long; return how many are left. Needs the extra `embed`."""
        with self._lock:
            stamps = dict(self._stamps)
        if not stamps:
            return 0
        # Between two messages, so that a session finds its first memory as fast as any other.
        import nacre.memory.recall.ranking.ranker  # noqa: F401, PLC0415

        if self._meaning is None:
            return 0
        return self._meaning.catch_up(_Texts(self._directory, stamps), seconds=seconds, stamps=stamps)

    def load_vectors(self) -> None:
        """Load the model and the vectors that were saved, if any, so that the next ranking uses them."""
        if self._folder.is_dir() and self._meaning is not None and self._meaning.is_saved:
            self.deepen(seconds=0)

    def close(self) -> None:
        """Close the index file; a later call opens it again."""
        if (meaning := self.__dict__.get("_meaning")) is not None:
            meaning.close()
        with self._lock:
            # A purge may have deleted the file; else a few new files are not worth a save.
            is_due = self._unsaved >= len(self._stamps) // SMALL_PART or not (self._folder / FILE).exists()
            if self._is_open and self._unsaved and is_due:
                self._save()
            self._is_open = False
            self._clear()

    def _clear(self) -> None:
        if self._stored is not None:
            self._stored.close()
        self._stored = None
        self._index = PassageIndex()
        self._stamps = {}
        self._heads = {}
        self._notes = {}
        self._note_set = None

    def _ranked(self, query: RecallQuery, limit: int) -> list[RankedMemory]:
        if not self._stamps:
            return []
        from nacre.memory.recall.ranking.ranker import Ranker  # noqa: PLC0415 - see _catch_up

        asked = query.now.astimezone().date()
        ranker = Ranker(self._index)
        if self._meaning is not None and self._meaning.is_ready:
            ranking = self._meaning.rank(ranker, query.text, asked=asked, limit=limit)
        else:
            ranking = ranker.rank(query.text, asked=asked, limit=limit)
        ranking = self._with_notes(ranker, ranking, query, limit)
        return to_ranked(ranking, self._head, self._directory, query, self._rarity, limit=limit)

    def _with_notes(self, ranker: Ranker, ranking: Ranking, query: RecallQuery, limit: int) -> Ranking:
        """Return the ranking with the best notes, those without a word of the message included."""
        from nacre.memory.recall.ranking.notes import (  # noqa: PLC0415 - see _catch_up
            IDLE_BELOW,
            NEEDED_FROM,
            encoded_segments,
            score_notes,
            segment_needs,
        )

        by_id = self._index.by_id
        notes = self._compared(ranking)
        needs = segment_needs(query.text)
        if query.is_search:
            needs = dict.fromkeys(needs, NEEDED_FROM)
        similar = None
        if notes.notes and self._meaning is not None and self._meaning.is_ready:
            meaning = self._meaning
            parts = encoded_segments(query.text)
            if not query.is_search:
                needs = {
                    part: meaning.needed(part if part in parts else parts[0], odds)
                    for part, odds in needs.items()
                }
            similar = {
                text: {by_id[file]: one for file, one in files.items() if file in by_id}
                for text, files in meaning.similarities(parts).items()
            }
        scored = score_notes(notes, query.text, needs=needs, similar=similar)
        is_needed = max(needs.values()) >= IDLE_BELOW
        ranking = ranker.with_notes(ranking, scored, notes.notes, needed=is_needed, limit=limit)
        # The confidence of files that are no notes would be too high for a note.
        return replace(ranking, picks=[self._without_confidence(pick) for pick in ranking.picks])

    def _compared(self, ranking: Ranking) -> NoteSet:
        """Return the notes to compare with a message: all of a small store, else the best files' by words."""
        from nacre.memory.recall.ranking.notes import MAX_NOTES, NoteSet, read_notes  # noqa: PLC0415 - as above
        from nacre.memory.recall.ranking.ranker import EXPLAINED  # noqa: PLC0415 - see _catch_up

        if self._note_set is not None:
            return self._note_set
        by_id = self._index.by_id
        is_small = len(by_id) <= MAX_NOTES
        compared = by_id if is_small else [pick.id for pick in ranking.picks[:EXPLAINED]]
        if len(self._notes) > MAX_KNOWN_NOTES:
            self._notes.clear()
        new = [file for file in compared if by_id[file] not in self._notes]
        heads = {
            by_id[file]: (head.kind or "", head.name or "")
            for file in new
            if (head := self._head(file)) is not None and _is_note(head)
        }
        self._notes |= dict.fromkeys((by_id[file] for file in new), None) | read_notes(self._index, heads)
        known = ((by_id[file], self._notes[by_id[file]]) for file in compared)
        notes = NoteSet(self._index, {number: note for number, note in known if note is not None})
        if is_small:
            self._note_set = notes
        return notes

    def _without_confidence(self, pick: ScoredFile) -> ScoredFile:
        """Return a note that was not compared with confidence 0, anything else as it is."""
        head = self._head(pick.id) if pick.confidence is None else None
        return pick._replace(confidence=0.0) if head is not None and _is_note(head) else pick

    def _rarity(self, term: str) -> float:
        with self._lock:
            return self._index.idf(term)

    def _discard(self) -> None:
        self._clear()
        self._unsaved = SAVE_FROM
        if self.writes:
            with suppress(OSError):
                (self._folder / FILE).unlink()

    def _catch_up(self, seconds: float) -> int:
        until = self._clock.seconds() + seconds
        now = int(self._clock.now().timestamp() * 1e9)
        found = _stamps(self._directory, now)
        if not found and not self._stamps:
            return 0
        # A directory without memories does without these; a query has no time to import them.
        import nacre.memory.recall.ranking.ranker  # noqa: F401, PLC0415
        from nacre.memory.recall.ranking.analysis import analyse  # noqa: PLC0415
        from nacre.memory.recall.ranking.notes import note_vector  # noqa: PLC0415

        if len(self._index.owner) > 2 * self._index.live_passages + MUCH_DEAD:
            self._discard()
        for file in self._stamps.keys() - found.keys():
            self._remove(file)
        changed = sorted(file for file, stamp in found.items() if self._stamps.get(file, "") != stamp)
        for done, file in enumerate(changed, start=1):
            read = _read(self._directory / file)
            if read is None:
                self._remove(file)
            else:
                data, when = read
                entry = read_entry(file, data, written=when)
                analysed = analyse(_doc(entry, data))
                self._index.add(analysed, note_vector(analysed) if _is_note(entry) else None)
                self._note_set = None
                self._heads[file] = replace(entry, body="")
                self._stamps[file] = found[file]
                self._unsaved += 1
            if self._clock.seconds() >= until:
                return len(changed) - done
        return 0

    def _remove(self, file: str) -> None:
        self._index.remove(file)
        self._note_set = None
        self._heads.pop(file, None)
        if self._stamps.pop(file, None) is not None:
            self._unsaved += 1

    def _head(self, file: str) -> Entry | None:
        if file not in self._heads and self._stored is not None and (text := self._stored.head(file)):
            self._heads[file] = _head_of(file, text)
        return self._heads.get(file)

    def _save(self) -> None:
        """Replace the index file; what cannot be saved is built again."""
        if not self.writes:
            return
        self._unsaved = 0
        heads = [
            (file, stamp, _head_text(entry))
            for file, stamp in sorted(self._stamps.items())
            if (entry := self._head(file)) is not None
        ]
        with suppress(OSError, ValueError, sqlite3.Error):
            disk.make_folder(self._folder)
            disk.remove_abandoned(self._folder.glob(".index*"))
            temporary = self._folder / f".index{os.urandom(8).hex()}"
            descriptor = disk.open_temporary(temporary)
            try:
                save_index(self._index, heads, temporary)
                temporary.replace(self._folder / FILE)
            finally:
                temporary.unlink(missing_ok=True)
                os.close(descriptor)


def _is_note(head: Entry) -> bool:
    return bool(head.kind or head.name or head.description)


def _semantic_index(cache: Path, *, writes: bool) -> SemanticIndex | None:
    """Return the vectors of a cache folder if numpy is installed."""
    if find_spec("numpy") is None:
        return None
    from nacre.memory.recall.semantic.meaning import semantic_index  # noqa: PLC0415 - an extra

    return semantic_index(cache, writes=writes)


class _Texts(Mapping[str, str]):
    """The texts of files, each read on access."""

    def __init__(self, directory: Path, files: Mapping[str, str]) -> None:
        self._directory = directory
        self._files = files

    def __getitem__(self, file: str) -> str:
        from nacre.memory.recall.semantic.meaning import text_of  # noqa: PLC0415 - see _semantic_index

        read = _read(self._directory / file) if file in self._files else None
        return text_of(_doc(read_entry(file, read[0]), read[0])) if read else ""

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)


def _read(path: Path) -> tuple[bytes, datetime] | None:
    """Return the start of a file and its time; None when it is no readable regular file of UTF-8."""
    try:
        with os.fdopen(disk.open_regular(path, os.O_RDONLY), "rb") as source:
            data = source.read(MAX_FILE_BYTES)
            # Without a last character that was cut in two.
            codecs.utf_8_decode(data, "strict", len(data) < MAX_FILE_BYTES)
            return data, moment_of(os.fstat(source.fileno()).st_mtime_ns)
    except (OSError, UnicodeDecodeError):
        return None


def _stamps(directory: Path, now: int) -> dict[str, str]:
    """Return the stamps of all memory files; the stamp of a file just written never repeats.

    Most of the time is that of the calls of `stat`; the loop is written to add little.
    """
    found: dict[str, str] = {}
    latest = now + YOUNG_NS
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
                    try:
                        stat = item.stat(follow_symlinks=False)
                    except OSError:
                        continue
                    written = stat.st_mtime_ns
                    changed = stat.st_ctime_ns
                    stamp = f"{written}:{stat.st_size}:{changed}"
                    is_young = now - YOUNG_NS <= (written if written > changed else changed) <= latest
                    found[folder + name] = f"{stamp}?{now}" if is_young else stamp
    return found


def _doc(entry: Entry, data: bytes) -> Doc:
    from nacre.memory.recall.ranking.analysis import Doc, speaker_of  # noqa: PLC0415 - see LocalIndex._catch_up

    folder, _, name = entry.file.rpartition("/")
    # Few have one, and a second parse of the frontmatter is a twentieth of the time to index a file.
    field = MarkdownFile.parse(data).fields.get("author", "") if b"author" in data else ""
    author = field if isinstance(field, str) else ""
    # Numbered files of a folder are neighbours: the one beside an answer is evidence for it.
    number = _NUMBER.search(name)
    if not author and not (entry.name or entry.description):
        author = speaker_of(entry.body)
        if author and not folder and (number := _LAST_NUMBER.search(name)):
            # Messages that are not in folders are neighbours if only the last number of their names differs.
            folder = f"./{name[: number.start()]}"
    when = entry.modified or entry.written
    try:
        day = when.astimezone().date() if when else None
    except (OverflowError, ValueError, OSError):
        # The first and last days of the calendar have no local time in some zones.
        day = when.date() if when else None
    return Doc(
        id=entry.file,
        folder=folder,
        order=int(number[1][-9:]) if number else 0,
        when=day,
        name=entry.title,
        description=entry.description,
        author=author,
        body=entry.body,
    )


def _head_text(entry: Entry) -> str:
    """Return the fields of a memory that can be used without opening its file, as JSON."""
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
"""Factor for documentation of a tool in use (R13), which the model knows already."""
WARNING = 1.25
"""Factor for a warning about a tool in use."""

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


def to_ranked(
    ranking: Ranking,
    head_of: Callable[[str], Entry | None],
    directory: Path,
    query: RecallQuery,
    rarity: Rarity,
    *,
    limit: int,
) -> list[RankedMemory]:
    """Return the surest memories of a ranking that still exist, in its order."""
    tools = {tool.casefold() for tool in query.recent_tools}
    # Of a tool of an MCP server also the parts of its name.
    tools |= {part for tool in tools if "__" in tool for part in _PART.split(tool)} - {"", "mcp"}
    found: list[RankedMemory] = []
    certain = confidences(ranking)
    first = sorted(range(len(certain)), key=lambda place: -certain[place])[:limit]
    for pick, confidence in ((ranking.picks[place], certain[place]) for place in sorted(first)):
        entry = head_of(pick.id)
        if entry is None:
            continue
        factor = _tool_factor(entry, tools) if tools else 1.0
        when = entry.modified or entry.written
        terms = pick.subject and pick.subject._replace(place=(when.isoformat() if when else "", 0))
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


def _tool_factor(entry: Entry, tools: set[str]) -> float:
    """Return the factor for a memory about a tool in use: less for documentation, more for a warning."""
    text = f"{entry.title} {entry.description}"
    if tools.isdisjoint(_PART.split(text.casefold())):
        return 1.0
    if _WARNS.search(text):
        return WARNING
    return DOCUMENTATION if _DOCUMENTS.search(text) else 1.0


RIVALS = 10
"""The best files among which the chance to be the answer is divided; the rest is noise in any store."""
LEAST_SHARE = 0.007
"""Tuned: leaves 3.2 (sessions) to 4.7 (single messages) of five memories and 97.5 % of recall@5 or more."""
_NONE = 1e-30
"""The least share, so that it can be divided by."""


def confidences(ranking: Ranking) -> list[float]:
    """Return the confidence that each file helps, 0 to 1; of files that are no notes it never increases."""
    about = ranking.confidence.relevance
    others = shares([pick.score for pick in ranking.picks if pick.confidence is None])
    # This form cannot reorder two neighbours by rounding.
    by_share = iter([min(about, 1 / (1 + LEAST_SHARE / share)) for share in others])
    return [next(by_share) if pick.confidence is None else pick.confidence for pick in ranking.picks]


def shares(scores: list[float]) -> list[float]:
    """Return the chance of each file to be the answer; scores are best first, learnt for this."""
    if not scores:
        return []
    odds = [math.exp(score - scores[0]) for score in scores]
    total = sum(odds[:RIVALS])
    return [max(one / total, _NONE) for one in odds]
