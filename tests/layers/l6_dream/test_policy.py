"""When a dream is due: gates in order of their cost, each asked only when those before it are open."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from nacre.layers.l6_dream.policy import DREAM, GATES, DreamConditions, closed_gate, may_remove

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def at(**given: Any) -> DreamConditions:
    usual: dict[str, Any] = {
        "now": NOW,
        "last": lambda: NOW - 25 * HOUR,
        "sessions": lambda since: 5,
        "failures": lambda: (0, None),
    }
    return DreamConditions(**usual | given)


def never(*_: object) -> Any:
    raise AssertionError("this costs a look at the disk and was not to be asked")


@pytest.mark.parametrize(
    ("given", "gate"),
    [
        ({}, None),
        ({"is_main": False, "last": never, "sessions": never}, "background"),
        ({"is_on": False, "last": never, "sessions": never}, "off"),
        ({"has_memory": False, "last": never, "sessions": never}, "no memory"),
        ({"is_remote": True, "last": never, "sessions": never}, "remote"),
        ({"last": lambda: NOW - 23 * HOUR, "sessions": never, "failures": never}, "too soon"),
        ({"last": lambda: None}, None),
        ({"scanned": NOW - timedelta(minutes=9), "sessions": never, "failures": never}, "scanned lately"),
        ({"scanned": NOW - timedelta(minutes=11)}, None),
        ({"sessions": lambda since: 4, "failures": never}, "too few sessions"),
        ({"failures": lambda: (3, date(2026, 11, 15))}, "resting"),
        ({"failures": lambda: (3, date(2026, 11, 14))}, None),
        ({"failures": lambda: (2, date(2026, 11, 15))}, None),
        ({"is_forced": True, "last": never, "sessions": never}, None),
        ({"is_forced": True, "is_on": False}, "off"),
    ],
)
def test_a_turn_stops_at_the_first_gate_that_says_no(given: dict[str, Any], gate: str | None) -> None:
    """D1, D7: cheapest first; what lies behind the first no is not looked at."""
    assert closed_gate(at(**given)) == gate
    assert gate is None or gate in GATES


def test_a_clock_that_was_put_back_does_not_keep_dreams_away_for_ever() -> None:
    """D2: a time of the last dream far in the future is no time at all."""
    assert closed_gate(at(last=lambda: NOW + 30 * 24 * HOUR)) is None
    assert closed_gate(at(last=lambda: NOW + HOUR)) == "too soon"


def test_where_memory_is_a_log_a_day_a_dream_is_due_once_after_midnight() -> None:
    """M17, D9: however few sessions there were."""
    local = NOW.astimezone()
    early = local.replace(hour=0, minute=1)
    assert closed_gate(at(is_daily=True, last=lambda: early, sessions=never)) == "too soon"
    assert closed_gate(at(is_daily=True, last=lambda: early - timedelta(minutes=2), sessions=never)) is None


def test_the_sessions_since_the_last_dream_are_counted() -> None:
    asked: list[datetime | None] = []
    closed_gate(at(sessions=lambda since: asked.append(since) or 9))  # type: ignore[func-returns-value]
    assert asked == [NOW - 25 * HOUR]


def test_one_dream_may_take_away_a_fifth() -> None:
    """D7."""
    assert [may_remove(count) for count in (0, 4, 5, 10, 14, 100)] == [0, 0, 1, 2, 2, 20]
    assert may_remove(10, replace(DREAM, max_removed_share=0.5)) == 5
