"""Settings of a session's requests and of its spending limits; light, because every command loads them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from nacre.cache.models import ThinkingLevel
from nacre.cache.warmth import Lifetime


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSettings:
    """Settings of a session's requests."""

    max_output: int = 8_192
    """Output tokens of a request: enough for nearly every reply, and a small part of the window."""
    output_ceiling: int | None = None
    """Output tokens that no request may exceed, also of forks; a summary may have 2,000 in any case."""
    cache_ttl: Lifetime | Literal["auto"] = "5m"
    """How long the provider keeps the prefix; five minutes costs least to write.

    `auto` chooses by the session's own pauses whenever the cache is cold (C31c).
    """
    thinking: ThinkingLevel | None = None
    """How much the model thinks; None sends nothing and leaves it to the model (P8)."""
    window_ceiling: int | None = None
    compact_percent: float | None = None
    compact_window: int | None = None
    strict_prefix: bool = False
    """Raise `PrefixMoved` when bytes that were already sent change; otherwise only warn."""


DEFAULT_SETTINGS = SessionSettings()


@dataclass(frozen=True, slots=True, kw_only=True)
class SpendSettings:
    """Limits at which agents and background work stop (F5); None means no limit.

    All requests count, including the conversation, which itself is never stopped, and those of teammates in
    their own processes.
    """

    turn_usd: float | None = 10.0
    """US dollars since the last prompt; few turns cost more, and work that runs unasked ends here."""
    turn_tokens: int | None = 50_000_000
    """Tokens since the last prompt, sent and received, including cached ones."""
    session_usd: float | None = None
    """US dollars of the whole session, including what came before a resume."""
    session_tokens: int | None = None
    """Tokens of the whole session."""
    day_usd: float | None = None
    """US dollars of today, over all sessions with a limit by the day."""
    day_tokens: int | None = None
    """Tokens of today, over all sessions with a limit by the day."""
    agent_usd: float | None = None
    """US dollars of one agent, with the agents that it starts in its own process."""
    agent_tokens: int | None = None
    """Tokens of one agent."""
