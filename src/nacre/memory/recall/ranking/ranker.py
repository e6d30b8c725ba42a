"""The evidence for each candidate file, as numbers a weighted sum can add up.

Every feature follows from a file's text, author, date and place among its neighbours.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from operator import mul
from typing import TypeAlias

from nacre.memory.recall.ranking import weights
from nacre.memory.recall.ranking.analysis import ASSISTANT_ROLES, Cue, Doc, analyse
from nacre.memory.recall.ranking.index import IndexedFile, PassageIndex, build_index
from nacre.memory.recall.ranking.match import FileMatch, ParsedQuestion, QuestionMatch, parse_question
from nacre.memory.recall.ranking.weights import MATCH, RELEVANCE, RELEVANCE_BY_MEANING

NEAR_CHARS = 60
"""Two asked words within some ten stems of each other belong to one statement."""
DATE_DECAY_DAYS = 7.0
"""A memory dated a week off the asked day still counts a third."""

NEAR = (-1, 1, -2, 2)
_STEPS = ((0, 4, -1), (1, 5, 1), (2, 0, -2), (3, 0, 2))
"""For each file beside: where its score stands, where instead if a model says it, and how far off it is."""
PassageKind: TypeAlias = tuple[tuple[float, float], tuple[float, ...], float, float]
"""Asks and speaks of itself; what it offers and who tells it; holds a rule; holds a preference."""

FEATURES = (
    "passage", "covered", "covered_squared", "share", "pairs", "near",
    "by_asked_author", "asked_passage", "mentions_asked",
    "before", "after", "before_2", "after_2", "before_told", "after_told", "window_covered",
    "folder_best",
    "is_question", "first_person", "length", "document_length",
    "wants_time", "wants_duration", "wants_number", "wants_place",
    "by_assistant", "told_by_assistant", "told_best",
    "rule", "preference", "rule_covered", "preference_covered",
    "date_inside", "date_near",
)  # fmt: skip


@dataclass
class FeatureExtractor:
    """Turns candidates of one match into feature vectors.

    Some hundred for each question: what depends on the question alone, or on a few bits, is worked out once.
    """

    index: PassageIndex
    question: ParsedQuestion
    match: QuestionMatch

    def vectors(self, candidates: list[int]) -> list[list[float]]:
        """One vector per candidate, in the order of FEATURES."""
        best: dict[str, float] = {}
        rows = [(self._entry(number), self.match.file(number)) for number in candidates]
        for entry, file in rows:
            if entry.folder and file.score > best.get(entry.folder, 0.0):
                best[entry.folder] = file.score
        self.index.stems.load(
            [f.passage for _, f in rows if self.question.names or f.covered & f.covered >> 1]
        )
        return [self._vector(entry, file, best.get(entry.folder, 0.0)) for entry, file in rows]

    def _vector(self, entry: IndexedFile, file: FileMatch, folder_best: float) -> list[float]:
        _, passage, score, by_asked, by_assistant, bits, _ = file
        covered = self._weights.get(bits)
        if covered is None:
            covered = self._weight_of(bits)
        # Two neighbours among the question's terms are held, or there is nothing to look for.
        pairs, near = self._pairs(bits, passage) if bits & bits >> 1 else (0.0, 0.0)
        author = self.index.author[passage]
        cues = self.index.cues[passage]
        known = self._kinds.get((cues, author))
        seen, offered, rule, liked = known or self._kind(cues, author)
        return [
            score, covered, covered * covered, bits.bit_count() / self._count, pairs, near,
            float(author in self.question.authors), by_asked,
            self._mentions(passage) if self.question.names else 0.0,
            *self._around(entry, file),
            folder_best,
            *seen, math.log1p(self.index.lengths[passage]), math.log1p(entry.length),
            *offered, by_assistant if self.question.about_answers else 0.0,
            rule, liked, rule * covered, liked * covered,
            *(self._dates(entry) if self.question.date_ranges else (0.0, 0.0)),
        ]  # fmt: skip

    def _entry(self, number: int) -> IndexedFile:
        entry = self.index.entries[number]
        if entry is None:
            raise KeyError(number)
        return entry

    @cached_property
    def _count(self) -> int:
        return max(1, len(self.question.terms))

    @cached_property
    def _shares(self) -> list[float]:
        return [term.weight / self.question.total for term in self.question.terms]

    @cached_property
    def _weights(self) -> dict[int, float]:
        return {0: 0.0}

    def _weight_of(self, bits: int) -> float:
        """Which share of what was asked these terms are."""
        known = self._weights.get(bits)
        if known is None:
            known = sum(share for i, share in enumerate(self._shares) if bits >> i & 1)
            self._weights[bits] = known
        return known

    @cached_property
    def _couples(self) -> list[tuple[int, str, str, str, float]]:
        """Neighbouring terms of the question: bits, both, first, second, half their share."""
        terms = self.question.terms
        return [
            (
                3 << i,
                f" {terms[i].text} {terms[i + 1].text} ",
                f" {terms[i].text} ",
                f" {terms[i + 1].text} ",
                (self._shares[i] + self._shares[i + 1]) / 2,
            )
            for i in range(len(terms) - 1)
        ]

    def _pairs(self, bits: int, passage: int) -> tuple[float, float]:
        pairs = near = 0.0
        stems = self.index.stems[passage]
        for both_bits, both, first, second, share in self._couples:
            if bits & both_bits != both_bits:
                continue
            if both in stems:
                pairs += share
            elif abs(stems.find(first) - stems.find(second)) < NEAR_CHARS:
                near += share
        return pairs, near

    def _mentions(self, passage: int) -> float:
        stems = self.index.stems[passage]
        return float(any(f" {name} " in stems for name in self.question.names))

    def _around(self, entry: IndexedFile, file: FileMatch) -> list[float]:
        """What the files beside it match: each alone, the two nearest if a model's, and all together."""
        around = [0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
        together = file.covered_together
        folder = entry.folder
        order = entry.order
        if folder:
            beside = self.index.by_place
            files = self.match.files
            for at, instead, step in _STEPS:
                other = beside.get((folder, order + step))
                if other is None:
                    continue
                _, passage, score, _, _, _, bits = files[other]
                together |= bits
                told = instead and self._assistants and self.index.author[passage] in self._assistants
                around[instead if told else at] = score
        around.append(self._weight_of(together))
        return around

    @cached_property
    def _assistants(self) -> frozenset[int]:
        return assistants(self.index)

    @cached_property
    def _kinds(self) -> dict[tuple[int, int], PassageKind]:
        return {}

    def _kind(self, cues: int, author: int) -> PassageKind:
        """What kind of words a passage holds, by its cues and who says it; remembered."""
        question = self.question
        offered = cues & self.question.wants
        is_assistant = author in self._assistants
        counts = not question.about_past and not is_assistant
        kind = self._kinds[cues, author] = (
            (float(bool(cues & Cue.QUESTION)), float(bool(cues & Cue.FIRST_PERSON))),
            (
                *(float(bool(offered & cue)) for cue in (Cue.TIME, Cue.DURATION, Cue.NUMBER, Cue.PLACE)),
                float(is_assistant),
                float(is_assistant and question.about_answers),
            ),
            float(counts and bool(cues & Cue.RULE)),
            float(counts and bool(cues & Cue.PREFERENCE)),
        )
        return kind

    def _dates(self, entry: IndexedFile) -> tuple[float, float]:
        if entry.when is None:
            return 0.0, 0.0
        when = entry.when
        days = min(span.distance(when) for span in self.question.date_ranges)
        return float(days == 0), math.exp(-days / DATE_DECAY_DAYS)


def assistants(index: PassageIndex) -> frozenset[int]:
    """The authors that are a model, not a person."""
    return frozenset(n for name, n in index.authors.items() if name in ASSISTANT_ROLES)


AT = {name: i for i, name in enumerate(FEATURES)}
BY_ASKED = AT["by_asked_author"]
OWN_AUTHOR = frozenset(AT[name] for name in ("by_asked_author", "asked_passage", "mentions_asked"))
"""Left out of relevance, and where the asked author's files are compared with the others'."""
COMPARED = ("covered", "pairs", "passage", "window_covered")
TOP = 5
ENOUGH = 0.5
"""Relevance from which on something is attached; the weights are scaled to it."""
LONG_FROM = 5.0
"""Logarithm of the words of an ordinary memory, some 150 at most: a passage of a longer one covers less."""

Vector = Sequence[float]


@dataclass(frozen=True)
class Confidence:
    """Probabilities, 0 to 1."""

    relevance: float
    """That anything here answers; below the cut nothing is attached."""
    match: float
    """That it is about whom was asked, not the same thing said of someone else."""

    is_enough: bool
    """Whether to attach at all."""


NO_CONFIDENCE = Confidence(0.0, 0.0, is_enough=False)


def confidence(
    question: ParsedQuestion,
    unknown: float,
    scored: Sequence[tuple[float, Vector]],
    learnt: Vector,
    *,
    similar: float | None = None,
) -> Confidence:
    """How sure a ranking is; `scored` is best first, `unknown` the share asked that no file holds.

    `similar` is how like the question the likest of the first picks is, where all of them have vectors.
    """
    if not scored:
        return NO_CONFIDENCE
    signs = confidence_signals(question, unknown, scored, learnt)
    if similar is None:
        relevance = logistic(RELEVANCE, signs)
    else:
        meant = {"similar": similar, "similar_long": similar * signs["long"]}
        relevance = logistic(RELEVANCE_BY_MEANING, signs | meant)
    return Confidence(relevance, logistic(MATCH, signs), is_enough=relevance >= ENOUGH)


def confidence_signals(
    question: ParsedQuestion, unknown: float, scored: Sequence[tuple[float, Vector]], learnt: Vector
) -> dict[str, float]:
    """What a ranking shows of its own worth."""
    score, best = scored[0]
    top = [vector for _, vector in scored[:TOP]]
    signs = {
        "score": score,
        "margin": score - scored[min(TOP, len(scored)) - 1][0],
        "covered": best[AT["covered"]],
        "passage": best[AT["passage"]],
        "pairs": best[AT["pairs"]],
        "window_covered": best[AT["window_covered"]],
        "score_of_words": _without_author(score, best, learnt),
        "covered_top": max(vector[AT["covered"]] for vector in top),
        "pairs_top": max(vector[AT["pairs"]] for vector in top),
        "window_covered_top": max(vector[AT["window_covered"]] for vector in top),
        "unknown": unknown,
        "named": float(bool(question.names)),
        "terms": len(question.terms) / 10,
        "log_terms": math.log1p(len(question.terms)),
        "long": max(0.0, best[AT["document_length"]] - LONG_FROM),
    }
    return signs | _asked_against_others(question, scored, learnt)


def _asked_against_others(
    question: ParsedQuestion, scored: Sequence[tuple[float, Vector]], learnt: Vector
) -> dict[str, float]:
    """How much better the asked author's files match than everyone else's; 0 when nobody is named."""
    if not question.names:
        return {f"asked_{name}": 0.0 for name in (*COMPARED, "score")}
    asked = [(s, v) for s, v in scored if v[BY_ASKED]]
    others = [(s, v) for s, v in scored if not v[BY_ASKED]]
    gaps = {f"asked_{name}": _highest(asked, AT[name]) - _highest(others, AT[name]) for name in COMPARED}
    return gaps | {"asked_score": _best_without_author(asked, learnt) - _best_without_author(others, learnt)}


def _highest(scored: Sequence[tuple[float, Vector]], at: int) -> float:
    return max((vector[at] for _, vector in scored), default=0.0)


def _best_without_author(scored: Sequence[tuple[float, Vector]], learnt: Vector) -> float:
    return max((_without_author(score, vector, learnt) for score, vector in scored), default=0.0)


def _without_author(score: float, vector: Vector, learnt: Vector) -> float:
    return score - sum(learnt[i] * vector[i] for i in OWN_AUTHOR)


def logistic(weights: dict[str, float], signs: dict[str, float]) -> float:
    total = weights.get("bias", 0.0) + sum(weights.get(name, 0.0) * value for name, value in signs.items())
    return 1 / (1 + math.exp(-max(-30.0, min(30.0, total))))


SUBJECT_SHARE = 0.4
"""Two picks speak of one subject when what they share of the question is so much of what the larger part is:
whoever corrects a fact seldom says all of it again. From 0.5 on, pairs of the tuning half were missed."""
SAME_STATEMENT = 0.35
"""Above this likeness of their words the older is not just earlier but said again: superseded."""


Rarity = Callable[[str], float]


@dataclass(frozen=True)
class SubjectTerms:
    """What ordering needs to know of one pick."""

    id: str
    when: date | None
    place: tuple[str, int]
    """Folder and order in it: which of two files of one day came later."""
    terms: frozenset[str]
    covered: dict[str, float]
    """The question's terms it holds, each with its share of what was asked."""

    def at(self, place: tuple[str, int]) -> SubjectTerms:
        """The same in another place; spelt out, since twenty are made for each question."""
        return SubjectTerms(self.id, self.when, place, self.terms, self.covered)


@dataclass(frozen=True)
class Ordered:
    """A pick in its final place."""

    id: str
    superseded_by: str | None = None


def newer_first(picks: Sequence[SubjectTerms], rarity: Rarity) -> list[Ordered]:
    """The picks in the order to attach them: an older one comes after the newer ones of its subject."""
    newer = [{j for j, other in enumerate(picks) if _comes_before(other, pick)} for pick in picks]
    waiting = list(range(len(picks)))
    ordered: list[int] = []
    while waiting:
        # The newest of all waits for nobody, so that there is always one.
        best = next(i for i in waiting if newer[i].isdisjoint(waiting))
        waiting.remove(best)
        ordered.append(best)
    return [
        Ordered(picks[i].id, _successor(picks[i], [picks[j] for j in ordered if j in newer[i]], rarity))
        for i in ordered
    ]


def _comes_before(one: SubjectTerms, other: SubjectTerms) -> bool:
    return _age_key(one) > _age_key(other) and is_same_subject(one, other)


def is_same_subject(one: SubjectTerms, other: SubjectTerms) -> bool:
    """Whether both answer the same part of the question."""
    shared = sum(min(share, other.covered.get(term, 0.0)) for term, share in one.covered.items())
    larger = max(sum(one.covered.values()), sum(other.covered.values()))
    return larger > 0 and shared >= SUBJECT_SHARE * larger


def likeness(one: SubjectTerms, other: SubjectTerms, rarity: Rarity) -> float:
    """Shared words over all words of the shorter, each by its rarity."""
    shared = sum(rarity(t) for t in one.terms & other.terms)
    shorter = min(sum(rarity(t) for t in p.terms) for p in (one, other))
    return shared / shorter if shorter else 0.0


def _successor(pick: SubjectTerms, newer: Sequence[SubjectTerms], rarity: Rarity) -> str | None:
    """The first of the newer picks of its subject that says it again."""
    return next((one.id for one in newer if likeness(pick, one, rarity) >= SAME_STATEMENT), None)


def _age_key(pick: SubjectTerms) -> tuple[date, str, int]:
    return (pick.when or date.min, *pick.place)


CANDIDATES = 120
"""Files weighed in full; 300 found nothing more on LoCoMo (not tried on the others)."""
TOLD = 20
"""Picks of which it is said what speaks for them and where they stand: the rest is not attached anyway."""
NEIGHBOURS_OF = 60
"""The best files whose neighbours are weighed too: an answer often stands beside the words asked for."""


@dataclass(frozen=True)
class ScoredFile:
    """One ranked file and why."""

    id: str
    score: float
    parts: dict[str, float]
    placed: SubjectTerms | None = None
    """What ordering needs to know; only the first few picks are ordered."""


@dataclass(frozen=True)
class Ranking:
    """The files that answer best, best first, and how sure that any does."""

    picks: list[ScoredFile]
    confidence: Confidence


@dataclass
class Ranker:
    """Ranks one index."""

    index: PassageIndex

    @classmethod
    def over(cls, docs: Iterable[Doc]) -> Ranker:
        """A ranker over these files."""
        return cls(build_index(analyse(doc) for doc in docs))

    def rank(self, text: str, *, asked: date | None = None, limit: int = 10) -> Ranking:
        """Rank the store for a question asked on a day."""
        question = parse_question(text, self.index, asked)
        match = QuestionMatch(self.index, question, assistants(self.index))
        numbers, vectors = self.weigh(question, match)
        learnt = self._learnt(question)
        order = sorted(
            ((sum(map(mul, learnt, vector)), -i) for i, vector in enumerate(vectors)), reverse=True
        )
        scored = [(score, vectors[-i]) for score, i in order]
        # To say why takes longer than to rank: only of those that may come to be attached is it asked.
        self.index.stems.load([match.file(numbers[-i]).passage for _, i in order[:TOLD]])
        told = [
            ScoredFile(self._id(at), score, _parts(vectors[-i], learnt), self.placed(at, match, question))
            for score, i in order[: min(limit, TOLD)]
            for at in (numbers[-i],)
        ]
        picks = [*told, *(ScoredFile(self._id(numbers[-i]), score, {}) for score, i in order[TOLD:limit])]
        return Ranking(picks, confidence(question, self._unknown(question), scored, learnt))

    def weigh(self, question: ParsedQuestion, match: QuestionMatch) -> tuple[list[int], list[list[float]]]:
        """The candidates of a question and the evidence for each."""
        numbers = self.with_neighbours(match.best_files(CANDIDATES))
        return numbers, FeatureExtractor(self.index, question, match).vectors(numbers)

    def with_neighbours(self, best: list[int]) -> list[int]:
        """The best files and those beside the foremost of them, by name.

        Among equals the order decides later on, and when a file was read must not.
        """
        beside = (self.index.neighbour(number, step) for number in best[:NEIGHBOURS_OF] for step in NEAR)
        return sorted({*best, *(n for n in beside if n is not None)}, key=self._id)

    def placed(self, number: int, match: QuestionMatch, question: ParsedQuestion) -> SubjectTerms | None:
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
        return SubjectTerms(entry.id, entry.when, (entry.folder, entry.order), terms, covered)

    def _learnt(self, question: ParsedQuestion) -> Vector:
        """The weights for this kind of question: one that names an author, or any other."""
        return self._columns[0] if question.names else self._columns[1]

    @cached_property
    def _columns(self) -> tuple[list[float], list[float]]:
        table = weights.LEXICAL
        return [table[name][0] for name in FEATURES], [table[name][1] for name in FEATURES]

    def _unknown(self, question: ParsedQuestion) -> float:
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
