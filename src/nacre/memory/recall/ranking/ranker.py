"""Ranks a store's memories for a question with no model: find, weigh, order, and say how sure.

Public names: Ranker, Ranking, Pick. Everything here is derived from the files and can be rebuilt.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from operator import mul

from nacre.memory.recall.ranking import weights
from nacre.memory.recall.ranking.analysis import Doc, analyse
from nacre.memory.recall.ranking.confidence import Confidence, Vector, confidence
from nacre.memory.recall.ranking.features import FEATURES, NEAR, Evidence, assistants
from nacre.memory.recall.ranking.index import Index, build
from nacre.memory.recall.ranking.match import Match
from nacre.memory.recall.ranking.order import Placed
from nacre.memory.recall.ranking.question import Question, read

CANDIDATES = 120
"""Files weighed in full; 300 found nothing more on LoCoMo (not tried on the others)."""
TOLD = 20
"""Picks of which it is said what speaks for them and where they stand: the rest is not attached anyway."""
NEIGHBOURS_OF = 60
"""The best files whose neighbours are weighed too: an answer often stands beside the words asked for."""


@dataclass(frozen=True)
class Pick:
    """One ranked file and why."""

    id: str
    score: float
    parts: dict[str, float]
    placed: Placed | None = None
    """What ordering needs to know; only the first few picks are ordered."""


@dataclass(frozen=True)
class Ranking:
    """The files that answer best, best first, and how sure that any does."""

    picks: list[Pick]
    confidence: Confidence


@dataclass
class Ranker:
    """Ranks one index."""

    index: Index

    @classmethod
    def over(cls, docs: Iterable[Doc]) -> Ranker:
        """A ranker over these files."""
        return cls(build(analyse(doc) for doc in docs))

    def rank(self, text: str, *, asked: date | None = None, limit: int = 10) -> Ranking:
        """Rank the store for a question asked on a day."""
        question = read(text, self.index, asked)
        match = Match(self.index, question, assistants(self.index))
        numbers, vectors = self.weigh(question, match)
        learnt = self._learnt(question)
        order = sorted(
            ((sum(map(mul, learnt, vector)), -i) for i, vector in enumerate(vectors)), reverse=True
        )
        scored = [(score, vectors[-i]) for score, i in order]
        # To say why takes longer than to rank: only of those that may come to be attached is it asked.
        self.index.stems.load([match.file(numbers[-i]).passage for _, i in order[:TOLD]])
        told = [
            Pick(self._id(at), score, _parts(vectors[-i], learnt), self.placed(at, match, question))
            for score, i in order[: min(limit, TOLD)]
            for at in (numbers[-i],)
        ]
        picks = [*told, *(Pick(self._id(numbers[-i]), score, {}) for score, i in order[TOLD:limit])]
        return Ranking(picks, confidence(question, self._unknown(question), scored, learnt))

    def weigh(self, question: Question, match: Match) -> tuple[list[int], list[list[float]]]:
        """The candidates of a question and the evidence for each."""
        numbers = self.with_neighbours(match.best_files(CANDIDATES))
        return numbers, Evidence(self.index, question, match).vectors(numbers)

    def with_neighbours(self, best: list[int]) -> list[int]:
        """The best files and those beside the foremost of them, by name.

        Among equals the order decides later on, and when a file was read must not.
        """
        beside = (self.index.neighbour(number, step) for number in best[:NEIGHBOURS_OF] for step in NEAR)
        return sorted({*best, *(n for n in beside if n is not None)}, key=self._id)

    def placed(self, number: int, match: Match, question: Question) -> Placed | None:
        """What ordering needs to know of a file."""
        entry = self.index.entries[number]
        found = match.file(number)
        if entry is None:
            return None
        covered = {
            term.text: term.weight / question.total
            for i, term in enumerate(question.terms)
            if found.covered_together >> i & 1
        }
        terms = frozenset(self.index.stems[found.passage].split())
        return Placed(entry.id, entry.when, (entry.folder, entry.order), terms, covered)

    def _learnt(self, question: Question) -> Vector:
        """The weights for this kind of question: one that names an author, or any other."""
        return self._columns[0] if question.names else self._columns[1]

    @cached_property
    def _columns(self) -> tuple[list[float], list[float]]:
        table = weights.LEXICAL
        return [table[name][0] for name in FEATURES], [table[name][1] for name in FEATURES]

    def _unknown(self, question: Question) -> float:
        postings = self.index.postings
        return sum(t.weight for t in question.terms if t.text not in postings) / question.total

    def _id(self, number: int) -> str:
        entry = self.index.entries[number]
        return entry.id if entry else ""


def _parts(vector: Vector, learnt: Vector) -> dict[str, float]:
    return {
        name: round(weight * value, 4)
        for name, weight, value in zip(FEATURES, learnt, vector, strict=True)
        if value
    }
