"""How much background work may cost: settings, read before anything else is loaded."""

from __future__ import annotations

from dataclasses import dataclass


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
