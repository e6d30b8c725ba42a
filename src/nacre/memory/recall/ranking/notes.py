"""Scores notes for a message: by the same and by related words, by vectors, and by whether it needs one.

A note is a memory with a type, a name or a description. Each sentence of a message asks
for itself, beside the whole, so that a greeting or a pasted traceback does not dilute a question.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice, repeat
from operator import mul
from typing import NamedTuple, TypeAlias

from nacre.memory.recall.ranking.analysis import AnalysedFile, Cue
from nacre.memory.recall.ranking.asked import Asked, asked
from nacre.memory.recall.ranking.index import PassageIndex
from nacre.memory.recall.ranking.match import MAX_TERMS, STEERING, STEERING_WEIGHT
from nacre.memory.recall.ranking.need import need
from nacre.memory.recall.ranking.related import NEAR, SAME, Relation, related
from nacre.memory.recall.ranking.term_vectors import Vector, VectorTable, vector_of
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
PART_ODDS = 0.6
"""Log-odds, times the logarithm of their number, by which sentences must be surer than a whole message: each
has less context, and among many one fits by chance."""
MAX_ENCODED = 4
"""Segments that get a vector: the whole, the first and the last ones. Each takes 4 to 6 ms."""
MAX_IDF = 3.5
"""A word that no note holds is no stronger evidence than one that a single note holds."""
ATTACH_FROM = 0.38
"""The least probability at which a note is attached; shown as 0.5, the cut-off of all files. On people that
were left out, 5.5 of 100 messages that need nothing get a note; on people by another author, nearly twice as
many."""
ATTACH_BY_MEANING_FROM = 0.45
"""The same where notes have vectors of the encoder. By another author's people, 0.42 attached a note to more
than one in ten messages that need none."""
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
_LEAD_IN = re.compile(r"^(?:\w[^:?]{0,60}\s[^:?]{0,60}:\s+|[^：？]{1,60}：)(?=\D)")
"""What comes before a question in one sentence: "one more thing:"."""
_REMARK = re.compile(r"\s*[(（][^()（）]{1,60}[)）]\s*$")
"""What comes after it: "(no hurry)"."""
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
_COVERED, REACHED, _EXPLAINED, _MATCHES, CHARACTERS, PREFIXES, ALIKE = (
    FEATURES.index(name)
    for name in ("covered", "reached", "head_explained", "matches", "characters", "prefixes", "alike")
)
_NO_WORDS = [0.0] * (_MATCHES + 2)
"""The features of a note without a related word, up to `matches`, then `rarest`."""
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


@cache
def _weights_of(*, by_meaning: bool) -> _Weights:
    return _Weights(NOTE_SCORE_BY_MEANING if by_meaning else NOTE_SCORE)


class ScoredNote(NamedTuple):
    """A note with its score and its confidence, 0 to 1."""

    number: int
    score: float
    confidence: float
    is_related: bool
    """Whether it shares anything with the message: a word, a concept, a character or a vector."""
    sentence: str
    """The sentence of the message that it fits best; empty if that is the whole."""


def segments(text: str) -> list[str]:
    """Return the whole message and its sentences, without the call stack of a pasted error.

    A sentence with a lead-in or a remark also asks without them.
    """
    text = _FRAMES.sub("", text).strip() or text
    sentences = [part for part in map(str.strip, _SENTENCE.split(text)) if len(part) > 2]
    parts = dict.fromkeys(part for one in sentences for part in (one, _core(one)))
    found = [part for part in parts if part != text.strip()]
    if len(found) > MAX_SEGMENTS:
        found = [*found[: MAX_SEGMENTS // 2], *found[-MAX_SEGMENTS // 2 :]]
    return [text, *found]


def _core(sentence: str) -> str:
    """Return a sentence without a lead-in and a remark, unless a single word is left."""
    found = _REMARK.sub("", _LEAD_IN.sub("", sentence, count=1))
    return found if len(terms(found)) > 1 or len(CJK_RUN.findall(found)) > 2 else sentence


def encoded_segments(text: str) -> list[str]:
    """Return the segments that get a vector of their own, if there are vectors."""
    whole, *parts = segments(text)
    if len(parts) >= MAX_ENCODED:
        parts = [parts[0], *parts[2 - MAX_ENCODED :]]
    return [whole, *parts]


def segment_needs(text: str) -> dict[str, float]:
    """Return the log-odds that each segment of a message needs a memory."""
    # A single word is a query to memory itself.
    is_word = text.isascii() and len(text.split()) < 2
    return {part: NEEDED_FROM if is_word else need(part) for part in segments(text)}


def score_notes(
    notes: NoteSet,
    text: str,
    *,
    needs: Mapping[str, float],
    similar: Mapping[str, Similar] | None = None,
) -> list[ScoredNote]:
    """Return the notes with their confidence for a message: that of the segment which makes it highest.

    `needs` has the segments in order with their log-odds, `similar` the similarities of notes to each segment
    that has a vector.
    """
    best: list[ScoredNote] = []
    whole = next(iter(needs))
    has_vectors = similar is not None and any(similar.values())
    of_part = PART_ODDS * math.log(len(needs))
    for segment, needed in needs.items():
        question = _Question.parse(notes.index, segment)
        # A segment without a vector of its own has that of the message.
        found = (similar.get(segment) or similar.get(whole) or {}) if similar else {}
        scores, alike, is_related = _scores(notes, question, found)
        confidences = confident(
            scores,
            needed,
            unrelated=_unrelated_score(question),
            alike=alike,
            by_meaning=has_vectors,
            lead=0.0 if segment == whole else of_part,
        )
        fit = "" if segment == text else segment
        scored = map(ScoredNote, notes.notes, scores, confidences, is_related, repeat(fit))
        best = list(map(_best_of, best, scored)) if best else list(scored)
    return best


def _best_of(one: ScoredNote, other: ScoredNote) -> ScoredNote:
    """Return the note as scored for the sentence that it fits best, with its highest confidence."""
    best = other if other.score > one.score else one
    confidence = max(one.confidence, other.confidence)
    return best._replace(confidence=confidence, is_related=one.is_related or other.is_related)


def _scores(
    notes: NoteSet, question: _Question, similar: Similar
) -> tuple[list[float], list[float], list[bool]]:
    """Return the score of each note, the cosine of its vector of terms, and whether it is related."""
    by_words = _weights_of(by_meaning=False)
    by_meaning = _weights_of(by_meaning=True)
    scores = []
    alike = []
    is_related = []
    for features, likeness in zip(notes.features(question), map(similar.get, notes.notes), strict=True):
        if likeness is None:
            score = by_words.bias + sum(map(mul, by_words.weights, features))
            is_near = features[ALIKE] >= ALIKE_FROM
        else:
            score = by_meaning.bias + sum(map(mul, by_meaning.weights, (*features, *likeness)))
            is_near = features[ALIKE] >= ALIKE_FROM or likeness[1] >= RELATED_FROM
        scores.append(score)
        alike.append(features[ALIKE])
        is_related.append(bool(is_near or features[REACHED] or features[CHARACTERS] or features[PREFIXES]))
    return scores, alike, is_related


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
    scores: Sequence[float],
    needed: float,
    *,
    unrelated: float,
    alike: Sequence[float],
    by_meaning: bool = False,
    lead: float = 0.0,
) -> list[float]:
    """Return the confidence of each note: by its score, its lead over the others, and the message's need.

    A small store counts as if it had more notes, each with the score `unrelated`. `alike` has the cosine of
    each note's vector of terms; `lead` is taken off the log-odds.
    """
    weights = NOTE_CONFIDENCE_BY_MEANING if by_meaning else NOTE_CONFIDENCE
    best = max(scores, default=0.0)
    others = max(0, ORDINARY_STORE - len(scores)) * math.exp(unrelated - best)
    total = sum(math.exp(score - best) for score in scores) + others
    # What is the same for all notes is summed up once.
    of_message = confidence_signals(0.0, 0.0, 1.0, needed, best_alike=max(alike, default=0.0))
    same = weights["bias"] + sum(weights.get(name, 0.0) * of_message[name] for name in _OF_MESSAGE)
    attach_from = _odds(ATTACH_BY_MEANING_FROM if by_meaning else ATTACH_FROM) + lead
    chance = _chance(needed)
    of_share = weights["share"] + chance * weights.get("needed_share", 0.0)
    of_alike = weights.get("alike", 0.0) + chance * weights.get("needed_alike", 0.0)
    found = []
    for score, near in zip(scores, alike, strict=True):
        behind = best - score
        share = math.log(math.exp(-behind) / total + LEAST_SHARE)
        odds = same + weights["score"] * score + weights["behind"] * behind
        odds += of_share * share + of_alike * near
        odds -= attach_from
        found.append(1 / (1 + math.exp(-max(-30.0, min(30.0, odds)))))
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

    terms: tuple[str, ...]
    weights: tuple[float, ...]
    total: float
    related: tuple[dict[str, Relation], ...]
    """For each term the related ones, closest first."""
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
        chosen = tuple(weights[term] for term in found)
        prefixes = {term[:PREFIX_CHARS]: weights[term] for term in found if len(term) >= PREFIX_CHARS}
        return cls(
            terms=tuple(found),
            weights=chosen,
            total=sum(chosen) or 1.0,
            related=tuple(map(related, found)),
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


class NoteSet:
    """Notes that are compared with a message all at once; to be made again when a file changes."""

    def __init__(self, index: PassageIndex, notes: Mapping[int, Note]) -> None:
        """`notes` has them by file number."""
        self.index = index
        self.notes = notes
        every = list(notes.values())
        self._heads = _places([one.head for one in every])
        """The places of the notes that hold a term in their heads."""
        self._bodies = _places([one.body for one in every])
        self._prefixes = _places([one.prefixes for one in every])
        self._vectors = VectorTable([one.vector for one in every])
        self._head_weights: dict[int, float] = {}

    def features(self, question: _Question) -> list[list[float]]:
        """Return the values of FEATURES of each note, in the order of `notes`."""
        words = self._words(question)
        prefixes = self._prefix_shares(question)
        count = math.log1p(len(question.weights))
        asked = len(question.characters) or 1
        offered: dict[tuple[str, bool, bool], list[float]] = {}
        rows = []
        compared = zip(self.notes.values(), self._vectors.cosines(question.vector), strict=True)
        for place, (note, alike) in enumerate(compared):
            *of_words, rarest = words.get(place, _NO_WORDS)
            offer = note.kind, note.has_time, note.has_number
            if offer not in offered:
                offered[offer] = note.offers(question.asked)
            shared = len(question.characters & note.characters) / asked if note.characters else 0.0
            rows.append(
                [
                    *of_words, count, *note.fixed, *offered[offer],
                    rarest, shared, prefixes.get(place, 0.0), alike,
                ]
            )  # fmt: skip
        return rows

    def _words(self, question: _Question) -> dict[int, list[float]]:
        """Return the features of related words of the notes that have any: up to `matches`, then `rarest`."""
        found: dict[int, list[float]] = {}
        for weight, relations in zip(question.weights, question.related, strict=True):
            self._add_term(found, weight, relations, question.total)
        same = set(question.terms)
        for term in {term for relations in question.related for term in relations}:
            if term in self._heads:
                rarity = term_weight(self.index, term)
                for place in self._heads[term]:
                    weight = rarity / self._head_weight(place)
                    found[place][_EXPLAINED if term in same else _EXPLAINED + 1] += weight
        return found

    def _add_term(
        self, found: dict[int, list[float]], weight: float, relations: Mapping[str, Relation], total: float
    ) -> None:
        """Add a term of a question to the features of the notes that have it or a related one."""
        share = weight / total
        amount = weight * total**-0.5
        in_fields: tuple[set[int], set[int]] = set(), set()
        # The closest relation counts: first of each field, then of both.
        for other, (kind, strength) in relations.items():
            for field, holders in enumerate((self._heads, self._bodies)):
                seen = in_fields[field]
                for place in holders.get(other, ()):
                    if place in seen:
                        continue
                    seen.add(place)
                    row = found.get(place)
                    if row is None:
                        row = found[place] = list(_NO_WORDS)
                    row[3 * field + kind] += amount * strength if kind == NEAR else amount
                    if place in in_fields[1 - field]:
                        continue
                    row[REACHED] += share
                    if kind != NEAR:
                        row[_MATCHES] += 1 / 3
                    if kind == SAME:
                        row[_COVERED] += share
                        row[-1] = max(row[-1], weight / MAX_IDF)

    def _prefix_shares(self, question: _Question) -> dict[int, float]:
        """Return the share of the question's weight that has the beginning of a word of a note."""
        found: dict[int, float] = {}
        for prefix, weight in question.prefixes.items():
            for place in self._prefixes.get(prefix, ()):
                found[place] = found.get(place, 0.0) + weight / question.total
        return found

    def _head_weight(self, place: int) -> float:
        known = self._head_weights.get(place)
        if known is None:
            head = next(islice(self.notes.values(), place, None)).head
            known = self._head_weights[place] = sum(term_weight(self.index, term) for term in head)
        return known


def _places(sets: Iterable[Iterable[str]]) -> dict[str, list[int]]:
    """Return the places of the sets that have each word."""
    found: dict[str, list[int]] = {}
    for place, words in enumerate(sets):
        for word in words:
            found.setdefault(word, []).append(place)
    return found


def read_notes(index: PassageIndex, heads: Mapping[int, tuple[str, str]]) -> dict[int, Note]:
    """Return the notes of files by their numbers; `heads` has their types and names."""
    spans = {}
    for number in heads:
        entry = index.entries[number]
        spans[number] = range(entry.first, entry.last) if entry else range(0)
    index.stems.load([passage for span in spans.values() for passage in span])
    vectors = index.vectors.of(spans)
    return {
        number: _read_note(index, span, *heads[number], vectors.get(number)) for number, span in spans.items()
    }


def note_vector(file: AnalysedFile) -> Vector | None:
    """Return the vector of a note for the index."""
    _, every = _note_terms([passage.stems for passage in file.passages])
    return vector_of(every)


def _note_terms(passages: Sequence[str]) -> tuple[frozenset[str], frozenset[str]]:
    """Return the terms of a note's name and description, and all that are compared."""
    head = frozenset(passages[0].split()) if passages else frozenset[str]()
    text = [term for passage in passages[1:] for term in passage.split()]
    return head, head.union(text[:COMPARED_TERMS])


def _read_note(index: PassageIndex, span: range, kind: str, name: str, vector: Vector | None) -> Note:
    head, every = _note_terms([index.stems[passage] for passage in span])
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
        vector=vector,
    )


def _characters(found: Iterable[str]) -> frozenset[str]:
    """Return the characters of scripts without spaces."""
    every = "".join(found)
    return frozenset(() if every.isascii() else CJK_RUN.findall(every))
