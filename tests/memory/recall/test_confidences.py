"""A pick is attached when the store is about the question and the pick has a part in the answer."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nacre.memory.recall.local_index import confidences
from nacre.memory.recall.ranking.ranker import ENOUGH, NO_CONFIDENCE, Confidence, Ranking, ScoredFile

SURE = Confidence(0.99, 0.9, is_enough=True)
scores = st.lists(st.floats(-50, 50), max_size=40).map(lambda found: sorted(found, reverse=True))


def ranking(found: list[float], sure: Confidence = SURE) -> Ranking:
    return Ranking([ScoredFile(f"{i}.md", score, {}) for i, score in enumerate(found)], sure)


def test_a_pick_far_behind_the_best_is_not_worth_its_place() -> None:
    """R9: the cut stands on each pick, not only on the list."""
    kept = [one >= ENOUGH for one in confidences(ranking([6.0, 5.5, 0.0]))]
    assert kept == [True, True, False]


def test_picks_that_are_equally_good_are_all_worth_their_place() -> None:
    assert all(one >= ENOUGH for one in confidences(ranking([2.0] * 10)))


def test_an_empty_ranking_has_nothing_to_judge() -> None:
    assert confidences(Ranking([], NO_CONFIDENCE)) == []


@given(scores, st.floats(0, ENOUGH, exclude_max=True))
def test_nothing_is_attached_when_the_store_is_not_about_it(found: list[float], relevance: float) -> None:
    """R9: "nothing relevant" is a normal answer."""
    refused = Confidence(relevance, 0.9, is_enough=False)
    assert all(0 <= one < ENOUGH for one in confidences(ranking(found, refused)))


@given(scores.filter(bool), st.floats(ENOUGH, 1))
def test_the_best_is_attached_when_the_store_is_about_it_and_no_later_one_is_surer(
    found: list[float], relevance: float
) -> None:
    judged = confidences(ranking(found, Confidence(relevance, 0.9, is_enough=True)))
    assert judged[0] >= ENOUGH
    assert all(one >= other for one, other in pairwise(judged))
    assert all(0 <= one <= 1 for one in judged)


def test_a_surer_store_makes_surer_picks() -> None:
    high, low = (
        confidences(ranking([1.0], Confidence(sure, 0.5, is_enough=True)))[0] for sure in (0.9, ENOUGH)
    )
    assert high > low == pytest.approx(ENOUGH, abs=0.05)
