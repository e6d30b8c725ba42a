"""Whether the provider still remembers the prefix: judged by the clock, just before a request (C9, C12)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

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
