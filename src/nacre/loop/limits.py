"""Limits of a turn, and the thresholds of a model's window (C3)."""

from __future__ import annotations

from dataclasses import dataclass

DEFAULT_WINDOW = 200_000
"""The assumed window of an unknown model."""
LONG_WINDOW = 1_000_000
"""The window of the `[1m]` suffix and the long-context beta."""
LONG_WINDOW_BETA = "context-1m-2025-08-07"

RESERVE_TOKENS = 20_000
RESERVE_SHARE = 0.10
"""Reserved for the reply: a summary is shorter than this in 99.99 of 100 cases."""
AUTOCOMPACT_TOKENS = 13_000
AUTOCOMPACT_SHARE = 0.065
"""Distance of compaction from the effective window, so that it starts before a request is refused."""
WARNING_TOKENS = 20_000
WARNING_SHARE = 0.10
"""Distance of the warning from compaction."""
BLOCKING_TOKENS = 3_000
BLOCKING_SHARE = 0.015
"""Distance from the effective window within which nothing is sent, because estimates are inexact."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of one turn."""

    max_rounds: int = 100
    """Model calls in one turn: enough for real work, few enough to stop an endless loop."""
    max_output: int = 8_192
    """Output tokens of one reply: enough for nearly every reply, and a small part of the window."""
    raised_output: int = 64_000
    """Output tokens of the second attempt after a reply was cut off."""
    max_continues: int = 3
    """How often a reply that is cut off again is continued."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """Sizes of a request, in tokens, at which something happens."""

    window: int
    effective: int
    warning: int
    autocompact: int
    blocking: int


def window(model: str, *, known: int | None, betas: tuple[str, ...] = (), ceiling: int | None = None) -> int:
    """Return how many tokens a model accepts; `known` is from the model table, `ceiling` from the user."""
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
    """Return the thresholds of a window; `percent` and `compact_window` can only lower compaction."""
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
