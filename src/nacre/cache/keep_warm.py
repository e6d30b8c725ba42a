"""Decides whether to refresh the provider's cache while the person is away; pure arithmetic (C8b).

A refresh costs one read of the prefix; an expired prefix is written again when the person returns. So a
refresh is worthwhile if people return soon enough, often enough.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime

from nacre.cache.models import PER_MILLION, ModelProfile
from nacre.cache.warmth import FIVE_MINUTES, KeepWarmSettings, Lifetime

ROUNDING = 1e-9
"""Tolerance for comparing decimal prices as floats."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prefix:
    """The cached prefix of a session."""

    tokens: int
    profile: ModelProfile
    lifetime: Lifetime = "5m"
    head_tokens: int = 0
    """How many of them are in the head, which the lifetime `mixed` keeps for an hour."""

    @property
    def at_risk(self) -> int:
        """The tokens that are lost when the shortest entry expires."""
        return max(0, self.tokens - self.head_tokens) if self.lifetime == "mixed" else self.tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """The current pause."""

    seconds: float
    """Since the last request of the conversation began."""
    untouched_seconds: float
    """Since the last request or refresh began: the age of the entry."""
    refreshes: int = 0
    """Sent in this pause."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionCost:
    """What a session has cost so far."""

    conversation_usd: float = 0.0
    """Without the refreshes."""
    warming_usd: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshDecision:
    """Whether a refresh is worth its price, with the figures."""

    is_worth: bool
    reason: str
    returns: float = 0.0
    """Probability that the person returns while only the planned refreshes keep the cache warm."""
    refreshes: int = 0
    """How many refreshes the best plan has, including this one."""
    price_usd: float = 0.0
    """Of one refresh."""
    gain_usd: float = 0.0
    """What the plan saves on average, less its own price."""


DEFAULT_KEEP_WARM = KeepWarmSettings()


def decide_refresh(
    pause: Pause,
    pauses: Pauses,
    *,
    prefix: Prefix,
    spent: SessionCost,
    settings: KeepWarmSettings = DEFAULT_KEEP_WARM,
) -> RefreshDecision:
    """Return whether to refresh now, shortly before the entry expires."""
    tier = prefix.profile.tier(prefix.tokens)
    refusal = _refusal(pause, prefix, settings)
    if refusal or tier is None:
        return RefreshDecision(is_worth=False, reason=refusal or "the model's prices are not known")
    price = prefix.tokens * tier.read / PER_MILLION
    counts = range(1, settings.max_refreshes - pause.refreshes + 1)
    plans = (_plan(count, pause, pauses, prefix=prefix, settings=settings) for count in counts)
    best = max(plans, key=lambda plan: plan.gain_usd)
    limit = min(settings.max_usd, settings.max_share * spent.conversation_usd)
    if best.gain_usd <= 0:
        reason = "the person is too unlikely to come back in time"
    elif spent.warming_usd + price > limit:
        reason = f"the session may spend ${limit:.4f} on refreshes, and spent most of it"
    else:
        return best
    return replace(best, is_worth=False, reason=reason)


def seconds_to_refresh(pause: Pause, settings: KeepWarmSettings = DEFAULT_KEEP_WARM) -> float:
    """Return the seconds until the next refresh is due."""
    return max(0.0, FIVE_MINUTES - settings.margin_seconds - pause.untouched_seconds)


def _refusal(pause: Pause, prefix: Prefix, settings: KeepWarmSettings) -> str | None:
    """Return a reason against a refresh that does not depend on probabilities."""
    profile = prefix.profile
    tier = profile.tier(prefix.tokens)
    forbidden = (
        (not profile.refreshes, "the provider is not known to refresh its cache on such a request"),
        (prefix.lifetime == "1h", "the cache lives for an hour as it is"),
        (tier is None, "the model's prices are not known"),
        (
            tier is not None and tier.read > settings.max_read_share * tier.input + ROUNDING,
            "reading the cache costs too much",
        ),
        (prefix.at_risk < max(1, profile.min_cacheable), "nothing is cached that would expire"),
        (pause.untouched_seconds >= FIVE_MINUTES, "the cache has gone cold already"),
        (pause.refreshes >= settings.max_refreshes, f"{pause.refreshes} refreshes are enough for a pause"),
    )
    return next((reason for is_so, reason in forbidden if is_so), None)


def _plan(
    count: int, pause: Pause, pauses: Pauses, *, prefix: Prefix, settings: KeepWarmSettings
) -> RefreshDecision:
    """Return the gain of `count` refreshes from now on, as long as the person stays away."""
    tier = prefix.profile.tier(prefix.tokens)
    assert tier is not None
    step = FIVE_MINUTES - settings.margin_seconds
    idle = pause.seconds
    still = pauses.away(idle)
    sent = sum(pauses.away(idle + number * step) for number in range(count)) / still if still else 1.0
    expires = idle + FIVE_MINUTES - pause.untouched_seconds
    returns = pauses.back_between(expires, idle + (count - 1) * step + FIVE_MINUTES, idle=idle)
    price = prefix.tokens * tier.read / PER_MILLION
    saving = prefix.at_risk * (tier.write_5m - tier.read) / PER_MILLION
    gain = returns * saving - sent * price
    reason = f"{returns:.0%} come back in time: saves ${returns * saving:.4f} for ${sent * price:.4f}"
    return RefreshDecision(
        is_worth=True, reason=reason, returns=returns, refreshes=count, price_usd=price, gain_usd=gain
    )


USUAL_PAUSES: tuple[tuple[float, float], ...] = (
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
"""The share of pauses longer than this many seconds, in some hundred recorded coding sessions.

The last share is that of people who never return. A log does not show whether a program still waits or was
ended, so that this share is too high, which errs on the side of fewer refreshes.
"""
PRIOR_WEIGHT = 8.0
"""How many pauses of its own a session needs to weigh as much as the usual ones."""
MAX_OWN = 40
"""How many of the newest pauses count."""


@dataclass(frozen=True, slots=True)
class Pauses:
    """The distribution of pauses: the usual ones, weighted with the session's own."""

    own: tuple[float, ...] = field(default=())
    """Seconds of the pauses of this session that ended, oldest first."""

    @staticmethod
    def between(moments: Iterable[tuple[datetime, datetime]]) -> Pauses:
        """Return pauses from pairs: the start of a turn's last request and of the next turn."""
        return Pauses(tuple(max(0.0, (back - asked).total_seconds()) for asked, back in moments))

    def away(self, seconds: float) -> float:
        """Return the share of pauses longer than this, including those that never end."""
        longer = sum(1 for one in self.own[-MAX_OWN:] if one > seconds)
        return (PRIOR_WEIGHT * _usual(seconds) + longer) / (PRIOR_WEIGHT + len(self.own[-MAX_OWN:]))

    def back_between(self, start: float, end: float, *, idle: float = 0.0) -> float:
        """Return the probability of a return between two times, given a pause of `idle` seconds so far."""
        still = self.away(idle)
        return max(0.0, self.away(max(start, idle)) - self.away(max(end, idle))) / still if still else 0.0

    @property
    def never(self) -> float:
        """The share of pauses that end the session."""
        return PRIOR_WEIGHT * USUAL_PAUSES[-1][1] / (PRIOR_WEIGHT + len(self.own[-MAX_OWN:]))


def _usual(seconds: float) -> float:
    """Interpolate the usual shares linearly over the logarithm of time."""
    before = 1.0
    share = 1.0
    for until, longer in USUAL_PAUSES:
        if seconds <= until:
            part = math.log(max(seconds, before) / before) / math.log(until / before)
            return share + (longer - share) * part
        before = until
        share = longer
    return USUAL_PAUSES[-1][1]
