"""Which memory is about what, kept from one save to the next: a save must not read every memory (M14)."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path

from nacre.errors import StoreError
from nacre.memory.files.scan import LOGS, scan
from nacre.memory.files.transaction import Transaction
from nacre.memory.format.entry import Entry, read_entry
from nacre.memory.format.pointers import INDEX_FILE
from nacre.memory.format.titles import alike, file_names
from nacre.memory.similarity import SAME_SUBJECT, speaks_of_another, terms


class Subjects:
    """Derived from the files, and brought up to the commit a change stands on; used under the lock only."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._commit = ""
        self._clear()

    def catch_up(self, tx: Transaction) -> None:
        """Learn what changed since the last time; everything the first time, or when that cannot be said."""
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
                if data is not None and _is_topic(file):
                    self._learn(read_entry(file, data))
        self._commit = tx.newest

    def same(self, name: str, description: str, *, is_named: bool = False) -> str | None:
        """The file of the memory about the same thing: the same title, or most of the same terms.

        Whoever gave it a name means what is in it: "API v2" is not "API v1". A title that was made from the
        words holds their values, and those may change.
        """
        title = tuple(terms(name))
        if title and self._by_title.get(title):
            return min(self._by_title[title])
        mine = set(terms(f"{name} {description}"))
        shared = Counter(file for term in mine for file in self._by_term.get(term, ()))
        best = SAME_SUBJECT
        found = None
        numbers = _numbers(title) if is_named else frozenset[str]()
        for file, common in shared.items():
            theirs = _numbers(self._titles[file])
            if numbers and theirs and numbers.isdisjoint(theirs):
                continue
            if speaks_of_another(title, mine, self._titles[file], self._terms[file]):
                continue
            share = common / (len(mine) + len(self._terms[file]) - common)
            if share > best or (share == best and found is not None and file < found):
                best = share
                found = file
        return found

    def free_name(self, title: str, tx: Transaction) -> str:
        """A file name that nothing has yet, also nothing that is no memory."""
        free = (name for name in file_names(title) if not self._taken[alike(name)])
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
        self._taken[alike(file)] += 1

    def _forget(self, file: str) -> None:
        if file not in self._terms:
            return
        for term in self._terms.pop(file):
            self._by_term[term].discard(file)
        self._by_title[self._titles.pop(file)].discard(file)
        self._taken[alike(file)] -= 1


def _is_topic(file: str) -> bool:
    name = file.rpartition("/")[2]
    return name.endswith(".md") and name != INDEX_FILE and not file.startswith(f"{LOGS}/")


def _numbers(title: tuple[str, ...]) -> frozenset[str]:
    return frozenset(term for term in title if any(sign.isdigit() for sign in term))
