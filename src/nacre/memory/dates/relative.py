"""Relative dates made absolute, in English and Chinese, by the day on which they were said (E10, M12).

Never a wrong date: what can be read in two ways ("last Tuesday" on a Thursday, "yesterday" at one in the
morning) stays as it is, and `relative` names it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, tzinfo

from nacre.memory.dates import chinese as when_chinese
from nacre.memory.dates import english as when_english
from nacre.memory.dates.days import Said

_MASKED = re.compile(
    r"```.*?```|`[^`\n]*`|\"[^\"\n]*\"|“[^”\n]*”|「[^」\n]*」|《[^》\n]*》|https?://\S+", re.DOTALL
)
"""A name, a quotation or an address: its words are nobody's calendar."""
_ISO = re.compile(r"(?<![\d-])(\d{4})-(\d{2})-(\d{2})(?![\d-])|(\d{4})年(\d{1,2})月(\d{1,2})日")


def resolved(text: str, at: datetime, zone: tzinfo) -> str:
    """The text with its relative dates made absolute, as far as they are certain; the rest is untouched."""
    local = (at if at.tzinfo else at.replace(tzinfo=UTC)).astimezone(zone)
    said = Said(local.date(), local.hour)
    parts: list[str] = []
    place = 0
    for one in _phrases(text):
        new = _replacement(one, text, said)
        if new is not None:
            parts += [text[place : one.start], new]
            place = one.end
    return "".join([*parts, text[place:]])


def relative(text: str) -> list[str]:
    """What in the text can only be understood by somebody who knows when it was said, in its order."""
    return [text[one.start : one.end] for one in _phrases(text)]


def days(text: str) -> list[date]:
    """The days that a text names in full, in its order."""
    found = []
    for match in _ISO.finditer(text):
        year, month, day = (int(part) for part in match.groups() if part)
        try:
            found.append(date(year, month, day))
        except ValueError:
            continue
    return found


@dataclass(frozen=True, slots=True)
class _Phrase:
    start: int
    end: int
    match: re.Match[str]
    render: Callable[[re.Match[str], str, Said], str | None]


def _phrases(text: str) -> list[_Phrase]:
    """What is said relative to the day, longest first where two overlap, in the order of the text."""
    plain = _MASKED.sub(lambda match: "\x00" * len(match[0]), text)
    found = sorted(_all(plain), key=lambda one: (one.start, -one.end))
    kept: list[_Phrase] = []
    for one in found:
        if not kept or one.start >= kept[-1].end:
            kept.append(one)
    return kept


def _all(plain: str) -> Iterator[_Phrase]:
    rules = [*when_english.RULES, *when_chinese.RULES] if _HAN.search(plain) else when_english.RULES
    for rule in rules:
        for match in rule.pattern.finditer(plain):
            if match.end() > match.start() and rule.fits(match, plain):
                yield _Phrase(match.start(), match.end(), match, rule.render)


def _replacement(one: _Phrase, text: str, said: Said) -> str | None:
    try:
        new = one.render(one.match, text, said)
    except OverflowError:
        return None
    if new is None or not text[one.start].isupper():
        return new
    return new[0].upper() + new[1:]


_HAN = re.compile(r"[\u4e00-\u9fff]")
