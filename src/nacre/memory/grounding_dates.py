"""The dates a text names, in whatever form, and those that follow from when something was said (E9)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import TypeAlias

from nacre.memory.when import resolved

Day: TypeAlias = tuple[int, ...]
"""Year and month, or year, month and day; the year is 0 where none is named."""

NEAR_DAYS = 14
"""A weekday in somebody's mouth means one of so many days around."""
_MONTHS = {
    name: number
    for number, names in enumerate(
        "january jan|february feb|march mar|april apr|may|june jun|july jul|august aug|september sep sept|"
        "october oct|november nov|december dec".split("|"),
        1,
    )
    for name in names.split()
}
_NAMES = "|".join(sorted(_MONTHS, key=len, reverse=True))
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_HAN_WEEKDAYS = "一二三四五六日"
_FORMS = (
    re.compile(r"(?<![\d.-])(?P<y>\d{4})[-/.](?P<m>\d{1,2})(?:[-/.](?P<d>\d{1,2}))?(?![\d-])"),
    re.compile(r"(?P<y>\d{4})\s*年\s*(?P<m>\d{1,2})\s*月(?:\s*(?P<d>\d{1,2})\s*[日号])?"),
    re.compile(r"(?<!\d)(?P<m>\d{1,2})\s*月\s*(?P<d>\d{1,2})\s*[日号]"),
    re.compile(
        rf"\b(?P<d>\d{{1,2}})(?:st|nd|rd|th)?(?: of)? (?P<n>{_NAMES})\b\.?(?:,? (?P<y>\d{{4}}))?",
        re.IGNORECASE,
    ),
    re.compile(
        rf"\b(?P<n>{_NAMES})\b\.? (?P<d>\d{{1,2}})(?:st|nd|rd|th)?\b(?:,? (?P<y>\d{{4}}))?", re.IGNORECASE
    ),
    re.compile(rf"\b(?P<n>{_NAMES})\b\.?,? (?P<y>\d{{4}})\b", re.IGNORECASE),
)


def dates_of(text: str) -> Iterator[Day]:
    """Every date that is named; a number of a thirteenth month is none."""
    for form in _FORMS:
        for match in form.finditer(text):
            if (found := _day(match)) is not None:
                yield found


def without_dates(text: str) -> tuple[list[str], str]:
    """The dates as they are written, and the text without them."""
    found: list[str] = []

    def taken(match: re.Match[str]) -> str:
        if _day(match) is None:
            return match[0]
        found.append(match[0])
        return " " * len(match[0])

    for form in _FORMS:
        text = form.sub(taken, text)
    return found, text


def following(texts: Sequence[str], at: datetime, zone: tzinfo) -> frozenset[Day]:
    """The dates that relative ones in these texts mean when they are said then."""
    return frozenset(day for text in texts for day in dates_of(resolved(text, at, zone)))


def is_near(day: Day, at: datetime, said: str) -> bool:
    """Whether it is the day itself on which something was said, or the near weekday that was named."""
    if len(day) < 3:
        return day == (at.year, at.month)
    with suppress(ValueError):
        one = date(day[0] or at.year, day[1], day[2])
        distance = abs(one - at.astimezone(UTC).date())
        # Where the person is, it may be another day already.
        if distance <= timedelta(days=1):
            return True
        signs = (f"周{_HAN_WEEKDAYS[one.weekday()]}", f"星期{_HAN_WEEKDAYS[one.weekday()]}")
        is_named = any(sign in said for sign in (_WEEKDAYS[one.weekday()], *signs))
        return is_named and distance <= timedelta(days=NEAR_DAYS)
    return False


def _day(match: re.Match[str]) -> Day | None:
    parts = match.groupdict()
    month = _MONTHS[parts["n"].lower()] if parts.get("n") else int(parts["m"])
    year, day = int(parts.get("y") or 0), int(parts.get("d") or 0)
    if not (1 <= month <= 12 and day <= 31):
        return None
    return (year, month, day) if day else (year, month)
