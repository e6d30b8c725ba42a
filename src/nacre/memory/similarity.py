"""Which memory is meant by some words, and which is about the same thing; recall answers questions."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from nacre.memory.format.entry import Entry
from nacre.memory.recall.ranking.terms import content

NAME_WEIGHT = 3.0
"""A term in the title says what a memory is about."""
DESCRIPTION_WEIGHT = 2.0
"""The description is the one line written to be found by."""
SAME_SUBJECT = 0.6
"""Above this share of the terms in common two memories are about one thing."""

_WORD = re.compile(r"[^\W_]+")
_ASKING = frozenset(content("know remember please"))
"""What a request for a memory is put in, not what it is about."""
_ABOUT_THE_PERSON = frozenset({"me", "myself", "i", "我", "自己"})


@dataclass(frozen=True, slots=True)
class Found:
    """A memory and how well it fits."""

    entry: Entry
    score: float


def terms(text: str) -> list[str]:
    """The terms of a text as recall takes them, without what a request for a memory is put in."""
    return [term for term in content(text) if term not in _ASKING]


def is_about_person(query: str) -> bool:
    """Whether somebody asks what is known about themselves, and nothing more."""
    return not terms(query) and bool({word.casefold() for word in _WORD.findall(query)} & _ABOUT_THE_PERSON)


def about_person(entries: Sequence[Entry]) -> list[Found]:
    """What is known about the person."""
    return [Found(entry, 1.0) for entry in entries if entry.kind in {"user", "feedback"}]


def rank(query: str, entries: Sequence[Entry]) -> list[Found]:
    """The entries that share a term with the query, best first; about the person when the person asks."""
    if is_about_person(query):
        return about_person(entries)
    wanted = set(terms(query))
    weights = [_weights(entry) for entry in entries]
    spread = Counter(term for one in weights for term in one.keys() & wanted)
    total = len(entries)
    found = [
        Found(entry, sum(one[term] * math.log(1 + total / spread[term]) for term in one.keys() & wanted))
        for entry, one in zip(entries, weights, strict=True)
    ]
    return sorted((one for one in found if one.score > 0), key=lambda one: (-one.score, one.entry.file))


def same_subject(name: str, description: str, entries: Iterable[Entry]) -> Entry | None:
    """The entry that is about the same thing, if there is one."""
    mine = set(terms(f"{name} {description}"))
    title = terms(name)
    best: tuple[float, Entry] | None = None
    for entry in entries:
        if title and terms(entry.title) == title:
            return entry
        theirs = set(terms(f"{entry.title} {entry.description}"))
        if speaks_of_another(title, mine, terms(entry.title), theirs):
            continue
        share = len(mine & theirs) / len(mine | theirs) if mine | theirs else 0.0
        if share > SAME_SUBJECT and (best is None or share > best[0]):
            best = (share, entry)
    return best[1] if best else None


def speaks_of_another(
    title: Sequence[str], mine: Collection[str], their_title: Sequence[str], theirs: Collection[str]
) -> bool:
    """Whether the same is said of somebody or something else: neither knows what the other begins with."""
    return bool(title and their_title) and title[0] not in theirs and their_title[0] not in mine


def _weights(entry: Entry) -> Counter[str]:
    weights: Counter[str] = Counter()
    for text, weight in (
        (entry.title, NAME_WEIGHT),
        (entry.description, DESCRIPTION_WEIGHT),
        (entry.body, 1.0),
    ):
        for term in set(terms(text)):
            weights[term] += weight  # type: ignore[assignment]
    return weights
