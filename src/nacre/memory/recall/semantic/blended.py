"""A ranking by words and meaning: evidence of both kinds, added up with weights learnt together.

A file that has no vector yet is scored by its words alone, on the scale of those that have one, so that a
store whose files are half encoded ranks no worse than by words.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from heapq import nlargest
from operator import mul
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from nacre.memory.recall.ranking import weights
from nacre.memory.recall.ranking.confidence import TOP, Confidence, confidence
from nacre.memory.recall.ranking.features import FEATURES, Evidence, assistants
from nacre.memory.recall.ranking.index import Index
from nacre.memory.recall.ranking.match import Match
from nacre.memory.recall.ranking.question import Question, read
from nacre.memory.recall.ranking.ranker import CANDIDATES, TOLD, Pick, Ranker, Ranking

SEMANTIC_FEATURES = ("similar", "similar_before", "similar_after", "similar_around")
BESIDE = (-1, 1, -2, 2)
"""The files whose meaning counts for the one between them; the outer two are added up."""
SEMANTIC_CANDIDATES = 40
"""Files nearest in meaning that are weighed even when they share no word with the question."""
COMPARED = 10
"""The best files by words show how far the two scales lie apart; 30 of them, or all, ranked alike."""

NO_VECTOR = "no_vector"
"""The part of a score that moves it to the scale of files with a vector."""

Vector: TypeAlias = Sequence[float]
Weights: TypeAlias = Mapping[str, float]


@dataclass(frozen=True)
class Likeness:
    """How like a question each file that has a vector is; NaN for one that the model cannot read."""

    numbers: Mapping[str, int]
    names: Sequence[str]
    scores: npt.NDArray[np.float32]
    """With what all files of the store share taken off: tells them apart."""
    cosines: npt.NDArray[np.float32]
    """With it: tells whether the question is about this store at all."""

    def of(self, file: str) -> float | None:
        number = self.numbers.get(file)
        score = math.nan if number is None else float(self.scores[number])
        return None if math.isnan(score) else score

    def plainly(self, files: Sequence[str]) -> float | None:
        """The cosine of the likest of these; None while one of them has no vector."""
        numbers = [self.numbers[file] for file in files if self.of(file) is not None]
        return float(self.cosines[numbers].max()) if numbers and len(numbers) == len(files) else None

    def nearest(self, limit: int) -> list[str]:
        """The files most like the question, in no order."""
        every = range(len(self.scores))
        best = every if len(every) <= limit else np.argpartition(-self.scores, limit)[:limit]
        return [self.names[i] for i in best if not math.isnan(self.scores[i])]


def rank(ranker: Ranker, text: str, likeness: Likeness, *, asked: date | None, limit: int) -> Ranking:
    """Rank a store for a question by its words and by what they mean."""
    index = ranker.index
    question = read(text, index, asked)
    match = Match(index, question, assistants(index))
    found = ranker.with_neighbours(match.best_files(CANDIDATES))
    near = (index.by_id.get(file) for file in likeness.nearest(SEMANTIC_CANDIDATES))
    numbers = list(dict.fromkeys([*found, *sorted(number for number in near if number is not None)]))
    said = Evidence(index, question, match).vectors(numbers)
    weighed = _Weighed.of(question, said, [_meant(index, number, likeness) for number in numbers])
    order = sorted(((score, -i) for i, score in enumerate(weighed.scores)), reverse=True)[:limit]
    picks = [
        Pick(
            id=entry.id if (entry := index.entries[numbers[-i]]) else "",
            score=score,
            parts=weighed.parts(-i),
            placed=ranker.placed(numbers[-i], match, question) if place < TOLD else None,
        )
        for place, (score, i) in enumerate(order)
    ]
    first = nlargest(TOP, ((score, -i) for i, score in enumerate(weighed.scores)))
    ids = [entry.id for _, i in first if (entry := index.entries[numbers[-i]])]
    return Ranking(picks, weighed.sure(index, question, len(found), likeness.plainly(ids)))


def _meant(index: Index, number: int, likeness: Likeness) -> list[float] | None:
    """Evidence of meaning, in the order of SEMANTIC_FEATURES; None for a file without a vector."""

    def similar(other: int | None) -> float | None:
        entry = None if other is None else index.entries[other]
        return None if entry is None else likeness.of(entry.id)

    own = similar(number)
    if own is None:
        return None
    before, after, *around = (similar(index.neighbour(number, step)) or 0.0 for step in BESIDE)
    return [own, before, after, sum(around)]


@dataclass(frozen=True)
class _Weighed:
    """The candidates of one question, weighed: by words all of them, by both those that have a vector."""

    said: Sequence[Vector]
    meant: Sequence[Vector | None]
    words: Weights
    both: Weights
    by_words: Sequence[float]
    scores: Sequence[float]

    @classmethod
    def of(cls, question: Question, said: Sequence[Vector], meant: Sequence[Vector | None]) -> _Weighed:
        column = 0 if question.names else 1
        words = {name: weights.LEXICAL[name][column] for name in FEATURES}
        both = {name: weights.MINILM[name][column] for name in (*FEATURES, *SEMANTIC_FEATURES)}
        learnt = list(words.values())
        by_words = [sum(map(mul, learnt, vector)) for vector in said]
        return cls(said, meant, words, both, by_words, _scores(said, meant, by_words, list(both.values())))

    def parts(self, i: int) -> dict[str, float]:
        """What the score of a candidate is made of."""
        meant = self.meant[i]
        if meant is None:
            named = zip(self.words.items(), self.said[i], strict=True)
            missing = {NO_VECTOR: self.scores[i] - self.by_words[i]}
        else:
            named = zip(self.both.items(), (*self.said[i], *meant), strict=True)
            missing = {}
        parts = {name: weight * value for (name, weight), value in named} | missing
        return {name: round(value, 4) for name, value in parts.items() if value}

    def sure(self, index: Index, question: Question, count: int, similar: float | None) -> Confidence:
        """How sure the words of the first `count` are, and what the first picks mean if all have vectors."""
        scored = sorted(zip(self.by_words[:count], self.said, strict=False), key=lambda one: -one[0])
        unknown = sum(term.weight for term in question.terms if term.text not in index.postings)
        learnt = list(self.words.values())
        return confidence(question, unknown / question.total, scored, learnt, similar=similar)


def _scores(
    said: Sequence[Vector], meant: Sequence[Vector | None], by_words: Sequence[float], learnt: Vector
) -> list[float]:
    """Words and meaning together; for a file without a vector its words, moved to the others' scale."""
    by_both = {
        i: sum(map(mul, learnt, (*words, *meaning)))
        for i, (words, meaning) in enumerate(zip(said, meant, strict=True))
        if meaning is not None
    }
    foremost = nlargest(COMPARED, by_both, key=by_words.__getitem__)
    apart = sum(by_both[i] - by_words[i] for i in foremost) / max(1, len(foremost))
    return [by_both.get(i, score + apart) for i, score in enumerate(by_words)]
