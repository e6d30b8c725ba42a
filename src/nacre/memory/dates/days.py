"""Days, weeks and months counted from the day on which something was said; what is not certain is None."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import MAXYEAR, MINYEAR, date, timedelta

SMALL_HOURS = 5
"""Until this hour people may still call the day before `today`."""
SUNDAY = 6
DAYS = 7
MONTHS = 12


@dataclass(frozen=True, slots=True)
class Said:
    """When something was said, by the person's own clock."""

    day: date
    hour: int

    @property
    def is_day_certain(self) -> bool:
        return self.hour >= SMALL_HOURS


@dataclass(frozen=True, slots=True)
class Rule:
    """A way to speak of a day, and what it comes to."""

    pattern: re.Pattern[str]
    render: Callable[[re.Match[str], str, Said], str | None]
    """From the match, the whole text and the day; none: it cannot be told."""
    fits: Callable[[re.Match[str], str], bool] = lambda match, text: True


def day_off(said: Said, days: int) -> date | None:
    """So many days later; in the small hours nobody knows from which day on a person counts."""
    return said.day + timedelta(days=days) if said.is_day_certain else None


def week_off(said: Said, weeks: int) -> date | None:
    """The Monday of another week; on a Sunday a week ends for some and begins for others."""
    if said.day.weekday() == SUNDAY or (said.day.weekday() == 0 and not said.is_day_certain):
        return None
    return said.day - timedelta(days=said.day.weekday()) + timedelta(weeks=weeks)


def month_off(said: Said, months: int) -> tuple[int, int] | None:
    """Year and month, so many months later; none in the night in which the month may not have begun."""
    if said.day.day == 1 and not said.is_day_certain:
        return None
    count = said.day.year * MONTHS + said.day.month - 1 + months
    year, month = divmod(count, MONTHS)
    return (year, month + 1) if MINYEAR <= year <= MAXYEAR else None


def year_off(said: Said, years: int) -> int | None:
    found = month_off(said, years * MONTHS)
    return found[0] if found else None


def last_weekday(said: Said, weekday: int) -> date | None:
    """`last Tuesday`: the latest one, if that is also the one of the last week, however weeks begin."""
    latest = said.day - timedelta(days=(said.day.weekday() - weekday - 1) % DAYS + 1)
    return _agreed(said, latest, weekday, weeks=-1)


def next_weekday(said: Said, weekday: int) -> date | None:
    """`next Tuesday`: the first one to come, if that is also the one of the next week."""
    return _agreed(said, coming_weekday(said, weekday), weekday, weeks=1)


def this_weekday(said: Said, weekday: int) -> date | None:
    """`this Tuesday`: the one of this week, if it is still to come."""
    first = said.day + timedelta(days=(weekday - said.day.weekday()) % DAYS)
    return _agreed(said, first, weekday, weeks=0)


def coming_weekday(said: Said, weekday: int) -> date:
    """The first one behind today."""
    return said.day + timedelta(days=(weekday - said.day.weekday() - 1) % DAYS + 1)


def past_weekday(said: Said, weekday: int) -> date | None:
    """The latest one before today; on that very day it may be meant itself."""
    if weekday == said.day.weekday() or not said.is_day_certain:
        return None
    return said.day - timedelta(days=(said.day.weekday() - weekday) % DAYS)


def _agreed(said: Said, nearest: date, weekday: int, *, weeks: int) -> date | None:
    monday = said.day - timedelta(days=said.day.weekday())
    sunday = said.day - timedelta(days=(said.day.weekday() + 1) % DAYS)
    from_monday = monday + timedelta(weeks=weeks, days=weekday)
    from_sunday = sunday + timedelta(weeks=weeks, days=(weekday + 1) % DAYS)
    return nearest if said.is_day_certain and nearest == from_monday == from_sunday else None
