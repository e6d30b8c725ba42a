"""Which lifetime the provider's entries get, by expected cost (C31c)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nacre.cache.keep_warm import Pauses, Prefix
from nacre.cache.models import profile
from nacre.session.cache_ttl import ExpectedUse, cheapest_lifetime, lifetime_seconds

SONNET = profile("claude-sonnet-5-5")
COLD = ExpectedUse(warming=None)


def chosen(own=(), *, ahead=COLD, model=SONNET, head=15_000):
    return cheapest_lifetime(
        Pauses(own), Prefix(tokens=50_000, profile=model, head_tokens=head), ahead=ahead
    ).lifetime


def test_a_person_who_answers_at_once_gets_the_cheapest_write():
    """C31c."""
    assert chosen((40.0,) * 12) == "5m"


def test_pauses_of_half_an_hour_are_worth_an_hours_lifetime():
    """C31c: one write at twice the price against one at 1.25 for every pause."""
    assert chosen((1_800.0,) * 8) == "1h"


def test_pauses_longer_than_an_hour_are_not_paid_for_in_advance():
    """C31c: every lifetime is over by then."""
    assert chosen((9_000.0,) * 8) == "5m"


def test_keeping_warm_takes_the_place_of_the_hour_for_pauses_it_can_bridge():
    """C31c: keep-warm is a third way, for pauses up to some twenty minutes."""
    assert chosen((700.0,) * 8) == "1h"
    assert chosen((700.0,) * 8, ahead=ExpectedUse()) == "5m"
    assert chosen((1_800.0,) * 8, ahead=ExpectedUse()) == "1h"


def test_a_large_head_with_a_small_tail_is_kept_apart():
    """C31c: what stays is written for an hour once, what moves for five minutes each time."""
    own = (1_800.0,) * 3 + (60.0,) * 12
    ahead = ExpectedUse(warming=None, turn_tokens=20_000, turns=4)
    assert chosen(own, ahead=ahead, head=45_000) == "mixed"


def test_a_session_of_one_turn_is_never_written_for_longer():
    """C31c: without a second look the cheaper write wins."""
    assert chosen((1_800.0,) * 8, ahead=ExpectedUse(turns=0)) == "5m"


@pytest.mark.parametrize("model", ["gpt-6-sol", "embedded", "claude-opus-4-1", "somebody's own"])
def test_without_markers_or_prices_nothing_is_chosen(model):
    """C31c, P5."""
    choice = cheapest_lifetime(Pauses((1_800.0,) * 8), Prefix(tokens=50_000, profile=profile(model)))
    assert (choice.lifetime, choice.costs_usd) == ("5m", {})


def test_the_costs_of_one_pause_are_what_a_hand_adds_up():
    """C31c: first write, one pause that ends in time or not, one turn's growth."""
    pauses, ahead = Pauses(), ExpectedUse(turns=1, turn_tokens=1_000, warming=None)
    prefix = Prefix(tokens=10_000, profile=SONNET, head_tokens=4_000)
    costs = cheapest_lifetime(pauses, prefix, ahead=ahead).costs_usd
    in_five, in_hour, ever = (1 - pauses.away(s) for s in (300, 3_600, 1e9))
    back = 1 - pauses.never
    assert ever == pytest.approx(back)
    five = 10_000 * 2.5 + in_five * 1_000 + (back - in_five) * 25_000 + back * 2_500
    hour = 10_000 * 4.0 + in_hour * 1_000 + (back - in_hour) * 40_000 + back * 4_000
    written = 4_000 * 4.0 + 6_000 * 2.5
    head_warm = 4_000 * 0.1 + 6_000 * 2.5
    mixed = written + in_five * 1_000 + (in_hour - in_five) * head_warm + (back - in_hour) * written
    assert costs["5m"] * 1e6 == pytest.approx(five)
    assert costs["1h"] * 1e6 == pytest.approx(hour)
    assert costs["mixed"] * 1e6 == pytest.approx(mixed + back * 2_500)


def test_a_prefix_stays_warm_as_long_as_its_shortest_entry():
    """C9, C31c."""
    assert [lifetime_seconds(one) for one in ("5m", "mixed", "1h")] == [300, 300, 3_600]


@given(st.lists(st.floats(1, 1e5), max_size=30).map(tuple), st.integers(1_000, 300_000))
def test_the_chosen_one_is_the_cheapest_and_warming_never_makes_five_minutes_dearer(own, tokens):
    prefix = Prefix(tokens=tokens, profile=SONNET, head_tokens=tokens // 3)
    cold = cheapest_lifetime(Pauses(own), prefix, ahead=COLD)
    warmed = cheapest_lifetime(Pauses(own), prefix, ahead=ExpectedUse())
    assert cold.costs_usd[cold.lifetime] == min(cold.costs_usd.values())
    assert warmed.costs_usd["5m"] <= cold.costs_usd["5m"] * (1 + 1e-9)
