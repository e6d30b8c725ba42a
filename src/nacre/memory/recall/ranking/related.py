"""Words with related meanings, in several languages.

`concepts.txt` has a line of stems for each concept ("deploy", "release", 上线); `neighbours.txt` has, for
English words, those with similar vectors. `bench.recall.everyday` makes both (`train`, `neighbours`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from functools import cache, lru_cache
from typing import NamedTuple

from nacre.prompts import packaged_file

CONCEPT_STRENGTH = 0.5
"""Strength of two words of one concept; the same word has 1."""
NEAR_FROM = 0.36
NEAR_STEP = 0.02
"""The last letter of a neighbour stands for its cosine: "a" for 0.36, "b" for 0.38."""
SAME, CONCEPT, NEAR = range(3)
"""Kinds of relation, closest first."""


class Relation(NamedTuple):
    """How a word of a memory is related to a word of a message."""

    kind: int
    strength: float


@lru_cache(4_096)
def related(term: str) -> dict[str, Relation]:
    """Return the terms with a related meaning, closest first, itself included."""
    found = {term: Relation(SAME, 1.0)}
    concepts, members = _concepts()
    for number in concepts.get(term, ()):
        for other in members[number]:
            found.setdefault(other, Relation(CONCEPT, CONCEPT_STRENGTH))
    for other, strength in _neighbours(term):
        found.setdefault(other, Relation(NEAR, strength))
    return found


@cache
def _concepts() -> tuple[dict[str, list[int]], list[list[str]]]:
    """Return the concepts of each term, and the terms of each concept."""
    members = [line.split() for line in _read("concepts.txt")]
    concepts: dict[str, list[int]] = {}
    for number, line in enumerate(members):
        for term in line:
            concepts.setdefault(term, []).append(number)
    return concepts, members


def _neighbours(term: str) -> Iterable[tuple[str, float]]:
    lines = _neighbour_lines()
    at = bisect_left(lines, f"{term} ")
    if at == len(lines) or not lines[at].startswith(f"{term} "):
        return
    for word in lines[at].split()[1:]:
        yield word[:-1], NEAR_FROM + NEAR_STEP * (ord(word[-1]) - ord("a"))


@cache
def _neighbour_lines() -> list[str]:
    return _read("neighbours.txt")


def _read(name: str) -> list[str]:
    return packaged_file(__package__, name).decode().splitlines()
