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
SCALE = 2_047
"""Length of a vector, whose numbers are whole: products of two vectors fit into lanes of 32 bits."""
FROM_COLUMNS = 50
"""Vectors of a table that is prepared for comparing all at once."""

Vector: TypeAlias = Sequence[int]


def vector_of(found: Iterable[str]) -> Vector | None:
    """Return the vector of a text with these terms; None if no term has a row."""
    rows = [row for part in parts_of(found) if (row := _row(part)) is not None][:MAX_SUM]
    if not rows:
        return None
    lanes = array("H", sum(rows).to_bytes(2 * WIDTH, "little"))
    zero = ZERO * len(rows)
    numbers = [lane - zero for lane in lanes]
    length = math.sqrt(sum(map(mul, numbers, numbers))) / SCALE
    return array("h", [round(number / length) for number in numbers]) if length else None


def cosine(one: Vector, other: Vector) -> float:
    """Return the cosine of two vectors."""
    product: int = sum(map(mul, one, other))
    return product / SCALE**2


class VectorTable:
    """Vectors that are compared with another one all at once.

    The numbers of one place in all vectors are one large integer, with a lane of 32 bits for each vector: a
    product of it is one of all vectors. This takes a tenth of the time of comparing one by one; it takes some
    time to prepare, so that few vectors are compared one by one.
    """

    def __init__(self, vectors: Sequence[Vector | None]) -> None:
        rows = [vector or [0] * WIDTH for vector in vectors]
        self._count = len(rows)
        self._few = rows if self._count < FROM_COLUMNS else []
        if self._few:
            return
        # No number of a lane is negative.
        self._columns = [
            int.from_bytes(array("I", [one + SCALE for one in column]).tobytes(), "little")
            for column in zip(*rows, strict=True)
        ]
        self._sums = [SCALE * sum(row) for row in rows]

    def cosines(self, vector: Vector | None) -> list[float]:
        """Return the cosine of each vector to another one, 0 where one of them is missing."""
        if vector is None or not self._count:
            return [0.0] * self._count
        if self._few:
            return [cosine(vector, one) for one in self._few]
        product = sum(map(mul, self._columns, [one + SCALE for one in vector]))
        lanes = array("I", product.to_bytes(4 * self._count, "little"))
        added = SCALE * sum(vector) + WIDTH * SCALE**2
        return [(lane - one - added) / SCALE**2 for lane, one in zip(lanes, self._sums, strict=True)]


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
