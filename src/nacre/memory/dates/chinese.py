"""Rules for relative dates in Chinese, where a week begins on Monday; days are written as in English."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, timedelta

from nacre.memory.dates import calendar
from nacre.memory.dates.calendar import (
    DAYS_PER_WEEK,
    FRIDAY,
    MONTHS_PER_YEAR,
    DateRule,
    ReferenceDate,
    Renderer,
)

DAYS = {
    "大前天": -3, "前天": -2, "昨天": -1, "昨日": -1, "今天": 0, "今日": 0, "明天": 1, "明日": 1,
    "后天": 2, "大后天": 3,
}  # fmt: skip
PARTS = {
    "昨晚": (-1, "晚上"),
    "今早": (0, "早上"),
    "今晨": (0, "早晨"),
    "今晚": (0, "晚上"),
    "明早": (1, "早上"),
    "明晚": (1, "晚上"),
}
YEARS = {"前年": -2, "去年": -1, "今年": 0, "明年": 1, "后年": 2}
WEEKS = {"上上": -2, "上": -1, "这": 0, "本": 0, "下": 1, "下下": 2}
WEEKDAYS = {"一": 0, "二": 1, "三": 2, "四": 3, "五": 4, "六": 5, "日": 6, "天": 6}
DIGITS = {"一": 1, "二": 2, "两": 2, "三": 3, "四": 4, "五": 5, "六": 6, "七": 7, "八": 8, "九": 9}
TEN = 10
MAX_COUNT = 1_000
"""Larger counts of days, weeks, months or years are not resolved."""

_NUMBER = r"(?P<count>\d{1,4}|[一二两三四五六七八九]?十[一二三四五六七八九]?|[一二两三四五六七八九])"
_WEEK = r"(?P<week>上上|下下|上|下|这|本)个?(?:周|星期|礼拜)"
_INNATE = r"(?!性|努力|形成|养成|获得|因素|环境|教育|培养|习得)"

_JOINED_BEFORE = frozenset("目过说声证表阐申")
"""Characters that form a word with the one after them."""
_JOINED = {
    "之": "前后",
    "以": "前后上下",
    "最": "后",
    "先": "前",
    "此": "前后",
    "马": "上",
    "早": "上",
    "晚": "上",
    "剩": "下",
}
_NO_WEEK = frozenset("围期年岁边到身转游密长")


def _rule(
    pattern: str,
    render: Renderer,
    fits: Callable[[re.Match[str], str], bool] = lambda match, text: True,
) -> DateRule:
    return DateRule(re.compile(pattern), render, fits)


def _is_a_date(match: re.Match[str], text: str) -> bool:
    """Whether a match is a date: no part of a word (`说明天气`, `马上周末`), no metaphor (`美好的明天`)."""
    before = text[max(0, match.start() - 1) : match.start()]
    behind = text[match.end() : match.end() + 1]
    if before in _JOINED_BEFORE or (match[0][0] in _JOINED.get(before, "")):
        return False
    if match[0].endswith("年") and behind in {"龄", "代", "纪", "轻"}:
        return False
    if match[0].startswith("明") and before == "的":
        return False
    return not (match[0] == "后天" and "先天" in text)


def _is_a_week(match: re.Match[str], text: str) -> bool:
    """`上周围` and `下周期` hold no week."""
    return text[match.end() : match.end() + 1] not in _NO_WEEK and _is_a_date(match, text)


def _day(match: re.Match[str], text: str, reference: ReferenceDate) -> str | None:
    return _shown(calendar.add_days(reference, DAYS[match[0]]))


def _part(match: re.Match[str], text: str, reference: ReferenceDate) -> str | None:
    days, part = PARTS[match[0]]
    shown = _shown(calendar.add_days(reference, days))
    return f"{shown}{part}" if shown else None


def _weekday(match: re.Match[str], text: str, reference: ReferenceDate) -> str | None:
    monday = calendar.monday_of_week(reference, WEEKS[match["week"]])
    return _shown(monday + timedelta(days=WEEKDAYS[match["weekday"]])) if monday else None


def _week(match: re.Match[str], text: str, reference: ReferenceDate) -> str | None:
    monday = calendar.monday_of_week(reference, WEEKS[match["week"]])
    return f"{_shown(monday)}那一周" if monday else None


def _weekend(match: re.Match[str], text: str, reference: ReferenceDate) -> str | None:
    """Unresolved on a weekend, when the last one may be the current one."""
    monday = calendar.monday_of_week(reference, WEEKS[match["week"]])
    if monday is None or reference.day.weekday() > FRIDAY:
        return None
    return f"{_shown(monday + timedelta(days=FRIDAY + 1))}那个周末"


def _month(match: re.Match[str], text: str, reference: ReferenceDate) -> str | None:
    found = calendar.add_months(reference, WEEKS[match["week"]])
    return f"{found[0]}年{found[1]}月" if found else None


def _year(match: re.Match[str], text: str, reference: ReferenceDate) -> str | None:
    year = calendar.add_years(reference, YEARS[match[0]])
    return f"{year}年" if year else None


def _later(match: re.Match[str], text: str, reference: ReferenceDate) -> str | None:
    count = _number(match["count"])
    if not 0 < count <= MAX_COUNT or _is_past(match, text):
        return None
    return _shifted(reference, count, match["unit"])


def _coming(match: re.Match[str], text: str, reference: ReferenceDate) -> str | None:
    """`周五之前`: the next Friday, where the sentence is about something that is to come."""
    weekday = WEEKDAYS[match["weekday"]]
    if weekday == reference.day.weekday() or not reference.is_day_certain or _is_past(match, text):
        return None
    if _HABIT.search(text, 0, match.start()):
        return None
    is_moved = _MOVED_TO.search(text, 0, match.start()) and not _REPEATED.search(text)
    if not is_moved and not _TO_COME.search(text, match.start()):
        return None
    return _shown(calendar.coming_weekday(reference, weekday))


def _of_month(match: re.Match[str], text: str, reference: ReferenceDate) -> str | None:
    """`20 号`: in this month or the next; `11 月 18 号`: the next one."""
    if not reference.is_day_certain or _is_past(match, text):
        return None
    day = int(match["day"])
    if match["month"]:
        month = int(match["month"])
        return _shown(calendar.coming_date(reference, month, day)) if 1 <= month <= MONTHS_PER_YEAR else None
    return _shown(calendar.coming_day(reference, day))


def _is_day_number(match: re.Match[str], text: str) -> bool:
    """`2026 年 11 月 18 号` has a year, `每月 5 号` is repeated, `8 号楼` is no day."""
    before = text[max(0, match.start() - 8) : match.start()].rstrip()
    is_numbered = re.match(r"[楼线机床桌店馆位柜]", text[match.end() :])
    # Of `1 月 3 号到 14 号` the second day is in the month of the first.
    is_second = match["month"] is None and re.search(
        r"月|号\s*[到至、和]", text[max(0, match.start() - 12) : match.start()]
    )
    return not (before.endswith(("年", "每月", "每个月", "第")) or is_numbered or is_second)


def _month_end(match: re.Match[str], text: str, reference: ReferenceDate) -> str | None:
    if _is_past(match, text):
        return None
    if match["month"]:
        month = _number(match["month"])
        year = reference.day.year + (month < reference.day.month)
        return _shown(calendar.month_end(year, month)) if 1 <= month <= MONTHS_PER_YEAR else None
    found = calendar.add_months(reference, 1 if (match["which"] or "").startswith("下") else 0)
    return _shown(calendar.month_end(*found)) if found else None


def _is_past(match: re.Match[str], text: str) -> bool:
    """Whether the clause of a date is about the past: `周五去了`, `20 号发过`."""
    clause = re.split(r"[，,。；;！!？?\n]", text[match.end() :], maxsplit=1)[0]
    if _MOVED_TO.search(text, 0, match.start()):
        return False
    return bool(re.search(r"(?<!到)[了过](?!期|程|审)|的时候", clause))


def _ago(match: re.Match[str], text: str, reference: ReferenceDate) -> str | None:
    count = _number(match["count"])
    if not 0 < count <= MAX_COUNT:
        return None
    return _shifted(reference, -count, match["unit"])


def _shifted(reference: ReferenceDate, count: int, unit: str) -> str | None:
    """Return the date so many days, weeks, months or years later; all but days are approximate."""
    match unit:
        case "天":
            return _shown(calendar.add_days(reference, count))
        case "年":
            year = calendar.add_years(reference, count)
            return f"{year}年左右" if year else None
        case "个月":
            found = calendar.add_months(reference, count)
            return f"{found[0]}年{found[1]}月左右" if found else None
        case _:
            shown = _shown(calendar.add_days(reference, count * DAYS_PER_WEEK))
            return f"{shown}左右" if shown else None


def _unresolved(match: re.Match[str], text: str, reference: ReferenceDate) -> str | None:
    return None


def _shown(day: date | None) -> str | None:
    return day.isoformat() if day else None


def _number(word: str) -> int:
    if word.isdigit():
        return int(word)
    if "十" not in word:
        return DIGITS[word]
    tens, _, ones = word.partition("十")
    return (DIGITS[tens] if tens else 1) * TEN + (DIGITS[ones] if ones else 0)


_MOVED_TO = re.compile(r"(?:改到|改成|改在|推迟到|延到|延期到|提前到|挪到|定在)\s*\Z")
"""Before a date that something was moved to, which is still to come."""
_REPEATED = re.compile(
    r"[周例站晨晚早]会|daily|weekly|monthly|standup|周报|日报|值班|排班|每|平时|一般|通常|固定|都"
)
"""What takes place again and again: a weekday that it is moved to is every such day."""
_HABIT = re.compile(r"(?:每|只在|只有|只能|平时|一般|通常|固定|总是|都是?)[^，,。；;！!？?\n]{0,6}\Z")
"""Before a weekday that is every such day: `只在周二发版`."""
_TO_COME = re.compile(
    r"[^，,。；;！!？?\n]{0,12}?(?:之前|以前|前|截止|开始|起|要|得|必须|上线|发布|发版|交|冻结|封版|检修|开会|面试|考试|出发|到期|演示|评审|停|给)"
)
_AGO = r"(?:之前|以前|前)"
_LATER = r"(?:之后|以后|后)"

RULES: tuple[DateRule, ...] = (
    _rule(rf"大前天|大后天|前天|昨[天日]|今[天日]|明[天日]|后天{_INNATE}", _day, _is_a_date),
    _rule("|".join(PARTS), _part, _is_a_date),
    _rule(rf"{_WEEK}(?P<weekday>[一二三四五六日天])(?![天个周年月])", _weekday, _is_a_date),
    _rule(rf"{_WEEK}末", _weekend, _is_a_date),
    _rule(rf"{_WEEK}(?![一二三四五六日天末几])", _week, _is_a_week),
    _rule(r"(?P<week>上上|下下|上|下|这)个月", _month, _is_a_date),
    _rule(r"(?<![基日资成根剧样版])(?P<week>本)月", _month),
    _rule("|".join(YEARS), _year, _is_a_date),
    _rule(
        rf"(?<![第数多几\d一二两三四五六七八九十百千到至约近]){_NUMBER}(?P<unit>天|个月|年|周|个?星期|个?礼拜){_AGO}",
        _ago,
    ),
    _rule(
        rf"(?<![第数多几\d一二两三四五六七八九十百千到至约近]){_NUMBER}(?P<unit>天|个月|周|个?星期|个?礼拜){_LATER}",
        _later,
    ),
    _rule(rf"(?:{_NUMBER}|几)(?:天|周|个?星期|个?礼拜|个月|年)(?:{_AGO}|{_LATER})", _unresolved),
    _rule(r"最近|近来|不久前|刚才|前几天|前段时间|过几天|半年前", _unresolved),
    _rule(
        r"(?<![上下这本个每])(?:周|星期|礼拜)(?P<weekday>[一二三四五六日天])(?![天个周年月一二三四五六日])",
        _coming,
    ),
    _rule(
        r"(?<![\d第])(?:(?P<month>1[0-2]|[1-9])\s*月\s*)?(?P<day>[12]\d|3[01]|[1-9])\s*[号日](?![\d本语子])",
        _of_month,
        _is_day_number,
    ),
    _rule(
        r"(?<![\d十每个])(?:(?P<which>下个?|这个?|本)|(?P<month>1[0-2]|[1-9]|十[一二]?|[一二三四五六七八九])\s*)?月底",
        _month_end,
    ),
)
