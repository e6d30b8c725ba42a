"""The derived index: passages, postings and statistics; grown one analysed file at a time.

Passage numbers only grow. A changed file is dropped (its old numbers are dead) and added anew.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import date

from nacre.memory.recall.ranking.analysis import Analysis
from nacre.memory.recall.ranking.word_frequency import SHARES

K1 = 1.2
B = 0.75
"""The usual BM25 constants; not tuned."""
PIVOT_LENGTH = 30
"""Content terms of an ordinary passage; fixed, so that a stored impact never goes stale."""
PRIOR_PASSAGES = 200
"""Weight of everyday English in a word's rarity: a young store has seen too little text to tell."""


@dataclass
class Posting:
    """The passages that hold one term, in ascending order."""

    passages: array[int] = field(default_factory=lambda: array("I"))
    impacts: array[int] = field(default_factory=lambda: array("B"))
    """BM25's saturated count, in 255ths: all that scoring needs of counts and lengths."""
    dead: int = 0


@dataclass(frozen=True)
class Entry:
    """Where one file's passages lie and where the file stands."""

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
        """These will be asked for next; here they are at hand already."""


class Index:
    """All files of one store."""

    def __init__(self) -> None:
        self.entries: list[Entry | None] = []
        self.by_id: dict[str, int] = {}
        self.by_place: dict[tuple[str, int], int] = {}
        self.postings: dict[str, Posting] = {}
        self.owner = array("I")
        self.lengths = array("H")
        self.cues = array("H")
        self.author = array("I")
        self.stems = Stems()
        self.authors: dict[str, int] = {}
        self.live_passages = 0

    def add(self, doc: Analysis) -> None:
        """Add one file, replacing the one with its id."""
        self.remove(doc.id)
        number = len(self.entries)
        first = len(self.owner)
        for passage in doc.passages:
            self._add_terms(len(self.owner), passage.counts, passage.length)
            self.owner.append(number)
            self.lengths.append(min(passage.length, 0xFFFF))
            self.cues.append(passage.cues)
            self.author.append(self.authors.setdefault(passage.author, len(self.authors)))
            self.stems.append(passage.stems)
        length = sum(passage.length for passage in doc.passages)
        entry = Entry(doc.id, doc.folder, doc.order, doc.when, first, len(self.owner), length)
        self.entries.append(entry)
        self.by_id[doc.id] = number
        if doc.folder:
            self.by_place[doc.folder, doc.order] = number
        self.live_passages += len(doc.passages)

    def _add_terms(self, passage: int, counts: dict[str, int], length: int) -> None:
        norm = K1 * (1 - B + B * length / PIVOT_LENGTH)
        for term, count in counts.items():
            posting = self.postings.get(term)
            if posting is None:
                posting = self.postings[term] = Posting()
            posting.passages.append(passage)
            posting.impacts.append(int(255 * count / (count + norm)))

    def remove(self, doc_id: str) -> None:
        """Forget one file; its passages stay as dead numbers until the index is rebuilt."""
        number = self.by_id.pop(doc_id, None)
        if number is None:
            return
        entry = self.entries[number]
        if entry is None:
            return
        self.entries[number] = None
        if self.by_place.get((entry.folder, entry.order)) == number:
            del self.by_place[entry.folder, entry.order]
        for passage in range(entry.first, entry.last):
            for term in set(self.stems[passage].split()):
                self.postings[term].dead += 1
        self.live_passages -= entry.last - entry.first

    def idf(self, term: str) -> float:
        """Rarity of a term in this store, with everyday English as a prior."""
        posting = self.postings.get(term)
        seen = len(posting.passages) - posting.dead if posting else 0
        seen_or_expected = seen + PRIOR_PASSAGES * SHARES.get(term, 0.0)
        total = self.live_passages + PRIOR_PASSAGES
        return math.log(1 + (total - seen_or_expected + 0.5) / (seen_or_expected + 0.5))

    def neighbour(self, number: int, step: int) -> int | None:
        """The file `step` places further in the same folder."""
        entry = self.entries[number]
        if entry is None or not entry.folder:
            return None
        return self.by_place.get((entry.folder, entry.order + step))


def build(docs: Iterable[Analysis]) -> Index:
    """An index of these files."""
    index = Index()
    for doc in docs:
        index.add(doc)
    return index
