"""The index of one memory directory: passages, postings and statistics, in memory and in a SQLite file.

Passage numbers only grow: a changed file is removed (its old numbers are dead) and added again. Opening loads
per-passage numbers and file places (about 20 bytes a passage); postings, stems and heads are read for the
terms and candidates of a question. What is added later stays in memory until the next save. The index has a
file of its own because a question reads dozens of rows over one open connection.
"""

from __future__ import annotations

import math
import sqlite3
from array import array
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from nacre.memory.recall.ranking.wordlists import SHARES

if TYPE_CHECKING:
    from nacre.memory.recall.ranking.analysis import AnalysedFile
    from nacre.memory.recall.ranking.term_vectors import Vector

K1 = 1.2
B = 0.75
"""The usual BM25 constants; not tuned."""
PIVOT_LENGTH = 30
"""Content terms of an ordinary passage; fixed, so that a stored impact never becomes outdated."""
PRIOR_PASSAGES = 200
"""Weight of everyday English in a word's rarity: a small store has too little text."""


@dataclass
class Posting:
    """The passages that hold one term, in ascending order."""

    passages: array[int] = field(default_factory=lambda: array("I"))
    impacts: array[int] = field(default_factory=lambda: array("B"))
    """BM25's saturated count, in 255ths."""
    dead: int = 0


@dataclass(frozen=True)
class IndexedFile:
    """The passages of one file and its place among its neighbours."""

    id: str
    folder: str
    order: int
    when: date | None
    first: int
    last: int
    length: int


class Stems(list[str]):
    """The stems of each passage."""

    def load(self, passages: Collection[int]) -> None:
        """Prepare these passages; in memory there is nothing to do."""


class NoteVectors(dict[int, "Vector"]):
    """The vectors of notes by file number; a note without a known term has none."""

    def of(self, numbers: Collection[int]) -> Mapping[int, Vector]:
        """Return the vectors of some files."""
        return self


class PassageIndex:
    """All files of one store."""

    def __init__(self) -> None:
        self.entries: list[IndexedFile | None] = []
        self.by_id: dict[str, int] = {}
        self.by_place: dict[tuple[str, int], int] = {}
        self.postings: dict[str, Posting] = {}
        self.owner = array("I")
        self.lengths = array("H")
        self.cues = array("H")
        self.author = array("I")
        self.stems = Stems()
        self.vectors = NoteVectors()
        self.authors: dict[str, int] = {}
        self.live_passages = 0
        self._called: dict[str, list[str]] = {}
        self._named = 0

    def add(self, doc: AnalysedFile, vector: Vector | None = None) -> None:
        """Add one file, replacing the one with its id; a note has a vector."""
        self.remove(doc.id)
        number = len(self.entries)
        first = len(self.owner)
        for passage in doc.passages:
            norm = K1 * (1 - B + B * passage.length / PIVOT_LENGTH)
            for term, count in passage.counts.items():
                posting = self.postings.get(term)
                if posting is None:
                    posting = self.postings[term] = Posting()
                posting.passages.append(len(self.owner))
                posting.impacts.append(int(255 * count / (count + norm)))
            self.owner.append(number)
            self.lengths.append(min(passage.length, 0xFFFF))
            self.cues.append(passage.cues)
            self.author.append(self.authors.setdefault(passage.author, len(self.authors)))
            self.stems.append(passage.stems)
        length = sum(passage.length for passage in doc.passages)
        entry = IndexedFile(doc.id, doc.folder, doc.order, doc.when, first, len(self.owner), length)
        self.entries.append(entry)
        self.by_id[doc.id] = number
        if vector is not None:
            self.vectors[number] = vector
        if doc.folder:
            self.by_place[doc.folder, doc.order] = number
        self.live_passages += len(doc.passages)

    def remove(self, doc_id: str) -> None:
        """Remove one file; its passages stay as dead numbers until the index is rebuilt."""
        number = self.by_id.pop(doc_id, None)
        if number is None:
            return
        entry = self.entries[number]
        if entry is None:
            return
        self.entries[number] = None
        self.vectors.pop(number, None)
        if self.by_place.get((entry.folder, entry.order)) == number:
            del self.by_place[entry.folder, entry.order]
        for passage in range(entry.first, entry.last):
            for term in set(self.stems[passage].split()):
                self.postings[term].dead += 1
        self.live_passages -= entry.last - entry.first

    def idf(self, term: str) -> float:
        """Return the rarity of a term in this store, with everyday English as a prior."""
        posting = self.postings.get(term)
        seen = len(posting.passages) - posting.dead if posting else 0
        seen_or_expected = seen + PRIOR_PASSAGES * SHARES.get(term, 0.0)
        total = self.live_passages + PRIOR_PASSAGES
        return math.log(1 + (total - seen_or_expected + 0.5) / (seen_or_expected + 0.5))

    def authors_called(self, term: str) -> list[str]:
        """Return the authors whose names have a term."""
        for author in islice(self.authors, self._named, None):
            from nacre.memory.recall.ranking.terms import terms  # noqa: PLC0415 - few files name an author

            for part in dict.fromkeys(terms(author)):
                self._called.setdefault(part, []).append(author)
        self._named = len(self.authors)
        return self._called.get(term, [])

    def writes_again(self, author: int) -> bool:
        """Whether an author has passages in two files; counting all of them would take milliseconds."""
        files: set[int] = set()
        start = 0
        while len(files) < 2:
            try:
                start = self.author.index(author, start)
            except ValueError:
                return False
            entry = self.entries[self.owner[start]]
            if entry is not None:
                files.add(self.owner[start])
            start = entry.last if entry is not None else start + 1
        return True

    def neighbour(self, number: int, step: int) -> int | None:
        """Return the file `step` places further in the same folder."""
        entry = self.entries[number]
        if entry is None or not entry.folder:
            return None
        return self.by_place.get((entry.folder, entry.order + step))


def build_index(docs: Iterable[AnalysedFile]) -> PassageIndex:
    """Return an index of these files."""
    index = PassageIndex()
    for doc in docs:
        index.add(doc)
    return index


INDEX_VERSION = 4
"""Increased whenever analysis changes: an index of another version is rebuilt."""
INDEX_SCHEMA = """
create table meta (version integer, live integer);
create table author (number integer primary key, name text);
create table file (number integer primary key, id text, folder text, place integer, day integer,
                   first integer, last integer, length integer);
create table stamp (id text primary key, stamp text, head text) without rowid;
create table term (text text primary key, dead integer, passages blob, impacts blob) without rowid;
create table vector (file integer primary key, numbers blob);
create table stems (passage integer primary key, text text);
create table packed (name text primary key, numbers blob) without rowid;
"""
MAX_RECENT = 4_096
"""Passages whose stems are cached, about 400 bytes each."""
AT_ONCE = 500
"""Passages per statement; SQLite before 3.32 took at most 999 values."""
PACKED = ("owner", "lengths", "cues", "author")


def save_index(index: PassageIndex, heads: Iterable[tuple[str, str, str]], path: Path) -> None:
    """Write the whole index with a stamp and a head for every file; the caller renames it into place."""
    entries = index.entries
    files = (
        (n, one.id, one.folder, one.order, one.when and one.when.toordinal(), one.first, one.last, one.length)
        for n, one in enumerate(entries)
        if one is not None
    )
    postings = index.postings
    whole = postings.whole() if isinstance(postings, LazyPostings) else postings
    rows = (
        (term, one.dead, one.passages.tobytes(), one.impacts.tobytes())
        for term, one in sorted(whole.items())
        # A word of removed files must not stay on disk: the memory may have been purged (M14b).
        if one.dead < len(one.passages)
    )
    vectors = index.vectors.whole() if isinstance(index.vectors, LazyVectors) else index.vectors.items()
    rows_of_vectors = ((n, array("h", one).tobytes()) for n, one in vectors if entries[n] is not None)
    texts = index.stems.whole() if isinstance(index.stems, LazyStems) else index.stems
    stems = ((n, text if entries[index.owner[n]] else "") for n, text in enumerate(texts))
    db = sqlite3.connect(path, isolation_level=None)
    try:
        db.executescript(f"pragma journal_mode=off; pragma synchronous=off; {INDEX_SCHEMA}")
        db.execute("begin")
        db.execute("insert into meta values (?, ?)", (INDEX_VERSION, index.live_passages))
        db.executemany("insert into author values (?, ?)", ((n, a) for a, n in index.authors.items()))
        db.executemany("insert into file values (?, ?, ?, ?, ?, ?, ?, ?)", files)
        db.executemany("insert into stamp values (?, ?, ?)", heads)
        db.executemany("insert into term values (?, ?, ?, ?)", rows)
        db.executemany("insert into vector values (?, ?)", rows_of_vectors)
        db.executemany("insert into stems values (?, ?)", stems)
        packed = ((name, getattr(index, name).tobytes()) for name in PACKED)
        db.executemany("insert into packed values (?, ?)", packed)
        db.execute("commit")
    finally:
        db.close()


class StoredIndex:
    """An index opened from disk, with the stamps and heads of its files."""

    def __init__(self, path: Path) -> None:
        """Raises `sqlite3.Error` when the file is not an index of this version."""
        self._db = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, check_same_thread=False)
        version, live = self._db.execute("select version, live from meta").fetchone() or (0, 0)
        if version != INDEX_VERSION:
            raise sqlite3.DatabaseError("an index of another version")
        self.stamps: dict[str, str] = dict(self._db.execute("select id, stamp from stamp"))
        self.index = self._opened(live)

    def head(self, file: str) -> str | None:
        row = self._db.execute("select head from stamp where id = ?", (file,)).fetchone()
        return str(row[0]) if row else None

    def close(self) -> None:
        self._db.close()

    def _opened(self, live: int) -> PassageIndex:
        db = self._db
        index = PassageIndex()
        index.live_passages = live
        index.authors = {name: number for number, name in db.execute("select number, name from author")}
        for name, numbers in db.execute("select name, numbers from packed"):
            getattr(index, name).frombytes(numbers)
        last = db.execute("select max(number) from file").fetchone()[0]
        index.entries = [None] * (0 if last is None else last + 1)
        for number, key, folder, place, day, first, end, length in db.execute("select * from file"):
            when = date.fromordinal(day) if day else None
            index.entries[number] = IndexedFile(key, folder, place, when, first, end, length)
            index.by_id[key] = number
            if folder:
                index.by_place[folder, place] = number
        index.postings = LazyPostings(db)
        index.stems = LazyStems(db, len(index.owner))
        index.vectors = LazyVectors(db, len(index.entries))
        return index


class LazyPostings(dict[str, Posting]):
    """Postings that are read from disk on first use."""

    def __init__(self, db: sqlite3.Connection) -> None:
        super().__init__()
        self._db = db
        self._missing: set[str] = set()

    def __contains__(self, term: object) -> bool:
        return self.get(str(term)) is not None

    def __getitem__(self, term: str) -> Posting:
        found = self.get(term)
        if found is None:
            raise KeyError(term)
        return found

    def __setitem__(self, term: str, posting: Posting) -> None:
        self._missing.discard(term)
        super().__setitem__(term, posting)

    def get(self, term: str, default: Posting | None = None) -> Posting | None:  # type: ignore[override]
        found = super().get(term)
        if found is not None or term in self._missing:
            return found or default
        row = self._db.execute("select dead, passages, impacts from term where text = ?", (term,)).fetchone()
        if row is None:
            self._missing.add(term)
            return default
        posting = Posting(array("I", row[1]), array("B", row[2]), row[0])
        super().__setitem__(term, posting)
        return posting

    def whole(self) -> Mapping[str, Posting]:
        """Return every posting, including those on disk."""
        for (term,) in self._db.execute("select text from term"):
            self.get(term)
        return dict(self)


class LazyStems(Stems):
    """Stems that are read from disk on first use; those of new passages are in memory."""

    def __init__(self, db: sqlite3.Connection, on_disk: int) -> None:
        super().__init__()
        self._db = db
        self._on_disk = on_disk
        self._recent: dict[int, str] = {}

    def __getitem__(self, passage: int) -> str:  # type: ignore[override]
        if passage >= self._on_disk:
            return super().__getitem__(passage - self._on_disk)
        if passage not in self._recent:
            self.load([passage])
        return self._recent[passage]

    def load(self, passages: Collection[int]) -> None:
        """Read all missing passages together: one by one takes several times as long."""
        wanted = [one for one in {*passages} if one < self._on_disk and one not in self._recent]
        if len(self._recent) + len(wanted) > MAX_RECENT:
            self._recent.clear()
            wanted = [one for one in {*passages} if one < self._on_disk]
        for at in range(0, len(wanted), AT_ONCE):
            some = wanted[at : at + AT_ONCE]
            places = ",".join("?" * len(some))
            self._recent.update(
                self._db.execute(f"select passage, text from stems where passage in ({places})", some)
            )

    def whole(self) -> Iterator[str]:
        """Yield the stems of every passage in order, including those on disk."""
        for (text,) in self._db.execute("select text from stems order by passage"):
            yield str(text)
        yield from self


class LazyVectors(NoteVectors):
    """Vectors of notes that are read from disk when they are used; those of new files are in memory."""

    def __init__(self, db: sqlite3.Connection, on_disk: int) -> None:
        super().__init__()
        self._db = db
        self._on_disk = on_disk

    def of(self, numbers: Collection[int]) -> Mapping[int, Vector]:
        """Return the vectors of some files, read together; they are not kept."""
        found: dict[int, Vector] = dict(self)
        wanted = [one for one in numbers if one < self._on_disk]
        for at in range(0, len(wanted), AT_ONCE):
            some = wanted[at : at + AT_ONCE]
            places = ",".join("?" * len(some))
            rows = self._db.execute(f"select file, numbers from vector where file in ({places})", some)
            found |= {number: array("h", numbers) for number, numbers in rows}
        return found

    def whole(self) -> Iterator[tuple[int, Vector]]:
        """Yield the number and the vector of every file, including those on disk."""
        for number, numbers in self._db.execute("select file, numbers from vector"):
            yield number, array("h", numbers)
        yield from self.items()
