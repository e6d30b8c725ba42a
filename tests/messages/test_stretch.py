"""What a view sees of a list that others go on appending to."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nacre.messages.view import JoinedSequence, SharedPrefix

places = st.none() | st.integers(-12, 12)


@given(st.lists(st.integers(), max_size=10), st.lists(st.integers()), places, places)
def test_a_stretch_reads_like_the_list_as_it_was(
    seen: list[int], later: list[int], start: int | None, stop: int | None
) -> None:
    grown = list(seen)
    stretch = SharedPrefix(grown, len(seen))
    grown += later
    assert stretch == seen
    assert (len(stretch), list(stretch), list(reversed(stretch))) == (len(seen), seen, seen[::-1])
    for step in (1, 2, -1):
        assert stretch[start:stop:step] == seen[start:stop:step]
    assert [stretch[-1], stretch[0]] == [seen[-1], seen[0]] if seen else not stretch


def test_a_stretch_differs_from_a_list_of_another_length() -> None:
    assert SharedPrefix([1, 2, 3], 2) != [1, 2, 3]
    assert SharedPrefix([1, 2, 3], 2) != [1, 3]


@given(st.lists(st.integers(), max_size=8), st.lists(st.integers(), max_size=4), st.data())
def test_two_lists_joined_are_read_like_one(first: list[int], rest: list[int], data: st.DataObject) -> None:
    count = data.draw(st.integers(0, len(first)))
    joined = JoinedSequence(first, count, rest)
    whole = [*first[:count], *rest]
    assert list(joined) == whole and len(joined) == len(whole)
    assert joined[:] == whole and joined[1:3] == whole[1:3] and joined[::-1] == whole[::-1]
    if whole:
        assert joined[-1] == whole[-1] and joined[0] == whole[0]
    with pytest.raises(IndexError):
        joined[len(whole)]
