"""Vectors of terms: similar texts without common words have similar vectors, without numpy."""

from __future__ import annotations

import math
import subprocess
import sys

import pytest

from nacre.memory.recall.ranking import term_vectors
from nacre.memory.recall.ranking.need import need
from nacre.memory.recall.ranking.term_vectors import (
    FROM_COLUMNS,
    SCALE,
    WIDTH,
    ZERO,
    Vector,
    VectorTable,
    cosine,
    parts_of,
    vector_of,
)
from nacre.memory.recall.ranking.terms import terms


def alike(one: str, other: str) -> float:
    first, second = vector_of(terms(one)), vector_of(terms(other))
    assert first is not None and second is not None
    return cosine(first, second)


def test_a_vector_is_the_sum_of_the_rows_at_unit_length() -> None:
    """The rows are added as large integers: the result must be that of adding numbers."""
    names, rows = term_vectors._table()
    found = ["deploy", "invoic", "kitchen"]
    sums = [0] * WIDTH
    for term in found:
        at = names.index(term) * WIDTH
        sums = [one + byte - ZERO for one, byte in zip(sums, rows[at : at + WIDTH], strict=True)]
    length = math.sqrt(sum(one * one for one in sums))
    assert list(vector_of(found) or ()) == [round(SCALE * one / length) for one in sums]


def test_every_term_has_a_row_and_terms_are_in_the_order_of_the_search() -> None:
    names, rows = term_vectors._table()
    assert len(rows) == len(names) * WIDTH
    assert names == sorted(set(names))
    assert len(rows) < 8_000_000


def test_more_terms_than_a_lane_can_hold_are_cut() -> None:
    names, _ = term_vectors._table()
    assert vector_of(names[:2_000]) is not None


@pytest.mark.parametrize("count", [1, FROM_COLUMNS - 1, FROM_COLUMNS, 300])
def test_a_table_compares_all_vectors_as_one_by_one(count: int) -> None:
    names, _ = term_vectors._table()
    vectors: list[Vector | None] = [vector_of(names[7 * at : 7 * at + 5]) for at in range(count)]
    vectors[-1] = None
    asked = vector_of(["deploy", "invoic"])
    assert asked is not None
    expected = [cosine(asked, one) if one else 0.0 for one in vectors]
    assert VectorTable(vectors).cosines(asked) == pytest.approx(expected)
    assert VectorTable(vectors).cosines(None) == [0.0] * count


@pytest.mark.parametrize("sign", [1, -1])
def test_the_largest_products_fit_into_the_lanes_of_a_table(sign: int) -> None:
    """No vector has such numbers; a lane that overflows would change the next vector."""
    largest = [SCALE] * WIDTH
    table = VectorTable([[sign * one for one in largest]] * FROM_COLUMNS)
    assert table.cosines(largest) == [sign * WIDTH] * FROM_COLUMNS


@pytest.mark.parametrize(
    ("message", "near", "far"),
    [
        ("the checkout is broken again", "problems with the payment page", "how to water the plants"),
        ("how do we ship a new version", "release process of the app", "holiday requests of the team"),
        ("数据库备份放在哪里", "backup of the database", "lunch with the suppliers"),
        ("Wann ist der Urlaub", "holidays of the team", "the index of the search engine"),
    ],
)
def test_related_texts_are_nearer_than_others_also_across_languages(
    message: str, near: str, far: str
) -> None:
    assert alike(message, near) > alike(message, far) + 0.1


def test_words_of_no_meaning_have_no_vector() -> None:
    assert vector_of([]) is None
    assert vector_of(terms("the of and")) is None
    assert vector_of(["zzqqxxyy"]) is None


def test_unsegmented_text_is_also_compared_by_its_characters() -> None:
    assert parts_of(["备份", "deploy"]) == ["备", "份", "备份", "deploy"]


@pytest.mark.parametrize(
    ("needs", "needs_none"),
    [
        ("Wer muss die Rechnung freigeben?", "Was bedeutet Rechnung?"),
        ("who has to approve the invoice?", "what is an invoice?"),
        ("发票要谁批准", "发票是什么意思"),
    ],
)
def test_the_need_of_a_memory_is_told_in_several_languages(needs: str, needs_none: str) -> None:
    assert need(needs) > 0 > need(needs_none)


def test_numpy_is_not_imported_for_them() -> None:
    code = (
        "import sys; from nacre.memory.recall.ranking.notes import segment_needs;"
        "segment_needs('who signs?'); assert 'numpy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
