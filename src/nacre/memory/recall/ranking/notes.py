"""Scores notes for a message: by the same words, by related ones, and by whether it needs a memory.

A note is a memory with a type, a name or a description. Each sentence of a message asks
for itself, beside the whole, so that a greeting or a pasted traceback does not dilute a question.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from nacre.memory.recall.ranking.index import PassageIndex
from nacre.memory.recall.ranking.match import MAX_TERMS, STEERING, STEERING_WEIGHT
from nacre.memory.recall.ranking.need import need
from nacre.memory.recall.ranking.related import CONCEPT, NEAR, SAME, related
from nacre.memory.recall.ranking.terms import STOP_TERMS, terms
from nacre.memory.recall.ranking.weights import (
    NOTE_CONFIDENCE,
    NOTE_CONFIDENCE_BY_MEANING,
    NOTE_SCORE,
    NOTE_SCORE_BY_MEANING,
)

MAX_NOTES = 400
"""Notes that are compared one by one; of a larger store only those that share a word with the message."""
MAX_SEGMENTS = 12
"""Sentences of a message that ask for themselves: the first and the last ones."""
MAX_ENCODED = 4
"""Segments that get a vector: the whole, the first and the last ones. Each takes 4 to 6 ms."""
MAX_IDF = 3.5
"""A word that no note holds is no stronger evidence than one that a single note holds."""
ATTACH_FROM = 0.25
"""The least probability at which the best note is attached; shown as 0.5, the cut-off of all files."""
FURTHER_FROM = 0.35
"""The same for the other notes: places are not filled because one is good."""
ORDINARY_STORE = 30
"""Notes of the stores that the weights were learnt on; a smaller one counts as if it had unrelated notes."""
ORDINARY_TERMS = 12
"""Terms of an ordinary note."""
NEEDED_FROM = 0.5
"""Log-odds from which a message counts as one that needs a memory."""
IDLE_BELOW = -1.0
"""Log-odds below which a message surely needs none, even if it has the words of a memory."""
IDLE_ODDS = 1.0
"""Taken off the odds of every note for other messages."""
_SENTENCE = re.compile(r"(?<=[.!?;])\s+|\n+|(?<=[。！？])")
_KINDS = ("user", "feedback", "project", "reference")
FEATURES = (
    "head_same", "head_concept", "head_near", "body_same", "body_concept", "body_near",
    "covered", "reached", "head_explained", "head_related", "matches", "terms", "length", *_KINDS,
)  # fmt: skip
REACHED = FEATURES.index("reached")
SEMANTIC_FEATURES = (*FEATURES, "similar", "cosine")
"""Of a note with a vector; the last two are its similarity without the mean of all notes, and with it."""
Similar: TypeAlias = Mapping[int, tuple[float, float]]
"""The similarity of notes to a segment by file number, without the mean of all notes and with it."""


@dataclass(frozen=True)
class ScoredNote:
    """A note with its score and its confidence, 0 to 1."""

    number: int
    score: float
    confidence: float


def segments(text: str) -> list[str]:
    """Return the whole message and its sentences."""
    parts = [part for part in map(str.strip, _SENTENCE.split(text)) if len(part) > 2]
    if len(parts) > MAX_SEGMENTS:
        parts = [*parts[: MAX_SEGMENTS // 2], *parts[-MAX_SEGMENTS // 2 :]]
    return [text, *parts] if len(parts) > 1 else [text]


def encoded_segments(text: str) -> list[str]:
    """Return the segments that get a vector of their own, if there are vectors."""
    whole, *parts = segments(text)
    if len(parts) >= MAX_ENCODED:
        parts = [parts[0], *parts[2 - MAX_ENCODED :]]
    return [whole, *parts]


def needed_odds(text: str) -> float:
    """Return the log-odds that any sentence of a message needs a memory."""
    # A single word is a query to memory itself.
    is_word = text.isascii() and len(text.split()) < 2
    return NEEDED_FROM if is_word else max(map(need, segments(text)))


def score_notes(
    index: PassageIndex,
    text: str,
    kinds: Mapping[int, str],
    *,
    needed: float,
    similar: Mapping[str, Similar] | None = None,
) -> list[ScoredNote]:
    """Return the notes that are related to a message.

    `kinds` has the types of all notes by file number, `similar` the similarities to each segment that has a
    vector.
    """
    passages = {number: _passages(index, number) for number in kinds}
    index.stems.load([passage for span in passages.values() for passage in span])
    notes = {number: _Note.read(index, span, kinds[number]) for number, span in passages.items()}
    scores: dict[int, float] = {}
    related_to = set[int]()
    unrelated = -math.inf
    for segment in segments(text):
        question = _Question.parse(index, segment)
        unrelated = max(unrelated, _unrelated_score(question))
        # A segment without a vector of its own has that of the message.
        found = (similar.get(segment) or similar.get(text) or {}) if similar else {}
        for number, note in notes.items():
            features = note.features(index, question)
            likeness = found.get(number)
            if likeness is None:
                score = weighted(NOTE_SCORE, features)
            else:
                score = weighted(NOTE_SCORE_BY_MEANING, [*features, *likeness])
            if likeness is not None or features[REACHED]:
                related_to.add(number)
            scores[number] = max(scores.get(number, -math.inf), score)
    by_meaning = similar is not None and any(similar.values())
    found_notes = confident(scores, needed, unrelated=unrelated, by_meaning=by_meaning)
    return [one for one in found_notes if one.number in related_to]


def _unrelated_score(question: _Question) -> float:
    """Return the score of an ordinary note that shares nothing with a segment."""
    terms_weight = NOTE_SCORE["terms"] * math.log1p(len(question.weights))
    return NOTE_SCORE["bias"] + terms_weight + NOTE_SCORE["length"] * math.log1p(ORDINARY_TERMS)


def weighted(weights: Mapping[str, float], features: Sequence[float]) -> float:
    """Return the score of a note; features that it has no values for count nothing."""
    return weights["bias"] + sum(
        weights[name] * value for name, value in zip(SEMANTIC_FEATURES, features, strict=False)
    )


def confident(
    scores: Mapping[int, float], needed: float, *, unrelated: float, by_meaning: bool = False
) -> list[ScoredNote]:
    """Return the confidence of each note: by its score, its lead over the others, and the message's need.

    A small store counts as if it had more notes, each with the score `unrelated`.
    """
    weights = NOTE_CONFIDENCE_BY_MEANING if by_meaning else NOTE_CONFIDENCE
    best = max(scores.values(), default=0.0)
    others = max(0, ORDINARY_STORE - len(scores)) * math.exp(unrelated - best)
    total = sum(math.exp(score - best) for score in scores.values()) + others
    found = []
    for number, score in scores.items():
        share = math.exp(score - best) / total
        signals = confidence_signals(score, best, share, needed)
        odds = weights["bias"] + sum(weights[name] * value for name, value in signals.items())
        odds -= _odds(ATTACH_FROM if score == best else FURTHER_FROM)
        odds -= IDLE_ODDS if needed < NEEDED_FROM else 0.0
        found.append(ScoredNote(number, score, 1 / (1 + math.exp(-max(-30.0, min(30.0, odds))))))
    return found


def _odds(probability: float) -> float:
    return math.log(probability / (1 - probability))


def confidence_signals(score: float, best: float, share: float, needed: float) -> dict[str, float]:
    """Return the signals from which the confidence of a note is computed."""
    clipped = max(-6.0, min(6.0, needed))
    return {
        "score": score,
        "behind": best - score,
        "share": math.log(share + 1e-6),
        "need": clipped,
        "doubtful": min(clipped - 1, 0.0),
        "idle": min(clipped + 1, 0.0),
    }


@dataclass(frozen=True)
class _Question:
    """The weighted terms of a segment, and the terms of notes that are related to each."""

    weights: tuple[float, ...]
    total: float
    by_term: dict[str, list[tuple[int, int, float]]]
    """For each related term: place of the question's term, kind and strength of the relation."""

    @classmethod
    def parse(cls, index: PassageIndex, text: str) -> _Question:
        found = [term for term in dict.fromkeys(terms(text)) if term not in STOP_TERMS]
        weights = {term: term_weight(index, term) for term in found}
        if len(found) > MAX_TERMS:
            found = sorted(found, key=lambda term: -weights[term])[:MAX_TERMS]
        by_term: dict[str, list[tuple[int, int, float]]] = {}
        for place, term in enumerate(found):
            for other, (kind, strength) in related(term).items():
                by_term.setdefault(other, []).append((place, kind, strength))
        chosen = tuple(weights[term] for term in found)
        return cls(chosen, sum(chosen) or 1.0, by_term)


def term_weight(index: PassageIndex, term: str) -> float:
    """Return the weight of a term: its rarity, less for words about the task."""
    return min(index.idf(term), MAX_IDF) * (STEERING_WEIGHT if term in STEERING else 1.0)


@dataclass(frozen=True)
class _Note:
    head: frozenset[str]
    body: frozenset[str]
    kind: str

    @classmethod
    def read(cls, index: PassageIndex, span: range, kind: str) -> _Note:
        head = frozenset(index.stems[span.start].split()) if span else frozenset[str]()
        body = frozenset(term for passage in span[1:] for term in index.stems[passage].split())
        return cls(head, body - head, kind)

    def features(self, index: PassageIndex, question: _Question) -> list[float]:
        """Return the values of FEATURES."""
        best: dict[tuple[int, int], tuple[int, float]] = {}
        explained = [0.0, 0.0]
        whole = 0.0
        for field, own in enumerate((self.head, self.body)):
            for term in own:
                hits = question.by_term.get(term)
                weight = term_weight(index, term) if field == 0 else 0.0
                whole += weight
                if not hits:
                    continue
                explained[0 if any(kind == SAME for _, kind, _ in hits) else 1] += weight
                for place, kind, strength in hits:
                    known = best.get((field, place))
                    if known is None or (kind, -strength) < (known[0], -known[1]):
                        best[field, place] = kind, strength
        mass = [0.0] * 6
        closest: dict[int, int] = {}
        for (field, place), (kind, strength) in best.items():
            mass[3 * field + kind] += question.weights[place] * (strength if kind == NEAR else 1.0)
            closest[place] = min(kind, closest.get(place, NEAR))
        covered = sum(question.weights[place] for place, kind in closest.items() if kind == SAME)
        reached = sum(question.weights[place] for place in closest)
        matches = sum(kind in {SAME, CONCEPT} for kind in closest.values())
        return [
            *(one / question.total**0.5 for one in mass),
            covered / question.total,
            reached / question.total,
            *(one / (whole or 1.0) for one in explained),
            matches / 3,
            math.log1p(len(question.weights)),
            math.log1p(len(self.head) + len(self.body)),
            *(float(self.kind == kind) for kind in _KINDS),
        ]


def _passages(index: PassageIndex, number: int) -> range:
    entry = index.entries[number]
    return range(entry.first, entry.last) if entry else range(0)
