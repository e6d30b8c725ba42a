"""What the requests of a session cost by part (conversation, layers, agents) and over time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from nacre.inspect.savings import SIDE_LAYERS
from nacre.messages.records import Noted, Record, Said
from nacre.session.meter import SIDE_QUERY, Meter

CONVERSATION = "conversation"
STEPS = tuple(timedelta(minutes=minutes) for minutes in (1, 5, 15, 60, 240, 1_440, 10_080))
"""Lengths of the intervals; the shortest one with few enough of them is used."""
MAX_INTERVALS = 12


@dataclass(frozen=True, slots=True)
class PaidRequest:
    """One request: what it was for, when, and its cost."""

    part: str
    at: datetime
    meter: Meter


def paid_requests(records: Iterable[Record]) -> list[PaidRequest]:
    """Return the requests in a log; of a reply split over several records, the last one counts."""
    replies: dict[str, PaidRequest] = {}
    for record in records:
        if isinstance(record, Said) and record.reply and record.reply.usage:
            meter = Meter().over([record])
            replies[record.reply.id or record.id] = PaidRequest(CONVERSATION, record.at, meter)
        elif isinstance(record, Noted) and record.kind == SIDE_QUERY:
            purpose = str(record.fact("purpose") or "other")
            part = SIDE_LAYERS.get(purpose, purpose)
            replies[record.id] = PaidRequest(part, record.at, Meter().over([record]))
    return list(replies.values())


def by_part(paid: Iterable[PaidRequest]) -> list[tuple[str, Meter]]:
    """Return the sums by part, most expensive first."""
    sums: dict[str, Meter] = {}
    for one in paid:
        sums[one.part] = sums.get(one.part, Meter()) + one.meter
    return sorted(sums.items(), key=lambda row: (-row[1].cost_usd, -row[1].usage.total))


def over_time(paid: Sequence[PaidRequest]) -> list[tuple[datetime, Meter]]:
    """Return the sums by interval, oldest first; intervals without a request are left out."""
    if not paid:
        return []
    first = min(one.at for one in paid)
    span = max(one.at for one in paid) - first
    step = next((step for step in STEPS if span < step * MAX_INTERVALS), max(STEPS[-1], span / MAX_INTERVALS))
    sums: dict[int, Meter] = {}
    for one in paid:
        place = min(MAX_INTERVALS - 1, (one.at - first) // step)
        sums[place] = sums.get(place, Meter()) + one.meter
    return [(first + place * step, sums[place]) for place in sorted(sums)]
