"""How far a turn may go: the window and its thresholds (C3), rounds, output, and the order of recovery."""

from __future__ import annotations

from dataclasses import dataclass

DEFAULT_WINDOW = 200_000
"""What a model of which nothing is known is assumed to accept."""
LONG_WINDOW = 1_000_000
"""What the `[1m]` suffix and the long-context beta ask for."""
LONG_WINDOW_BETA = "context-1m-2025-08-07"

RESERVE_TOKENS = 20_000
RESERVE_SHARE = 0.10
"""Kept free for the reply: a summary is shorter than this in 99.99 of 100 cases."""
AUTOCOMPACT_TOKENS = 13_000
AUTOCOMPACT_SHARE = 0.065
"""Kept free below the effective window, so that compaction starts before a request is refused."""
WARNING_TOKENS = 20_000
WARNING_SHARE = 0.10
"""How long before compaction the person is told."""
BLOCKING_TOKENS = 3_000
BLOCKING_SHARE = 0.015
"""Closer than this to the effective window nothing is sent: the estimate may be that far off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one turn may use up."""

    max_rounds: int = 100
    """Model calls in one turn: long enough for real work, short enough to stop a loop that goes nowhere."""
    max_output: int = 8_192
    """Tokens of one reply: enough for nearly every reply, and little of the window is kept free for it."""
    raised_output: int = 64_000
    """Tokens of the one second try after a reply was cut off."""
    max_continues: int = 3
    """How often a reply that is cut off even so is asked to go on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """Where in the window something happens, in tokens."""

    window: int
    effective: int
    warning: int
    autocompact: int
    blocking: int


def window(model: str, *, known: int | None, betas: tuple[str, ...] = (), ceiling: int | None = None) -> int:
    """How many tokens this model accepts; `known` comes from the rules file, `ceiling` from the user."""
    if model.endswith("[1m]"):
        size = LONG_WINDOW
    elif known is not None:
        size = known
    elif LONG_WINDOW_BETA in betas:
        size = LONG_WINDOW
    else:
        return ceiling or DEFAULT_WINDOW
    return min(size, ceiling) if ceiling else size


def thresholds(
    window: int, *, max_output: int, percent: float | None = None, compact_window: int | None = None
) -> Thresholds:
    """The thresholds of a window; `percent` and `compact_window` can lower compaction, never raise it."""
    effective = _effective(window, max_output)
    compact_at = _compact_at(window, max_output)
    if compact_window:
        compact_at = min(compact_at, _compact_at(min(window, compact_window), max_output))
    if percent:
        compact_at = min(compact_at, int(effective * percent / 100))
    return Thresholds(
        window=window,
        effective=effective,
        warning=max(0, compact_at - _smaller(window, WARNING_TOKENS, WARNING_SHARE)),
        autocompact=compact_at,
        blocking=effective - _smaller(window, BLOCKING_TOKENS, BLOCKING_SHARE),
    )


def _effective(window: int, max_output: int) -> int:
    return window - min(max_output, _smaller(window, RESERVE_TOKENS, RESERVE_SHARE))


def _compact_at(window: int, max_output: int) -> int:
    return _effective(window, max_output) - _smaller(window, AUTOCOMPACT_TOKENS, AUTOCOMPACT_SHARE)


def _smaller(window: int, tokens: int, share: float) -> int:
    return min(tokens, round(window * share))
