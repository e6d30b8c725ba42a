"""Lines that were shown: ranges behave like the sets of numbers they stand for, and edits move them."""

from __future__ import annotations

import re
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from nacre.tools.edit import _edited_lines, replaced
from nacre.tools.shown_lines import after_edits, covers, join, within, written

RANGES = st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30)), max_size=6)


def numbers(ranges) -> set[int]:
    return {number for first, last in ranges for number in range(first, last + 1)}


@given(RANGES, RANGES, st.integers(1, 30), st.integers(0, 5))
def test_ranges_are_sets_of_numbers(one, other, first: int, more: int) -> None:
    joined = join(one)
    assert numbers(joined) == numbers(one)
    assert all(before[1] + 1 < after[0] for before, after in pairwise(joined))
    assert covers(joined, first, first + more) == set(range(first, first + more + 1)).issubset(numbers(one))
    assert numbers(within(joined, join(other))) == numbers(one) & numbers(other)


@given(
    st.lists(st.sampled_from(["a", "b", "ab", ""]), min_size=1, max_size=20),
    RANGES,
    st.sampled_from(["a", "b", "a\n", "\nb", "a\nb", "\n", "b\n\n"]),
    st.sampled_from(["X", "X\nX", "", "\nX\n", "X\nX\nX"]),
)
def test_after_an_edit_only_lines_that_were_shown_or_written_count(lines, ranges, old: str, new: str) -> None:
    """Lines that were not shown are marked; none of them counts as shown afterwards."""
    shown = join((first, min(last, len(lines))) for first, last in ranges)
    marked = "\n".join(line if covers(shown, n, n) else f"{line}?" for n, line in enumerate(lines, 1))
    edited, places = replaced(marked, old, new)
    after = after_edits(shown, [_edited_lines(line, old, new) for line in places])
    for number, line in enumerate(edited.split("\n"), 1):
        if covers(after, number, number):
            assert "?" not in line, (marked, edited, after)


def test_lines_before_and_after_an_edit_stay_shown() -> None:
    shown = join([(10, 20), (40, 50)])
    assert after_edits(shown, [_edited_lines(15, "x", "x\ny\nz")]) == ((10, 22), (42, 52))
    assert after_edits(shown, [_edited_lines(15, "a\nb\nc", "x")]) == ((10, 18), (38, 48))
    assert after_edits(shown, [_edited_lines(30, "x", "x\ny")]) == ((10, 20), (41, 51))
    assert after_edits(shown, [_edited_lines(12, "x", "x\ny"), _edited_lines(12, "x", "x\ny")]) == (
        (10, 22),
        (42, 52),
    )
    assert after_edits((), [_edited_lines(3, "x", "y")]) == ()


def test_a_line_does_not_stay_shown_when_an_edit_joins_it_to_one_that_was_not() -> None:
    assert after_edits(((1, 4),), [_edited_lines(4, "\nb", "X")]) == ((1, 3),)
    assert after_edits(((1, 5),), [_edited_lines(4, "\nb", "X")]) == ((1, 4),)
    assert after_edits(((1, 4),), [_edited_lines(4, "\nb", "\nX")]) == ((1, 4),)
    assert after_edits(((1, 5),), [_edited_lines(4, "\nb", "X"), _edited_lines(5, "\nb", "X")]) == ((1, 3),)


def test_ranges_are_written_out() -> None:
    assert written(((7, 7),)) == "line 7"
    assert written(((1, 60), (300, 300))) == "lines 1-60 and 300"
    assert written(((1, 2), (4, 4), (6, 9))) == "lines 1-2, 4 and 6-9"
    many = written(tuple((n, n) for n in range(1, 40, 2)))
    assert many == "lines 1, 3, 5, 7, 9 and 15 more ranges"
    assert re.search(r"\d", many)
