"""Names of months and weekdays, arithmetic on days, weeks and months, and the form of a date rule.

Arithmetic returns None where a person may mean either of two days.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable
from dataclasses import dataclass
from datetime import MAXYEAR, MINYEAR, date, timedelta
from typing import TypeAlias

MONTHS = ("january", "february", "march", "april", "may", "june", "july", "august", "september",
          "october", "november", "december")  # fmt: skip
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
MONTH_PATTERN = "|".join(MONTHS) + "|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec"
NUMBER_WORDS = {
    "a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6,
    "seven": 7, "eight": 8, "nine": 9, "ten": 10, "eleven": 11, "twelve": 12,
}  # fmt: skip
DAYS_PER_WEEK = 7
MONTHS_PER_YEAR = 12
THURSDAY = 3
FRIDAY = 4
SUNDAY = 6
MAX_DAYS_AHEAD = 300
"""A date without a year is at most this far ahead: a later one may be the one that has just passed."""
NEW_DAY_HOUR = 5
"""Before this hour people may still call the previous day `today`."""


@dataclass(frozen=True, slots=True)
class ReferenceDate:
    """The day and hour, in the person's time zone, from which relative dates are counted."""

    day: date
    hour: int

    @property
    def is_day_certain(self) -> bool:
        return self.hour >= NEW_DAY_HOUR


Renderer: TypeAlias = Callable[[re.Match[str], str, ReferenceDate], str | None]
"""Returns the absolute date for a match in a text; None when it is ambiguous."""


@dataclass(frozen=True, slots=True)
class DateRule:
    """A pattern for relative dates and what replaces a match."""

    pattern: re.Pattern[str]
    render: Renderer
    fits: Callable[[re.Match[str], str], bool] = lambda match, text: True


def month_number(name: str) -> int:
    """Return the number of a month by its English name or abbreviation."""
    return next(i for i, month in enumerate(MONTHS, 1) if month.startswith(name.lower()[:3]))


def add_days(reference: ReferenceDate, days: int) -> date | None:
    """Return the day that many days later; None before 5 o'clock, when `today` is ambiguous."""
    return reference.day + timedelta(days=days) if reference.is_day_certain else None


def monday_of_week(reference: ReferenceDate, weeks: int) -> date | None:
    """Return the Monday of another week; None on a Sunday, which may end or begin a week."""
    weekday = reference.day.weekday()
    if weekday == SUNDAY or (weekday == 0 and not reference.is_day_certain):
        return None
    return reference.day - timedelta(days=weekday) + timedelta(weeks=weeks)


def add_months(reference: ReferenceDate, months: int) -> tuple[int, int] | None:
    """Return year and month that many months later; None in the night before the first day of a month."""
    if reference.day.day == 1 and not reference.is_day_certain:
        return None
    count = reference.day.year * MONTHS_PER_YEAR + reference.day.month - 1 + months
    year, month = divmod(count, MONTHS_PER_YEAR)
    return (year, month + 1) if MINYEAR <= year <= MAXYEAR else None


def add_years(reference: ReferenceDate, years: int) -> int | None:
    found = add_months(reference, years * MONTHS_PER_YEAR)
    return found[0] if found else None


def last_weekday(reference: ReferenceDate, weekday: int) -> date | None:
    """`last Tuesday`: the latest one, if it is also the one of last week, however weeks begin."""
    latest = reference.day - timedelta(days=(reference.day.weekday() - weekday - 1) % DAYS_PER_WEEK + 1)
    return _if_unambiguous(reference, latest, weekday, weeks=-1)


def next_weekday(reference: ReferenceDate, weekday: int) -> date | None:
    """`next Tuesday`: the first one after today, if it is also the one of next week."""
    return _if_unambiguous(reference, coming_weekday(reference, weekday), weekday, weeks=1)


def this_weekday(reference: ReferenceDate, weekday: int) -> date | None:
    """`this Tuesday`: the one of this week, if it is not over yet."""
    days = weekday - reference.day.weekday()
    return reference.day + timedelta(days=days) if days >= 0 and reference.is_day_certain else None


def coming_weekday(reference: ReferenceDate, weekday: int) -> date:
    """Return the first such weekday after today."""
    return reference.day + timedelta(days=(weekday - reference.day.weekday() - 1) % DAYS_PER_WEEK + 1)


def past_weekday(reference: ReferenceDate, weekday: int) -> date | None:
    """Return the latest such weekday before today; None on that weekday, which may be meant itself."""
    if weekday == reference.day.weekday() or not reference.is_day_certain:
        return None
    return reference.day - timedelta(days=(reference.day.weekday() - weekday) % DAYS_PER_WEEK)


def month_end(year: int, month: int) -> date:
    return date(year, month, monthrange(year, month)[1])


def coming_day(reference: ReferenceDate, day: int) -> date | None:
    """`the 30th`: today or the next such day, in this month or the next; None where neither has it."""
    for months in (0, 1):
        found = add_months(reference, months)
        if found and day <= monthrange(*found)[1] and date(*found, day) >= reference.day:
            return date(*found, day)
    return None


def coming_date(reference: ReferenceDate, month: int, day: int) -> date | None:
    """`November 8`: the next such day; None for one that was only weeks ago, which may be meant as well."""
    for year in (reference.day.year, reference.day.year + 1):
        if year > MAXYEAR or not 1 <= day <= monthrange(year, month)[1]:
            return None
        found = date(year, month, day)
        if found >= reference.day:
            return found if (found - reference.day).days <= MAX_DAYS_AHEAD else None
    return None


def _if_unambiguous(reference: ReferenceDate, nearest: date, weekday: int, *, weeks: int) -> date | None:
    """Return the nearest day if weeks that begin on Monday and weeks that begin on Sunday both give it."""
    monday = reference.day - timedelta(days=reference.day.weekday())
    sunday = reference.day - timedelta(days=(reference.day.weekday() + 1) % DAYS_PER_WEEK)
    from_monday = monday + timedelta(weeks=weeks, days=weekday)
    from_sunday = sunday + timedelta(weeks=weeks, days=(weekday + 1) % DAYS_PER_WEEK)
    return nearest if reference.is_day_certain and nearest == from_monday == from_sunday else None
