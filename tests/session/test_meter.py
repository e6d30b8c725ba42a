"""What a session has cost."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nacre.messages.blocks import Text
from nacre.messages.records import ReplyFacts, Said
from nacre.messages.usage import Usage
from nacre.session.meter import Meter, ReplySpeed
from nacre.testing import FrozenClock

CLOCK = FrozenClock()


def said(reply_id: str | None, usage: Usage | None, model: str = "claude-opus-5-5") -> Said:
    facts = ReplyFacts(id=reply_id, model=model, usage=usage)
    return Said(id=CLOCK.new_id(), at=CLOCK.now(), role="assistant", blocks=(Text("x"),), reply=facts)


def test_a_reply_split_over_several_records_counts_once_by_its_last() -> None:
    """T5: usage from the last, never summed."""
    early, last = Usage(input=10, output=1), Usage(input=10, output=50)
    records = [said("a", early), said("a", early), said("b", Usage(input=5)), said("a", last)]
    meter = Meter.of(records)
    assert (meter.requests, meter.usage) == (2, last + Usage(input=5))


def test_replies_without_an_id_are_each_their_own() -> None:
    assert Meter.of([said(None, Usage(input=1)), said(None, Usage(input=1))]).requests == 2


def test_what_was_interrupted_or_said_by_a_person_costs_nothing() -> None:
    person = replace(said(None, None), role="user", reply=None)
    assert Meter.of([person, said("a", None)]) == Meter()


def test_money_follows_the_price_of_each_replys_own_model() -> None:
    """P5: the exclusive counters at their own price."""
    usage = Usage(input=1_000_000, cache_write=1_000_000, cache_read=1_000_000, output=1_000_000)
    assert Meter().after(usage, "claude-sonnet-4-6").cost_usd == pytest.approx(3 + 3.75 + 0.3 + 15)
    both = Meter.of(
        [said("a", Usage(output=1_000_000)), said("b", Usage(output=1_000_000), "claude-sonnet-4-6")]
    )
    assert both.cost_usd == pytest.approx(20 + 15)


def test_a_model_without_a_price_is_counted_as_such() -> None:
    meter = Meter().after(Usage(input=10), "a-model-of-ones-own")
    assert (meter.cost_usd, meter.unpriced, meter.usage.input) == (0.0, 1, 10)


def test_a_resumed_session_has_the_meter_of_the_live_one() -> None:
    records = [said("a", Usage(input=7, output=3)), said("b", Usage(cache_read=9))]
    live = Meter().after(Usage(input=7, output=3), "claude-opus-5-5")
    live = live.after(Usage(cache_read=9), "claude-opus-5-5")
    assert Meter.of(records) == live


def test_speed_is_that_of_the_last_replies_long_enough_to_tell() -> None:
    speed = ReplySpeed().after(Usage(input=5_000, output=100), until_first=100.0, writing=20.0)
    assert (speed.prompt_rate, speed.output_rate) == (50.0, 5.0)
    same = speed.after(Usage(input=10, cache_read=5_000, output=3), until_first=0.1, writing=0.01)
    assert same == speed, "a cached prompt and three words say nothing"
    assert speed.seconds(prompt=1_000, output=50) == 30.0
    assert ReplySpeed().seconds(prompt=1_000, output=50) == 0.0
