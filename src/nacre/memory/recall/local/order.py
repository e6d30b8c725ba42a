"""Order of the chosen picks: of two on one subject the newer stands first (R14).

Ranking has already happened and is not touched; only the places of one subject's picks are shared
out anew. What is superseded stays in the list, marked: the older fact is often asked about.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date

SUBJECT_SHARE = 0.5
"""Two picks speak of one subject when what they share of the question is half of what either covers."""
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
    """The picks in the order to attach them."""
    placed: list[Placed | None] = [None] * len(picks)
    free = set(range(len(picks)))
    for i, pick in enumerate(picks):
        if i not in free:
            continue
        group = [j for j in sorted(free) if j == i or is_same_subject(pick, picks[j])]
        members = sorted((picks[j] for j in group), key=_age_key, reverse=True)
        for j, member in zip(group, members, strict=True):
            placed[j] = member
        free.difference_update(group)
    ordered = [pick for pick in placed if pick is not None]
    return [Ordered(p.id, _successor(p, ordered[:i], rarity)) for i, p in enumerate(ordered)]


def is_same_subject(one: Placed, other: Placed) -> bool:
    """Whether both answer the same part of the question."""
    shared = sum(share for term, share in one.covered.items() if term in other.covered)
    larger = max(sum(one.covered.values()), sum(other.covered.values()))
    return larger > 0 and shared >= SUBJECT_SHARE * larger


def likeness(one: Placed, other: Placed, rarity: Rarity) -> float:
    """Shared words over all words of the shorter, each by its rarity."""
    shared = sum(rarity(t) for t in one.terms & other.terms)
    shorter = min(sum(rarity(t) for t in p.terms) for p in (one, other))
    return shared / shorter if shorter else 0.0


def _successor(pick: Placed, earlier: Sequence[Placed], rarity: Rarity) -> str | None:
    for other in earlier:
        is_newer = _age_key(other) > _age_key(pick)
        if is_newer and is_same_subject(pick, other) and likeness(pick, other, rarity) >= SAME_STATEMENT:
            return other.id
    return None


def _age_key(pick: Placed) -> tuple[date, str, int]:
    return (pick.when or date.min, *pick.place)
