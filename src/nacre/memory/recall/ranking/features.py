"""The evidence for each candidate file, as numbers a weighted sum can add up.

Every feature follows from a file's text, author, date and place among its neighbours.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from nacre.memory.recall.ranking.analysis import ASSISTANT_ROLES
from nacre.memory.recall.ranking.cues import Cue
from nacre.memory.recall.ranking.index import Entry, Index
from nacre.memory.recall.ranking.match import FileMatch, Match
from nacre.memory.recall.ranking.question import Question

NEAR_CHARS = 60
"""Two asked words within some ten stems of each other belong to one statement."""
DATE_DECAY_DAYS = 7.0
"""A memory dated a week off the asked day still counts a third."""

NEAR = (-1, 1, -2, 2)
_STEPS = ((0, 4, -1), (1, 5, 1), (2, 0, -2), (3, 0, 2))
"""For each file beside: where its score stands, where instead if a model says it, and how far off it is."""
Kind: TypeAlias = tuple[tuple[float, float], tuple[float, ...], float, float]
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
class Evidence:
    """Turns candidates of one match into feature vectors.

    Some hundred for each question: what depends on the question alone, or on a few bits, is worked out once.
    """

    index: Index
    question: Question
    match: Match

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

    def _vector(self, entry: Entry, file: FileMatch, folder_best: float) -> list[float]:
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

    def _entry(self, number: int) -> Entry:
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

    def _around(self, entry: Entry, file: FileMatch) -> list[float]:
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
    def _kinds(self) -> dict[tuple[int, int], Kind]:
        return {}

    def _kind(self, cues: int, author: int) -> Kind:
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

    def _dates(self, entry: Entry) -> tuple[float, float]:
        if entry.when is None:
            return 0.0, 0.0
        when = entry.when
        days = min(span.distance(when) for span in self.question.date_ranges)
        return float(days == 0), math.exp(-days / DATE_DECAY_DAYS)


def assistants(index: Index) -> frozenset[int]:
    """The authors that are a model, not a person."""
    return frozenset(n for name, n in index.authors.items() if name in ASSISTANT_ROLES)
