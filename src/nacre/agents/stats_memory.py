"""What became of memories since a moment: saved, recalled, forgotten, undone, contradicted, rejected."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import date, datetime
from pathlib import Path
from typing import TypeAlias

from nacre.errors import StoreError
from nacre.memory.contain import INDEX_FILE
from nacre.memory.moving import MOVED
from nacre.memory.recall.usage import digest, read_tallies
from nacre.store.history import History

MAX_COMMITS = 100_000
"""Of one history: more changes than anybody makes in the days that are looked at."""
SHORT_COMMIT = 10
"""So much of an id stands in the reason of an undo."""
NOT_THE_PERSONS = frozenset({"agent", "extract", "dream", "unconfirmed"})
"""Whose memories a person may reject by forgetting them."""
OTHER_WORK = (MOVED, "lint --fix", "synced with the team")
"""Reasons of changes that neither keep nor forget anything: they carry and tidy."""

_UNDO = re.compile(r"undo ([0-9a-f]{4,40})\b")

Topic: TypeAlias = tuple[str, str]
"""A memory: its cache, and the digest that its ledger knows it by."""


@dataclass(slots=True)
class Kept:
    """Counts by day, and the memories they are about."""

    saved: Counter[date] = field(default_factory=Counter)
    recalled: Counter[date] = field(default_factory=Counter)
    forgotten: Counter[date] = field(default_factory=Counter)
    cited: int = 0
    tokens: int = 0
    """What attaching memories cost, once each."""
    written: set[Topic] = field(default_factory=set)
    """Memories that were saved, by whomever."""
    attached: set[Topic] = field(default_factory=set)
    undone: set[Topic] = field(default_factory=set)
    """Of those saved: the save was taken back."""
    contradicted: set[Topic] = field(default_factory=set)
    rejected: set[Topic] = field(default_factory=set)
    """Of those saved by an agent: the person forgot them."""
    problems: list[str] = field(default_factory=list)

    @property
    def amiss(self) -> set[Topic]:
        return self.undone | self.contradicted | self.rejected

    def share(self, some: set[Topic], among: set[Topic]) -> float | None:
        """None when there is nothing that it could be a share of."""
        return len(some & among) / len(among) if among else None


def look_at_memory(places: Iterable[tuple[Path, Path]], since: datetime) -> Kept:
    """Read the histories and ledgers of these memories back to a moment."""
    kept = Kept()
    for history, cache in places:
        for one in read_tallies(cache):
            if one.at >= since:
                topic = str(cache), one.of
                kept.recalled[one.day] += one.attached
                kept.cited += one.cited
                kept.tokens += one.tokens
                kept.attached |= {topic} if one.attached else set()
                kept.contradicted |= {topic} if one.contradicted else set()
        try:
            _look_back(History(history), str(cache), since, kept)
        except StoreError as error:
            kept.problems.append(str(error))
    kept.recalled = +kept.recalled
    return kept


def _look_back(history: History, cache: str, since: datetime, kept: Kept) -> None:
    """From the newest change on: what became of a save is known before the save itself is met."""
    taken_back: set[str] = set()
    forgotten_by_hand: set[Topic] = set()
    for commit in _commits(history, since):
        signed = history.head(commit).signature
        is_undone = commit[:SHORT_COMMIT] in taken_back
        if undo := _UNDO.match(signed.reason):
            # An undo that was undone itself has taken nothing back.
            taken_back |= set() if is_undone else {undo[1][:SHORT_COMMIT]}
            continue
        if signed.reason.startswith(OTHER_WORK):
            continue
        day = signed.at.astimezone().date()
        for topic, is_there in _topics(history, commit, cache):
            if not is_there:
                kept.forgotten[day] += 1
                forgotten_by_hand |= {topic} if signed.author == "user" and not is_undone else set()
                continue
            kept.saved[day] += 1
            kept.written.add(topic)
            kept.undone |= {topic} if is_undone else set()
            if topic in forgotten_by_hand and signed.author in NOT_THE_PERSONS:
                kept.rejected.add(topic)


def _commits(history: History, since: datetime) -> Iterator[str]:
    at, left = history.newest, MAX_COMMITS
    while at and left and history.head(at).signature.at >= since:
        yield at
        at, left = history.head(at).parent, left - 1


def _topics(history: History, commit: str, cache: str) -> Iterator[tuple[Topic, bool]]:
    """The memories a commit changed, and whether they are there after it."""
    for file, (_, new) in history.changes(history.head(commit).parent, commit).items():
        if file.endswith(".md") and file.rpartition("/")[2] != INDEX_FILE:
            yield (cache, digest(file)), new is not None
