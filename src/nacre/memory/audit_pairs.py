"""Memories that say the same: word for word, or nearly (M14)."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from nacre.memory.audit_findings import AuditFinding
from nacre.memory.audit_items import Item
from nacre.memory.likeness import terms

RUN = 3
"""Words in a row that are compared: single words are shared by whatever is about one project."""
SAME_RUNS = 0.5
"""From this share of runs in common on, one text is a copy of the other with changes."""
SAME_TERMS = 0.8
"""The same by words of content, for texts of a sentence or two, which have few runs."""
SHORT_TERMS = 25
"""Up to so many words of content a text is such a sentence."""
MAX_SHARED_BY = 40
"""A run that so many memories have is a phrase of the store; looking at all its pairs would take for ever."""

_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")


def repeated(items: Sequence[Item]) -> Iterator[AuditFinding]:
    """One finding for each memory that repeats an earlier one; of several copies, each after the first."""
    exact: dict[str, list[Item]] = defaultdict(list)
    for item in items:
        if said := " ".join(item.entry.body.split()).casefold():
            exact[said].append(item)
    for group in exact.values():
        yield from _copies(group)
    yield from _alike([group[0] for group in exact.values()])


def _copies(group: Sequence[Item]) -> Iterator[AuditFinding]:
    for item in group[1:]:
        yield AuditFinding(
            file=item.file, line=item.first, kind="duplicate", level="warning",
            message=f"says word for word what {group[0].file} says",
            advice="forget one of them", others=(group[0].file,),
        )  # fmt: skip


def _alike(items: Sequence[Item]) -> Iterator[AuditFinding]:
    words = [terms(item.entry.body) for item in items]
    runs = [_runs(one) for one in words]
    holders: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for number, each in enumerate(runs):
        for run in each:
            holders[run].append(number)
    near: dict[int, Counter[int]] = defaultdict(Counter)
    for numbers in holders.values():
        if 1 < len(numbers) <= MAX_SHARED_BY:
            for place, later in enumerate(numbers):
                near[later].update(numbers[:place])
    for later, earlier in sorted(near.items()):
        for first, shared in sorted(earlier.items(), key=lambda one: (-one[1], one[0])):
            share = shared / len(runs[first] | runs[later])
            if _is_same(share, words[first], words[later]) and not _numbers_differ(
                items[first], items[later]
            ):
                item, other = items[later], items[first].file
                yield AuditFinding(
                    file=item.file, line=item.first, kind="near-duplicate", level="warning",
                    message=f"says nearly what {other} says",
                    advice="merge them into one, or correct the one that is out of date", others=(other,),
                )  # fmt: skip
                break


def _runs(words: Sequence[str]) -> frozenset[tuple[str, ...]]:
    size = min(RUN, len(words)) or 1
    return frozenset(tuple(words[at : at + size]) for at in range(len(words) - size + 1))


def _is_same(share: float, first: Sequence[str], later: Sequence[str]) -> bool:
    if share >= SAME_RUNS:
        return True
    one, other = set(first), set(later)
    is_short = max(len(one), len(other)) <= SHORT_TERMS
    return is_short and len(one & other) >= SAME_TERMS * len(one | other)


def _numbers_differ(first: Item, later: Item) -> bool:
    """Whether each has a number that the other has not: then they are two facts of one form."""
    one, other = (set(_NUMBER.findall(item.entry.body)) for item in (first, later))
    return bool(one - other) and bool(other - one)
