"""Replaces relative dates in texts of six languages by absolute ones (E10, M12).

Never a wrong date: an ambiguous phrase ("last Tuesday" on a Thursday, "yesterday" at one in the morning)
stays as it is, and `relative_phrases` lists it.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, tzinfo

from nacre.memory.dates import chinese, english
from nacre.memory.dates.calendar import DateRule, ReferenceDate, Renderer

_MASKED = re.compile(
    r"```.*?```|`[^`\n]*`|\"[^\"\n]*\"|“[^”\n]*”|「[^」\n]*」|《[^》\n]*》|https?://\S+", re.DOTALL
)
"""Code, quotations, titles and addresses: no date in them is resolved."""
_SENTENCE_START = re.compile(r"(?:^|[^\w\s,]\s*)\Z")
_HAN = re.compile(r"[\u4e00-\u9fff]")
_KANA = re.compile(r"[\u3040-\u30ff]")
_EUROPEAN = re.compile(
    r"tag|woche|monat|morgen|gestern|heute|kurzem|neulich|jour|semaine|mois|demain|hier|hui|ndi|[rd]i\b|manche"
    r"|cemment|semana|\bmes|d[ií]a|ñana|hoy|ayer|lunes|martes|rcoles|jueves|viernes|bado|domingo|reciente",
    re.IGNORECASE,
)
"""Parts of words without which a text has no date in German, French or Spanish."""


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
            if match[0][0].isupper() and _SENTENCE_START.search(text, 0, match.start()):
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
    found = [
        (match, rule.render)
        for rule in _rules(masked)
        for match in rule.pattern.finditer(masked)
        if match[0] and rule.fits(match, masked)
    ]
    found.sort(key=lambda one: (one[0].start(), -one[0].end()))
    separate: list[tuple[re.Match[str], Renderer]] = []
    for match, render in found:
        if not separate or match.start() >= separate[-1][0].end():
            separate.append((match, render))
    return separate


def _rules(text: str) -> list[DateRule]:
    """Return the rules of the languages that a text may be in."""
    rules = list(english.RULES)
    if _KANA.search(text):
        from nacre.memory.dates import japanese  # noqa: PLC0415 - few texts need it

        rules += japanese.RULES
    elif _HAN.search(text):
        rules += chinese.RULES
    if _EUROPEAN.search(text):
        from nacre.memory.dates import european  # noqa: PLC0415 - few texts need it

        rules += european.RULES
    return rules
