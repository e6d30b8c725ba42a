"""Scores notes for a message: by the same and by related words, by vectors, and by whether it needs one.

A note is a memory with a type, a name or a description. Each sentence of a message asks
for itself, beside the whole, so that a greeting or a pasted traceback does not dilute a question.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from operator import mul
from typing import TypeAlias

from nacre.memory.recall.ranking.analysis import Cue
from nacre.memory.recall.ranking.asked import Asked, asked
from nacre.memory.recall.ranking.index import PassageIndex
from nacre.memory.recall.ranking.match import MAX_TERMS, STEERING, STEERING_WEIGHT
from nacre.memory.recall.ranking.need import need
from nacre.memory.recall.ranking.related import CONCEPT, NEAR, SAME, related
from nacre.memory.recall.ranking.term_vectors import Vector, cosine, vector_of
from nacre.memory.recall.ranking.terms import CJK_RUN, STOP_TERMS, content, terms
from nacre.memory.recall.ranking.weights import (
    NOTE_CONFIDENCE,
    NOTE_CONFIDENCE_BY_MEANING,
    NOTE_SCORE,
    NOTE_SCORE_BY_MEANING,
)

MAX_NOTES = 400
"""Notes that are compared one by one; of a larger store only those that share a word with the message."""
COMPARED_TERMS = 40
"""Terms of a note's text that are compared, as many as a few sentences have: all of a long file would share
words with any message. Its other words count in the ranking of all files."""
MAX_SEGMENTS = 12
"""Sentences of a message that ask for themselves: the first and the last ones."""
MAX_ENCODED = 4
"""Segments that get a vector: the whole, the first and the last ones. Each takes 4 to 6 ms."""
MAX_IDF = 3.5
"""A word that no note holds is no stronger evidence than one that a single note holds."""
ATTACH_FROM = 0.38
"""The least probability at which a note is attached; shown as 0.5, the cut-off of all files. On people that
were left out, 5.5 of 100 messages that need nothing get a note; on people by another author, nearly twice as
many."""
ATTACH_BY_MEANING_FROM = 0.42
"""The same where notes have vectors of the encoder."""
RELATED_FROM = 0.15
"""Cosine from which a note is related to a message: in training, 0.25 was that of none."""
ALIKE_FROM = 0.35
"""Cosine of the vectors of terms from which a note is related to a message."""
LEAST_SHARE = 1e-6
ORDINARY_STORE = 30
"""Notes of the stores that the weights were learnt on; a smaller one counts as if it had unrelated notes."""
ORDINARY_TERMS = 12
"""Terms of an ordinary note."""
NEEDED_FROM = 0.5
"""Log-odds of a query to memory itself, which needs one."""
IDLE_BELOW = -1.0
"""Log-odds below which a message surely needs none, even if it has the words of a memory."""
PREFIX_CHARS = 5
"""Two words that begin alike are often related: compounds and derived words."""
_SENTENCE = re.compile(r"(?<=[.!?;])\s+|\n+|(?<=[。！？])")
_FRAMES = re.compile(
    r"^Traceback \(most recent call last\):[ \t]*\n?"
    r"|^[ \t]+File \"[^\"\n]*\", line \d+.*\n?(?:[ \t]{4,}\S.*\n?)*"
    r"|^[ \t]+at \S.*:\d+\)?[ \t]*\n?",
    re.M,
)
"""The call stack of a pasted error in Python or JavaScript; the line with the error is no part of it."""
_UNITS_OF_TIME = frozenset("月日号点周天年")
_KINDS = ("user", "feedback", "project", "reference")
_OFFERS = (
    "task_feedback", "task_user", "time_offered", "number_offered", "place_reference", "person_project",
)  # fmt: skip
FEATURES = (
    "head_same", "head_concept", "head_near", "body_same", "body_concept", "body_near",
    "covered", "reached", "head_explained", "head_related", "matches", "terms", "length", *_KINDS,
    *_OFFERS, "rarest", "characters", "prefixes", "alike",
)  # fmt: skip
REACHED, CHARACTERS, PREFIXES, ALIKE = (
    FEATURES.index(name) for name in ("reached", "characters", "prefixes", "alike")
)
"""Features of which a related note has one; of the last one ALIKE_FROM or more."""
SEMANTIC_FEATURES = (*FEATURES, "similar", "cosine")
"""Of a note with a vector; the last two are its similarity without the mean of all notes, and with it."""
Similar: TypeAlias = Mapping[int, tuple[float, float]]
"""The similarity of notes to a segment by file number, without the mean of all notes and with it."""


class _Weights:
    """The weights of a score in the order of the features."""

    def __init__(self, weights: Mapping[str, float]) -> None:
        self.bias = weights["bias"]
        names = SEMANTIC_FEATURES if "cosine" in weights else FEATURES
        self.weights = [weights.get(name, 0.0) for name in names]


@dataclass(frozen=True)
class ScoredNote:
    """A note with its score and its confidence, 0 to 1."""

    number: int
    score: float
    confidence: float
    is_related: bool
    """Whether it shares anything with the message: a word, a concept, a character or a vector."""
    sentence: str
    """The sentence of the message that it fits best; empty if that is the whole."""


def segments(text: str) -> list[str]:
    """Return the whole message and its sentences, without the call stack of a pasted error."""
    text = _FRAMES.sub("", text).strip() or text
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
    notes: Mapping[int, Note],
    *,
    needed: float,
    similar: Mapping[str, Similar] | None = None,
) -> list[ScoredNote]:
    """Return the notes with their confidence for a message.

    `notes` has those to compare by file number, `similar` the similarities to each segment that has a vector.
    """
    by_words = _Weights(NOTE_SCORE)
    by_meaning = _Weights(NOTE_SCORE_BY_MEANING)
    scores: dict[int, float] = {}
    fits: dict[int, str] = {}
    alike: dict[int, float] = {}
    related_to = set[int]()
    unrelated = -math.inf
    whole, *parts = segments(text)
    for segment in (whole, *parts):
        question = _Question.parse(index, segment)
        unrelated = max(unrelated, _unrelated_score(question))
        # A segment without a vector of its own has that of the message.
        found = (similar.get(segment) or similar.get(whole) or {}) if similar else {}
        for number, note in notes.items():
            features = note.features(index, question)
            likeness = found.get(number)
            if likeness is None:
                score = by_words.bias + sum(map(mul, by_words.weights, features))
            else:
                score = by_meaning.bias + sum(map(mul, by_meaning.weights, (*features, *likeness)))
            is_similar = (likeness is not None and likeness[1] >= RELATED_FROM) or features[
                ALIKE
            ] >= ALIKE_FROM
            if is_similar or features[REACHED] or features[CHARACTERS] or features[PREFIXES]:
                related_to.add(number)
            if score > scores.get(number, -math.inf):
                scores[number] = score
                alike[number] = features[ALIKE]
                fits[number] = segment if parts or whole != text else ""
    has_vectors = similar is not None and any(similar.values())
    found_notes = confident(scores, needed, unrelated=unrelated, alike=alike, by_meaning=has_vectors)
    return [
        ScoredNote(number, scores[number], confidence, number in related_to, fits[number])
        for number, confidence in found_notes.items()
    ]


def _unrelated_score(question: _Question) -> float:
    """Return the score of ordinary notes that share nothing with a segment: the mean of all types."""
    terms_weight = NOTE_SCORE["terms"] * math.log1p(len(question.weights))
    score = NOTE_SCORE["bias"] + terms_weight + NOTE_SCORE["length"] * math.log1p(ORDINARY_TERMS)
    odds = []
    for note in _ORDINARY:
        offered = zip(_OFFERS, note.offers(question.asked), strict=True)
        weight = NOTE_SCORE[note.kind] + sum(NOTE_SCORE[name] * value for name, value in offered)
        odds.append(math.exp(weight))
    return score + math.log(sum(odds) / len(odds))


def confident(
    scores: Mapping[int, float],
    needed: float,
    *,
    unrelated: float,
    alike: Mapping[int, float],
    by_meaning: bool = False,
) -> dict[int, float]:
    """Return the confidence of each note: by its score, its lead over the others, and the message's need.

    A small store counts as if it had more notes, each with the score `unrelated`. `alike` has the cosine of
    each note's vector of terms.
    """
    weights = NOTE_CONFIDENCE_BY_MEANING if by_meaning else NOTE_CONFIDENCE
    best = max(scores.values(), default=0.0)
    others = max(0, ORDINARY_STORE - len(scores)) * math.exp(unrelated - best)
    total = sum(math.exp(score - best) for score in scores.values()) + others
    # What is the same for all notes is summed up once.
    of_message = confidence_signals(0.0, 0.0, 1.0, needed, best_alike=max(alike.values(), default=0.0))
    same = weights["bias"] + sum(weights.get(name, 0.0) * of_message[name] for name in _OF_MESSAGE)
    attach_from = _odds(ATTACH_BY_MEANING_FROM if by_meaning else ATTACH_FROM)
    chance = _chance(needed)
    of_share = weights["share"] + chance * weights.get("needed_share", 0.0)
    of_alike = weights.get("alike", 0.0) + chance * weights.get("needed_alike", 0.0)
    found = {}
    for number, score in scores.items():
        behind = best - score
        share = math.log(math.exp(-behind) / total + LEAST_SHARE)
        odds = same + weights["score"] * score + weights["behind"] * behind
        odds += of_share * share + of_alike * alike.get(number, 0.0)
        odds -= attach_from
        found[number] = 1 / (1 + math.exp(-max(-30.0, min(30.0, odds))))
    return found


@cache
def _odds(probability: float) -> float:
    return math.log(probability / (1 - probability))


_OF_MESSAGE = ("need", "doubtful", "idle", "best_alike")
"""Signals that are the same for all notes."""


def confidence_signals(
    score: float, best: float, share: float, needed: float, *, alike: float = 0.0, best_alike: float = 0.0
) -> dict[str, float]:
    """Return the signals from which the confidence of a note is computed."""
    clipped = max(-6.0, min(6.0, needed))
    share = math.log(share + LEAST_SHARE)
    return {
        "score": score,
        "behind": best - score,
        "share": share,
        "need": clipped,
        "doubtful": min(clipped - 1, 0.0),
        "idle": min(clipped + 1, 0.0),
        "alike": alike,
        "best_alike": best_alike,
        "needed_share": _chance(needed) * share,
        "needed_alike": _chance(needed) * alike,
    }


def _chance(needed: float) -> float:
    """Return the probability that a message needs a memory."""
    return 1 / (1 + math.exp(-max(-6.0, min(6.0, needed))))


@dataclass(frozen=True)
class _Question:
    """The weighted terms of a segment, and the terms of notes that are related to each."""

    weights: tuple[float, ...]
    total: float
    by_term: dict[str, list[tuple[int, int, float]]]
    """For each related term: place of the question's term, kind and strength of the relation."""
    prefixes: dict[str, float]
    """The beginnings of long terms, and the weights of these terms."""
    characters: frozenset[str]
    vector: Vector | None
    asked: Asked

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
        prefixes = {term[:PREFIX_CHARS]: weights[term] for term in found if len(term) >= PREFIX_CHARS}
        return cls(
            weights=chosen,
            total=sum(chosen) or 1.0,
            by_term=by_term,
            prefixes=prefixes,
            characters=_characters(found),
            vector=vector_of(found),
            asked=asked(text),
        )


def term_weight(index: PassageIndex, term: str) -> float:
    """Return the weight of a term: its rarity, less for words about the task."""
    return min(index.idf(term), MAX_IDF) * (STEERING_WEIGHT if term in STEERING else 1.0)


@dataclass(frozen=True, slots=True)
class Note:
    """What is compared of a note; the same as long as its file does not change."""

    name: frozenset[str]
    head: frozenset[str]
    """Terms of its name and description."""
    body: frozenset[str]
    """The other terms."""
    kind: str
    has_time: bool
    has_number: bool
    prefixes: frozenset[str]
    characters: frozenset[str]
    """Those of scripts without spaces: two words of one meaning often share one."""
    fixed: tuple[float, ...] = ()
    """The features `length` and those of its type."""
    vector: Vector | None = None
    """That of its terms."""

    def features(self, index: PassageIndex, question: _Question) -> list[float]:
        """Return the values of FEATURES."""
        best: dict[tuple[int, int], tuple[int, float]] = {}
        explained = [0.0, 0.0]
        for field, own in enumerate((self.head, self.body)):
            for term in question.by_term.keys() & own:
                hits = question.by_term[term]
                if field == 0:
                    is_same = any(kind == SAME for _, kind, _ in hits)
                    explained[0 if is_same else 1] += term_weight(index, term)
                for place, kind, strength in hits:
                    known = best.get((field, place))
                    if known is None or (kind, -strength) < (known[0], -known[1]):
                        best[field, place] = kind, strength
        if any(explained):
            whole = sum(term_weight(index, term) for term in self.head)
            explained = [one / whole for one in explained]
        scale = question.total**-0.5
        mass = [0.0] * 6
        closest: dict[int, int] = {}
        for (field, place), (kind, strength) in best.items():
            mass[3 * field + kind] += question.weights[place] * (strength if kind == NEAR else 1.0)
            closest[place] = min(kind, closest.get(place, NEAR))
        same = [question.weights[place] for place, kind in closest.items() if kind == SAME]
        reached = sum(question.weights[place] for place in closest)
        matches = sum(kind in {SAME, CONCEPT} for kind in closest.values())
        return [
            *[one * scale for one in mass],
            sum(same) / question.total,
            reached / question.total,
            *explained,
            matches / 3,
            math.log1p(len(question.weights)),
            *self.fixed,
            *self.offers(question.asked),
            max(same, default=0.0) / MAX_IDF,
            len(question.characters & self.characters) / (len(question.characters) or 1),
            sum(question.prefixes[one] for one in question.prefixes.keys() & self.prefixes) / question.total,
            cosine(question.vector, self.vector) if question.vector and self.vector else 0.0,
        ]

    def offers(self, wanted: Asked) -> list[float]:
        """Return the features that tell whether it has what a segment asks for."""
        return [
            float(wanted.for_task and self.kind == "feedback"),
            float(wanted.for_task and self.kind == "user"),
            float(wanted.for_time and self.has_time),
            float(wanted.for_amount and self.has_number),
            float(wanted.for_place and self.kind == "reference"),
            float(wanted.for_person and self.kind == "project"),
        ]


_NO_TERMS = frozenset[str]()
_ORDINARY = [
    Note(
        name=_NO_TERMS,
        head=_NO_TERMS,
        body=_NO_TERMS,
        kind=kind,
        has_time=has_time,
        has_number=has_time,
        prefixes=_NO_TERMS,
        characters=_NO_TERMS,
    )
    for kind in _KINDS
    for has_time in (False, True)
]
"""Notes that share nothing with any message."""


def read_notes(index: PassageIndex, heads: Mapping[int, tuple[str, str]]) -> dict[int, Note]:
    """Return the notes of files by their numbers; `heads` has their types and names."""
    spans = {}
    for number in heads:
        entry = index.entries[number]
        spans[number] = range(entry.first, entry.last) if entry else range(0)
    index.stems.load([passage for span in spans.values() for passage in span])
    return {number: _read_note(index, span, *heads[number]) for number, span in spans.items()}


def _read_note(index: PassageIndex, span: range, kind: str, name: str) -> Note:
    head = frozenset(index.stems[span.start].split()) if span else frozenset[str]()
    text = [term for passage in span[1:] for term in index.stems[passage].split()]
    every = head.union(text[:COMPARED_TERMS])
    cues = 0
    for passage in span[:2]:
        cues |= index.cues[passage]
    has_number = bool(cues & Cue.NUMBER) or any(map(str.isdigit, head))
    has_date = has_number and not head.isdisjoint(_UNITS_OF_TIME)
    return Note(
        name=frozenset(content(name)),
        head=head,
        body=every - head,
        kind=kind,
        has_time=bool(cues & (Cue.TIME | Cue.DURATION)) or has_date,
        has_number=has_number,
        prefixes=frozenset(term[:PREFIX_CHARS] for term in every if len(term) >= PREFIX_CHARS),
        characters=_characters(every),
        fixed=(math.log1p(len(every)), *(float(kind == one) for one in _KINDS)),
        vector=vector_of(every),
    )


def _characters(found: Iterable[str]) -> frozenset[str]:
    """Return the characters of scripts without spaces."""
    every = "".join(found)
    return frozenset(() if every.isascii() else CJK_RUN.findall(every))
