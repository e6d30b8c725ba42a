"""When a dream is due: gates in order of their cost (D1, D7). Pure, no clock, no disk."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Literal, TypeAlias

Gate: TypeAlias = Literal[
    "background", "off", "no memory", "remote", "too soon", "scanned lately", "too few sessions", "resting",
    "locked", "open",
]  # fmt: skip
"""The gate that was closed after a turn, cheapest first; `open`: a dream was started."""
GATES: tuple[Gate, ...] = (
    "background", "off", "no memory", "remote", "too soon", "scanned lately", "too few sessions", "resting",
    "locked", "open",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class DreamSettings:
    """How often memory is consolidated, and how far one dream may go."""

    min_hours: float = 24.0
    """Hours between two dreams."""
    min_sessions: int = 5
    """Sessions since the last dream; fewer seldom leave anything to merge."""
    scan_seconds: float = 600.0
    """Seconds between two scans of the session logs, which may lie in many folders."""
    max_removed_share: float = 0.2
    """The share of memories that one dream may remove unless the person allows more."""
    max_failures: int = 3
    """After this many failed dreams in a row, none starts by itself before the next day."""
    max_seconds: float = 1_800.0
    """Shorter than the hour after which other processes treat a lock as abandoned."""
    max_tokens: int = 2_000_000
    """Sent and received, with cached ones: about forty requests about a large directory."""
    max_rounds: int = 40
    """Model calls of one dream; reading takes about ten, twice that in a large directory."""


DREAM = DreamSettings()


@dataclass(frozen=True, slots=True, kw_only=True)
class DreamConditions:
    """What the gates depend on; values that need disk access are functions, called when they are reached."""

    now: datetime
    is_main: bool = True
    is_on: bool = True
    """The switch."""
    has_memory: bool = True
    is_remote: bool = False
    last: Callable[[], datetime | None]
    """Returns the time of the last consolidation, or None; costs one stat."""
    scanned: datetime | None = None
    """The last scan of the session logs by this process."""
    sessions: Callable[[datetime | None], int]
    """Returns the number of sessions since then, without the current one."""
    failures: Callable[[], tuple[int, date | None]] = lambda: (0, None)
    """Returns the number of failed dreams in a row and the day of the last one."""
    is_daily: bool = False
    """Memory is one log per day (M17): a dream is due once a day, however few sessions there were."""
    is_forced: bool = False
    """Started by hand: time and number of sessions do not matter."""


def closed_gate(conditions: DreamConditions, settings: DreamSettings = DREAM) -> Gate | None:
    """Return the first closed gate; None if only the lock is left to be asked."""
    fixed: tuple[tuple[Gate, bool], ...] = (
        ("background", not conditions.is_main),
        ("off", not conditions.is_on),
        ("no memory", not conditions.has_memory),
        ("remote", conditions.is_remote),
    )
    for gate, is_closed in fixed:
        if is_closed:
            return gate
    return None if conditions.is_forced else _time_gate(conditions, settings)


def _time_gate(conditions: DreamConditions, settings: DreamSettings) -> Gate | None:
    last = conditions.last()
    if conditions.is_daily:
        if last is not None and _local_day(last) == _local_day(conditions.now):
            return "too soon"
        return "resting" if is_resting(conditions, settings) else None
    if last is not None and elapsed(last, conditions.now) < timedelta(hours=settings.min_hours):
        return "too soon"
    pause = timedelta(seconds=settings.scan_seconds)
    if conditions.scanned is not None and elapsed(conditions.scanned, conditions.now) < pause:
        return "scanned lately"
    if conditions.sessions(last) < settings.min_sessions:
        return "too few sessions"
    return "resting" if is_resting(conditions, settings) else None


def is_resting(conditions: DreamConditions, settings: DreamSettings = DREAM) -> bool:
    """Whether too many dreams failed today for another to start by itself."""
    count, day = conditions.failures()
    return count >= settings.max_failures and day == _local_day(conditions.now)


def elapsed(then: datetime, now: datetime) -> timedelta:
    """Return the distance of two times; absolute, so that a clock that was set back blocks no dreams."""
    return abs(now - then)


def may_remove(topics: int, settings: DreamSettings = DREAM) -> int:
    """Return how many of so many memories one dream may remove without permission."""
    return int(topics * settings.max_removed_share)


def _local_day(at: datetime) -> date:
    return at.astimezone().date()
