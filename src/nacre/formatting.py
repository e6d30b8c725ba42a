"""Words for people, whichever door they stand at: one line without tricks, counts, ages."""

from __future__ import annotations

import re
import shlex
import sys
from datetime import datetime
from pathlib import Path

MINUTE = 60
HOUR = 3_600
DAY = 86_400
KILO = 1_000
"""Sizes are decimal, as `ls --si` and disk vendors count."""
MONTH_DAYS = 60
"""Older than this, a date says more than a number of days."""
_HARMLESS = "\n\t\u200c\u200d"
_FENCE = re.compile(r"^\s*(`{3,})", re.MULTILINE)


def printable(text: str) -> str:
    """On one line and without control characters, so that a file name cannot repaint the terminal."""
    return "".join(
        char
        if char.isprintable()
        else (" " if char in "\n\r\t" else char.encode("unicode_escape").decode("ascii"))
        for char in text
    )


def visible(text: str) -> str:
    """Return text of several lines with control characters written out, so that it cannot repaint a terminal.

    Line ends, tabs and joiners stay.
    """
    return "".join(
        char if char.isprintable() or char in _HARMLESS else char.encode("unicode_escape").decode("ascii")
        for char in text
    )


def clean(text: str) -> str:
    """Without control characters other than line ends and tabs: nothing said may repaint the terminal.

    Joiners stay: they make one picture or letter of several; without them words of some scripts are others.
    """
    return "".join(char for char in text if char.isprintable() or char in _HARMLESS)


def fenced(text: str, language: str = "") -> str:
    """In a fence longer than any inside, so that nothing in the text can end it."""
    fence = "`" * max(3, *(len(ticks) + 1 for ticks in _FENCE.findall(text)), 3)
    return f"{fence}{language}\n{text}\n{fence}"


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: `1 message`, `2 messages`."""
    return f"{number:,} {noun}" + "s" * (number != 1)


COST_UNKNOWN = "cost unknown"


def usd_text(usd: float | None, decimals: int = 4) -> str:
    """Return an amount of money; one that is not known is never shown as zero."""
    return COST_UNKNOWN if usd is None else f"${usd:,.{decimals}f}"


def how_to_install(extra: str, *, source: Path = Path(__file__)) -> str:
    """The command that brings what a part needs: from where this nacre came, into where it runs."""
    root = source.resolve().parents[2]
    if (root / "pyproject.toml").is_file():  # a checkout
        return f"{shlex.quote(sys.executable)} -m pip install -e {shlex.quote(f'{root}[{extra}]')}"
    return f"{shlex.quote(sys.executable)} -m pip install 'nacre-memory[{extra}]'"


def shorten(text: str, limit: int) -> str:
    """One line of at most so many characters."""
    text = " ".join(text.split())
    return text if len(text) <= limit else text[: limit - 1] + "…"


def human_count(number: int) -> str:
    """`950`, `12.3k`, `1.0M`: tokens in a narrow column."""
    for limit, unit in ((999_950, "M"), (KILO, "k")):
        if number >= limit:
            return f"{number / (KILO * KILO if unit == 'M' else KILO):.1f}{unit}"
    return str(number)


def human_age(then: datetime, now: datetime) -> str:
    """`now`, `5 min`, `3 h`, `12 d`, and the date when it was long ago."""
    seconds = (now - then).total_seconds()
    if seconds < MINUTE:
        return "now"
    if seconds < HOUR:
        return f"{seconds // MINUTE:.0f} min"
    if seconds < DAY:
        return f"{seconds // HOUR:.0f} h"
    return f"{seconds // DAY:.0f} d" if seconds < MONTH_DAYS * DAY else then.date().isoformat()
