"""Dates a question speaks of, as ranges of days a memory's own date can fall into.

"two weeks ago", "last Saturday", "in March", "on 13 October 2023", "in the past three months".
Relative words need the day of asking; without one they say nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, timedelta

MONTHS = ("january", "february", "march", "april", "may", "june", "july", "august", "september",
          "october", "november", "december")  # fmt: skip
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
COUNTS = {"a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6,
          "seven": 7, "eight": 8, "nine": 9, "ten": 10, "couple of": 2, "a couple of": 2,
          "few": 3, "a few": 3, "several": 4}  # fmt: skip
UNIT_DAYS = {"day": 1, "week": 7, "month": 30, "year": 365}
UNIT_SLACK = {"day": 1, "week": 3, "month": 10, "year": 60}
"""How many days off "N units ago" usually is: people round."""

_MONTH = "|".join(MONTHS) + "|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec"
_COUNT = r"\d+|" + "|".join(sorted(COUNTS, key=len, reverse=True))
ISO = re.compile(r"\b(\d{4})-(\d{2})-(\d{2})\b")
DAY_MONTH = re.compile(rf"\b(\d{{1,2}})(?:st|nd|rd|th)?(?: of)? ({_MONTH})\b\.?,?(?: (\d{{4}}))?", re.I)
MONTH_DAY = re.compile(rf"\b({_MONTH})\.? (\d{{1,2}})(?:st|nd|rd|th)?\b(?!:),?(?: (\d{{4}}))?", re.I)
MONTH_ONLY = re.compile(rf"\b({_MONTH})\b,?(?: of)?(?: (\d{{4}}))?", re.I)
YEAR_ONLY = re.compile(r"\b(?:in|of|during|since) (\d{4})\b", re.I)
AGO = re.compile(rf"\b({_COUNT}) (day|week|month|year)s? ago\b", re.I)
PAST = re.compile(rf"\b(?:past|last|previous) ({_COUNT})? ?(day|week|month|year)s?\b", re.I)
LAST_DAY = re.compile(rf"\b(?:last|past|on|this) ({'|'.join(WEEKDAYS)})\b", re.I)
YESTERDAY = re.compile(r"\byesterday\b", re.I)


@dataclass(frozen=True)
class Span:
    """Days from `first` to `last`, both included; a missing year matches every year."""

    first: date
    last: date
    yearly: bool = False

    def distance(self, day: date) -> int:
        """How many days outside the span; 0 inside."""
        if self.yearly:
            spans = [_moved(self, day.year + k) for k in (-1, 0, 1)]
            return min(span.distance(day) for span in spans)
        if day < self.first:
            return (self.first - day).days
        return max(0, (day - self.last).days)


def spans(text: str, asked: date | None) -> list[Span]:
    """Every span of days the text names, most exact reading only."""
    exact = _exact_days(text)
    if exact:
        return exact
    return _relative(text, asked) or _months(text)


def _exact_days(text: str) -> list[Span]:
    found: list[Span] = []
    for year, month, day in ISO.findall(text):
        found.extend(_day(int(day), int(month), year))
    for day, month, year in DAY_MONTH.findall(text):
        found.extend(_day(int(day), _month_number(month), year))
    for month, day, year in MONTH_DAY.findall(text):
        found.extend(_day(int(day), _month_number(month), year))
    return found


def _day(day: int, month: int, year: str) -> list[Span]:
    try:
        when = date(int(year or 2000), month, day)
    except ValueError:
        return []
    return [Span(when, when, yearly=not year)]


def _relative(text: str, asked: date | None) -> list[Span]:
    if asked is None:
        return []
    found: list[Span] = []
    for count, unit in AGO.findall(text):
        days = _count(count) * UNIT_DAYS[unit.lower()]
        slack = UNIT_SLACK[unit.lower()]
        middle = asked - timedelta(days=min(days, 36500))
        found.append(Span(middle - timedelta(days=slack), middle + timedelta(days=slack)))
    for count, unit in PAST.findall(text):
        days = (_count(count) if count else 1) * UNIT_DAYS[unit.lower()]
        found.append(Span(asked - timedelta(days=min(days, 36500) + UNIT_SLACK[unit.lower()]), asked))
    for weekday in LAST_DAY.findall(text):
        back = (asked.weekday() - WEEKDAYS.index(weekday.lower())) % 7 or 7
        found.append(Span(asked - timedelta(days=back), asked - timedelta(days=back - 1)))
    if YESTERDAY.search(text):
        found.append(Span(asked - timedelta(days=1), asked))
    return found


def _months(text: str) -> list[Span]:
    found: list[Span] = []
    for month, year in MONTH_ONLY.findall(text):
        # "may" and "march" are verbs far more often than months, unless written large.
        if month in {"may", "march", "mar", "sep", "dec", "jan"}:
            continue
        found.append(_month_span(int(year or 2000), _month_number(month), yearly=not year))
    if not found:
        years = (int(year) for year in YEAR_ONLY.findall(text))
        found = [Span(date(y, 1, 1), date(y, 12, 31)) for y in years if 1900 < y < 2200]
    return found


def _month_span(year: int, month: int, *, yearly: bool) -> Span:
    after = date(year + month // 12, month % 12 + 1, 1)
    return Span(date(year, month, 1), after - timedelta(days=1), yearly=yearly)


def _month_number(name: str) -> int:
    return next(i for i, month in enumerate(MONTHS, 1) if month.startswith(name.lower()[:3]))


def _count(text: str) -> int:
    return int(text) if text.isdigit() else COUNTS[text.lower()]


def _moved(span: Span, year: int) -> Span:
    shift = year - span.first.year
    return Span(_same_day(span.first, year), _same_day(span.last, span.last.year + shift))


def _same_day(day: date, year: int) -> date:
    try:
        return day.replace(year=year)
    except ValueError:
        return day.replace(year=year, day=28)
