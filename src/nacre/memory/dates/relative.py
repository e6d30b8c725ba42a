"""Replaces relative dates in English and Chinese text by absolute ones (E10, M12).

Never a wrong date: an ambiguous phrase ("last Tuesday" on a Thursday, "yesterday" at one in the morning)
stays as it is, and `relative_phrases` lists it.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, tzinfo

from nacre.memory.dates import chinese, english
from nacre.memory.dates.calendar import ReferenceDate, Renderer

_MASKED = re.compile(
    r"```.*?```|`[^`\n]*`|\"[^\"\n]*\"|“[^”\n]*”|「[^」\n]*」|《[^》\n]*》|https?://\S+", re.DOTALL
)
"""Code, quotations, titles and addresses: no date in them is resolved."""
_HAN = re.compile(r"[\u4e00-\u9fff]")


def resolve_dates(text: str, at: datetime, zone: tzinfo) -> str:
    """Return the text with its unambiguous relative dates replaced, counted from when it was written."""
    local = (at if at.tzinfo else at.replace(tzinfo=UTC)).astimezone(zone)
    reference = ReferenceDate(local.date(), local.hour)
    parts: list[str] = []
    end = 0
    for match, render in _matches(text):
        try:
            new = render(match, text, reference)
        except OverflowError:
            continue
        if new is not None:
            if match[0][0].isupper():
                new = new[0].upper() + new[1:]
            parts += [text[end : match.start()], new]
            end = match.end()
    return "".join([*parts, text[end:]])


def relative_phrases(text: str) -> list[str]:
    """Return the phrases whose meaning depends on the day the text was written, in text order."""
    return [text[match.start() : match.end()] for match, _ in _matches(text)]


def _matches(text: str) -> list[tuple[re.Match[str], Renderer]]:
    """Return the matches of all rules in text order; where two overlap, the first and longest."""
    masked = _MASKED.sub(lambda match: "\x00" * len(match[0]), text)
    rules = [*english.RULES, *chinese.RULES] if _HAN.search(masked) else english.RULES
    found = [
        (match, rule.render)
        for rule in rules
        for match in rule.pattern.finditer(masked)
        if match[0] and rule.fits(match, masked)
    ]
    found.sort(key=lambda one: (one[0].start(), -one[0].end()))
    separate: list[tuple[re.Match[str], Renderer]] = []
    for match, render in found:
        if not separate or match.start() >= separate[-1][0].end():
            separate.append((match, render))
    return separate
