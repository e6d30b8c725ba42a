"""Finds the remembered statement that a reported change or a correction is about (M14c, E10).

A statement is about another if it denies words of it, or shares its subject and gives another value of the
same kind. A correction without a subject ("make that Friday") is about the newest statement of the session
that has such a value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from nacre.memory.checks.grounding import claims_in
from nacre.memory.checks.support_sentence import among
from nacre.memory.corrections import parse_correction
from nacre.memory.dates.absolute import find_dates, without_dates
from nacre.memory.format.entry import Entry
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
_CLAUSE = re.compile(r"[,;，；]|\b(?:and|but|und|aber)\b")
_CUES = re.compile(
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
_WEEKDAY = re.compile(
    r"\b(?:mon|tues|wednes|thurs|fri|satur|sun)days?\b|\b(?:montag|dienstag|mittwoch|donnerstag|freitag"
    r"|samstag|sonntag)s?\b"
    r"|(?:周|星期|礼拜)[一二三四五六日天]",
    re.IGNORECASE,
)
_LANGUAGE = re.compile(
    r"\b(?:english|german|french|spanish|chinese|italian|portuguese|dutch|swedish|polish|japanese|deutsch"
    r"|englisch"
    r"|französisch|spanisch|chinesisch)\b|[中英德法日]文|[英德法日韩]语|中文",
    re.IGNORECASE,
)
_NUMBER = re.compile(
    r"(?<![A-Za-z\d.])-?\d+(?:[.:,]\d+)*(?![\w.]*\d)\s*(?P<unit>[a-z]+|[\u4e00-\u9fff])?", re.IGNORECASE
)
_CLOCK = re.compile(
    r"\b(?:at|by|until|from|um|bis|ab) \d{1,2}(?:[:.]\d\d)?(?! ?%)\b|\b\d{1,2}:\d\d\b|\d点", re.IGNORECASE
)
_TIME = re.compile(r"\b\d{1,2}:\d\d\b")
_ADDRESS = re.compile(r"https?://\S+|[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_HAN_NUMBERS = re.compile(r"(?P<value>[一二两三四五六七八九十]+)(?P<unit>[个次天周月年岁人台条票])")
_HAN = re.compile(r"[\u4e00-\u9fff]")
_PRONOUN = re.compile(r"(?:I|Ich|We|Wir|Er|Sie|Es|He|She|They|It|Mein\w*|My|Unser\w*|Our)(?:['’]|$)")
_MONTHS = (
    r"(?:jan(?:uary|uar)?|feb(?:ruary|ruar)?|mar(?:ch)?|märz|apr(?:il)?|may|mai|june?|juni|july?|juli|aug(?:ust)?"
    r"|sep(?:tember)?|o[ck]t(?:ober)?|nov(?:ember)?|de[cz](?:ember)?)"
)
_DAY_MONTH = re.compile(
    rf"\b\d{{1,2}}\. ?{_MONTHS}\b|\b{_MONTHS} \d{{1,2}}(?:st|nd|rd|th)?\b|\b\d{{1,2}} {_MONTHS}\b",
    re.IGNORECASE,
)
"""A date without a year."""
_LEADING_CUES = re.compile(
    r"^(?:\W*(?:(?:actually|sorry|oops|wrong|wait|no|nope|nah|hm+|oh|ok|well|correction|update|small update"
    r"|ach|nein|更正|不对|说错了?|等等|其实|哦对了)\b|\s)[\s,，:：—–-]*)+",
    re.IGNORECASE,
)
_OLD = r"(?P<old>[^,.;，。；]{1,40}?)"
_NEW = r"(?P<new>[^,.;，。；了]{1,40}?)"
_NOT_OLD = r"不(?:再)?(?:看|用|去|在|是)\s*(?P<old>[^，。,了]{1,20}?)\s*了?"
_BOTH = tuple(
    re.compile(one, re.IGNORECASE)
    for one in (
        rf"\b(?:from|von) {_OLD} (?:over )?(?:to|auf|zu|nach) {_NEW}"
        r"(?= (?:now|last|this|since|because|\w*ge\w+(?:en|t))\b|[,.;]|$)",
        rf"(?:换到|换成|改用|改去|改成|升到|用)\s*{_NEW}\s*了?[，,]\s*"
        rf"{_NOT_OLD}$",
        rf"{_NOT_OLD}[，,]\s*(?:换到|换成|改用|改去|改成|是|用)\s*{_NEW}\s*了?$",
        rf"\b(?:no more|not|no longer|nicht) {_OLD}(?: any ?more| mehr| sorry| please)?,"
        rf" (?:it is|it['’]s|its|use|sondern) {_NEW}"
        r"(?= (?:now|in|from now on)\b|[,.;]|$)",
    )
)
"""Forms that name the old and the new value."""
LEAST_SHARED = 2
"""Words that two statements on one subject share, where nothing else speaks for it."""

MIN_COVERED = 0.6
"""Share of the words of either of two clauses that the other one has, if they are about the same."""
MAX_RESTATED = 90
"""Characters of a statement that gives another value without a word of change; longer ones tell a story."""
MAX_SUBJECT_TERMS = 2
"""Content words at the start of a statement that may be its subject."""


@dataclass(frozen=True, slots=True)
class _Values:
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
    def of(cls, text: str) -> _Values:
        _, plain = without_dates(text)
        counted = _NUMBER.sub(" ", plain)  # units such as "MB" are no names
        names = claims_in(counted, kinds=("name", "identifier", "address", "place"))
        found = [*_NUMBER.finditer(plain), *_HAN_NUMBERS.finditer(plain)]
        return cls(
            frozenset(find_dates(text)),
            frozenset(one.lower().rstrip("s") for one in _WEEKDAY.findall(plain)),
            frozenset(one.lower() for one in _LANGUAGE.findall(plain)),
            frozenset(one[0].removesuffix(one["unit"] or "").strip() for one in found),
            {(one["unit"] or "").lower(): one[0] for one in found},
            frozenset(one.lower() for one in names),
            frozenset(term for one in names for term in terms(one)),
            frozenset(_ADDRESS.findall(plain)),
            _CLOCK.search(plain) is not None,
        )

    def clashes(self, old: _Values) -> bool:
        """Whether there is another value of a kind that the old text has, too."""
        mine_days = self.days | self.weekdays
        old_days = old.days | old.weekdays
        pairs = ((mine_days, old_days), (self.languages, old.languages), (self.numbers, old.numbers))
        return any(mine and theirs and mine - theirs for mine, theirs in pairs) or bool(
            self.names - old.names and old.names
        )

    def counts_the_same(self, old: _Values, *, with_units: bool) -> bool:
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


def reports_change(text: str) -> bool:
    """Return whether a statement may report a change or a correction."""
    return STRONG.search(text) is not None or WEAK.search(text) is not None


def is_elliptic(text: str) -> bool:
    """Return whether a correction does not name what it is about: "make that Friday"."""
    return _ELLIPTIC.match(text) is not None


def with_new_values(old: str, change: str) -> str:
    """Return a statement with the values of a change; empty unless it is clear which replaces which."""
    for new, gone in _named_pairs(change):
        if replaced := _replaced(old, gone, new):
            return replaced
    found = old
    for pattern in (_ADDRESS, _WEEKDAY, _LANGUAGE, _TIME):
        found = _swapped(found, pattern.findall(found), pattern.findall(change))
    found = _swapped(found, _dates(found), _dates(change))
    _, mine = without_dates(change)
    _, theirs = without_dates(found)
    units = {one["unit"]: one[0] for one in _NUMBER.finditer(mine) if one["unit"]}
    for one in _NUMBER.finditer(theirs):
        if one["unit"] in units and found.count(one[0]) == 1:
            found = found.replace(one[0], units[one["unit"]])
    kinds = ("name", "identifier")
    names = [one for one in claims_in(theirs, kinds=kinds) if not _PRONOUN.match(one)]
    fresh = [one for one in claims_in(_NUMBER.sub(" ", mine), kinds=kinds) if not _PRONOUN.match(one)]
    found = _swapped(found, names, fresh)
    return found if found != old else ""


def _dates(text: str) -> list[str]:
    dates, rest = without_dates(text)
    return [*dates, *_DAY_MONTH.findall(rest)]


def _named_pairs(change: str) -> Iterator[tuple[str, str]]:
    """Yield the new and the old value where a change names both: "from A to B", "it is A, not B"."""
    plain = _LEADING_CUES.sub("", change).strip(" .!。！")
    if found := parse_correction(plain):
        yield found.new, found.old
    for pattern in _BOTH:
        if match := pattern.search(plain):
            yield match["new"].strip(), match["old"].strip()


def _replaced(text: str, old: str, new: str) -> str:
    """Return a text with a new value in the place of the old one; empty unless that is there once.

    Words of the new value that are beside the old one are not repeated: "my sister Nele", "my cousin Nele".
    """
    shared = _common_end(old, new)
    if shared and text.count(old) != 1:
        old = old.removesuffix(shared).rstrip()
        new = new.removesuffix(shared).rstrip()
    if not old or not new or _CUES.fullmatch(new):
        return ""
    whole = re.escape(old) if _HAN.search(old) else rf"(?<!\w){re.escape(old)}(?!\w)"
    places = list(re.finditer(whole, text, re.IGNORECASE))
    if len(places) != 1 or new.lower() in text.lower():
        return ""
    before = text[: places[0].start()]
    after = text[places[0].end() :]
    size = next((n for n in range(len(new) - 1, 0, -1) if before.endswith(new[:n]) and _is_edge(new, n)), 0)
    tail = next(
        (n for n in range(len(new) - 1, 0, -1) if after.startswith(new[-n:]) and _is_edge(new, -n)), 0
    )
    bare = new[size : len(new) - tail] if size + tail < len(new) else new
    return f"{before}{bare}{after}"


def _common_end(one: str, other: str) -> str:
    """Return the last words that two values share."""
    mine = one.split()
    theirs = other.split()
    count = 0
    while count < min(len(mine), len(theirs)) - 1 and mine[-1 - count] == theirs[-1 - count]:
        count += 1
    return " ".join(mine[len(mine) - count :])


def _is_edge(text: str, at: int) -> bool:
    """Whether a text may be divided at a place: beside a space or a Chinese character."""
    return " " in text[at - 1 : at + 1] or bool(_HAN.match(text[at]))


def _swapped(text: str, old: Sequence[str], new: Sequence[str]) -> str:
    """Return a text with its one value of a kind replaced by the one new value of a change."""
    known = {one.lower() for one in old}
    fresh = [one for one in dict.fromkeys(new) if one.lower() not in known]
    gone = [
        one for one in dict.fromkeys(old) if len(old) == 1 or one.lower() not in {two.lower() for two in new}
    ]
    is_clear = len(fresh) == 1 and len(gone) == 1 and text.count(gone[0]) == 1
    return text.replace(gone[0], fresh[0]) if is_clear else text


def covers(change: str, old: str) -> bool:
    """Return whether a change says all that a statement is about, so that it can take its place."""
    values = _Values.of(change)
    olds = _Values.of(old)
    theirs = _subject(old) - olds.name_terms
    mine = _subject(change)
    # A name is left out only if another one takes its place.
    gone = [one for one in olds.names - values.names if not among(one, mine)]
    is_named = not gone or (len(gone) == 1 and bool(values.names - olds.names))
    if is_named and not is_elliptic(change) and all(among(one, mine) for one in theirs):
        return True
    clauses = _CLAUSE.split(change)
    return (
        bool(theirs) and len(clauses) > 1 and any(one.strip() and covers(one.strip(), old) for one in clauses)
    )


def changed_statement(
    text: str,
    statements: Sequence[Entry],
    *,
    session: str,
    corrects: bool = False,
    is_likely: bool = False,
    is_update: bool = True,
) -> Entry | None:
    """Return the statement that a change is about; None if that is not certain.

    `statements` are newest first; `corrects` says that words that took something back were left out,
    `is_likely` that the text probably states a fact, and `is_update` that it reports a change. A change is
    looked for among the statements of the session before the others.
    """
    own = [one for one in statements if session in one.sources]
    others = [one for one in statements if session not in one.sources]
    is_strong = corrects or STRONG.search(text) is not None
    change = _Change.of(text, is_strong=is_strong, is_update=is_update, is_likely=is_likely or is_strong)
    found = change.best(own, is_own=True) or change.best(others, is_own=False)
    if found is None and is_likely and is_update:
        found = _only(text, own if corrects else statements, corrects=corrects)
    return found


@dataclass(frozen=True, slots=True)
class _Change:
    """A statement that may replace what another one says."""

    subject: frozenset[str]
    values: _Values
    denied: frozenset[str]
    clauses: tuple[str, ...]
    is_strong: bool
    is_update: bool
    is_likely: bool
    is_elliptic: bool

    @classmethod
    def of(cls, text: str, *, is_strong: bool, is_update: bool, is_likely: bool) -> _Change:
        parts = [part for found in _DENIED.finditer(text) for part in found.groups() if part]
        denied = frozenset(term for part in parts for term in terms(part))
        clauses = (text, *_CLAUSE.split(text))
        subject = _subject(text)
        is_open = is_elliptic(text)
        return cls(subject, _Values.of(text), denied, clauses, is_strong, is_update, is_likely, is_open)

    def best(self, statements: Sequence[Entry], *, is_own: bool) -> Entry | None:
        """Return the one statement with most evidence; of equals the newest if the change has no subject."""
        scored = [
            (score, one) for one in statements if (score := self._score(one, is_own=is_own)) is not None
        ]
        best = max((score for score, _ in scored), default=0.0)
        found = [entry for score, entry in scored if score == best]
        return found[0] if found and (len(found) == 1 or not best) else None

    def _score(self, entry: Entry, *, is_own: bool) -> float | None:
        """Return how much speaks for a statement; 0 for a change without a subject, None if too little."""
        theirs = frozenset(terms(entry.body))
        old = _Values.of(entry.body)
        shared = frozenset(word for word in self.subject if among(word, theirs))
        is_denied = any(among(word, theirs) for word in self.denied)
        if any(term.isdigit() for term in self.denied) and not is_denied and len(shared) < LEAST_SHARED:
            return None
        clashes = self.values.clashes(old)
        is_same_kind = clashes and self.values.counts_the_same(old, with_units=self.is_likely)
        more = len(shared) / 10
        if is_denied and ((is_own and self.is_update and self.is_strong) or len(shared) >= LEAST_SHARED):
            return 3 + more
        may_restate = self.is_update or len(self.clauses[0]) <= MAX_RESTATED
        if clashes and may_restate and self._restates(entry.body, old):
            return 2 + more
        if self.is_strong and len(shared) >= LEAST_SHARED and (is_same_kind or is_own):
            return 1.5 + more
        is_part = 3 * sum(among(one, self.subject) for one in _subject(entry.body)) >= len(
            _subject(entry.body)
        )
        if (
            is_own
            and self.is_update
            and clashes
            and shared
            and (self.is_strong or (is_same_kind and is_part))
        ):
            return 1 + more
        has_address = self.is_update and bool(self.values.addresses - old.addresses and old.addresses)
        if is_own and (has_address or (self.is_update and self.is_elliptic and is_same_kind)):
            return 0.0
        return None

    def _restates(self, body: str, old: _Values) -> bool:
        """Whether one of its clauses and a statement are about the same, but for their values."""
        # German nouns look like names; a name that both have is no value.
        own = {one for one in self.values.name_terms if not among(one, old.name_terms)}
        its = {one for one in old.name_terms if not among(one, self.values.name_terms)}
        theirs = frozenset(_subject(body) - its) or _subject(body)
        for clause in self.clauses:
            mine = frozenset(_subject(clause) - own)
            shared = [one for one in mine if among(one, theirs)]
            held = [one for one in theirs if among(one, mine)]
            if shared and len(shared) >= MIN_COVERED * len(mine) and len(held) >= MIN_COVERED * len(theirs):
                return len(shared) >= LEAST_SHARED or len(shared) == len(mine) == len(theirs)
        return False


def _only(text: str, statements: Sequence[Entry], *, corrects: bool) -> Entry | None:
    """Return the one statement that begins with the subject, or shares a word with a correction."""
    mine = [term for term in terms(_CUES.sub(" ", text)) if term.isalpha()]
    words = mine if corrects else mine[:1]
    end = None if corrects else MAX_SUBJECT_TERMS
    found = [one for one in statements if any(among(word, terms(one.body)[:end]) for word in words)]
    return found[0] if len(found) == 1 else None


@lru_cache(maxsize=4096)
def _subject(text: str) -> frozenset[str]:
    """Return the terms of a text without values and without words that only report a change."""
    return frozenset(term for term in terms(_CUES.sub(" ", text)) if term.isalpha())
