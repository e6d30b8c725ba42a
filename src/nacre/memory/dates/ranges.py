"""Date ranges that a question names, for comparison with the date of a memory.

"two weeks ago", "last Saturday", "in March", "on 13 October 2023", "in the past three months". Without the
day on which the question is asked, relative ranges are ignored.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import MAXYEAR, MINYEAR, date, timedelta

from nacre.memory.dates.absolute import DAY_MONTH, MONTH_DAY, partial_date
from nacre.memory.dates.calendar import MONTH_PATTERN, NUMBER_WORDS, WEEKDAYS, month_number

UNIT_DAYS = {"day": 1, "week": 7, "month": 30, "year": 365}
UNIT_SLACK = {"day": 1, "week": 3, "month": 10, "year": 60}
"""How many days off "N units ago" usually is: people round."""
MAX_DAYS = 36_500
ANY_YEAR = 2000
"""Stands in for a missing year; a leap year, so that 29 February exists."""

_COUNTS = {word: number for word, number in NUMBER_WORDS.items() if number <= 10} | {
    "couple of": 2, "a couple of": 2, "few": 3, "a few": 3, "several": 4,
}  # fmt: skip
_COUNT = r"\d+|" + "|".join(sorted(_COUNTS, key=len, reverse=True))
_ISO = re.compile(r"\b(\d{4})-(\d{2})-(\d{2})\b")
"""Not the date of a timestamp: times in a pasted log are not what a question is about."""
_NAMED_DAYS = (re.compile(DAY_MONTH, re.I), re.compile(MONTH_DAY, re.I))
_MONTH_ONLY = re.compile(rf"\b({MONTH_PATTERN})\b,?(?: of)?(?: (\d{{4}}))?", re.I)
_YEAR_ONLY = re.compile(r"\b(?:in|of|during|since) (\d{4})\b", re.I)
_AGO = re.compile(rf"\b({_COUNT}) (day|week|month|year)s? ago\b", re.I)
_PAST = re.compile(rf"\b(?:past|last|previous) ({_COUNT})? ?(day|week|month|year)s?\b", re.I)
_LAST_WEEKDAY = re.compile(rf"\b(?:last|past|on|this) ({'|'.join(WEEKDAYS)})\b", re.I)
_YESTERDAY = re.compile(r"\byesterday\b", re.I)


@dataclass(frozen=True)
class DateRange:
    """The days from `first` to `last`, both included; with `yearly`, in every year."""

    first: date
    last: date
    yearly: bool = False

    def distance(self, day: date) -> int:
        """Return how many days a day is outside the range; 0 inside."""
        if self.yearly:
            return min(self._in_year(day.year + offset).distance(day) for offset in (-1, 0, 1))
        if day < self.first:
            return (self.first - day).days
        return max(0, (day - self.last).days)

    def _in_year(self, year: int) -> DateRange:
        return DateRange(_with_year(self.first, year), _with_year(self.last, year))


def date_ranges(text: str, asked: date | None) -> list[DateRange]:
    """Return the date ranges that a text names: exact days, else relative ones, else months, else years."""
    return _exact_days(text) or _relative(text, asked) or _months(text) or _years(text)


def _exact_days(text: str) -> list[DateRange]:
    named = [tuple(map(int, parts)) for parts in _ISO.findall(text)]
    named += [
        found for form in _NAMED_DAYS for match in form.finditer(text) if (found := partial_date(match))
    ]
    ranges: list[DateRange] = []
    for year, *month_and_day in named:
        try:
            day = date(year or ANY_YEAR, *month_and_day)
        except (ValueError, TypeError):
            continue
        ranges.append(DateRange(day, day, yearly=not year))
    return ranges


def _relative(text: str, asked: date | None) -> list[DateRange]:
    if asked is None:
        return []
    found: list[DateRange] = []
    for count, unit in _AGO.findall(text):
        days = min(_number(count) * UNIT_DAYS[unit.lower()], MAX_DAYS)
        slack = timedelta(days=UNIT_SLACK[unit.lower()])
        middle = asked - timedelta(days=days)
        found.append(DateRange(middle - slack, middle + slack))
    for count, unit in _PAST.findall(text):
        days = min((_number(count) if count else 1) * UNIT_DAYS[unit.lower()], MAX_DAYS)
        found.append(DateRange(asked - timedelta(days=days + UNIT_SLACK[unit.lower()]), asked))
    for weekday in _LAST_WEEKDAY.findall(text):
        back = (asked.weekday() - WEEKDAYS.index(weekday.lower())) % 7 or 7
        found.append(DateRange(asked - timedelta(days=back), asked - timedelta(days=back - 1)))
    if _YESTERDAY.search(text):
        found.append(DateRange(asked - timedelta(days=1), asked))
    return found


def _months(text: str) -> list[DateRange]:
    found: list[DateRange] = []
    for name, year in _MONTH_ONLY.findall(text):
        # "may" and "march" are verbs far more often than months, unless capitalised.
        if name in {"may", "march", "mar", "sep", "dec", "jan"}:
            continue
        try:
            first = date(int(year or ANY_YEAR), month_number(name), 1)
            following = date(first.year + first.month // 12, first.month % 12 + 1, 1)
        except ValueError:
            continue
        found.append(DateRange(first, following - timedelta(days=1), yearly=not year))
    return found


def _years(text: str) -> list[DateRange]:
    years = (int(year) for year in _YEAR_ONLY.findall(text))
    return [DateRange(date(year, 1, 1), date(year, 12, 31)) for year in years if 1900 < year < 2200]


def _number(text: str) -> int:
    return int(text) if text.isdigit() else _COUNTS[text.lower()]


def _with_year(day: date, year: int) -> date:
    year = min(max(year, MINYEAR), MAXYEAR)
    try:
        return day.replace(year=year)
    except ValueError:
        return day.replace(year=year, day=28)
