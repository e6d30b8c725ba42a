"""The clairvoyant bound of the replay lies below whatever clears results (P7, C12)."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.replay.bound import gap_price, least_usd, result_price
from bench.replay.made_up import made_up
from nacre.cache.models import profile
from nacre.devtools.replay.policies import NONE, Ladder
from nacre.devtools.replay.run import ReplayTerms, Study, replay_one
from nacre.layers.l2_microcompact.policy import MicrocompactSettings

MODEL = "claude-opus-5-5"
TIER = profile(MODEL).prices[0]


@pytest.mark.parametrize(("seconds", "refreshes"), [(299, 0), (300, 1), (599, 1), (600, 2), (1_000, 3)])
def test_a_pause_takes_as_many_refreshes_as_keep_the_entry_alive_and_no_more(
    seconds: float, refreshes: int
) -> None:
    """C8b: each lets it live for five minutes from then on."""
    assert gap_price(seconds, TIER) == pytest.approx((refreshes + 1) * TIER.read)


def test_a_long_pause_costs_what_writing_anew_costs() -> None:
    assert gap_price(1e6, TIER) == TIER.write_5m


@given(st.lists(st.floats(0.01, 8), min_size=1, max_size=7))
def test_a_result_is_kept_or_fetched_as_the_best_of_all_plans_says(prices: list[float]) -> None:
    """Every way to keep or drop it between two needs is tried."""
    carried = [sum(prices[:place]) for place in range(len(prices) + 1)]
    plans = []
    for keeps in product((False, True), repeat=len(prices)):
        total = TIER.write_5m if keeps[0] else TIER.input
        for place, is_kept in enumerate(keeps):
            is_kept_on = place + 1 < len(keeps) and keeps[place + 1]
            total += prices[place] if is_kept else (TIER.write_5m if is_kept_on else TIER.input)
        plans.append(total)
    found = result_price(range(len(prices) + 1), carried, TIER)
    assert found <= min(plans) + 1e-9
    # A written copy may also be dropped and sent again, which is never better than what was tried.
    assert found == pytest.approx(min(plans))


@pytest.mark.slow
def test_neither_appending_nor_clearing_comes_below_the_bound() -> None:
    """On sessions with large results and long pauses, what has to be fetched again included."""
    clearing = Ladder(name="clearing", clearing=MicrocompactSettings())
    for session in made_up(2):
        least = least_usd(session, MODEL)
        for policy in (NONE, clearing):
            tally = replay_one(Study(session), policy, ReplayTerms(model=MODEL, window=1_000_000)).tally
            assert least <= tally.cost_usd
