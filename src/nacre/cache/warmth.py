"""How long the provider keeps a prefix cached, and the settings for keeping it warm (C8b, C9, C12)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

Lifetime = Literal["5m", "1h", "mixed"]
"""`mixed` keeps system, tools and opening for an hour, and the growing rest for five minutes."""


FIVE_MINUTES = 300.0
HOUR = 3_600.0
"""The two lifetimes a prefix can be asked to have, in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Warmth:
    """The state of the provider's cache at a moment, by the clock."""

    now: datetime
    touched_at: datetime | None = None
    """When the last request or refresh began; None if there was none."""
    lifetime_seconds: float = FIVE_MINUTES
    """How long an entry is kept after its last use."""

    @property
    def idle_seconds(self) -> float:
        """Seconds since the last request; 0 if the clock was set back."""
        if self.touched_at is None:
            return 0.0
        return max(0.0, (self.now - self.touched_at).total_seconds())

    @property
    def is_cold(self) -> bool:
        """Whether the cached prefix has expired; False before the first request."""
        return self.touched_at is not None and self.idle_seconds >= self.lifetime_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepWarmSettings:
    """Limits for keeping the cache warm (C8b)."""

    margin_seconds: float = 30.0
    """How long before its expiry an entry is refreshed; leaves time for a slow connection."""
    max_refreshes: int = 4
    """Limit for one pause: after twenty minutes few people return soon."""
    max_read_share: float = 0.1
    """Highest price of cache reads as a share of the input price; above it, expiry is as cheap."""
    max_usd: float = 1.00
    """Limit for one session."""
    max_share: float = 0.10
    """Limit as a share of the cost of the session itself."""
