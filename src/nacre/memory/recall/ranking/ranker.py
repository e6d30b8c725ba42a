"""Ranks files for a question without a model: features, their weighted sum, confidence.

A feature follows from a file's text, author, date and place among its neighbours.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from operator import mul
from typing import NamedTuple, TypeAlias

from nacre.memory.recall.ranking.analysis import ASSISTANT_ROLES, Cue, Doc, analyse
from nacre.memory.recall.ranking.index import IndexedFile, PassageIndex, build_index
from nacre.memory.recall.ranking.match import FileMatch, ParsedQuestion, QuestionMatch, parse_question
from nacre.memory.recall.ranking.notes import Note, ScoredNote
from nacre.memory.recall.ranking.order import SubjectTerms, states_same
from nacre.memory.recall.ranking.weights import LEXICAL, MATCH, RELEVANCE, RELEVANCE_BY_MEANING

NEAR_CHARS = 60
"""Two words of a question within about ten stems of each other belong to one statement."""
DATE_DECAY_DAYS = 7.0
"""A memory dated a week off the requested day still counts a third."""

NEIGHBOUR_STEPS = (-1, 1, -2, 2)
_NEIGHBOUR_FEATURES = ((0, 4, -1), (1, 5, 1), (2, 0, -2), (3, 0, 2))
"""For each neighbour: the place of its score, its place if a model wrote it, and the step to it."""
PassageKind: TypeAlias = tuple[tuple[float, float], tuple[float, ...], float, float]
"""Question and first person; offered kinds and author; rule; preference."""

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


class FeatureExtractor:
    """Computes the feature vectors of candidate files.

    About a hundred for each question: what depends on the question alone, or on a few bits, is cached.
    """

    def __init__(self, index: PassageIndex, question: ParsedQuestion, match: QuestionMatch) -> None:
        self.index = index
        self.question = question
        self.match = match
        terms = question.terms
        self._count = max(1, len(terms))
        shares = self._shares = [term.weight / question.total for term in terms]
        self._term_pairs = [
            (
                3 << i,
                f" {terms[i].text} {terms[i + 1].text} ",
                f" {terms[i].text} ",
                f" {terms[i + 1].text} ",
                (shares[i] + shares[i + 1]) / 2,
            )
            for i in range(len(terms) - 1)
        ]
        """Neighbouring terms of the question: bits, both, first, second, mean share."""
        self._assistants = assistants(index)
        self._weights: dict[int, float] = {0: 0.0}
        self._kinds: dict[tuple[int, int], PassageKind] = {}

    def vectors(self, candidates: list[int]) -> list[list[float]]:
        """Return one vector per candidate, in the order of FEATURES."""
        best: dict[str, float] = {}
        rows = [(self._entry(number), self.match.files[number]) for number in candidates]
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
        # A pair needs two neighbouring terms of the question.
        pairs, near = self._pairs(bits, passage) if bits & bits >> 1 else (0.0, 0.0)
        author = self.index.author[passage]
        cues = self.index.cues[passage]
        kind = self._kinds.get((cues, author)) or self._kind(cues, author)
        style, offered, rule, preference = kind
        mentioned = 0.0
        if self.question.names:
            stems = self.index.stems[passage]
            mentioned = float(any(f" {name} " in stems for name in self.question.names))
        return [
            score, covered, covered * covered, bits.bit_count() / self._count, pairs, near,
            float(author in self.question.authors), by_asked,
            mentioned,
            *self._neighbours(entry, file),
            folder_best,
            *style, math.log1p(self.index.lengths[passage]), math.log1p(entry.length),
            *offered, by_assistant if self.question.about_answers else 0.0,
            rule, preference, rule * covered, preference * covered,
            *(self._dates(entry) if self.question.date_ranges else (0.0, 0.0)),
        ]  # fmt: skip

    def _entry(self, number: int) -> IndexedFile:
        entry = self.index.entries[number]
        if entry is None:
            raise KeyError(number)
        return entry

    def _weight_of(self, bits: int) -> float:
        """Return the share of the question's weight that these terms have."""
        weight = self._weights.get(bits)
        if weight is None:
            weight = sum(share for i, share in enumerate(self._shares) if bits >> i & 1)
            self._weights[bits] = weight
        return weight

    def _pairs(self, bits: int, passage: int) -> tuple[float, float]:
        pairs = near = 0.0
        stems = self.index.stems[passage]
        for both_bits, both, first, second, share in self._term_pairs:
            if bits & both_bits != both_bits:
                continue
            if both in stems:
                pairs += share
            elif abs(stems.find(first) - stems.find(second)) < NEAR_CHARS:
                near += share
        return pairs, near

    def _neighbours(self, entry: IndexedFile, file: FileMatch) -> list[float]:
        """Return the scores of the neighbouring files, each alone, and what all of them cover together."""
        scores = [0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
        together = file.covered_together
        folder = entry.folder
        order = entry.order
        if folder:
            beside = self.index.by_place
            files = self.match.files
            for at, at_if_assistant, step in _NEIGHBOUR_FEATURES:
                other = beside.get((folder, order + step))
                if other is None:
                    continue
                _, passage, score, _, _, _, bits = files[other]
                if not bits:
                    continue
                together |= bits
                is_assistant = self._assistants and self.index.author[passage] in self._assistants
                scores[at_if_assistant if at_if_assistant and is_assistant else at] = score
        scores.append(self._weight_of(together))
        return scores

    def _kind(self, cues: int, author: int) -> PassageKind:
        """Return and cache the features that depend only on the cues and the author of a passage."""
        question = self.question
        offered = cues & self.question.wants
        is_assistant = author in self._assistants
        may_be_rule = not question.about_past and not is_assistant
        kind = self._kinds[cues, author] = (
            (float(bool(cues & Cue.QUESTION)), float(bool(cues & Cue.FIRST_PERSON))),
            (
                *(float(bool(offered & cue)) for cue in (Cue.TIME, Cue.DURATION, Cue.NUMBER, Cue.PLACE)),
                float(is_assistant),
                float(is_assistant and question.about_answers),
            ),
            float(may_be_rule and bool(cues & Cue.RULE)),
            float(may_be_rule and bool(cues & Cue.PREFERENCE)),
        )
        return kind

    def _dates(self, entry: IndexedFile) -> tuple[float, float]:
        if entry.when is None:
            return 0.0, 0.0
        when = entry.when
        days = min(span.distance(when) for span in self.question.date_ranges)
        return float(days == 0), math.exp(-days / DATE_DECAY_DAYS)


def assistants(index: PassageIndex) -> frozenset[int]:
    """Return the authors that are a model, not a person."""
    return frozenset(n for name, n in index.authors.items() if name in ASSISTANT_ROLES)


AT = {name: i for i, name in enumerate(FEATURES)}
BY_ASKED = AT["by_asked_author"]
OWN_AUTHOR = frozenset(AT[name] for name in ("by_asked_author", "asked_passage", "mentions_asked"))
"""Left out of relevance, and where the files of the author asked about are compared with others."""
COMPARED = ("covered", "pairs", "passage", "window_covered")
TOP = 5
ENOUGH = 0.5
"""The least relevance at which something is attached; the weights are scaled to it."""
MATCH_MARGIN = 0.12
"""The odds of `match` below which nothing is attached: on the tuning half two of ten near-misses get nothing,
and less than one point of any@5 is lost."""
LONG_FROM = 5.0
"""Logarithm of the words of an ordinary memory, about 150: a passage of a longer one covers less of it."""

LONG_NOTE_ODDS = 1.5
"""Taken off the odds of a note for each unit by which the logarithm of its length exceeds LONG_FROM. Without
it, messages of the tuning people got long notes of other people in 14 of 100 cases, with it in 7; their own,
asked for directly, in 88 and 87 of 100."""

Vector = Sequence[float]


@dataclass(frozen=True)
class Confidence:
    """Probabilities, 0 to 1."""

    relevance: float
    """That any file answers the question; where it names an author, that it is about them, too."""
    match: float
    """That it is about the person asked about, not the same fact about another."""

    is_enough: bool
    """Whether to attach anything."""


NO_CONFIDENCE = Confidence(0.0, 0.0, is_enough=False)


def confidence(
    question: ParsedQuestion,
    unknown: float,
    scored: Sequence[tuple[float, Vector]],
    learnt: Vector,
    *,
    similar: float | None = None,
) -> Confidence:
    """Return the confidence of a ranking by two logistic sums over its candidates.

    `scored` is best first, `unknown` the share of the question that no file holds, `similar` the highest
    cosine of the first files where all of them have vectors. That an author has the name asked about is no
    evidence: two stores may share a first name.
    """
    if not scored:
        return NO_CONFIDENCE
    signals = confidence_signals(question, unknown, scored, learnt)
    if similar is None:
        relevance = _logistic(RELEVANCE, signals)
    else:
        semantic = {"similar": similar, "similar_long": similar * signals["long"]}
        relevance = _logistic(RELEVANCE_BY_MEANING, signals | semantic)
    match = _logistic(MATCH, signals)
    if question.names and not signals["long"]:
        # The same fact about another person does not answer; a long file has the words of both.
        relevance = min(relevance, match / (match + (1 - match) * MATCH_MARGIN))
    return Confidence(relevance, match, is_enough=relevance >= ENOUGH)


def confidence_signals(
    question: ParsedQuestion, unknown: float, scored: Sequence[tuple[float, Vector]], learnt: Vector
) -> dict[str, float]:
    """Return the signals from which relevance and match are computed."""
    score, best = scored[0]
    top = [vector for _, vector in scored[:TOP]]
    signals = {
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
    if not question.names:
        return signals | {f"asked_{name}": 0.0 for name in (*COMPARED, "score")}
    # How much better the files of the author asked about match than all others.
    asked = [(s, v) for s, v in scored if v[BY_ASKED]]
    others = [(s, v) for s, v in scored if not v[BY_ASKED]]
    for name in COMPARED:
        best_of = [max((v[AT[name]] for _, v in group), default=0.0) for group in (asked, others)]
        signals[f"asked_{name}"] = best_of[0] - best_of[1]
    best_of = [
        max((_without_author(s, v, learnt) for s, v in group), default=0.0) for group in (asked, others)
    ]
    signals["asked_score"] = best_of[0] - best_of[1]
    return signals


def _without_author(score: float, vector: Vector, learnt: Vector) -> float:
    return score - sum(learnt[i] * vector[i] for i in OWN_AUTHOR)


def _logistic(weights: dict[str, float], signals: dict[str, float]) -> float:
    total = weights.get("bias", 0.0) + sum(weights.get(name, 0.0) * value for name, value in signals.items())
    return 1 / (1 + math.exp(-max(-30.0, min(30.0, total))))


CANDIDATES = 120
"""Files whose features are computed; 300 found nothing more on LoCoMo (not tried on other sets)."""
EXPLAINED = 20
"""Files for which the parts of the score and the subject are returned: later ones are not attached."""
NEIGHBOURS_OF = 60
"""The best files whose neighbours are candidates, too: an answer is often next to the words of a question."""


class ScoredFile(NamedTuple):
    """One file with its score and what the score is made of."""

    id: str
    score: float
    parts: dict[str, float]
    subject: SubjectTerms | None = None
    """Only for the first files, which may be attached."""
    confidence: float | None = None
    """Of a note, that it helps; other files share the confidence of the ranking."""


@dataclass(frozen=True)
class Ranking:
    """The best files, best first, and the confidence that any of them answers."""

    picks: list[ScoredFile]
    confidence: Confidence


def unknown_share(index: PassageIndex, question: ParsedQuestion) -> float:
    """Return the share of a question's weight that no file holds."""
    return sum(term.weight for term in question.terms if term.text not in index.postings) / question.total


@dataclass
class Ranker:
    """Ranks one index."""

    index: PassageIndex

    @classmethod
    def over(cls, docs: Iterable[Doc]) -> Ranker:
        """Return a ranker for these files."""
        return cls(build_index(analyse(doc) for doc in docs))

    def rank(self, text: str, *, asked: date | None = None, limit: int = 10) -> Ranking:
        """Rank the files for a question asked on a day."""
        index = self.index
        question = parse_question(text, index, asked)
        match = QuestionMatch(index, question, assistants(index))
        numbers = self.with_neighbours(match.best_files(CANDIDATES))
        vectors = FeatureExtractor(index, question, match).vectors(numbers)
        learnt = [LEXICAL[name][0 if question.names else 1] for name in FEATURES]
        order = sorted(
            ((sum(map(mul, learnt, vector)), -i) for i, vector in enumerate(vectors)), reverse=True
        )
        # Explanations take longer than the ranking: only files that may be attached get one.
        index.stems.load([match.files[numbers[-i]].passage for _, i in order[:EXPLAINED]])
        files = []
        for place, (score, i) in enumerate(order[:limit]):
            number = numbers[-i]
            parts: dict[str, float] = {}
            subject = None
            if place < EXPLAINED:
                weighted = zip(FEATURES, map(mul, learnt, vectors[-i]), strict=True)
                parts = {name: round(value, 4) for name, value in weighted if value}
                subject = self.subject(number, match, question)
            files.append(ScoredFile(self._id(number), score, parts, subject))
        scored = [(score, vectors[-i]) for score, i in order]
        return Ranking(files, confidence(question, unknown_share(index, question), scored, learnt))

    def with_notes(
        self,
        ranking: Ranking,
        scored: Sequence[ScoredNote],
        notes: Mapping[int, Note],
        *,
        needed: bool,
        limit: int,
    ) -> Ranking:
        """Return the ranking with the surest related notes first, each with its own confidence.

        A question in the words of a memory: the first file by words is as certain as without notes. This also
        holds for the sentence that the best note fits, whatever is around it.
        """
        found = {pick.id: pick for pick in ranking.picks}
        certain = self._certain(ranking, scored) if needed else {}
        sure: dict[int, float] = {}
        for note in scored:
            file = self._id(note.number)
            if note.is_related or file in found:
                confidence = max(note.confidence, certain[file]) if file in certain else note.confidence
                sure[note.number] = self._of_length(confidence, note.number)
        self._raise_newer(sure, notes)
        # Of two that are equally certain the newer comes first.
        order = sorted(sure, key=self._id)
        order.sort(key=lambda number: (sure[number], self._when(number)), reverse=True)
        scores = {note.number: note.score for note in scored}
        picks = []
        for number in order[:limit]:
            pick = found.get(self._id(number)) or ScoredFile(self._id(number), scores[number], {})
            subject = self._note_subject(number, notes[number])
            if pick.subject:
                # Of a note the name and the description tell the subject, too, not only the best passage.
                covered = pick.subject.covered
                subject = subject._replace(terms=pick.subject.terms | subject.terms, covered=covered)
            picks.append(ScoredFile(pick.id, pick.score, pick.parts, subject, sure[number]))
        others = (pick for file, pick in found.items() if self.index.by_id.get(file) not in sure)
        return Ranking([*picks, *others], ranking.confidence)

    def _certain(self, ranking: Ranking, scored: Sequence[ScoredNote]) -> dict[str, float]:
        """Return the confidence of the first files by the words of a message and of its best sentence."""
        best = max(scored, key=lambda note: note.score, default=None)
        asked = [ranking]
        if best and best.sentence and best.confidence < ENOUGH:
            asked.append(self.rank(best.sentence, limit=1))
        found: dict[str, float] = {}
        for one in asked:
            for first in one.picks[:1]:
                found[first.id] = max(found.get(first.id, 0.0), one.confidence.relevance)
        return found

    def _raise_newer(self, sure: dict[int, float], notes: Mapping[int, Note]) -> None:
        """Make a newer note as certain as an older one that states the same (R14).

        Else an outdated note would be attached alone where it has more words of the message.
        """
        for number, confidence in list(sure.items()):
            when = self._when(number)
            if confidence < ENOUGH or when == date.min:
                continue
            old = self._note_subject(number, notes[number])
            for other in sure:
                if self._when(other) <= when or sure[other] >= confidence:
                    continue
                if states_same(old, self._note_subject(other, notes[other]), self.index.idf):
                    sure[other] = confidence

    def _when(self, number: int) -> date:
        entry = self.index.entries[number]
        return (entry.when if entry else None) or date.min

    def _of_length(self, confidence: float, number: int) -> float:
        """Return the confidence of a note, less for a long one, which shares words with many messages."""
        entry = self.index.entries[number]
        long = max(0.0, math.log1p(entry.length) - LONG_FROM) if entry else 0.0
        if not long or not confidence:
            return confidence
        return confidence / (confidence + (1 - confidence) * math.exp(LONG_NOTE_ODDS * long))

    def _note_subject(self, number: int, note: Note) -> SubjectTerms:
        entry = self.index.entries[number]
        if entry is None:
            return SubjectTerms("", None, ("", 0), note.head, {}, note.kind, note.name, note.vector)
        place = (entry.folder, entry.order)
        return SubjectTerms(entry.id, entry.when, place, note.head, {}, note.kind, note.name, note.vector)

    def with_neighbours(self, best: list[int]) -> list[int]:
        """Return the best files and the neighbours of the first of them, sorted by name.

        The order decides among equal scores, and must not depend on when a file was read.
        """
        near = best[:NEIGHBOURS_OF]
        beside = (self.index.neighbour(number, step) for number in near for step in NEIGHBOUR_STEPS)
        return sorted({*best, *(number for number in beside if number is not None)}, key=self._id)

    def subject(self, number: int, match: QuestionMatch, question: ParsedQuestion) -> SubjectTerms | None:
        """Return what the order by age needs to know of a file."""
        entry = self.index.entries[number]
        found = match.files[number]
        if entry is None:
            return None
        covered = {
            term.text: term.weight / question.total
            for i, term in enumerate(question.terms)
            if found.covered_together >> i & 1
        }
        terms = frozenset(self.index.stems[found.passage].split())
        return SubjectTerms(entry.id, entry.when, (entry.folder, entry.order), terms, covered)

    def _id(self, number: int) -> str:
        entry = self.index.entries[number]
        return entry.id if entry else ""
