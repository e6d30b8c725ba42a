"""Rules for relative dates in English: a pattern each, and the absolute date that replaces a match."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date

from nacre.memory.dates import calendar
from nacre.memory.dates.absolute import DAY_MONTH, MONTH_DAY, partial_date
from nacre.memory.dates.calendar import (
    DAYS_PER_WEEK,
    FRIDAY,
    MONTH_PATTERN,
    MONTHS,
    MONTHS_PER_YEAR,
    NUMBER_WORDS,
    THURSDAY,
    WEEKDAYS,
    DateRule,
    ReferenceDate,
    Renderer,
)

MAX_COUNT = 1_000
"""Larger counts of days, weeks, months or years are not resolved."""
LOOK_BACK = 40
"""Characters before a phrase that are searched for the preceding word."""

_WEEKDAY = rf"(?P<weekday>{'|'.join(WEEKDAYS)})"
_COUNT = rf"(?P<count>\d{{1,4}}|{'|'.join(NUMBER_WORDS)})"
_OFFSETS = {"last": -1, "this": 0, "next": 1}
_PART = r"(?:\s+(?P<part>morning|afternoon|evening|night))?"
_LOOSE_TODAY = r"(?!'s\s+(?:world|society|market|age|economy|youth|standards|culture|technology|era|day))"
LOOK_AROUND = 120
"""Characters before a date that are searched for the tense of the sentence."""
_SHORT_DAYS = "mon|tues?|wed|thu|thurs|fri|sat"
_LEAD = r"by|until|till|til|before|after|from|since|due|due\s+on|due\s+by|starting|starting\s+on|on"
_PAST = re.compile(
    r"\b(?:last|ago|yesterday|back in|since|was|were|had|did|didn['’]?t|got|went|came|left|said|told|met"
    r"|began|broke|lost|sent|made|took|wrote"
    r"|(?!need|speed|feed|indeed|supposed|planned|scheduled|booked|moved|pushed|postponed|closed|expected"
    r"|required|allowed|delayed|blocked|agreed|announced|slipped|shifted|changed|extended|switched|bumped"
    r"|proposed)\w{2,}ed)\b",
    re.IGNORECASE,
)
_FUTURE = re.compile(
    r"\b(?:will|won['’]?t|shall|going to|gonna|must|need(?:s|ed)?|has to|have to|is|are|be|starts?"
    r"|begins?|ends?"
    r"|due|deadline|ships?|launch(?:es)?|goes|go|leaves?|opens?|closes?|runs|wants?|planned|scheduled|booked"
    r"|moved|pushed|postponed|lands?|arrives?|comes|freez\w+|release|demo|can['’]?t|cannot)\b|['’](?:ll"
    r"|re|s)\b",
    re.IGNORECASE,
)
_REPEATED_BEFORE = re.compile(
    r"\b(?:every|each|always|usually|normally|any|most|only|never|per)\b[^,.;]{0,25}$", re.IGNORECASE
)
_REPEATED_AFTER = re.compile(
    r"\s+(?:(?:of|in)\s+)?(?:a|each|every|the|any)\s+(?:month|week|year|quarter|semester|term|sprint)|s\b|\s+(?:floor|time|one|line"
    r"|paragraph"
    r"|row|column|page|item|step|place|grade|edition|version|century|birthday|attempt|try|chapter|year|day"
    r"|week|reader|class|draft|round|half|quarter|party|person|amendment|working|business|and\s+last)\b",
    re.IGNORECASE,
)
_MEETING = re.compile(
    r"\b(?:stand-?ups?|rehearsals?|lessons?|practices?|trainings?|classes|office hours|rota|weekly"
    r"|biweekly|fortnightly|monthly|sync|1:1s?|one-on-ones?|check-?ins?|bin day)\b",
    re.IGNORECASE,
)
"""What takes place again and again: of it, a weekday is rather every such day."""
_NTH = re.compile(r"\bthe\s+([12]?\d|3[01])(?:st|nd|rd|th)\b", re.IGNORECASE)
_PREPOSITIONS = frozenset(
    """
    since until till by from on in before after of for to than between about around starting through
    spent enjoyed til
    """.split()
)

_MONTH = "|".join(MONTHS).title()
_NAMED_DAY = re.compile(rf"\b(?:{_MONTH})\s+\d|\d(?:st|nd|rd|th)?\s+(?:of\s+)?(?:{_MONTH})\b")
_SPAN_WORDS = frozenset("the my our his her each every any first very".split())
"""Before `last week` these words make it any seven days, or another week."""
_ESTIMATES = frozenset(
    """
    half quarter than over nearly almost about around roughly least most approximately and or to some
    twenty thirty forty fifty sixty seventy eighty ninety hundred
    """.split()
)


def _is_prose(match: re.Match[str], text: str) -> bool:
    """Whether a match is prose: capitals only begin sentences, and no character joins it to another word."""
    phrase = match[0]
    before = text[max(0, match.start() - LOOK_BACK) : match.start()].rstrip(" *_(")
    if phrase[0].isupper() and before and before[-1] not in ".!?:;\n-–—…\"'“":
        return False
    is_joined = re.search(r"[\w/\\.\-#@\x00]$", text[max(0, match.start() - 1) : match.start()]) or re.match(
        r"[-/\\_\x00]", text[match.end() : match.end() + 1]
    )
    return not is_joined and (len(phrase) < 2 or not phrase.isupper())


def _is_calendar_unit(match: re.Match[str], text: str) -> bool:
    """Whether a match is a calendar week, month or year: `the last week` is any seven days."""
    if text[match.end() : match.end() + 3] == " of":
        return False
    return _is_prose(match, text) and _word_before(match, text) not in _SPAN_WORDS


def _is_exact(match: re.Match[str], text: str) -> bool:
    """Whether a count is exact: neither the end of a longer number nor an estimate."""
    return _is_prose(match, text) and _word_before(match, text) not in _ESTIMATES


def _word_before(match: re.Match[str], text: str) -> str:
    words = text[max(0, match.start() - LOOK_BACK) : match.start()].split()
    return words[-1].lower() if words else ""


def _rule(
    pattern: str,
    render: Renderer,
    fits: Callable[[re.Match[str], str], bool] = _is_prose,
) -> DateRule:
    return DateRule(re.compile(rf"(?<!\w)(?:{pattern})(?!\w)", re.IGNORECASE), render, fits)


def _with_preposition(preposition: str, name: str, match: re.Match[str], text: str) -> str:
    """Return the name with its preposition, unless one precedes it or a possessive follows."""
    has_preposition = _word_before(match, text) in _PREPOSITIONS
    is_possessive = text[match.end() : match.end() + 2] in {"'s", "’s"}
    return name if has_preposition or is_possessive else f"{preposition} {name}"


def _day(days: int, part: str = "") -> Renderer:
    def render(match: re.Match[str], text: str, reference: ReferenceDate) -> str | None:
        shown = part or match.groupdict().get("part") or ""
        return _shown_day(calendar.add_days(reference, days), match, text, part=shown.lower())

    return render


def _shown_day(day: date | None, match: re.Match[str], text: str, *, part: str = "") -> str | None:
    if day is None:
        return None
    if part:
        return _with_preposition("on", f"the {part} of {day.isoformat()}", match, text)
    return _with_preposition("on", day.isoformat(), match, text)


def _ago(match: re.Match[str], text: str, reference: ReferenceDate) -> str | None:
    count = _number(match["count"])
    if not 0 < count <= MAX_COUNT:
        return None
    match match["unit"].lower():
        case "day":
            return _shown_day(calendar.add_days(reference, -count), match, text)
        case "week":
            day = calendar.add_days(reference, -count * DAYS_PER_WEEK)
            return f"around {day.isoformat()}" if day else None
        case "month":
            return _month("around", calendar.add_months(reference, -count))
        case _ if count == 1:
            return _month("around", calendar.add_months(reference, -MONTHS_PER_YEAR))
        case _:
            year = calendar.add_years(reference, -count)
            return f"around {year}" if year else None


def _from_now(match: re.Match[str], text: str, reference: ReferenceDate) -> str | None:
    count = _number(match["count"])
    if not 0 < count <= MAX_COUNT or _tense(match, text) == "past":
        return None
    match match["unit"].lower():
        case "day":
            return _shown_day(calendar.add_days(reference, count), match, text)
        case "week":
            day = calendar.add_days(reference, count * DAYS_PER_WEEK)
            return f"around {day.isoformat()}" if day else None
        case _:
            return _month("around", calendar.add_months(reference, count))


def _unit(match: re.Match[str], text: str, reference: ReferenceDate) -> str | None:
    """`last week`, `this month`, `next year`; unresolved where an explicit date follows."""
    if _NAMED_DAY.search(text[match.end() : match.end() + LOOK_BACK]):
        return None
    offset = _OFFSETS[match["which"].lower()]
    match match["unit"].lower():
        case "week":
            monday = calendar.monday_of_week(reference, offset)
            return (
                _with_preposition("in", f"the week of {monday.isoformat()}", match, text) if monday else None
            )
        case "month":
            name = _month("", calendar.add_months(reference, offset))
        case "year":
            year = calendar.add_years(reference, offset)
            name = str(year) if year else None
        case _:
            return _weekend(match, text, reference)
    return _with_preposition("in", name, match, text) if name else None


def _weekend(match: re.Match[str], text: str, reference: ReferenceDate) -> str | None:
    """`last weekend` is clear on a working day, `this weekend` from Thursday on."""
    monday = calendar.monday_of_week(reference, 0)
    today = reference.day.weekday()
    is_clear = {"last": today <= FRIDAY, "this": today >= THURSDAY, "next": False}[match["which"].lower()]
    if monday is None or not is_clear or not reference.is_day_certain:
        return None
    weeks = -1 if match["which"].lower() == "last" else 0
    saturday = monday.toordinal() + 7 * weeks + FRIDAY + 1
    return _with_preposition("on", f"the weekend of {date.fromordinal(saturday).isoformat()}", match, text)


def _weekday(match: re.Match[str], text: str, reference: ReferenceDate) -> str | None:
    weekday = WEEKDAYS.index(match["weekday"].lower())
    which = " ".join(match["which"].lower().split())
    if which == "this past":
        day = calendar.past_weekday(reference, weekday)
    elif which == "this coming":
        day = calendar.coming_weekday(reference, weekday) if weekday != reference.day.weekday() else None
    elif which == "last":
        day = calendar.last_weekday(reference, weekday)
    elif which == "next":
        day = calendar.next_weekday(reference, weekday)
    else:
        day = calendar.this_weekday(reference, weekday)
    part = (match["part"] or "").lower()
    return _shown_day(day if reference.is_day_certain else None, match, text, part=part)


def _due(match: re.Match[str], text: str, reference: ReferenceDate) -> str | None:
    """`by Friday`: the next one, unless today is Friday or the sentence is in the past tense.

    `on Friday` and `friday` need a sign of the future, because they may also be the latest or every one.
    """
    weekday = _weekday_number(match["weekday"])
    tense = _tense(match, text)
    lead = match["lead"] or ""
    is_open = lead.lower() in {"", "on"}
    if weekday == reference.day.weekday() or not reference.is_day_certain:
        return None
    if tense == "past" or (is_open and tense != "future"):
        return None
    if lead.lower() in {"", "on", "from", "since"} and _MEETING.search(_sentence(match, text)):
        return None
    day = calendar.coming_weekday(reference, weekday)
    return f"{lead} {day.isoformat()}" if lead else _shown_day(day, match, text)


def _of_month(match: re.Match[str], text: str, reference: ReferenceDate) -> str | None:
    """`by the 30th`: in this month or the next."""
    if not reference.is_day_certain or _tense(match, text) == "past":
        return None
    # Of `from the 12th to the 16th` on the 14th, one would be in the next month.
    numbers = [int(found[1]) for found in _NTH.finditer(_sentence(match, text))]
    days = [calendar.coming_day(reference, number) for number in numbers]
    if None in days or numbers != sorted(numbers) or days != sorted(filter(None, days)):
        return None
    day = calendar.coming_day(reference, int(match["day"]))
    return f"{match['lead'] or 'on'} {day.isoformat()}" if day else None


def _in_month(match: re.Match[str], text: str, reference: ReferenceDate) -> str | None:
    """`November 8` without a year: the next one, unless the sentence is in the past tense."""
    found = partial_date(match)
    if found is None or found[0] or len(found) < 3 or not reference.is_day_certain:
        return None
    if _tense(match, text) == "past":
        return None
    day = calendar.coming_date(reference, found[1], found[2])
    return day.isoformat() if day else None


def _is_yearless(match: re.Match[str], text: str) -> bool:
    return (
        match["y"] is None
        and text[match.end() : match.end() + 1] not in {"-", "/"}
        and not _is_repeated(match, text)
    )


def _month_end(match: re.Match[str], text: str, reference: ReferenceDate) -> str | None:
    """`the end of the month`, `end of next month`, `end of November`, `end of the year`."""
    unit = match["unit"].lower().split()[-1]
    if _tense(match, text) == "past":
        return None
    if unit == "year":
        year = calendar.add_years(reference, 1 if match["unit"].lower().startswith("next") else 0)
        return f"{year}-12-31" if year else None
    if unit == "month":
        found = calendar.add_months(reference, 1 if match["unit"].lower().startswith("next") else 0)
        return calendar.month_end(*found).isoformat() if found else None
    number = calendar.month_number(unit)
    year = reference.day.year + (number < reference.day.month)
    return calendar.month_end(year, number).isoformat()


def _weekday_number(name: str) -> int:
    return next(number for number, day in enumerate(WEEKDAYS) if day.startswith(name.lower()[:3]))


def _sentence(match: re.Match[str], text: str) -> str:
    start = max(text.rfind(sign, 0, match.start()) for sign in (". ", "! ", "? ", "\n", "; "))
    ends = (text.find(sign, match.end()) for sign in (". ", "! ", "? ", "\n", "; "))
    return text[start + 1 : min((end for end in ends if end >= 0), default=len(text))]


def _tense(match: re.Match[str], text: str) -> str:
    """Return `past` or `future` if the words of the sentence before a date say so."""
    words = text[max(0, match.start() - LOOK_AROUND) : match.start()]
    words = re.split(r"[.!?;\n]\s|,\s", words)[-1]
    if _PAST.search(words):
        return "past"
    return "future" if _FUTURE.search(_sentence(match, text)) else ""


def _is_once(match: re.Match[str], text: str) -> bool:
    """Whether a match is one day: not `every Friday`, `the 5th of each month` or `the 5th floor`."""
    return _is_prose(match, text) and not _is_repeated(match, text)


def _is_repeated(match: re.Match[str], text: str) -> bool:
    before = text[max(0, match.start() - LOOK_BACK) : match.start()]
    return bool(_REPEATED_BEFORE.search(before) or _REPEATED_AFTER.match(text, match.end()))


def _decided_on(match: re.Match[str], text: str, reference: ReferenceDate) -> str | None:
    """`we decided on Tuesday`: the latest one."""
    day = calendar.past_weekday(reference, WEEKDAYS.index(match["weekday"].lower()))
    return f"{match['verb']} on {day.isoformat()}" if day else None


def _month(preposition: str, found: tuple[int, int] | None) -> str | None:
    return f"{preposition} {MONTHS[found[1] - 1].title()} {found[0]}".strip() if found else None


def _number(word: str) -> int:
    return int(word) if word.isdigit() else NUMBER_WORDS[word.lower()]


def _unresolved(match: re.Match[str], text: str, reference: ReferenceDate) -> str | None:
    return None


_VAGUE = (
    r"(?:a\s+few|a\s+couple(?:\s+of)?|several|some|many)\s+(?:days|weeks|months|years|nights)\s+(?:ago|back)",
    r"recently|lately|soon|the\s+other\s+(?:day|night|week)|these\s+days|nowadays|just\s+now",
    r"(?:last|this|next|this\s+past|this\s+coming)\s+(?:spring|summer|autumn|fall|winter|semester|quarter)",
    rf"(?:last|this|next)\s+(?:{_MONTH})",
    r"(?:the|over\s+the|this|in\s+the)?\s*past\s+(?:few\s+)?(?:days?|weeks?|months?|years?|weekend)",
    rf"{_COUNT}\s+(?:day|week|month|year)s?\s+ago\s+(?:today|yesterday|tomorrow)",
    r"(?:half\s+an?|[\w.]+)\s+(?:day|week|month|year)s?\s+ago",
    r"the\s+(?:last|next)\s+(?:week|month|year|weekend)",
    rf"in\s+{_COUNT}\s+years?",
)

RULES: tuple[DateRule, ...] = (
    _rule(rf"(?:earlier\s+|later\s+)?today{_LOOSE_TODAY}", _day(0)),
    _rule(r"tonight", _day(0, "evening")),
    _rule(r"this\s+(?P<part>morning|afternoon|evening)", _day(0)),
    _rule(rf"yesterday{_PART}", _day(-1)),
    _rule(r"last\s+(?P<part>night)", _day(-1)),
    _rule(rf"tomorrow{_PART}", _day(1)),
    _rule(r"(?:the\s+)?day\s+before\s+yesterday", _day(-2)),
    _rule(r"(?:the\s+)?day\s+after\s+tomorrow", _day(2)),
    _rule(rf"{_COUNT}\s+(?P<unit>day|week|month|year)s?\s+ago", _ago, _is_exact),
    _rule(rf"{_COUNT}\s+(?P<unit>day|week|month)s?\s+from\s+(?:now|today)", _from_now, _is_exact),
    _rule(rf"in\s+(?:exactly\s+)?{_COUNT}\s+(?P<unit>day|week|month)s?(?!['’]|\s+time\s+of)", _from_now),
    _rule(r"(?P<which>last|this|next)\s+(?P<unit>week|weekend|month|year)", _unit, _is_calendar_unit),
    _rule(
        rf"(?:on\s+)?(?P<which>this\s+past|this\s+coming|last|this|next)\s+{_WEEKDAY}{_PART}",
        _weekday,
        _is_once,
    ),
    _rule(
        rf"(?P<lead>{_LEAD})\s+(?P<weekday>{'|'.join(WEEKDAYS)}|{_SHORT_DAYS})(?!\s+(?:the\s+)?\d)",
        _due,
        _is_once,
    ),
    _rule(rf"(?P<lead>){_WEEKDAY}(?!\s+the\s+\d|,?\s+\d)", _due, _is_once),
    _rule(
        rf"(?:(?P<lead>{_LEAD}|to|for|between|and)\s+)?(?:(?:{'|'.join(WEEKDAYS)})\s+)?the\s+"
        rf"(?P<day>[12]?\d|3[01])(?:st|nd|rd|th)(?!\s+(?:of\s+)?(?:{MONTH_PATTERN})\b)",
        _of_month,
        _is_once,
    ),
    _rule(r"(?:the\s+)?" + DAY_MONTH.removeprefix(r"\b"), _in_month, _is_yearless),
    _rule(MONTH_DAY.removeprefix(r"\b"), _in_month, _is_yearless),
    _rule(
        rf"(?:the\s+)?end\s+of\s+(?:the\s+|this\s+)?(?P<unit>(?:next\s+)?month|(?:next\s+)?year"
        rf"|{MONTH_PATTERN})",
        _month_end,
        _is_once,
    ),
    _rule(rf"(?P<verb>decided|agreed)\s+on\s+{_WEEKDAY}", _decided_on),
    *(_rule(pattern, _unresolved) for pattern in _VAGUE),
)
