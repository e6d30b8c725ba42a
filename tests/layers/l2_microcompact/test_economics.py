"""Clearing on a warm cache: the arithmetic, and that the provider's rules agree with it (C12, C31c)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from nacre.cache.models import ModelProfile, PriceTier, profile
from nacre.cache.warmth import Warmth
from nacre.devtools.cache_models.anthropic_rules import Cache, Call, simulate
from nacre.layers.l2_microcompact.layer import Microcompact
from nacre.layers.l2_microcompact.microcompact import microcompact
from nacre.layers.l2_microcompact.policy import NACRE, Decision, Moment, Rewrite, due, pace, weigh
from nacre.messages.blocks import Text, ToolCall, ToolResult
from nacre.messages.records import Record, ReplyFacts, Said
from nacre.messages.view import View
from nacre.session.session import Base, Session
from nacre.store.tool_results import ToolResultStore
from nacre.testing import FrozenClock
from tests.layers.l2_microcompact.scenes import START, noted, rounds, view_of, words
from tests.scale import scaled

TASK = Said(id="task", at=START, role="user", blocks=(Text(words(0, 160_000)),))
ECONOMIC = replace(NACRE, economic=True, keep=5)
FIVE_MINUTES = 300.0
FLAT = ModelProfile(model="m", prices=(PriceTier(input=10, output=50, write_5m=12.5, write_1h=20, read=1),))


@pytest.mark.parametrize("read", [1.0, 0.5, 0.25])
def test_the_balance_is_that_of_the_formula_where_there_is_one_price(read: float) -> None:
    """C12: T(w - r)/(X·r) further requests pay it back: 11.5, 24 and 49 times T/X."""
    times = {1.0: 11.5, 0.5: 24.0, 0.25: 49.0}[read]
    model = replace(FLAT, prices=(replace(FLAT.prices[0], read=read),))
    rewrite = Rewrite(prompt=70_000, freed=10_000, behind=20_000, requests=int(2 * times), growth=321)
    even = weigh(rewrite, model, lifetime_seconds=FIVE_MINUTES)
    assert even is not None
    assert even.gain_usd == pytest.approx(0.0, abs=1e-9)
    assert even.gain_usd == pytest.approx(even.at_one_price_usd)
    more = weigh(replace(rewrite, requests=rewrite.requests + 1), model, lifetime_seconds=FIVE_MINUTES)
    assert more is not None
    assert more.gain_usd == pytest.approx(10_000 * read / 1e6)


def test_an_hour_of_lifetime_is_dearer_to_write_again() -> None:
    rewrite = Rewrite(prompt=70_000, freed=10_000, behind=20_000, requests=10)
    short = weigh(rewrite, FLAT, lifetime_seconds=300.0)
    long = weigh(rewrite, FLAT, lifetime_seconds=3_600.0)
    assert short is not None and long is not None
    assert short.gain_usd - long.gain_usd == pytest.approx(20_000 * 7.5 / 1e6)


def test_leaving_a_dearer_price_behind_counts() -> None:
    """C12: past a cliff the whole request costs more, so that little can pay for much."""
    haiku = profile("claude-haiku-5-5")
    over = Rewrite(prompt=110_000, freed=21_000, behind=60_000, requests=20)
    balance = weigh(over, haiku, lifetime_seconds=FIVE_MINUTES)
    assert balance is not None
    assert balance.at_one_price_usd < 0 < balance.gain_usd


def test_without_a_known_price_nothing_is_weighed() -> None:
    unpriced = ModelProfile(model="m")
    assert weigh(Rewrite(prompt=9, freed=1, behind=1, requests=1), unpriced, lifetime_seconds=300) is None


def test_as_many_requests_are_expected_as_there_were_between_pauses() -> None:
    """C12: the estimate of n, from the session so far."""
    first = rounds(11)
    assert (pace(first, 300.0).made, pace(first, 300.0).ahead) == (12, 12)
    later = [replace(record, at=record.at + timedelta(hours=1)) for record in rounds(7)]
    assert pace([*first, *later], 300.0).ahead == 20 // 2
    assert pace(rounds(80), 300.0).ahead == 50


def test_a_reply_that_stands_in_several_records_was_one_request() -> None:
    """C12: as Claude Code writes them."""
    parts = [
        Said(id=f"p{n}", at=START, role="assistant", blocks=(), reply=ReplyFacts(id="m")) for n in range(3)
    ]
    other = replace(parts[0], reply=ReplyFacts(id="other"))
    assert [pace(records, 300.0).made for records in (parts, [*parts, other])] == [1, 2]


def warm(view: View, model: str = "claude-opus-5", **given: object) -> Moment:
    now = START + timedelta(minutes=30)
    usual = {"tokens": view.estimate + 3_000, "head_tokens": 3_000}
    return Moment(
        warmth=Warmth(now=now, touched_at=now - timedelta(seconds=10)),
        profile=profile(model),
        **{**usual, **given},  # type: ignore[arg-type]
    )


def test_it_is_off_unless_switched_on() -> None:
    """C12: no warm clear beat plain idle clearing on real sessions."""
    view = view_of(40, chars=16_000)
    assert due(view, warm(view)) is None
    decision = due(view, warm(view), ECONOMIC)
    assert decision is not None and decision.reason == "economic" and len(decision.calls) == 35
    assert decision.arithmetic["requests"] == 41
    assert decision.arithmetic["behind"] == warm(view).tokens - 3_000 - decision.tokens


def test_a_gain_that_is_too_small_is_left_be() -> None:
    view = view_of(40, chars=16_000)
    assert due(view, warm(view), replace(ECONOMIC, min_gain_usd=100.0)) is None


def test_after_a_warm_clear_a_whole_batch_must_have_grown_old() -> None:
    """C12: in batches with hysteresis, never a sliding window."""
    small = replace(ECONOMIC, batch_tokens=8_000, min_gain_usd=0.0)
    sizes = [count for count in range(5, 60) if due(v := view_of(count, chars=4_000), warm(v), small)]
    assert sizes and sizes[0] >= 5 + 8_000 // 1_000


def test_what_did_not_pay_is_not_weighed_again_at_once() -> None:
    """Own time per request does not grow with the conversation."""
    view = view_of(40, chars=16_000)
    assert due(view, warm(view, weighed=view.estimate - 4_999), ECONOMIC) is None
    assert due(view, warm(view, weighed=view.estimate - 5_000), ECONOMIC) is not None


def test_a_marker_behind_the_edit_is_of_no_use() -> None:
    """C12: T runs from the last live entry before the edit, here of a result that was pinned until now."""
    marked = noted("clear", 1, keeps_from="c10")
    view = view_of(40, marked, chars=16_000)
    decision = due(view, warm(view), ECONOMIC)
    assert decision is not None and decision.calls[0] == "c0"
    assert decision.arithmetic["behind"] == warm(view).tokens - 3_000 - decision.tokens
    held = [noted("pin", n, call=f"c{n}", on=True) for n in range(10)]
    view = view_of(40, marked, *held, chars=16_000)
    decision = due(view, warm(view), ECONOMIC)
    assert decision is not None and decision.calls[0] == "c10"
    before = sum(item.tokens for item in view.items[: 2 + 2 * 10])
    assert decision.arithmetic["behind"] == warm(view).tokens - 3_000 - before - decision.tokens


def test_a_price_cliff_is_named_as_the_reason() -> None:
    view = view_of(26, chars=16_000)
    least = replace(ECONOMIC, keep=20, min_gain_usd=0.001)
    decision = due(view, warm(view, "claude-haiku-5-5"), least)
    assert decision is not None and decision.reason == "cliff"


# ---- the same questions put to the provider's rules


@dataclass
class Course:
    """Requests of one session through the simulator."""

    session: Session
    cache: Cache
    seconds: float = 0.0

    def request(self, view: View) -> float:
        body = self.session.request(view).body()
        self.seconds += 10.0
        done = simulate(self.cache, Call(body=body, start=self.seconds), profile=self.session.profile)
        assert done.refusal is None, done.refusal
        self.cache = done.cache
        assert done.cost_usd is not None
        return done.cost_usd


def ahead(view: View, course: Course, requests: int, growth: int) -> float:
    """What so many requests cost that each add so many tokens."""
    spent = 0.0
    for n in range(requests):
        spent += course.request(view)
        view = view.after(*grown(n, growth))
    return spent


def grown(n: int, tokens: int) -> Sequence[Record]:
    at = START + timedelta(hours=1, seconds=n)
    made = ToolCall(f"later{n}", "Bash", {"n": n})
    answer = ToolResult(made.id, (Text(words(n, 4 * max(1, tokens - 20))),))
    return (
        Said(id=f"la{n}", at=at, role="assistant", blocks=(made,)),
        Said(id=f"lr{n}", at=at, role="user", blocks=(answer,)),
    )


async def cleared(view: View, decision: Decision) -> View:
    done = await microcompact(view, decision, shelf=ToolResultStore(None), clock=FrozenClock())
    return view.after(*done.records)


# Without shrinking: an example takes a whole session, and says what was decided anyway.
@settings(
    max_examples=scaled(15),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
)
@given(
    sizes=st.lists(st.integers(100, 20_000), min_size=8, max_size=28),
    keep=st.integers(1, 12),
    model=st.sampled_from(["claude-opus-5", "claude-opus-5-5", "claude-haiku-5-5", "claude-sonnet-4-6"]),
    system=st.integers(0, 6_000),
)
async def test_nothing_is_cleared_that_costs_more_by_the_providers_own_rules(
    sizes: list[int], keep: int, model: str, system: int
) -> None:
    """C12: over the requests it was decided for, under the simulator's rules."""
    records: list[Record] = [Said(id="u", at=START, role="user", blocks=(Text("go"),))]
    session = Session(Base(model, words(0, 4 * system + 4), []), clock=FrozenClock())
    session.layers.append(Microcompact(session, ToolResultStore(None), replace(ECONOMIC, keep=keep)))
    course = Course(session, Cache())
    for n, size in enumerate(sizes):
        course.request(View.of(records))
        at = START + timedelta(seconds=10 * n + 1)
        answer = ToolResult(f"c{n}", (Text(words(n, 4 * size)),))
        records += [
            Said(id=f"a{n}", at=at, role="assistant", blocks=(ToolCall(f"c{n}", "Bash", {"n": n}),)),
            Said(id=f"r{n}", at=at, role="user", blocks=(answer,)),
        ]
    view = View.of(records)
    tokens = session.base.tokens + view.estimate
    chosen = replace(ECONOMIC, keep=keep, min_gain_usd=0.001, batch_tokens=2_000)
    decision = due(view, warm(view, model, tokens=tokens, head_tokens=session.base.tokens), chosen)
    assume(decision is not None)
    assert decision is not None
    requests, growth = int(str(decision.arithmetic["requests"])), int(str(decision.arithmetic["growth"]))
    as_it_is = ahead(view, replace(course), requests, growth)
    with_clear = ahead(await cleared(view, decision), replace(course), requests, growth)
    assert with_clear < as_it_is, (decision.arithmetic, as_it_is, with_clear)


async def test_a_marker_before_the_oldest_kept_result_makes_the_next_clear_cheaper() -> None:
    """C31c: what was cleared stays readable, and only what was kept is written again."""
    marked, unmarked = await second_clear(is_marked=True), await second_clear(is_marked=False)
    assert marked < 0.5 * unmarked


async def second_clear(*, is_marked: bool) -> float:
    """What the request after a second clear costs, longer after the first than an unused entry lives."""
    session = Session(Base("claude-opus-5", words(0, 16_000), []), clock=FrozenClock())
    if is_marked:
        session.layers.append(Microcompact(session, ToolResultStore(None), NACRE))
    course, view = Course(session, Cache()), View.of([TASK, *rounds(30, chars=16_000)[1:-1]])
    cost = 0.0
    for n in range(36):
        if n in (0, 35):
            decision = due(view, warm(view), ECONOMIC)
            assert decision is not None
            # The policy counts on the marker, too: the task is behind the first edit, not behind the second.
            behind = int(str(decision.arithmetic["behind"]))
            assert behind == pytest.approx(62_000 if n == 0 else 22_000, rel=0.1)
            view = await cleared(view, decision)
        cost = course.request(view)
        view = view.after(*grown(n, 4_000))
    return cost
