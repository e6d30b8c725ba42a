"""A question as the ranker sees it: weighted terms, whose words are asked for, what and when."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from nacre.memory.dates.ranges import DateRange, date_ranges
from nacre.memory.recall.ranking.analysis import ROLES, USER_ROLES
from nacre.memory.recall.ranking.cues import ABOUT_ME, ABOUT_PAST, ABOUT_YOU, asked_for
from nacre.memory.recall.ranking.index import Index
from nacre.memory.recall.ranking.terms import STOP_TERMS, stem, terms
from nacre.memory.recall.ranking.wordlists import QUESTION_STOP

STEERING_WEIGHT = 0.3
"""Words that steer a question ("summary", "recommend") are weak evidence, not none."""
STEERING = frozenset(stem(word) for word in QUESTION_STOP)
MAX_TERMS = 24
"""Of a pasted page only the rarest words are looked up: time, and the bits a match has for terms."""
MAX_CHARS = 4_000
"""What is asked stands at the start or the end of a long message."""


@dataclass(frozen=True)
class Term:
    """One thing asked for and how much it counts (weight times rarity)."""

    text: str
    weight: float


@dataclass(frozen=True)
class Question:
    """Everything the ranker reads off a question."""

    terms: tuple[Term, ...]
    total: float
    """Sum of the weights: what a passage that covers everything would reach."""
    authors: frozenset[int]
    """Whose words are asked for: authors named in the question, the user for "I" and "my"."""
    names: tuple[str, ...]
    """The terms that named them."""
    wants: int
    about_answers: bool
    about_past: bool
    date_ranges: tuple[DateRange, ...]


def read(text: str, index: Index, asked: date | None = None) -> Question:
    """Read a question against the store it is put to."""
    text = _shortened(text)
    found = list(dict.fromkeys(terms(text)))
    authors, names = _asked_authors(found, index, is_own=bool(ABOUT_ME.search(text)))
    content = [t for t in found if t not in STOP_TERMS and t not in names]
    weighted = [Term(t, index.idf(t) * (STEERING_WEIGHT if t in STEERING else 1.0)) for t in content]
    if len(weighted) > MAX_TERMS:
        kept = set(sorted(weighted, key=lambda t: -t.weight)[:MAX_TERMS])
        weighted = [t for t in weighted if t in kept]
    return Question(
        terms=tuple(weighted),
        total=sum(t.weight for t in weighted) or 1.0,
        authors=frozenset(authors),
        names=tuple(names),
        wants=asked_for(text),
        about_answers=bool(ABOUT_YOU.search(text)),
        about_past=bool(ABOUT_PAST.search(text)),
        date_ranges=tuple(date_ranges(text, asked)),
    )


def _shortened(text: str) -> str:
    if len(text) <= MAX_CHARS:
        return text
    half = MAX_CHARS // 2
    return f"{text[:half]} {text[-half:]}"


def _asked_authors(found: list[str], index: Index, *, is_own: bool) -> tuple[set[int], list[str]]:
    authors: set[int] = set()
    names: list[str] = []
    for author, number in index.authors.items():
        if author in ROLES:
            if is_own and author in USER_ROLES:
                authors.add(number)
            continue
        called = [part for part in terms(author) if part in found and part not in STOP_TERMS]
        if called:
            authors.add(number)
            names.extend(called)
    return authors, names
