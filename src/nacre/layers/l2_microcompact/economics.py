"""What a clear on a warm cache costs and brings, in money: the arithmetic of C12, price cliffs included.

Clearing X tokens with T tokens behind the edit saves X reads in each further request and costs T writes
instead of reads once: n·X·r - T·(w - r), where past a price cliff all of a request is dearer.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise

from nacre.cache.rules import PER_MILLION, ModelProfile, PriceTier
from nacre.cache.warmth import HOUR
from nacre.messages.asking import asked_at
from nacre.messages.blocks import JsonObject
from nacre.messages.records import Record

MAX_AHEAD = 50
"""Further requests counted at most: what lies beyond is a guess, and a pause clears for nothing anyway."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrite:
    """What a clear would do to the requests to come, in tokens."""

    prompt: int
    """The next request as it stands."""
    freed: int
    """X: what the clear takes out of it and of all that follow."""
    behind: int
    """T: from the last live cache entry before the edit to the end, without what is freed."""
    requests: int
    """n: how many more requests are expected before the cache goes cold."""
    growth: int = 0
    """What a request adds to the next one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Balance:
    """What a clear brings in all, and how that was worked out."""

    gain_usd: float
    at_one_price_usd: float
    """The same without price cliffs: n·X·r - T·(w - r)."""
    arithmetic: JsonObject


def weigh(rewrite: Rewrite, profile: ModelProfile, *, lifetime_seconds: float) -> Balance | None:
    """What the clear brings over the requests expected; nothing where no price is known."""
    after = replace(rewrite, prompt=rewrite.prompt - rewrite.freed)
    tier = profile.tier(after.prompt)
    if tier is None:
        return None
    as_it_is = _course(rewrite, profile, lifetime_seconds, rewritten=0)
    cleared = _course(after, profile, lifetime_seconds, rewritten=rewrite.behind)
    write = _write(tier, lifetime_seconds)
    saved, broken = rewrite.requests * rewrite.freed * tier.read, rewrite.behind * (write - tier.read)
    gain, plain = (as_it_is - cleared) / PER_MILLION, (saved - broken) / PER_MILLION
    arithmetic: JsonObject = {
        "prompt": rewrite.prompt,
        "freed": rewrite.freed,
        "behind": rewrite.behind,
        "requests": rewrite.requests,
        "growth": rewrite.growth,
        "read_usd": tier.read,
        "write_usd": write,
        "gain_usd": round(gain, 6),
        "at_one_price_usd": round(plain, 6),
    }
    return Balance(gain_usd=gain, at_one_price_usd=plain, arithmetic=arithmetic)


@dataclass(frozen=True, slots=True)
class Pace:
    """How a session goes on, judged by how it went so far."""

    made: int
    """Requests so far."""
    ahead: int
    """Requests to expect before the cache goes cold."""


def pace(records: Iterable[Record], lifetime_seconds: float) -> Pace:
    """How many more requests to expect before the cache goes cold: as many as it took on average so far.

    Each request is taken to be as likely as any other to be the last before a pause, so that how many are
    to come does not depend on how many there were since the last one.
    """
    asked = [at for _, at in asked_at(records)]
    pauses = sum((later - earlier).total_seconds() >= lifetime_seconds for earlier, later in pairwise(asked))
    return Pace(made=len(asked), ahead=min(MAX_AHEAD, len(asked) // (pauses + 1)))


def _course(rewrite: Rewrite, profile: ModelProfile, lifetime_seconds: float, *, rewritten: int) -> float:
    """What the requests to come cost, in USD per million tokens: each reads the one before and adds to it."""
    total = 0.0
    for number in range(rewrite.requests):
        prompt = rewrite.prompt + number * rewrite.growth
        tier = profile.tier(prompt)
        assert tier is not None, "a model with one price has prices for every size"
        written = rewritten if number == 0 else rewrite.growth
        total += (prompt - written) * tier.read + written * _write(tier, lifetime_seconds)
    return total


def _write(tier: PriceTier, lifetime_seconds: float) -> float:
    return tier.write_1h if lifetime_seconds >= HOUR else tier.write_5m
