"""Of any two picks on one subject the newer stands first; everything else stays as it was ranked (R14)."""

from __future__ import annotations

from datetime import date, timedelta
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from nacre.memory.recall.ranking.order import (
    ALIKE,
    SubjectTerms,
    is_same_subject,
    newer_first,
    word_overlap,
)

FIRST = date(2026, 1, 1)


def pick(name: str, day: int, **covered: float) -> SubjectTerms:
    return SubjectTerms(name, FIRST + timedelta(days=day), ("", 0), frozenset(covered), covered)


def order(*picks: SubjectTerms) -> list[str]:
    return [one.id for one in newer_first(picks, lambda _: 1.0)]


def test_the_newer_of_two_on_one_subject_stands_first() -> None:
    """R14: the older sentence is often the closer one to the question."""
    old, new = pick("old", 1, budget=0.5, books=0.5), pick("new", 9, budget=0.5, books=0.3)
    assert order(old, new) == ["new", "old"]


def test_a_correction_that_says_less_of_the_question_is_of_its_subject() -> None:
    """R14: "it is 50 now" does not repeat what the budget is for."""
    old, new = pick("old", 1, monthly=0.3, budget=0.4, books=0.3), pick("new", 9, budget=0.4, raised=0.2)
    assert order(old, new) == ["new", "old"]


def test_a_third_pick_that_is_like_only_one_of_them_does_not_part_two_on_one_subject() -> None:
    """R14: grouped around the first pick, the older of the pair went ahead of the newer."""
    first = pick("first", 0, a=0.5, b=0.5)
    old, new = pick("old", 1, b=0.5, c=0.5), pick("new", 9, c=0.5, d=0.5)
    assert not is_same_subject(first, new)
    found = order(first, old, new)
    assert found.index("new") < found.index("old") < found.index("first")


def test_picks_on_different_subjects_keep_their_places() -> None:
    """R14: the ranking itself is not distorted by recency."""
    assert order(pick("a", 1, rent=1.0), pick("b", 9, cat=1.0), pick("c", 5, car=1.0)) == ["a", "b", "c"]


def test_a_newer_memory_that_only_shares_words_of_the_question_stays_behind_the_answer() -> None:
    """R14: it says something else."""
    answer = SubjectTerms(
        "owner",
        FIRST,
        ("", 0),
        frozenset("priya owns orchard pipeline billing tomas".split()),
        {"pipeline": 1},
    )
    newer = SubjectTerms(
        "bugs",
        FIRST + timedelta(days=9),
        ("", 0),
        frozenset("orchard bugs tracked linear project ingest board team".split()),
        {"pipeline": 1},
    )
    assert order(answer, newer) == ["owner", "bugs"]


_covered = st.dictionaries(st.sampled_from("abcde"), st.floats(0.1, 1), max_size=4)
_picks = st.lists(st.tuples(st.integers(0, 6), _covered), max_size=7).map(
    lambda found: [pick(str(i), day, **covered) for i, (day, covered) in enumerate(found)]
)


@given(_picks)
def test_it_holds_for_any_two_and_loses_none(picks: list[SubjectTerms]) -> None:
    """R14."""
    found = order(*picks)
    assert sorted(found) == sorted(one.id for one in picks)
    place = {name: i for i, name in enumerate(found)}
    for one, other in combinations(picks, 2):
        newer, older = (one, other) if (one.when or FIRST) > (other.when or FIRST) else (other, one)
        is_alike = word_overlap(one, other, lambda _: 1.0) >= ALIKE
        if one.when != other.when and is_alike and is_same_subject(one, other):
            assert place[newer.id] < place[older.id]
