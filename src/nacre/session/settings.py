"""Settings of a session's requests and of its spending limits; light, because every command loads them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from nacre.cache.warmth import Lifetime


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSettings:
    """What a person may set about a session's requests."""

    max_output: int = 8_192
    """Tokens of one reply: enough for nearly every one, and little of the window is kept free for it."""
    cache_ttl: Lifetime | Literal["auto"] = "5m"
    """How long the provider keeps the prefix: five minutes is the cheaper write.

    `auto` chooses by the session's own pauses, wherever the cache is cold (C31c).
    """
    window_ceiling: int | None = None
    compact_percent: float | None = None
    compact_window: int | None = None
    strict_prefix: bool = False
    """Raise when bytes already sent change unannounced; otherwise it is only reported."""


DEFAULT_SETTINGS = SessionSettings()


@dataclass(frozen=True, slots=True, kw_only=True)
class SpendSettings:
    """What a session may have cost when background work stops (F5); None: no cap.

    All that was paid counts, the conversation included; the conversation itself is never stopped.
    """

    turn_usd: float | None = None
    """US dollars since the last words of the person."""
    turn_tokens: int | None = None
    """Tokens since then, sent and received, cached ones included."""
    session_usd: float | None = None
    """US dollars of the whole session, as it was resumed."""
    session_tokens: int | None = None
    """Tokens of the whole session."""
    day_usd: float | None = None
    """US dollars of today, of all sessions that have a cap by the day."""
    day_tokens: int | None = None
    """Tokens of today, of all sessions that have a cap by the day."""
