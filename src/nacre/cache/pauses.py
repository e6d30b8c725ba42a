"""How long a person stays away: a session's own pauses, blended with what is usual (C8b, C31c).

A pause runs from the start of the last request to the person's next message, because an entry of the
provider's cache lives from the start of a request. Where a tool or an answer is waited for inside a turn, the
same odds are taken: what lasts for minutes there is mostly a person who is away, too.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

USUAL: tuple[tuple[float, float], ...] = (
    (30, 0.90),
    (60, 0.80),
    (120, 0.64),
    (300, 0.41),
    (600, 0.30),
    (900, 0.27),
    (1_800, 0.23),
    (3_600, 0.20),
    (28_800, 0.18),
    (86_400, 0.17),
)
"""The share of pauses longer than so many seconds, coarsely, over some hundred recorded coding sessions.

The last share is that of people who never come back. A log cannot tell a program that waits from one that was
left, so this counts too many of those as away; the error is on the side of spending less.
"""
PRIOR_WEIGHT = 8.0
"""So many own pauses weigh as much as the usual ones: most sessions have fewer, and stay near the usual."""
MAX_OWN = 40
"""A day's habits count, not last month's: only so many of the newest pauses are looked at."""


@dataclass(frozen=True, slots=True)
class Pauses:
    """How likely the person is still away after so long."""

    own: tuple[float, ...] = field(default=())
    """Seconds of the pauses of this session that ended, oldest first."""

    @staticmethod
    def between(moments: Iterable[tuple[datetime, datetime]]) -> Pauses:
        """From pairs of when the last request of a turn began and when the next turn did."""
        return Pauses(tuple(max(0.0, (back - asked).total_seconds()) for asked, back in moments))

    def away(self, seconds: float) -> float:
        """The share of pauses longer than this, those that never end among them."""
        longer = sum(1 for one in self.own[-MAX_OWN:] if one > seconds)
        return (PRIOR_WEIGHT * _usual(seconds) + longer) / (PRIOR_WEIGHT + len(self.own[-MAX_OWN:]))

    def back_between(self, start: float, end: float, *, idle: float = 0.0) -> float:
        """How likely the person comes back between two moments of a pause that has lasted `idle` seconds."""
        still = self.away(idle)
        return max(0.0, self.away(max(start, idle)) - self.away(max(end, idle))) / still if still else 0.0

    @property
    def never(self) -> float:
        """The share of pauses that end the session."""
        return PRIOR_WEIGHT * USUAL[-1][1] / (PRIOR_WEIGHT + len(self.own[-MAX_OWN:]))


def _usual(seconds: float) -> float:
    """Straight lines between the named shares, over the logarithm of time: pauses spread over magnitudes."""
    before, share = 1.0, 1.0
    for until, longer in USUAL:
        if seconds <= until:
            part = math.log(max(seconds, before) / before) / math.log(until / before)
            return share + (longer - share) * part
        before, share = until, longer
    return USUAL[-1][1]
