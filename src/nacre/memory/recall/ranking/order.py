"""Order of the chosen picks: of two on one subject the newer stands first (R14).

Ranking has already happened and is not touched: an older pick only waits for the newer ones of its
subject. What is superseded stays in the list, marked: the older fact is often asked about.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date

SUBJECT_SHARE = 0.4
"""Two picks speak of one subject when what they share of the question is so much of what the larger part is:
whoever corrects a fact seldom says all of it again. From 0.5 on, pairs of the tuning half were missed."""
SAME_STATEMENT = 0.35
"""Above this likeness of their words the older is not just earlier but said again: superseded."""


Rarity = Callable[[str], float]


@dataclass(frozen=True)
class Placed:
    """What ordering needs to know of one pick."""

    id: str
    when: date | None
    place: tuple[str, int]
    """Folder and order in it: which of two files of one day came later."""
    terms: frozenset[str]
    covered: dict[str, float]
    """The question's terms it holds, each with its share of what was asked."""

    def at(self, place: tuple[str, int]) -> Placed:
        """The same in another place; spelt out, since twenty are made for each question."""
        return Placed(self.id, self.when, place, self.terms, self.covered)


@dataclass(frozen=True)
class Ordered:
    """A pick in its final place."""

    id: str
    superseded_by: str | None = None


def newer_first(picks: Sequence[Placed], rarity: Rarity) -> list[Ordered]:
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


def _comes_before(one: Placed, other: Placed) -> bool:
    return _age_key(one) > _age_key(other) and is_same_subject(one, other)


def is_same_subject(one: Placed, other: Placed) -> bool:
    """Whether both answer the same part of the question."""
    shared = sum(min(share, other.covered.get(term, 0.0)) for term, share in one.covered.items())
    larger = max(sum(one.covered.values()), sum(other.covered.values()))
    return larger > 0 and shared >= SUBJECT_SHARE * larger


def likeness(one: Placed, other: Placed, rarity: Rarity) -> float:
    """Shared words over all words of the shorter, each by its rarity."""
    shared = sum(rarity(t) for t in one.terms & other.terms)
    shorter = min(sum(rarity(t) for t in p.terms) for p in (one, other))
    return shared / shorter if shorter else 0.0


def _successor(pick: Placed, newer: Sequence[Placed], rarity: Rarity) -> str | None:
    """The first of the newer picks of its subject that says it again."""
    return next((one.id for one in newer if likeness(pick, one, rarity) >= SAME_STATEMENT), None)


def _age_key(pick: Placed) -> tuple[date, str, int]:
    return (pick.when or date.min, *pick.place)
