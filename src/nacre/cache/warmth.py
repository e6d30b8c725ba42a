"""How long the provider keeps a prefix cached, and the settings for keeping it warm (C8b, C9, C12)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

Lifetime = Literal["5m", "1h", "mixed"]
"""`mixed`: the head, which outlives pauses, for an hour; what moves with every request for five minutes."""


FIVE_MINUTES = 300.0
HOUR = 3_600.0
"""The two lifetimes a prefix can be asked to have, in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Warmth:
    """What is known about the provider's cache at a moment."""

    now: datetime
    touched_at: datetime | None = None
    """When the last request or refresh of the session began; none means that there was none."""
    lifetime_seconds: float = FIVE_MINUTES
    """How long an entry lives after it was last used."""

    @property
    def idle_seconds(self) -> float:
        """How long nothing was asked; a clock that was set back means no time at all."""
        if self.touched_at is None:
            return 0.0
        return max(0.0, (self.now - self.touched_at).total_seconds())

    @property
    def is_cold(self) -> bool:
        """Whether the prefix must be paid for again; a first request has nothing to lose."""
        return self.touched_at is not None and self.idle_seconds >= self.lifetime_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepWarmSettings:
    """How much may be spent on keeping the cache warm."""

    margin_seconds: float = 30.0
    """How long before an entry expires it is refreshed: room for a slow connection, little life wasted."""
    max_refreshes: int = 4
    """In one pause: past twenty minutes few people come back soon."""
    max_read_share: float = 0.1
    """Of the input price: where reads cost more, letting go is as cheap."""
    max_usd: float = 1.00
    """Of one session: money spent while nobody looks must stay small change."""
    max_share: float = 0.10
    """Of what the session itself has cost, so that a cheap session is never mostly upkeep."""
