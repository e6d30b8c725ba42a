"""Vectors of terms; their sum is that of a text. Similar texts have similar ones, also without common words.

`term_vectors.txt` has the terms in order, `term_vectors.bin` a row of bytes for each. They are distilled
from the encoder of the extra `embed` by `python -m bench.recall.everyday.term_vectors`. No numpy is needed:
a row is read as one large integer with a lane of 16 bits for each number, so that a sum of rows is one of
integers.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from functools import cache
from operator import mul
from typing import TypeAlias

from nacre.memory.recall.ranking.terms import CJK_RUN, STOP_TERMS
from nacre.prompts import packaged_file

WIDTH = 128
"""Numbers in a vector."""
ZERO = 128
"""The byte that stands for 0."""
MAX_SUM = 255
"""Rows of one sum, so that no lane overflows."""

Vector: TypeAlias = Sequence[float]


def vector_of(found: Iterable[str]) -> Vector | None:
    """Return the vector of unit length of a text with these terms; None if no term has a row."""
    rows = [row for part in parts_of(found) if (row := _row(part)) is not None][:MAX_SUM]
    if not rows:
        return None
    lanes = array("H", sum(rows).to_bytes(2 * WIDTH, "little"))
    zero = ZERO * len(rows)
    numbers = [lane - zero for lane in lanes]
    length = math.sqrt(sum(map(mul, numbers, numbers)))
    return [number / length for number in numbers] if length else None


def cosine(one: Vector, other: Vector) -> float:
    """Return the cosine of two vectors of unit length."""
    found: float = sum(map(mul, one, other))
    return found


def parts_of(found: Iterable[str]) -> list[str]:
    """Return the terms that have rows; of those in scripts without spaces their characters as well."""
    parts: dict[str, None] = {}
    for term in found:
        if term in STOP_TERMS:
            continue
        if not term.isascii() and CJK_RUN.search(term):
            parts |= dict.fromkeys(term)
        parts[term] = None
    return list(parts)


@cache
def _table() -> tuple[list[str], bytes]:
    terms = packaged_file(__package__, "term_vectors.txt").decode().splitlines()
    return terms, packaged_file(__package__, "term_vectors.bin")


def _row(term: str) -> int | None:
    terms, rows = _table()
    at = bisect_left(terms, term)
    if at == len(terms) or terms[at] != term:
        return None
    lanes = bytearray(2 * WIDTH)
    lanes[::2] = rows[at * WIDTH : (at + 1) * WIDTH]
    return int.from_bytes(lanes, "little")
