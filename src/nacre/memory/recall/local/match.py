"""One pass over the postings of a question's terms: which passages match, and how much of it.

Rare terms are walked in full; once WALK_LIMIT postings are spent, common terms are only looked up
in the passages already found, so that a query's cost does not grow with the store.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass
from heapq import nlargest

from nacre.memory.recall.local.index import K1, Index
from nacre.memory.recall.local.question import MAX_TERMS, Question

TERM_BITS = MAX_TERMS
TERM_MASK = (1 << TERM_BITS) - 1
SCORE_SCALE = 1 << 16
SCORE_UNIT = (K1 + 1) / (255 * SCORE_SCALE)
WALK_LIMIT = 40_000
"""Postings walked per question: keeps the median under 15 ms at 100,000 files; others were not tried."""
LOOKUP_FACTOR = 4
"""How many times more passages than files are wanted get the exact score of the terms only looked up."""
AUTHOR_LEAD = 0.15
"""Head start of a passage by the one asked about, in shares of the question's total weight."""


@dataclass(frozen=True)
class FileMatch:
    """How one file matches: its best passage and what all its passages cover together."""

    number: int
    passage: int
    score: float
    by_asked: float
    by_assistant: float
    covered: int
    """Terms its best passage holds, as bits; bit i is the question's term i."""
    covered_together: int


class Match:
    """The passages of one index that match one question.

    `found` packs both results of a passage into one int, so that the walk costs one addition
    per posting: the terms held in the low TERM_BITS, the score above them.
    """

    def __init__(self, index: Index, question: Question, assistants: frozenset[int]) -> None:
        self.index, self.question, self.assistants = index, question, assistants
        self.found: dict[int, int] = defaultdict(int)
        self._files: dict[int, FileMatch] = {}
        self._late: list[int] = []
        self._walk()

    def _walk(self) -> None:
        postings = self.index.postings
        order = [i for i, term in enumerate(self.question.terms) if term.text in postings]
        order.sort(key=lambda i: len(postings[self.question.terms[i].text].passages))
        spent = 0
        for i in order:
            posting = postings[self.question.terms[i].text]
            if spent and spent + len(posting.passages) > WALK_LIMIT:
                self._late.append(i)
                continue
            spent += len(posting.passages)
            found, gain, bit = self.found, self._gain(i), 1 << i
            for passage, impact in zip(posting.passages, posting.impacts, strict=True):
                found[passage] += gain * impact + bit

    def _gain(self, i: int) -> int:
        share = self.question.terms[i].weight / self.question.total
        return int(share * SCORE_SCALE) << TERM_BITS

    def best_files(self, limit: int) -> list[int]:
        """The files whose best passages match most, best first."""
        owner, entries = self.index.owner, self.index.entries
        top = self._top_passages(LOOKUP_FACTOR * limit)
        for i in self._late:
            self._look_up(i, top)
        top.sort(key=self.lead, reverse=True)
        files = dict.fromkeys(owner[p] for p in top if entries[owner[p]] is not None)
        return list(files)[:limit]

    def _top_passages(self, limit: int) -> list[int]:
        if len(self.found) <= limit:
            return list(self.found)
        least = nlargest(limit, self.found.values())[-1]
        return [passage for passage, value in self.found.items() if value >= least]

    def _look_up(self, i: int, top: list[int]) -> None:
        posting = self.index.postings[self.question.terms[i].text]
        gain, bit, size = self._gain(i), 1 << i, len(posting.passages)
        for passage in top:
            at = bisect_left(posting.passages, passage)
            if at < size and posting.passages[at] == passage:
                self.found[passage] += gain * posting.impacts[at] + bit

    def score(self, passage: int) -> float:
        """Which share of what was asked a passage covers, saturated: 0 to about 1."""
        return (self.found.get(passage, 0) >> TERM_BITS) * SCORE_UNIT

    def lead(self, passage: int) -> float:
        """A passage's score with its author's head start."""
        asked = self.index.author[passage] in self.question.authors
        return self.score(passage) + (AUTHOR_LEAD if asked else 0.0)

    def file(self, number: int) -> FileMatch:
        """How one file matches; remembered, since neighbours ask again."""
        match = self._files.get(number)
        if match is None:
            match = self._files[number] = self._file(number)
        return match

    def _file(self, number: int) -> FileMatch:
        entry = self.index.entries[number]
        if entry is None:
            return FileMatch(number, 0, 0.0, 0.0, 0.0, 0, 0)
        best, best_lead, together = entry.first, -1.0, 0
        by_asked = by_assistant = 0.0
        for passage in range(entry.first, entry.last):
            value = self.found.get(passage, 0)
            lead = score = (value >> TERM_BITS) * SCORE_UNIT
            author = self.index.author[passage]
            if author in self.question.authors:
                by_asked = max(by_asked, score)
                lead += AUTHOR_LEAD
            elif author in self.assistants:
                by_assistant = max(by_assistant, score)
            if lead > best_lead:
                best, best_lead = passage, lead
            together |= value & TERM_MASK
        held = self.found.get(best, 0) & TERM_MASK
        return FileMatch(number, best, self.score(best), by_asked, by_assistant, held, together)
