"""The evidence for each candidate file, as numbers a weighted sum can add up.

Every feature follows from a file's text, author, date and place among its neighbours.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from nacre.memory.recall.local.cues import Cue
from nacre.memory.recall.local.index import Entry, Index
from nacre.memory.recall.local.match import FileMatch, Match
from nacre.memory.recall.local.question import Question
from nacre.memory.recall.local.schema import ASSISTANT_ROLES

NEAR_CHARS = 60
"""Two asked words within some ten stems of each other belong to one statement."""
DATE_DECAY_DAYS = 7.0
"""A memory dated a week off the asked day still counts a third."""

NEAR = (-1, 1, -2, 2)

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
    """Turns candidates of one match into feature vectors."""

    index: Index
    question: Question
    match: Match

    def vectors(self, candidates: list[int]) -> list[list[float]]:
        """One vector per candidate, in the order of FEATURES."""
        best: dict[str, float] = {}
        for number in candidates:
            entry = self._entry(number)
            if entry.folder:
                best[entry.folder] = max(best.get(entry.folder, 0.0), self.match.file(number).score)
        return [self._vector(number, best) for number in candidates]

    def _vector(self, number: int, folder_best: dict[str, float]) -> list[float]:
        file, entry = self.match.file(number), self._entry(number)
        covered = self._weight_of(file.covered)
        pairs, near = self._pairs(file)
        return [
            file.score, covered, covered * covered,
            file.covered.bit_count() / max(1, len(self.question.terms)), pairs, near,
            *self._authorship(file),
            *self._around(number, file),
            folder_best.get(entry.folder, 0.0),
            *self._kind(file, entry, covered),
            *self._dates(entry),
        ]  # fmt: skip

    def _entry(self, number: int) -> Entry:
        entry = self.index.entries[number]
        if entry is None:
            raise KeyError(number)
        return entry

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

    def _pairs(self, file: FileMatch) -> tuple[float, float]:
        pairs = near = 0.0
        held = [couple for couple in self._couples if file.covered & couple[0] == couple[0]]
        # Stems may lie on disk: read only for a passage that holds a couple.
        stems = self.index.stems[file.passage] if held else ""
        for _, both, first, second, share in held:
            if both in stems:
                pairs += share
            elif abs(stems.find(first) - stems.find(second)) < NEAR_CHARS:
                near += share
        return pairs, near

    def _authorship(self, file: FileMatch) -> tuple[float, ...]:
        is_asked = float(self.index.author[file.passage] in self.question.authors)
        mentioned = 0.0
        if self.question.names:
            stems = self.index.stems[file.passage]
            mentioned = float(any(f" {name} " in stems for name in self.question.names))
        return is_asked, file.by_asked, mentioned

    def _around(self, number: int, file: FileMatch) -> tuple[float, ...]:
        """What the files beside it match; a model's words apart from a person's."""
        said = [0.0, 0.0, 0.0, 0.0]
        told = [0.0, 0.0]
        together = file.covered_together
        for i, step in enumerate(NEAR):
            other = self.index.neighbour(number, step)
            if other is None:
                continue
            match = self.match.file(other)
            together |= match.covered_together
            if i < len(told) and self.index.author[match.passage] in self._assistants:
                told[i] = match.score
            else:
                said[i] = match.score
        window = self._weight_of(together)
        return (*said, *told, window)

    @cached_property
    def _assistants(self) -> frozenset[int]:
        return assistants(self.index)

    def _kind(self, file: FileMatch, entry: Entry, covered: float) -> tuple[float, ...]:
        question, cues = self.question, self.index.cues[file.passage]
        offered = cues & question.wants
        is_assistant = self.index.author[file.passage] in self._assistants
        told = question.about_answers
        rule = 0.0 if question.about_past or is_assistant else float(bool(cues & Cue.RULE))
        liked = 0.0 if question.about_past or is_assistant else float(bool(cues & Cue.PREFERENCE))
        return (
            float(bool(cues & Cue.QUESTION)),
            float(bool(cues & Cue.FIRST_PERSON)),
            math.log1p(self.index.lengths[file.passage]),
            math.log1p(entry.length),
            float(bool(offered & Cue.TIME)),
            float(bool(offered & Cue.DURATION)),
            float(bool(offered & Cue.NUMBER)),
            float(bool(offered & Cue.PLACE)),
            float(is_assistant),
            float(is_assistant and told),
            file.by_assistant if told else 0.0,
            rule, liked, rule * covered, liked * covered,
        )  # fmt: skip

    def _dates(self, entry: Entry) -> tuple[float, float]:
        if not self.question.spans or entry.when is None:
            return 0.0, 0.0
        when = entry.when
        days = min(span.distance(when) for span in self.question.spans)
        return float(days == 0), math.exp(-days / DATE_DECAY_DAYS)


def assistants(index: Index) -> frozenset[int]:
    """The authors that are a model, not a person."""
    return frozenset(n for name, n in index.authors.items() if name in ASSISTANT_ROLES)
