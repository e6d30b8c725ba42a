"""What a session cost by part and over time."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nacre.inspect.cost_history import MAX_INTERVALS, PaidRequest, by_part, over_time, paid_requests
from nacre.messages.blocks import Text
from nacre.messages.records import Noted, Record, ReplyFacts, Said
from nacre.messages.usage import Usage
from nacre.session.meter import SIDE_QUERY, Meter
from nacre.testing import FrozenClock

AT = FrozenClock().now()
SONNET = "claude-sonnet-5-5"
MILLION = Usage(input=1_000_000)
"""Two dollars there."""


def reply(name: str, at: datetime, usage: Usage = MILLION, *, message: str = "") -> Said:
    facts = ReplyFacts(id=message or name, model=SONNET, usage=usage)
    return Said(id=name, at=at, role="assistant", blocks=(Text("hm"),), reply=facts)


def aside(purpose: str, at: datetime) -> Noted:
    facts = {"purpose": purpose, "model": SONNET, "usage": MILLION.as_json()}
    return Noted(id=f"{purpose}{at}", at=at, kind=SIDE_QUERY, facts=facts)


def test_requests_are_summed_by_what_they_were_for() -> None:
    records: list[Record] = [
        reply("a", AT),
        reply("b1", AT, Usage(input=1), message="b"),
        reply("b2", AT, message="b"),  # the rest of the same reply
        aside("session_memory", AT),
        aside("notes_and_memories", AT),
        aside("agent", AT),
    ]
    sums = [(name, meter.requests, meter.cost_usd) for name, meter in by_part(paid_requests(records))]
    assert sums == [
        ("conversation", 2, pytest.approx(4.0)),
        ("notes", 2, pytest.approx(4.0)),
        ("agent", 1, pytest.approx(2.0)),
    ]


@given(st.lists(st.integers(0, 10_000_000), max_size=30))
def test_intervals_lose_nothing_and_are_few(seconds: list[int]) -> None:
    paid = [PaidRequest("x", AT + timedelta(seconds=one), Meter(requests=1)) for one in seconds]
    rows = over_time(paid)
    assert sum(meter.requests for _, meter in rows) == len(seconds)
    assert len(rows) <= MAX_INTERVALS
    assert [at for at, _ in rows] == sorted({at for at, _ in rows})
    if seconds:
        assert rows[0][0] == AT + timedelta(seconds=min(seconds))
