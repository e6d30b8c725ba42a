"""Absolute dates in text, in English, Chinese and numeric notation."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date
from functools import cache
from typing import TypeAlias

from nacre.memory.dates.calendar import MONTH_PATTERN, month_number

PartialDate: TypeAlias = tuple[int, ...]
"""Year and month, or year, month and day; the year is 0 where the text names none."""

DAY_MONTH = rf"\b(?P<d>\d{{1,2}})(?:st|nd|rd|th)?(?: of)? (?P<n>{MONTH_PATTERN})\b\.?(?:,? (?P<y>\d{{4}}))?"
MONTH_DAY = rf"\b(?P<n>{MONTH_PATTERN})\b\.? (?P<d>\d{{1,2}})(?:st|nd|rd|th)?\b(?!:\d)(?:,? (?P<y>\d{{4}}))?"

_FULL = r"(?<![\d-])(\d{4})-(\d{2})-(\d{2})(?![\d-])|(\d{4})年(\d{1,2})月(\d{1,2})日"


@cache
def _patterns() -> tuple[re.Pattern[str], ...]:
    forms = (
        r"(?<![\d.-])(?P<y>\d{4})[-/.](?P<m>\d{1,2})(?:[-/.](?P<d>\d{1,2}))?(?![\d-])",
        r"(?P<y>\d{4})\s*年\s*(?P<m>\d{1,2})\s*月(?:\s*(?P<d>\d{1,2})\s*[日号])?",
        r"(?<!\d)(?P<m>\d{1,2})\s*月\s*(?P<d>\d{1,2})\s*[日号]",
        DAY_MONTH,
        MONTH_DAY,
        rf"\b(?P<n>{MONTH_PATTERN})\b\.?,? (?P<y>\d{{4}})\b",
    )
    return tuple(re.compile(form, re.IGNORECASE) for form in forms)


def find_dates(text: str) -> Iterator[PartialDate]:
    """Yield every date that the text names, in any notation."""
    for pattern in _patterns():
        for match in pattern.finditer(text):
            if (found := partial_date(match)) is not None:
                yield found


def without_dates(text: str) -> tuple[list[str], str]:
    """Return the dates as they are written, and the text with blanks in their place."""
    found: list[str] = []

    def blank(match: re.Match[str]) -> str:
        if partial_date(match) is None:
            return match[0]
        found.append(match[0])
        return " " * len(match[0])

    for pattern in _patterns():
        text = pattern.sub(blank, text)
    return found, text


def full_dates(text: str) -> list[date]:
    """Return the days written as `2024-05-02` or `2024年5月2日`, in text order."""
    found = []
    for match in re.finditer(_FULL, text):
        year, month, day = (int(part) for part in match.groups() if part)
        try:
            found.append(date(year, month, day))
        except ValueError:
            continue
    return found


def with_iso_dates(text: str) -> str:
    """Return the text with days such as `22 May 2027` and `May 22, 2027` as `2027-05-22`."""

    def iso(match: re.Match[str]) -> str:
        found = partial_date(match)
        if found is None or len(found) < 3 or not found[0]:
            return match[0]
        try:
            return date(*found).isoformat()
        except ValueError:
            return match[0]

    for form in (DAY_MONTH, MONTH_DAY):
        text = re.sub(form, iso, text, flags=re.IGNORECASE)
    return text


def partial_date(match: re.Match[str]) -> PartialDate | None:
    """Return the date of a match with the groups y, m or n, and d; None for an impossible month or day."""
    parts = match.groupdict()
    month = month_number(parts["n"]) if parts.get("n") else int(parts["m"])
    year = int(parts.get("y") or 0)
    day = int(parts.get("d") or 0)
    if not (1 <= month <= 12 and day <= 31):
        return None
    return (year, month, day) if day else (year, month)
