"""What may be spent on keeping the cache warm; apart, because every command loads its settings (C8b)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmingSettings:
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
