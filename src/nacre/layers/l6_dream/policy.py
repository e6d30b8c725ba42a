"""When a dream is due, by gates in order of their cost, and when it is stopped (D1, D7): pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Literal, TypeAlias

Gate: TypeAlias = Literal[
    "background", "off", "no memory", "remote", "too soon", "scanned lately", "too few sessions", "resting",
    "locked", "open",
]  # fmt: skip
"""Where a turn's question stopped, cheapest first; `open`: a dream began."""
GATES: tuple[Gate, ...] = (
    "background", "off", "no memory", "remote", "too soon", "scanned lately", "too few sessions", "resting",
    "locked", "open",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class DreamSettings:
    """How often memory is consolidated, and how far one dream may go."""

    min_hours: float = 24.0
    """Hours between two dreams: what one day brings is enough to sort."""
    min_sessions: int = 5
    """Sessions since the last dream; fewer seldom bring anything that needs to be put together."""
    scan_seconds: float = 600.0
    """Between two looks at the transcripts: they lie in as many folders as people worked in."""
    max_removed_share: float = 0.2
    """Of the topics, so much may go in one dream unless the person says yes: a bad one stays small."""
    max_failures: int = 3
    """Failed dreams in a row from which on none begins by itself before the next day."""
    max_seconds: float = 1_800.0
    """Less than the hour after which others take a lock for abandoned."""
    max_tokens: int = 2_000_000
    """Sent and received, cached ones included: about forty requests of a well-filled directory."""
    max_rounds: int = 40
    """Model calls of one dream; orientation and reading take about ten, a large directory twice that."""


DREAM = DreamSettings()


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """What the gates are asked about; what costs a look at the disk is a function, called when reached."""

    now: datetime
    is_main: bool = True
    is_on: bool = True
    """The switch."""
    has_memory: bool = True
    is_remote: bool = False
    last: Callable[[], datetime | None]
    """When memory was last consolidated: one stat. None: never."""
    scanned: datetime | None = None
    """When this process last looked at the transcripts."""
    sessions: Callable[[datetime | None], int]
    """How many were touched since, without the present one."""
    failures: Callable[[], tuple[int, date | None]] = lambda: (0, None)
    """How many dreams failed in a row, and the day of the last of them."""
    is_daily: bool = False
    """Memory is a log a day (M17): a dream is due once after midnight, however few sessions there were."""
    is_forced: bool = False
    """Asked for by hand: time and count do not matter."""


def stops_at(moment: Moment, settings: DreamSettings = DREAM) -> Gate | None:
    """The first gate that says no; none: only the lock is left to be asked."""
    for gate, is_shut in (
        ("background", not moment.is_main),
        ("off", not moment.is_on),
        ("no memory", not moment.has_memory),
        ("remote", moment.is_remote),
    ):
        if is_shut:
            return gate  # type: ignore[return-value]
    return None if moment.is_forced else _by_time(moment, settings)


def _by_time(moment: Moment, settings: DreamSettings) -> Gate | None:
    last = moment.last()
    if moment.is_daily:
        if last is not None and _day(last) == _day(moment.now):
            return "too soon"
        return "resting" if is_resting(moment, settings) else None
    if last is not None and elapsed(last, moment.now) < timedelta(hours=settings.min_hours):
        return "too soon"
    pause = timedelta(seconds=settings.scan_seconds)
    if moment.scanned is not None and elapsed(moment.scanned, moment.now) < pause:
        return "scanned lately"
    if moment.sessions(last) < settings.min_sessions:
        return "too few sessions"
    return "resting" if is_resting(moment, settings) else None


def is_resting(moment: Moment, settings: DreamSettings = DREAM) -> bool:
    """Whether so many dreams failed in a row that the next one waits for the next day."""
    count, day = moment.failures()
    return count >= settings.max_failures and day == _day(moment.now)


def elapsed(then: datetime, now: datetime) -> timedelta:
    """How far apart two moments are: a clock that was put back must not keep dreams away for ever."""
    return abs(now - then)


def may_remove(topics: int, settings: DreamSettings = DREAM) -> int:
    """How many of so many topics one dream may take away without being told to."""
    return int(topics * settings.max_removed_share)


def _day(at: datetime) -> date:
    """By the clock on the person's wall."""
    return at.astimezone().date()
