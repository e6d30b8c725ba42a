"""The order by age: of two files on one subject the newer comes first, and may replace the other (R14)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from typing import NamedTuple, TypeAlias

from nacre.memory.recall.ranking.term_vectors import Vector, cosine

SUBJECT_SHARE = 0.4
"""Two files are about one subject when they share this much of what the larger covers of the question: a
correction seldom repeats the whole fact. From 0.5 on, pairs of the tuning half were missed."""
ALIKE = 0.2
"""Files of one subject share this much of the words of the shorter one, not only those of the question."""
SAME_STATEMENT = 0.35
"""Above this overlap of words the older file states the same fact: it is superseded."""
ALIKE_BY_VECTOR = 0.45
"""Two notes of one type with this cosine are of one subject, too: 79 of 100 pairs of the tuning people of
which one replaces the other, 12 of 1,000 others."""

Rarity: TypeAlias = Callable[[str], float]


class SubjectTerms(NamedTuple):
    """The subject of a file with regard to a question, and its age.

    A tuple for speed: each question makes a hundred.
    """

    id: str
    when: date | None
    place: tuple[str, int]
    """Folder and order in it: which of two files of one day is newer."""
    terms: frozenset[str]
    covered: dict[str, float]
    """The question's terms it holds, each with its share of the question's weight."""
    kind: str = ""
    name: frozenset[str] = frozenset()
    """Type of a note, and the terms of its name."""
    vector: Vector | None = None
    """Of a note."""


@dataclass(frozen=True)
class OrderedFile:
    """A file in its final place, and the id of the newer file that supersedes it."""

    id: str
    superseded_by: str | None = None


def newer_first(files: Sequence[SubjectTerms], rarity: Rarity) -> list[OrderedFile]:
    """Return the files in the order to attach them: an older one after the newer ones of its subject (R14).

    Otherwise the order of the ranking stays. A superseded file stays, too: older facts are often asked about.
    """

    def age_key(one: SubjectTerms) -> tuple[date, str, int]:
        return (one.when or date.min, *one.place)

    newer = [
        {j for j, other in enumerate(files) if age_key(other) > age_key(one) and is_alike(one, other, rarity)}
        for one in files
    ]
    waiting = list(range(len(files)))
    ordered: list[int] = []
    while waiting:
        # The newest file waits for no other, so that there is always one.
        best = next(i for i in waiting if newer[i].isdisjoint(waiting))
        waiting.remove(best)
        ordered.append(best)
    found = []
    for i in ordered:
        successors = (files[j] for j in ordered if j in newer[i])
        restated = (one.id for one in successors if states_same(files[i], one, rarity))
        found.append(OrderedFile(files[i].id, next(restated, None)))
    return found


def is_alike(one: SubjectTerms, other: SubjectTerms, rarity: Rarity) -> bool:
    """Whether two files are so alike that the newer one comes first."""
    if meaning_overlap(one, other) >= ALIKE_BY_VECTOR:
        return True
    is_near = is_same_subject(other, one) or has_same_name(other, one)
    return is_near and (word_overlap(one, other, rarity) >= ALIKE or states_same(one, other, rarity))


def is_same_subject(one: SubjectTerms, other: SubjectTerms) -> bool:
    """Whether both answer the same part of the question, as far as they share words with it."""
    if not one.covered or not other.covered:
        return True
    shared = sum(min(share, other.covered.get(term, 0.0)) for term, share in one.covered.items())
    larger = max(sum(one.covered.values()), sum(other.covered.values()))
    return larger > 0 and shared >= SUBJECT_SHARE * larger


def has_same_name(one: SubjectTerms, other: SubjectTerms) -> bool:
    """Whether two notes have the same type and a word of their names in common."""
    return one.kind == other.kind and not one.name.isdisjoint(other.name)


def states_same(older: SubjectTerms, newer: SubjectTerms, rarity: Rarity) -> bool:
    """Whether a newer file replaces what an older one states; less is needed if their names are alike.

    Nothing more is needed if one name is a part of the other: "Hosting" and "Hosting on VMs".
    """
    has_name = has_same_name(older, newer)
    if has_name and (older.name <= newer.name or newer.name <= older.name):
        return True
    least = ALIKE if has_name else SAME_STATEMENT
    return word_overlap(older, newer, rarity) >= least


def meaning_overlap(one: SubjectTerms, other: SubjectTerms) -> float:
    """Return the cosine of two notes of one type, 0 for others."""
    if one.kind != other.kind or not one.vector or not other.vector:
        return 0.0
    return cosine(one.vector, other.vector)


def word_overlap(one: SubjectTerms, other: SubjectTerms, rarity: Rarity) -> float:
    """Return the shared words over all words of the shorter file, weighted by rarity."""
    shared = sum(rarity(term) for term in one.terms & other.terms)
    shorter = min(sum(rarity(term) for term in file.terms) for file in (one, other))
    return shared / shorter if shorter else 0.0
