"""What statements are compared by: their values, their subject, and words that report a change (E10)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from nacre.memory.checks.grounding import claims_in
from nacre.memory.dates.absolute import find_dates, without_dates
from nacre.memory.similarity import terms

STRONG = re.compile(
    r"\b(?:make (?:that|it)(?= )|mixed (?:it|that|them|this|those) up|misspoke|mis(?:read|typed"
    r"|remembered)|i meant"
    r"|i (?:was|got (?:it|that)) wrong|my (?:bad|mistake)|typo|no longer|no more|scratch (?:that|what)"
    r"|correction|update(?=:)|changed (?:my mind|that|it|the|our)|(?:got|was|were|has been|have been|is"
    r"|are|been|they|we|i|it)"
    r" (?:just |now |all )?(?:moved|pushed|postponed|rescheduled|rebooked|renamed|switched|migrated"
    r"|upgraded|extended"
    r"|replaced|swapped|shifted|delayed|cancelled|canceled|bumped|raised|lowered|cut|merged|promoted)"
    r"|got (?:moved|pushed|postponed|rebooked|cancell?ed|delayed|extended|renamed|bumped)"
    r"|(?:just|we|they|i) (?:moved|pushed|postponed|rescheduled|rebooked|renamed|switched|migrated"
    r"|upgraded|extended"
    r"|replaced|swapped|shifted|bumped|raised|dropped|left|quit)|took over|takes over|slipped|went (?:up"
    r"|down)|swapped (?:with|places)|is deprecated|retires|retired|stopped \w+ing|gave up|rewrote"
    r"|(?:moved|switched|pushed|postponed|changed|extended|renamed) (?:to|from|by|until)"
    r"|nicht mehr|kein\w* .{1,30} mehr|stimmt (?:so )?nicht|korrektur|falsch|ach nein|ach nee"
    r"|doch (?:lieber|besser|nicht"
    r"|erst|schon)|verschoben|vorgezogen|verlängert|umgezogen|umgestiegen|umgestellt|verlegt|gekündigt"
    r"|gewechselt|geändert|umbenannt|abgelöst|ersetzt"
    r"|vertan|verwechselt|verschrieben|meinte|sondern|ab sofort|ab jetzt|hei(?:ß|ss)t jetzt"
    r"|übernimmt jetzt|\d+ [\w ]{1,20}, not \d+)(?!\w)"
    r"|^(?:(?:hm+|oh|ok|okay|well|so|and|but|ah|oops|ups|ach)[, ]+)*(?:actually|sorry|oops|wrong|wait|nope"
    r"|no|nah|nee|nein"
    r"|halt|quatsch)\b(?=.)"
    r"|改成|改到|改为|变成|变为|改去|改用|改了|改(?=周|星期|下|明|后|\d)|换成|换到|换了|换给|升到|升级到"
    r"|降级到|挪到|转组|调走|休假|搬家|调到|提前|推迟|延期|延到|不再|不用.{0,12}了|不去.{0,8}了|不看.{0,12}了"
    r"|说错|更正|纠正|不对|看错|记错|搞错|弄错|写错|离职|跳槽|搬到|搬去|涨到|降到|作废|取消",
    re.IGNORECASE,
)
"""Words that report a change or take something back, whatever else a statement says."""
WEAK = re.compile(
    r"\b(?:now|these days|since (?=last|this|the|\d|jan|feb|mar|apr|may\b|jun|jul|aug|sep|oct|nov|dec|mon"
    r"|tue|wed|thu|fri)"
    r"|starting|as of|any ?more|from now on|instead|turns out|left|moved|switched"
    r"|renamed|changed|replaced|pushed|postponed|slipped|delayed|extended|jetzt|nun|seit"
    r"|inzwischen|mittlerweile|statt|doch|neuerdings)\b|,? (?:and )?not [\w-]+(?: [\w-]+)?[.!]*$|\b(?:not"
    r"|nicht|kein\w*) [^,]{1,30}, "
    r"|现在|以后|起[，,]?|还是.*吧|已经|目前|新的|[，,]不是",
    re.IGNORECASE,
)
"""Words that may report a change; the statement must also give another value for a subject that it names."""
_ELLIPTIC = re.compile(
    r"^\W*(?:(?:actually|sorry|oops|wrong|wait|no|nope|nah|hm+|oh|ok|well|ah|ach|nee|nein|halt|doch|update"
    r"|correction|hey"
    r"|i mixed (?:it|that|them|those|this) up|i misspoke|my bad|i was wrong(?: about (?:that"
    r"|it))?)\b[,.:;!—– -]*)*"
    r"(?:it|its|it['’]s|that|thats|that['’]s|this|he|hes|he['’]s|she|shes|she['’]s|they|theyre|they['’]re"
    r"|make (?:that|it)|i meant|not"
    r"|er|sie|es|das|nicht|doch)\b"
    r"|^[，, ]*(?:说错了?|不对|错了|更正|看错了?|记错了?|其实|改了|等等|算了)?[，,。 ]*(?:是|不是|应该是"
    r"|改成|改到|换成|他|她|它)",
    re.IGNORECASE,
)
"""Begins a correction that does not name what it is about."""
_DENIED = re.compile(
    r"\b(?:not|no|no more|without|nicht|kein\w*|statt|instead of|rather than|forget) (?P<a>[^,.;!?]{1,40}?)"
    r"(?:[,.;!?]| (?:sorry|any ?more|mehr|please|but|sondern)\b|$)"
    r"|\b(?P<b>[\w-]+) (?:has |is |have |was )?(?:left|quit|gone|retired|ist weg"
    r"|hat gekündigt)\b(?! (?:an?|the|some|it|me|you|us|my|his|her|its|comments?|notes?)\b)"
    r"|\b(?:from|von) (?P<c>[\w-]+) (?:to|auf|zu|nach)\b"
    r"|(?:不是|不用|不去|不看|不在|别用|而非)(?P<d>[^，。,；;！了]{1,12})"
    r"|(?P<e>[\u4e00-\u9fff]{2,4}?)(?:已经)?(?:离职|走了|不干了)",
    re.IGNORECASE,
)
_GONE = re.compile(
    r"\b(?:not|no|never|isn['’]t|instead of|rather than|than|sold (?:the|my)|dropped|aus|without|forget"
    r"|don['’]?t use|nicht|kein\w*|statt) ((?:the |my |our |a |an )?[\w.+-]+(?: [\w.+-]+)?)"
    r"|\b([\w.+-]+)(?:['’]s)?(?: \w+)? (?:is off|is out|ist raus|is gone|fällt weg|stepped down|was sold|took"
    r"|left|quit|war zu|ist in|ends|on (?:sabbatical|leave|parental leave)|last day)\b"
    r"|(?:不要|不是|不用|别|不)\s*([\w\u4e00-\u9fff]{1,6})"
    r"|([\w\u4e00-\u9fff]{2,8}?)(?:要删|走了|离职|换人|作废|取消|到期|太[慢贵])",
    re.IGNORECASE,
)
"""More ways to say that something is no longer so; they also occur in other statements."""
IS_NOW = re.compile(
    r"\b(?:is|are|has|it['’]?s|goes?|runs?|lives?|uses?)\b[^,]*\bnow\b|\bnow (?:is|uses?)\b"
    r"|\b(?:ist|sind|bin|haben?|nutzen|hei(?:ß|ss)t|gehen|geht|läuft|liegt|wohnt?e?)"
    r" (?:jetzt|nun|mittlerweile)\b"
    r"|现在(?:是|用|在|叫|都|每|跟|只)|以后|[改换变]成|改[为到]|换了|升级?[到成]|[迁搬涨减挪调]到|切到",
    re.IGNORECASE,
)
"""Says what is so from now on."""
EVENT = re.compile(
    r"\b(?:yesterday|again|today|wrote|asked|sent|found|fails?|failed|error|threw|spent|heute|gestern"
    r"|wieder)\b|又|刚刚|报错|今天|连不上",
    re.IGNORECASE,
)
"""Tells what happened once."""
CLAUSE = re.compile(r"[,;，；]|\b(?:and|but|und|aber)\b")
CUES = re.compile(
    r"最近|只|\b(?:ist|sind|war|mein\w*|unser\w*|der|die|das|den|dem|ein\w*|herrn?|frau|es|am|im|um|wir"
    r"|ich|nicht|haben|hat"
    r"|inzwischen|seit|now|actually|sorry|wait|correction|update|scratch|mind|wrong|mixed|misspoke|meant"
    r"|moved"
    r"|switched|changed"
    r"|renamed|replaced|pushed|postponed|since|starting|week|month|year|today|said|anymore|longer|jetzt"
    r"|mehr|korrektur"
    r"|falsch|seit|stimmt|doch|lieber|immer|bitte|new|please|always|never|just|also|only|going)\b"
    r"|现在|以后|已经|更正|说错|不对|其实|我们|大家|目前",
    re.IGNORECASE,
)
"""Words that say that something changed, not what."""
WEEKDAY = re.compile(
    r"\b(?:mon|tues|wednes|thurs|fri|satur|sun)days?\b|\b(?:montag|dienstag|mittwoch|donnerstag|freitag"
    r"|samstag|sonntag)s?\b"
    r"|\b(?-i:Mon|Tue|Tues|Wed|Thu|Thur|Thurs|Fri|Sat|Sun)\b|(?:周|星期|礼拜)[一二三四五六日天]",
    re.IGNORECASE,
)
LANGUAGE = re.compile(
    r"\b(?:english|german|french|spanish|chinese|italian|portuguese|dutch|swedish|polish|japanese|deutsch"
    r"|englisch"
    r"|französisch|spanisch|chinesisch)\b|[中英德法日]文|[英德法日韩]语|中文",
    re.IGNORECASE,
)
NUMBER = re.compile(
    r"(?<![A-Za-z\d.])-?\d+(?:[.:,]\d+)*(?![\w.]*\d)\s*(?P<unit>[a-z]+|[\u4e00-\u9fff])?", re.IGNORECASE
)
_CLOCK = re.compile(
    r"\b(?:at|by|until|from|um|bis|ab) \d{1,2}(?:[:.]\d\d)?(?! ?%)\b|\b\d{1,2}:\d\d\b|\d点", re.IGNORECASE
)
TIME = re.compile(r"\b\d{1,2}:\d\d\b")
ADDRESS = re.compile(r"https?://\S+|[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_SAID_ON = re.compile(r"\s*\(said \d{4}-\d{2}-\d{2}\)")
_HAN_NUMBERS = re.compile(r"(?P<value>[一二两三四五六七八九十]+)(?P<unit>[个次天周月年岁人台条票])")
HAN = re.compile(r"[\u4e00-\u9fff]")
PRONOUN = re.compile(r"(?:I|Ich|We|Wir|Er|Sie|Es|He|She|They|It|Mein\w*|My|Unser\w*|Our)(?:['’]|$)")
_MONTHS = (
    r"(?:jan(?:uary|uar)?|feb(?:ruary|ruar)?|mar(?:ch)?|märz|apr(?:il)?|may|mai|june?|juni|july?|juli|aug(?:ust)?"
    r"|sep(?:tember)?|o[ck]t(?:ober)?|nov(?:ember)?|de[cz](?:ember)?)"
)
DAY_MONTH = re.compile(
    rf"\b\d{{1,2}}\. ?{_MONTHS}\b|\b{_MONTHS} \d{{1,2}}(?:st|nd|rd|th)?\b|\b\d{{1,2}} {_MONTHS}\b",
    re.IGNORECASE,
)
"""A date without a year."""


@dataclass(frozen=True, slots=True)
class Values:
    """The values of a statement, by kind."""

    days: frozenset[object]
    weekdays: frozenset[str]
    languages: frozenset[str]
    numbers: frozenset[str]
    units: dict[str, str]
    names: frozenset[str]
    name_terms: frozenset[str]
    addresses: frozenset[str]
    has_clock: bool

    @classmethod
    @lru_cache(maxsize=4096)
    def of(cls, text: str) -> Values:
        text = without_said(text)
        _, plain = without_dates(text)
        counted = NUMBER.sub(" ", plain)  # units such as "MB" are no names
        counted = WEEKDAY.sub(" ", counted)
        names = claims_in(counted, kinds=("name", "identifier", "address", "place"))
        found = [*NUMBER.finditer(plain), *_HAN_NUMBERS.finditer(plain)]
        return cls(
            frozenset(find_dates(text)),
            frozenset(one.lower().rstrip("s") for one in WEEKDAY.findall(plain)),
            frozenset(one.lower() for one in LANGUAGE.findall(plain)),
            frozenset(one[0].removesuffix(one["unit"] or "").strip() for one in found),
            {(one["unit"] or "").lower(): one[0] for one in found},
            frozenset(one.lower() for one in names),
            frozenset(term for one in names for term in terms(one)),
            frozenset(ADDRESS.findall(plain)),
            _CLOCK.search(plain) is not None,
        )

    def clashes(self, old: Values) -> bool:
        """Whether there is another value of a kind that the old text has, too."""
        mine_days = self.days | self.weekdays
        old_days = old.days | old.weekdays
        pairs = ((mine_days, old_days), (self.languages, old.languages), (self.numbers, old.numbers))
        return any(mine and theirs and mine - theirs for mine, theirs in pairs) or bool(
            self.names - old.names and old.names
        )

    def counts_the_same(self, old: Values) -> bool:
        """Whether both count the same thing or name a day, a language: "5 years", "6 years"."""
        units = {
            unit
            for unit in self.units.keys() & old.units.keys()
            if unit and self.units[unit] != old.units[unit]
        }
        days = (self.days | self.weekdays) and (old.days | old.weekdays)
        is_time = self.has_clock and old.has_clock
        return bool(
            units or days or is_time or (self.languages and old.languages and self.languages != old.languages)
        )


def without_said(text: str) -> str:
    """Return a statement without the day on which it was said, which is no value of it."""
    return _SAID_ON.sub("", text)


def reports_change(text: str) -> bool:
    """Return whether a statement may report a change or a correction."""
    return STRONG.search(text) is not None or WEAK.search(text) is not None


def is_elliptic(text: str) -> bool:
    """Return whether a correction does not name what it is about: "make that Friday"."""
    return _ELLIPTIC.match(text) is not None


@lru_cache(maxsize=4096)
def subject(text: str) -> frozenset[str]:
    """Return the terms of a text without values and without words that only report a change."""
    return frozenset(term for term in terms(CUES.sub(" ", text)) if term.isalpha())


def denied_terms(text: str) -> frozenset[str]:
    """Return the terms of what a text says is no longer so."""
    parts = [
        part
        for pattern in (_DENIED, _GONE)
        for found in pattern.finditer(text)
        for part in found.groups()
        if part
    ]
    return frozenset(term for part in parts for term in terms(part))
