"""Relative dates of English: the phrases, and what they come to."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date

from nacre.memory.dates import days as when_days
from nacre.memory.dates.days import Rule, Said

WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
NUMBERS = {
    "a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6,
    "seven": 7, "eight": 8, "nine": 9, "ten": 10, "eleven": 11, "twelve": 12,
}  # fmt: skip
MAX_COUNT = 1_000
"""More than that of any unit is not said of one's own life."""
LOOK_BACK = 40
"""Characters in which the word before a phrase is looked for."""
FRIDAY = 4
THURSDAY = 3

_WEEKDAY = rf"(?P<weekday>{'|'.join(WEEKDAYS)})"
_COUNT = rf"(?P<count>\d{{1,4}}|{'|'.join(NUMBERS)})"
_OFFSETS = {"last": -1, "this": 0, "next": 1}
_PART = r"(?:\s+(?P<part>morning|afternoon|evening|night))?"
_LOOSE_TODAY = r"(?!'s\s+(?:world|society|market|age|economy|youth|standards|culture|technology|era|day))"
_PREPOSITIONS = frozenset(
    """
    since until till by from on in before after of for to than between about around starting through
    spent enjoyed
    """.split()
)

_NAMED_DAY = re.compile(
    rf"\b(?:{'|'.join(MONTHS)})\s+\d|\d(?:st|nd|rd|th)?\s+(?:of\s+)?(?:{'|'.join(MONTHS)})\b"
)
_SPANS = frozenset("the my our his her each every any first very".split())
"""Before `last week` they make it a stretch of seven days, or some other week."""
_GUESSES = frozenset(
    """
    half quarter than over nearly almost about around roughly least most approximately and or to some
    twenty thirty forty fifty sixty seventy eighty ninety hundred
    """.split()
)


def _is_prose(match: re.Match[str], text: str) -> bool:
    """Not a part of a name: capitals begin sentences only, and no sign joins it to another word."""
    phrase = match[0]
    before = text[max(0, match.start() - LOOK_BACK) : match.start()].rstrip(" *_(")
    if phrase[0].isupper() and before and before[-1] not in ".!?:;\n-–—…\"'“":
        return False
    is_joined = re.search(r"[\w/\\.\-#@\x00]$", text[max(0, match.start() - 1) : match.start()]) or re.match(
        r"[-/\\_\x00]", text[match.end() : match.end() + 1]
    )
    return not is_joined and (len(phrase) < 2 or not phrase.isupper())


def _is_not_a_span(match: re.Match[str], text: str) -> bool:
    """`the last week` is seven days, not the week before this one."""
    if text[match.end() : match.end() + 3] == " of":
        return False
    return _is_prose(match, text) and _word_before(match, text) not in _SPANS


def _is_exact(match: re.Match[str], text: str) -> bool:
    """Not the end of a longer number, and not one that was only guessed."""
    return _is_prose(match, text) and _word_before(match, text) not in _GUESSES


def _word_before(match: re.Match[str], text: str) -> str:
    words = text[max(0, match.start() - LOOK_BACK) : match.start()].split()
    return words[-1].lower() if words else ""


def _rule(
    pattern: str,
    render: Callable[[re.Match[str], str, Said], str | None],
    fits: Callable[[re.Match[str], str], bool] = _is_prose,
) -> Rule:
    return Rule(re.compile(rf"(?<!\w)(?:{pattern})(?!\w)", re.IGNORECASE), render, fits)


def _placed(preposition: str, name: str, match: re.Match[str], text: str) -> str:
    """With its preposition, unless one stands before it or it stands before a noun."""
    is_led = _word_before(match, text) in _PREPOSITIONS
    is_owner = text[match.end() : match.end() + 2] in {"'s", "’s"}
    return name if is_led or is_owner else f"{preposition} {name}"


def _day(days: int, part: str = "") -> Callable[[re.Match[str], str, Said], str | None]:
    def render(match: re.Match[str], text: str, said: Said) -> str | None:
        shown = part or match.groupdict().get("part") or ""
        return _shown_day(when_days.day_off(said, days), match, text, part=shown.lower())

    return render


def _shown_day(day: date | None, match: re.Match[str], text: str, *, part: str = "") -> str | None:
    if day is None:
        return None
    if part:
        return _placed("on", f"the {part} of {day.isoformat()}", match, text)
    return _placed("on", day.isoformat(), match, text)


def _ago(match: re.Match[str], text: str, said: Said) -> str | None:
    count = _number(match["count"])
    if not 0 < count <= MAX_COUNT:
        return None
    match match["unit"].lower():
        case "day":
            return _shown_day(when_days.day_off(said, -count), match, text)
        case "week":
            day = when_days.day_off(said, -count * when_days.DAYS)
            return f"around {day.isoformat()}" if day else None
        case "month":
            return _month("around", when_days.month_off(said, -count))
        case _ if count == 1:
            return _month("around", when_days.month_off(said, -when_days.MONTHS))
        case _:
            year = when_days.year_off(said, -count)
            return f"around {year}" if year else None


def _from_now(match: re.Match[str], text: str, said: Said) -> str | None:
    count = _number(match["count"])
    if match["unit"].lower() == "day":
        return _shown_day(when_days.day_off(said, count), match, text)
    day = when_days.day_off(said, count * when_days.DAYS)
    return f"around {day.isoformat()}" if day else None


def _unit(match: re.Match[str], text: str, said: Said) -> str | None:
    """`last week`, `this month`, `next year`; a date that follows says it better, and may say otherwise."""
    if _NAMED_DAY.search(text[match.end() : match.end() + LOOK_BACK]):
        return None
    offset = _OFFSETS[match["which"].lower()]
    match match["unit"].lower():
        case "week":
            monday = when_days.week_off(said, offset)
            return _placed("in", f"the week of {monday.isoformat()}", match, text) if monday else None
        case "month":
            name = _month("", when_days.month_off(said, offset))
        case "year":
            year = when_days.year_off(said, offset)
            name = str(year) if year else None
        case _:
            return _weekend(match, text, said)
    return _placed("in", name, match, text) if name else None


def _weekend(match: re.Match[str], text: str, said: Said) -> str | None:
    """Said on a working day, or about the weekend that is near or has begun."""
    monday = when_days.week_off(said, 0)
    today = said.day.weekday()
    is_clear = {"last": today <= FRIDAY, "this": today >= THURSDAY, "next": False}[match["which"].lower()]
    if monday is None or not is_clear or not said.is_day_certain:
        return None
    weeks = -1 if match["which"].lower() == "last" else 0
    saturday = monday.toordinal() + 7 * weeks + FRIDAY + 1
    return _placed("on", f"the weekend of {date.fromordinal(saturday).isoformat()}", match, text)


def _weekday(match: re.Match[str], text: str, said: Said) -> str | None:
    weekday = WEEKDAYS.index(match["weekday"].lower())
    which = " ".join(match["which"].lower().split())
    if which == "this past":
        day = when_days.past_weekday(said, weekday)
    elif which == "this coming":
        day = when_days.coming_weekday(said, weekday) if weekday != said.day.weekday() else None
    elif which == "last":
        day = when_days.last_weekday(said, weekday)
    elif which == "next":
        day = when_days.next_weekday(said, weekday)
    else:
        day = when_days.this_weekday(said, weekday)
    part = (match["part"] or "").lower()
    return _shown_day(day if said.is_day_certain else None, match, text, part=part)


def _due(match: re.Match[str], text: str, said: Said) -> str | None:
    """`by Friday`: the next one, unless it is Friday, or something that is over is told."""
    weekday = WEEKDAYS.index(match["weekday"].lower())
    is_told = re.search(
        r"\b(?:was|were|had|did|got|went|(?!need|speed|feed)\w+ed)\b", text[: match.start()], re.IGNORECASE
    )
    if weekday == said.day.weekday() or not said.is_day_certain or is_told:
        return None
    return f"{match['lead']} {when_days.coming_weekday(said, weekday).isoformat()}"


def _was(match: re.Match[str], text: str, said: Said) -> str | None:
    """`we decided on Tuesday`: the latest one."""
    day = when_days.past_weekday(said, WEEKDAYS.index(match["weekday"].lower()))
    return f"{match['verb']} on {day.isoformat()}" if day else None


def _month(preposition: str, found: tuple[int, int] | None) -> str | None:
    return f"{preposition} {MONTHS[found[1] - 1]} {found[0]}".strip() if found else None


def _number(word: str) -> int:
    return int(word) if word.isdigit() else NUMBERS[word.lower()]


def _never(match: re.Match[str], text: str, said: Said) -> str | None:
    return None


_VAGUE = (
    r"(?:a\s+few|a\s+couple(?:\s+of)?|several|some|many)\s+(?:days|weeks|months|years|nights)\s+(?:ago|back)",
    r"recently|lately|soon|the\s+other\s+(?:day|night|week)|these\s+days|nowadays|just\s+now",
    r"(?:last|this|next|this\s+past|this\s+coming)\s+(?:spring|summer|autumn|fall|winter|semester|quarter)",
    rf"(?:last|this|next)\s+(?:{'|'.join(MONTHS)})",
    r"(?:the|over\s+the|this|in\s+the)?\s*past\s+(?:few\s+)?(?:days?|weeks?|months?|years?|weekend)",
    rf"(?:on\s+)?{_WEEKDAY}",
    rf"{_COUNT}\s+(?:day|week|month|year)s?\s+ago\s+(?:today|yesterday|tomorrow)",
    r"(?:half\s+an?|[\w.]+)\s+(?:day|week|month|year)s?\s+ago",
    r"the\s+(?:last|next)\s+(?:week|month|year|weekend)",
    rf"in\s+{_COUNT}\s+(?:days?|weeks?|months?|years?)",
)

RULES: tuple[Rule, ...] = (
    _rule(rf"(?:earlier\s+|later\s+)?today{_LOOSE_TODAY}", _day(0)),
    _rule(r"tonight", _day(0, "evening")),
    _rule(r"this\s+(?P<part>morning|afternoon|evening)", _day(0)),
    _rule(rf"yesterday{_PART}", _day(-1)),
    _rule(r"last\s+(?P<part>night)", _day(-1)),
    _rule(rf"tomorrow{_PART}", _day(1)),
    _rule(r"(?:the\s+)?day\s+before\s+yesterday", _day(-2)),
    _rule(r"(?:the\s+)?day\s+after\s+tomorrow", _day(2)),
    _rule(rf"{_COUNT}\s+(?P<unit>day|week|month|year)s?\s+ago", _ago, _is_exact),
    _rule(rf"{_COUNT}\s+(?P<unit>day|week)s?\s+from\s+(?:now|today)", _from_now, _is_exact),
    _rule(r"(?P<which>last|this|next)\s+(?P<unit>week|weekend|month|year)", _unit, _is_not_a_span),
    _rule(rf"(?:on\s+)?(?P<which>this\s+past|this\s+coming|last|this|next)\s+{_WEEKDAY}{_PART}", _weekday),
    _rule(rf"(?P<lead>by|until|due|due\s+on|due\s+by)\s+{_WEEKDAY}", _due),
    _rule(rf"(?P<verb>decided|agreed)\s+on\s+{_WEEKDAY}", _was),
    *(_rule(pattern, _never) for pattern in _VAGUE),
)
