"""Match a query to memories by their words, and a new memory to the existing one on the same subject.

Simple by intent: questions are answered by `recall`.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from nacre.errors import StoreError
from nacre.memory.files.scan import is_topic, scan
from nacre.memory.files.transaction import Transaction
from nacre.memory.format.entry import Entry, file_names, normalised_name, read_entry

NAME_WEIGHT = 3.0
"""Weight of a term in the title, relative to one in the body."""
DESCRIPTION_WEIGHT = 2.0
"""Weight of a term in the description, which is written to be found by."""
SAME_SUBJECT = 0.6
"""Two memories that share more than this part of their terms are about the same subject."""

_WORD = re.compile(r"[^\W_]+")
_ASKING = frozenset({"know", "pleas", "rememb"})
"""Stems of words of a request for a memory that say nothing about its subject."""
_ABOUT_THE_PERSON = frozenset({"me", "myself", "i", "我", "自己"})


@dataclass(frozen=True, slots=True)
class ScoredEntry:
    """A memory and how well it matches a query."""

    entry: Entry
    score: float


def terms(text: str) -> list[str]:
    """Return the terms of a text as recall uses them, without words such as "remember" and "please"."""
    from nacre.memory.recall.ranking.terms import content  # noqa: PLC0415 - its tables are needed by the first search

    return [term for term in content(text) if term not in _ASKING]


def is_about_person(query: str) -> bool:
    """Return whether a query only asks what is known about the user."""
    return not terms(query) and bool({word.casefold() for word in _WORD.findall(query)} & _ABOUT_THE_PERSON)


def about_person(entries: Sequence[Entry]) -> list[ScoredEntry]:
    """Return the entries about the user."""
    return [ScoredEntry(entry, 1.0) for entry in entries if entry.kind in {"user", "feedback"}]


def rank(query: str, entries: Sequence[Entry]) -> list[ScoredEntry]:
    """Return the entries that share a term with the query, best first."""
    if is_about_person(query):
        return about_person(entries)
    wanted = set(terms(query))
    weights: list[dict[str, float]] = []
    for entry in entries:
        texts = ((entry.title, NAME_WEIGHT), (entry.description, DESCRIPTION_WEIGHT), (entry.body, 1.0))
        weights.append(defaultdict(float))
        for text, weight in texts:
            for term in wanted.intersection(terms(text)):
                weights[-1][term] += weight
    spread = Counter(term for one in weights for term in one)
    rarity = {term: math.log(1 + len(entries) / count) for term, count in spread.items()}
    found = [
        ScoredEntry(entry, sum(weight * rarity[term] for term, weight in one.items()))
        for entry, one in zip(entries, weights, strict=True)
    ]
    return sorted((one for one in found if one.score > 0), key=lambda one: (-one.score, one.entry.file))


def same_subject(name: str, description: str, entries: Iterable[Entry]) -> Entry | None:
    """Return the entry on the same subject, if there is one."""
    mine = set(terms(f"{name} {description}"))
    title = terms(name)
    best: tuple[float, Entry] | None = None
    for entry in entries:
        if title and terms(entry.title) == title:
            return entry
        theirs = set(terms(f"{entry.title} {entry.description}"))
        if has_other_subject(title, mine, terms(entry.title), theirs):
            continue
        share = len(mine & theirs) / len(mine | theirs) if mine | theirs else 0.0
        if share > SAME_SUBJECT and (best is None or share > best[0]):
            best = (share, entry)
    return best[1] if best else None


def has_other_subject(
    title: Sequence[str], mine: Collection[str], their_title: Sequence[str], theirs: Collection[str]
) -> bool:
    """Return whether two texts are about different things: neither contains the first term of the other."""
    return bool(title and their_title) and title[0] not in theirs and their_title[0] not in mine


class Subjects:
    """Terms and titles of all memories in a directory, so that a save does not read every file (M14).

    Only used while the directory is locked.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._commit = ""
        self._clear()

    def catch_up(self, tx: Transaction) -> None:
        """Update from the changes since the last call; read everything on the first, or when unknown."""
        try:
            changed = tx.changed_since(self._commit) if self._commit else None
        except StoreError:
            changed = None
        if changed is None:
            self._clear()
            for entry in scan(self._directory).entries:
                self._learn(entry)
        else:
            for file, data in changed.items():
                self._forget(file)
                if data is not None and file.endswith(".md") and is_topic(file):
                    self._learn(read_entry(file, data))
        self._commit = tx.newest

    def same(self, name: str, description: str, *, is_named: bool = False) -> str | None:
        """Return the file of the memory on the same subject: the same title, or most of the same terms.

        With `is_named`, the title was chosen, and its numbers must match: "API v2" is not "API v1". A title
        derived from the text contains its values, which may change.
        """
        title = tuple(terms(name))
        if title and self._by_title.get(title):
            return min(self._by_title[title])
        mine = set(terms(f"{name} {description}"))
        shared = Counter(file for term in mine for file in self._by_term.get(term, ()))
        best = SAME_SUBJECT
        found = None
        numbers = {term for term in title if is_named and any(sign.isdigit() for sign in term)}
        for file, common in shared.items():
            theirs = {term for term in self._titles[file] if any(sign.isdigit() for sign in term)}
            if numbers and theirs and numbers.isdisjoint(theirs):
                continue
            if has_other_subject(title, mine, self._titles[file], self._terms[file]):
                continue
            share = common / (len(mine) + len(self._terms[file]) - common)
            if share > best or (share == best and found is not None and file < found):
                best = share
                found = file
        return found

    def free_name(self, title: str, tx: Transaction) -> str:
        """Return a file name for a title that no file has."""
        free = (name for name in file_names(title) if not self._taken[normalised_name(name)])
        return next(name for name in free if tx.read(name)[0] is None)

    def _clear(self) -> None:
        self._terms: dict[str, frozenset[str]] = {}
        self._titles: dict[str, tuple[str, ...]] = {}
        self._by_term: dict[str, set[str]] = defaultdict(set)
        self._by_title: dict[tuple[str, ...], set[str]] = defaultdict(set)
        self._taken: Counter[str] = Counter()

    def _learn(self, entry: Entry) -> None:
        file = entry.file
        title = tuple(terms(entry.title))
        found = frozenset(terms(f"{entry.title} {entry.description}"))
        self._terms[file] = found
        self._titles[file] = title
        self._by_title[title].add(file)
        for term in found:
            self._by_term[term].add(file)
        self._taken[normalised_name(file)] += 1

    def _forget(self, file: str) -> None:
        if file not in self._terms:
            return
        for term in self._terms.pop(file):
            self._by_term[term].discard(file)
        self._by_title[self._titles.pop(file)].discard(file)
        self._taken[normalised_name(file)] -= 1
