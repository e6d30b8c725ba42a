"""When a refresh of the provider's cache is worth its price (C8b)."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nacre.cache.keep_warm import (
    USUAL_PAUSES,
    Pause,
    Pauses,
    Prefix,
    SessionCost,
    decide_refresh,
    seconds_to_refresh,
)
from nacre.cache.models import PriceTier, profile
from nacre.cache.warmth import KeepWarmSettings

SONNET = profile("claude-sonnet-5-5")
OPUS_5 = profile("claude-opus-5")
RICH = SessionCost(conversation_usd=100.0)
STEP = 270.0


def at(refreshes: int = 0, *, late: float = 0.0) -> Pause:
    """The moment at which the next refresh of a pause is due."""
    return Pause(seconds=STEP * (refreshes + 1) + late, untouched_seconds=STEP + late, refreshes=refreshes)


def cached(tokens: int = 60_000, model=SONNET, **more) -> Prefix:
    return Prefix(tokens=tokens, profile=model, **more)


def test_a_refresh_is_due_a_margin_before_the_entry_expires_counted_from_the_start_of_the_request():
    """C8b: the lifetime runs from the start of the request that wrote or read the entry."""
    assert seconds_to_refresh(Pause(seconds=100, untouched_seconds=100)) == 170
    assert seconds_to_refresh(Pause(seconds=1_000, untouched_seconds=100, refreshes=3)) == 170
    assert seconds_to_refresh(Pause(seconds=299, untouched_seconds=299)) == 0
    assert seconds_to_refresh(at(), KeepWarmSettings(margin_seconds=10)) == 20


def test_where_reads_cost_a_twentieth_four_refreshes_pay_and_where_a_tenth_two_do():
    """C8b: the cheaper the read, the longer a person may be waited for."""

    def sent(model):
        return [
            decide_refresh(at(n), Pauses(), prefix=cached(model=model), spent=RICH).is_worth for n in range(5)
        ]

    assert sent(SONNET) == [True, True, True, True, False]
    assert sent(OPUS_5) == [True, True, False, False, False]


def test_the_verdict_says_its_arithmetic():
    """C8b: P(back in time) * prefix * (w - r) against prefix * r."""
    settings = KeepWarmSettings(max_refreshes=1)
    verdict = decide_refresh(at(), Pauses(), prefix=cached(), spent=RICH, settings=settings)
    usual = Pauses()
    back = (usual.away(300) - usual.away(570)) / usual.away(270)
    assert verdict.returns == pytest.approx(back)
    assert verdict.price_usd == pytest.approx(60_000 * 0.1 / 1e6)
    assert verdict.gain_usd == pytest.approx(back * 60_000 * (2.5 - 0.1) / 1e6 - 60_000 * 0.1 / 1e6)
    assert (verdict.refreshes, verdict.is_worth) == (1, True)


def test_a_person_who_is_always_back_in_twelve_minutes_is_waited_for_although_nobody_comes_before():
    """C8b: a plan of several refreshes may pay where the first alone never would."""
    habit = Pauses((720.0,) * 40)
    alone = decide_refresh(
        at(), habit, prefix=cached(model=OPUS_5), spent=RICH, settings=KeepWarmSettings(max_refreshes=1)
    )
    plan = decide_refresh(at(), habit, prefix=cached(model=OPUS_5), spent=RICH)
    assert (alone.is_worth, plan.is_worth, plan.refreshes) == (False, True, 2)


def test_a_person_who_is_always_away_for_long_is_not_waited_for():
    """C8b: the session's own pauses outweigh the usual ones."""
    verdict = decide_refresh(at(), Pauses((7_200.0,) * 40), prefix=cached(), spent=RICH)
    assert not verdict.is_worth
    assert "too unlikely" in verdict.reason
    assert verdict.gain_usd < 0


@pytest.mark.parametrize(
    ("pause", "prefix", "reason"),
    [
        (at(), cached(model=profile("gpt-6-sol")), "not known to refresh"),
        (at(), cached(model=profile("claude-next-9")), "not known to refresh"),
        (at(), cached(model=profile("embedded")), "not known to refresh"),
        (at(), cached(model=profile("claude-opus-4-1")), "prices are not known"),
        (at(), cached(lifetime="1h"), "for an hour"),
        (at(), cached(400), "nothing is cached"),
        (at(), cached(0, model=replace(SONNET, min_cacheable=0)), "nothing is cached"),
        (at(), cached(lifetime="mixed", head_tokens=60_000), "nothing is cached"),
        (at(late=30), cached(), "cold already"),
        (at(4), cached(), "enough for a pause"),
        (at(), cached(model=replace(SONNET, prices=(PriceTier(input=2, read=0.21),))), "costs too much"),
    ],
)
def test_no_refresh_where_it_cannot_help_or_is_not_known_to(pause, prefix, reason):
    """C8b: off until the provider is known to refresh, never for an hour's lifetime, never once cold."""
    verdict = decide_refresh(pause, Pauses((700.0,) * 9), prefix=prefix, spent=RICH)
    assert not verdict.is_worth
    assert reason in verdict.reason


def test_every_price_of_a_tenth_counts_as_cheap_whatever_its_decimals():
    """C8b: reads at most 0.1 of input."""
    cheap = [replace(SONNET, prices=(PriceTier(input=i, read=r, write_5m=i * 1.25),)) for i, r in PRICES]
    assert all(decide_refresh(at(), Pauses(), prefix=cached(model=m), spent=RICH).is_worth for m in cheap)


PRICES = [(0.1, 0.01), (0.3, 0.03), (0.7, 0.07), (3, 0.3), (15, 1.5)]


def test_a_mixed_lifetime_weighs_only_the_tail_that_would_be_lost():
    """C31c: the head outlives the pause by itself; a refresh still reads all of it."""
    whole = decide_refresh(at(), Pauses(), prefix=cached(lifetime="mixed"), spent=RICH)
    tail = decide_refresh(at(), Pauses(), prefix=cached(lifetime="mixed", head_tokens=50_000), spent=RICH)
    assert whole.is_worth
    assert not tail.is_worth
    assert tail.gain_usd < 0
    assert tail.price_usd == whole.price_usd > 0


def test_spending_stays_under_both_ceilings():
    """C8b: within the spend cap: an amount, and a share of what the session cost."""
    price = 60_000 * 0.1 / 1e6

    def allowed(conversation, warming):
        spent = SessionCost(conversation_usd=conversation, warming_usd=warming)
        return decide_refresh(at(), Pauses(), prefix=cached(), spent=spent)

    assert allowed(10.0, 0.0).is_worth
    assert allowed(1_000.0, 1.0 - price * 1.01).is_worth
    assert not allowed(1_000.0, 1.0 - price * 0.99).is_worth
    assert allowed(1.0, 0.1 - price * 1.01).is_worth
    over = allowed(1.0, 0.1 - price * 0.99)
    assert not over.is_worth
    assert "$0.1000" in over.reason
    assert over.gain_usd > 0


def test_the_usual_pauses_are_met_where_they_are_named():
    assert [Pauses().away(seconds) for seconds, _ in USUAL_PAUSES] == pytest.approx(
        [share for _, share in USUAL_PAUSES]
    )
    assert Pauses().away(0) == 1.0


own_pauses = st.lists(st.floats(0, 1e6), max_size=60).map(tuple)
moments = st.floats(0, 1e6)


@given(own_pauses, moments, moments)
def test_nobody_is_away_more_likely_later(own, first, second):
    pauses = Pauses(own)
    early, late = sorted((first, second))
    assert 1.0 >= pauses.away(early) >= pauses.away(late) >= pauses.never - 1e-9 > 0
    assert 0.0 <= pauses.back_between(early, late, idle=early) <= 1.0


@given(own_pauses, st.integers(0, 400_000), st.integers(0, 5), st.floats(0, 400), st.floats(0, 3))
def test_whatever_happened_a_refresh_that_is_worth_it_gains_and_stays_within_the_ceiling(
    own, tokens, refreshes, untouched, warming
):
    pause = Pause(seconds=untouched + 270 * refreshes, untouched_seconds=untouched, refreshes=refreshes)
    spent = SessionCost(conversation_usd=8.0, warming_usd=warming)
    verdict = decide_refresh(pause, Pauses(own), prefix=cached(tokens), spent=spent)
    if verdict.is_worth:
        assert verdict.gain_usd > 0
        assert untouched < 300
        assert refreshes < 4
        assert warming + verdict.price_usd <= 0.8
