"""Whether to refresh the provider's cache while the person is away: pure arithmetic (C8b).

A refresh re-reads the prefix for its read price; a prefix that was let go is written again when the person
comes back. So it pays exactly where they come back soon enough, often enough.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from nacre.cache.models import PER_MILLION, ModelProfile, PriceTier
from nacre.cache.warmth import FIVE_MINUTES, KeepWarmSettings, Lifetime

ROUNDING = 1e-9
"""Prices are decimal, floats are not: so much is no difference."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prefix:
    """What the provider keeps of a session."""

    tokens: int
    profile: ModelProfile
    lifetime: Lifetime = "5m"
    head_tokens: int = 0
    """Of them in the head, which a mixed lifetime keeps for an hour."""

    @property
    def at_risk(self) -> int:
        """The tokens that are gone when the shortest entry expires."""
        return max(0, self.tokens - self.head_tokens) if self.lifetime == "mixed" else self.tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """A pause that goes on."""

    seconds: float
    """Since the last request of the conversation began."""
    untouched_seconds: float
    """Since the last request or refresh began: how old the entry is."""
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
    """Whether a refresh now is worth its price, and the arithmetic."""

    is_worth: bool
    reason: str
    returns: float = 0.0
    """How likely the person comes back while the planned refreshes keep the cache warm, and not before."""
    refreshes: int = 0
    """How many, this one included, the best plan would send."""
    price_usd: float = 0.0
    """Of one refresh."""
    gain_usd: float = 0.0
    """What the plan saves on average, its own price taken off."""


DEFAULT_KEEP_WARM = KeepWarmSettings()


def decide_refresh(
    pause: Pause,
    pauses: Pauses,
    *,
    prefix: Prefix,
    spent: SessionCost,
    settings: KeepWarmSettings = DEFAULT_KEEP_WARM,
) -> RefreshDecision:
    """Whether to refresh now, shortly before the entry expires."""
    tier = prefix.profile.tier(prefix.tokens)
    refusal = _refusal(pause, prefix, settings)
    if refusal or tier is None:
        return RefreshDecision(is_worth=False, reason=refusal or "the model's prices are not known")
    price = prefix.tokens * tier.read / PER_MILLION
    best = max(
        (_plan(count, pause, pauses, prefix=prefix, settings=settings) for count in _counts(pause, settings)),
        key=lambda plan: plan.gain_usd,
    )
    if best.gain_usd <= 0:
        return _refused("the person is too unlikely to come back in time", best)
    limit = min(settings.max_usd, settings.max_share * spent.conversation_usd)
    if spent.warming_usd + price > limit:
        return _refused(f"the session may spend ${limit:.4f} on refreshes, and spent most of it", best)
    return best


def seconds_to_refresh(pause: Pause, settings: KeepWarmSettings = DEFAULT_KEEP_WARM) -> float:
    """Seconds until the next refresh would be due."""
    return max(0.0, FIVE_MINUTES - settings.margin_seconds - pause.untouched_seconds)


def _refusal(pause: Pause, prefix: Prefix, settings: KeepWarmSettings) -> str | None:
    """What forbids a refresh whatever the odds are."""
    profile = prefix.profile
    tier = profile.tier(prefix.tokens)
    forbidden = (
        (not profile.refreshes, "the provider is not known to refresh its cache on such a request"),
        (prefix.lifetime == "1h", "the cache lives for an hour as it is"),
        (tier is None, "the model's prices are not known"),
        (tier is not None and not _reads_cheaply(tier, settings), "reading the cache costs too much"),
        (prefix.at_risk < max(1, profile.min_cacheable), "nothing is cached that would expire"),
        (pause.untouched_seconds >= FIVE_MINUTES, "the cache has gone cold already"),
        (pause.refreshes >= settings.max_refreshes, f"{pause.refreshes} refreshes are enough for a pause"),
    )
    return next((reason for is_so, reason in forbidden if is_so), None)


def _reads_cheaply(tier: PriceTier, settings: KeepWarmSettings) -> bool:
    return tier.read <= settings.max_read_share * tier.input + ROUNDING


def _counts(pause: Pause, settings: KeepWarmSettings) -> range:
    """How many more refreshes a plan could send."""
    return range(1, settings.max_refreshes - pause.refreshes + 1)


def _plan(
    count: int, pause: Pause, pauses: Pauses, *, prefix: Prefix, settings: KeepWarmSettings
) -> RefreshDecision:
    """The gain of refreshing now and again until it was `count` times, as long as the person stays away."""
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


def _refused(reason: str, plan: RefreshDecision) -> RefreshDecision:
    return RefreshDecision(
        is_worth=False,
        reason=reason,
        returns=plan.returns,
        refreshes=plan.refreshes,
        price_usd=plan.price_usd,
        gain_usd=plan.gain_usd,
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
        return PRIOR_WEIGHT * USUAL_PAUSES[-1][1] / (PRIOR_WEIGHT + len(self.own[-MAX_OWN:]))


def _usual(seconds: float) -> float:
    """Straight lines between the named shares, over the logarithm of time: pauses spread over magnitudes."""
    before = 1.0
    share = 1.0
    for until, longer in USUAL_PAUSES:
        if seconds <= until:
            part = math.log(max(seconds, before) / before) / math.log(until / before)
            return share + (longer - share) * part
        before = until
        share = longer
    return USUAL_PAUSES[-1][1]
