"""Rules for relative dates in Japanese, where a week begins on Monday; days are written as in English."""

from __future__ import annotations

import re
from datetime import date, timedelta

from nacre.memory.dates import calendar
from nacre.memory.dates.calendar import DAYS_PER_WEEK, DateRule, ReferenceDate, Renderer

DAYS = {
    "一昨日": -2, "おととい": -2, "昨日": -1, "きのう": -1, "今日": 0, "本日": 0, "明日": 1, "あした": 1,
    "明後日": 2, "あさって": 2,
}  # fmt: skip
PERIODS = {"先々": -2, "先": -1, "今": 0, "来": 1, "再来": 2}
YEARS = {"一昨年": -2, "去年": -1, "昨年": -1, "今年": 0, "来年": 1, "再来年": 2}
WEEKDAYS = "月火水木金土日"
DIGITS = "一二三四五六七八九十"
MAX_COUNT = 1_000
"""Larger counts of days, weeks, months or years are not resolved."""

_PERIOD = r"(?P<period>先々|再来|先|今|来)"
_WEEKDAY = rf"(?P<weekday>[{WEEKDAYS}])曜日?"
_NUMBER = rf"(?<![\d{DIGITS}数])(?P<count>\d{{1,4}}|[{DIGITS}])"
_UNIT = r"(?P<unit>日|週間|[かヶケカ箇ヵ]月|年)"


def _rule(pattern: str, render: Renderer) -> DateRule:
    return DateRule(re.compile(pattern), render)


def _day(match: re.Match[str], text: str, reference: ReferenceDate) -> str | None:
    return _shown(calendar.add_days(reference, DAYS[match[0]]))


def _weekday(match: re.Match[str], text: str, reference: ReferenceDate) -> str | None:
    monday = calendar.monday_of_week(reference, PERIODS[match["period"]])
    return _shown(monday + timedelta(days=WEEKDAYS.index(match["weekday"]))) if monday else None


def _due(match: re.Match[str], text: str, reference: ReferenceDate) -> str | None:
    """`金曜までに`: the next one, unless today is that day."""
    weekday = WEEKDAYS.index(match["weekday"])
    if weekday == reference.day.weekday() or not reference.is_day_certain or _is_past(match, text):
        return None
    return _shown(calendar.coming_weekday(reference, weekday))


def _week(match: re.Match[str], text: str, reference: ReferenceDate) -> str | None:
    monday = calendar.monday_of_week(reference, PERIODS[match["period"]])
    return f"{monday.isoformat()}の週" if monday else None


def _month(match: re.Match[str], text: str, reference: ReferenceDate) -> str | None:
    found = calendar.add_months(reference, PERIODS[match["period"]])
    return f"{found[0]}年{found[1]}月" if found else None


def _month_end(match: re.Match[str], text: str, reference: ReferenceDate) -> str | None:
    found = calendar.add_months(reference, PERIODS[match["period"] or "今"])
    return _shown(calendar.month_end(*found)) if found and not _is_past(match, text) else None


def _year(match: re.Match[str], text: str, reference: ReferenceDate) -> str | None:
    year = calendar.add_years(reference, YEARS[match[0]])
    return f"{year}年" if year else None


def _shifted(match: re.Match[str], text: str, reference: ReferenceDate) -> str | None:
    word = match["count"]
    count = (int(word) if word.isdigit() else DIGITS.index(word) + 1) * (-1 if match["way"] == "前" else 1)
    if not 0 < abs(count) <= MAX_COUNT:
        return None
    match match["unit"]:
        case "日":
            return _shown(calendar.add_days(reference, count))
        case "週間":
            shown = _shown(calendar.add_days(reference, count * DAYS_PER_WEEK))
            return f"{shown}頃" if shown else None
        case "年":
            year = calendar.add_years(reference, count)
            return f"{year}年頃" if year else None
        case _:
            found = calendar.add_months(reference, count)
            return f"{found[0]}年{found[1]}月頃" if found else None


def _of_month(match: re.Match[str], text: str, reference: ReferenceDate) -> str | None:
    """`20日までに`: in this month or the next; `11月18日`: the next one."""
    if not reference.is_day_certain or _is_past(match, text):
        return None
    day = int(match["day"])
    if match["month"]:
        return _shown(calendar.coming_date(reference, int(match["month"]), day))
    return _shown(calendar.coming_day(reference, day))


def _is_past(match: re.Match[str], text: str) -> bool:
    """Whether the clause of a date ends in the past tense: `金曜までに終わった`."""
    clause = re.split(r"[、,。；;！!？?\n]", text[match.end() :], maxsplit=1)[0]
    return bool(
        re.search(r"(?:った|した|んだ|いた|れた|きた|ました|でした)(?:です|よ|ね|が|けど)*\s*$", clause)
    )


def _unresolved(match: re.Match[str], text: str, reference: ReferenceDate) -> str | None:
    return None


def _shown(day: date | None) -> str | None:
    return day.isoformat() if day else None


RULES: tuple[DateRule, ...] = (
    _rule("|".join(sorted(DAYS, key=len, reverse=True)), _day),
    _rule(rf"{_PERIOD}週の?{_WEEKDAY}", _weekday),
    _rule(rf"{_PERIOD}週(?!の?[{WEEKDAYS}]曜|末)", _week),
    _rule(rf"(?:{_PERIOD}月(?:の月)?|(?<!毎)(?<!各)月)末", _month_end),
    _rule(rf"{_PERIOD}月(?!の?月末|末|曜|火)", _month),
    _rule("|".join(sorted(YEARS, key=len, reverse=True)), _year),
    _rule(rf"{_NUMBER}{_UNIT}(?P<way>前|後)(?!半)", _shifted),
    _rule(rf"(?<![毎週の]){_WEEKDAY}(?=まで|から|締|期限|中に)", _due),
    _rule(rf"(?<![毎各週])(?<!週の){_WEEKDAY}(?!まで|から|締|期限|中に|は毎|ごと)", _unresolved),
    _rule(
        r"(?<![\d年])(?:(?P<month>1[0-2]|[1-9])月)?(?<!毎月)(?P<day>[12]\d|3[01]|[1-9])日(?=まで|から|に|が|の|、|$)",
        _of_month,
    ),
    _rule(r"先日|最近|近いうち|数(?:日|週間|[かヶ]月)(?:前|後)|この前", _unresolved),
)
