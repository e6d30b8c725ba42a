"""Check whether the names, numbers, dates, paths and quotations of a memory occur in what was said (E9).

Only what can be looked up is checked; nothing here understands a sentence.
"""

from __future__ import annotations

import re
import unicodedata
from calendar import monthrange
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from itertools import pairwise

from nacre.memory.dates.absolute import PartialDate, find_dates, without_dates
from nacre.memory.dates.calendar import WEEKDAYS
from nacre.memory.dates.relative import resolve_dates
from nacre.memory.recall.ranking.terms import CJK_RUN, content, stem
from nacre.memory.recall.ranking.wordlists import NUMBERS, SHARES, STOP
from nacre.memory.similarity import terms
from nacre.messages.facts import UserQuote
from nacre.messages.untrusted_text import UNSEEN, unescaped

MIN_SHARED = 2
"""Terms that a message must share with a memory to be its source, unless it has fewer."""
LOOK_BACK = 40
"""Characters before a word that are searched for the end of a sentence; bounds the time for long texts."""
_QUOTED = re.compile(r"\"([^\"\n]{2,200})\"|“([^”\n]{2,200})”|`([^`\n]{2,200})`|「([^」\n]{2,200})」")
_MARKER = re.compile(r"^[ \t]*(?:[-*+]|\d+[.)])[ \t]+", re.MULTILINE)
_ADDRESS = re.compile(r"https?://[^\s<>\"'`)\]，。]+")
_TOKEN = re.compile(r"[A-Za-z0-9_~$./@:#\\+-]*[A-Za-z0-9]")
_JOINED = re.compile(r"[A-Za-z0-9][_/.@:#\\][A-Za-z0-9]|^[/~$.@#]|[a-z][A-Z]|[A-Za-z]\d|\d[A-Za-z]|[A-Z]-\d")
_NUMBER = re.compile(r"(?<![\w.])\d+(?:[.,]\d+)*(?![\w])")
_NAME = re.compile(r"(?<![\w'’])[^\W\d_a-z][\w'’-]*")
_START = re.compile(r"(?:^|[.!?:;\n]|\*\*|—)[\s*\"“(\[]*$")
_PLAIN_END = re.compile(r"(?:ing|ed|ly|tions?|ments?|ness|able|ity|ers)$")
_WHERE = re.compile(
    r"(?:住在|来自|位于|名叫|叫做|就职于|任职于|搬到|在(?=[\u4e00-\u9fff]{2,8}(?:工作|上班|出生)))"
    r"([\u4e00-\u9fff]{2,8}?)(?=[的，。,.；;、!！?？\s]|工作|上班|出生|$)"
)
_ABBREVIATED = frozenset({"e.g", "i.e", "etc", "vs", "a.m", "p.m"})
_OURS = frozenset(
    """
    user why how apply since person memory ai ok also english chinese whether nutzer nutzerin benutzer
    der die das ein eine frau herr
    """.split()
)
"""Words that occur in any memory."""
MIN_SUPPORTED_SHARE = 0.5
"""Share of the words of a title or description that must occur in its text."""
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_SENTENCE_END = re.compile(r"(?<=[.!?;])\s+|[。！？；\n]+")
_DENIAL = re.compile(
    r"\b(?:no|not|never|without|forget|wrong|gone|instead)\b|n['’]t\b|不|没|忘|错", re.IGNORECASE
)
_QUOTES = str.maketrans("’‘“”", "''\"\"")
NEAR_DAYS = 14
"""A weekday means one within this many days."""
MONTHS = 12
MONTH_NAMES = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october",
    "november", "december",
)  # fmt: skip
_MONTH_END = re.compile(r"(?:end|last day) of (?:the |this |next )?(\w+)|month[- ]end|(\d{0,2})月[底末]")
"""A month's end; the groups name the month."""
_HAN_WEEKDAYS = "一二三四五六日"
_HAN_NUMBERS = dict(zip("〇一二三四五六七八九十两零", "0 1 2 3 4 5 6 7 8 9 10 2 0".split(), strict=True))


def ungrounded_claims(
    new: str, *, said: Sequence[str], old: str = "", at: datetime | None = None, zone: tzinfo = UTC
) -> list[str]:
    """Return the claims of a text that neither the conversation, the old text nor a relative date supports.

    `at` is the time of the conversation, from which "tomorrow" is counted.
    """
    sources = [*said, old]
    found = unknown_claims(new, said=sources, at=at, zone=zone)
    if not found:
        # A text in the same script that shares no term with the conversation is unrelated to it.
        mine = set(content(new))
        is_same_script = bool(CJK_RUN.search(new)) == bool(CJK_RUN.search("".join(sources)))
        if mine and is_same_script and not any(mine & set(content(text)) for text in sources):
            found = [" ".join(new.split()[:6])]
    return list(dict.fromkeys(found))


def unknown_claims(
    text: str, *, said: Sequence[str], at: datetime | None = None, zone: tzinfo = UTC
) -> list[str]:
    """Return the claims of a text that none of these texts has; `at` as for `ungrounded_claims`."""
    known = _KnownFacts.of(said, at=at, zone=zone)
    return [claim.text for claim in dict.fromkeys(_claims(text)) if not known.has(claim)]


def claims_in(text: str, *, kinds: Collection[str]) -> list[str]:
    """Return the claims of these kinds in a text."""
    return [claim.text for claim in dict.fromkeys(_claims(text)) if claim.kind in kinds]


def lost_claims(old: str, *, now: Sequence[str]) -> list[str]:
    """Return the claims of a text that none of the present texts contains."""
    return ungrounded_claims(old, said=now)


def uncorrected_claims(old: str, new: str, *, said: Sequence[str], lost: Sequence[str] = ()) -> list[str]:
    """Return the claims that a rewrite lost although no sentence of the user corrects them.

    `lost` are sentences of the old text that the rewrite lost, checked like claims. A sentence of the user,
    read with the one before it, corrects a sentence of the old text if the two share a word and it has a word
    that the new text has and the old text has not, or if it denies the lost claim by name.
    """
    sentences = [
        f"{before} {sentence}" for text in said for before, sentence in pairwise(["", *_sentences(text)])
    ]
    fresh = set(content(new)) - set(content(old))
    missing = []
    for claim in (*lost_claims(old, now=[new]), *lost):
        places = [set(content(sentence)) for sentence in _sentences(old) if claim in sentence]
        subject = set(content(claim)).union(*places) if claim in lost else set[str]().union(*places)
        for sentence in sentences:
            words = set(content(sentence))
            is_named = (
                len(words & subject) >= MIN_SHARED if claim in lost else _normal(claim) in _normal(sentence)
            )
            denies = bool(_DENIAL.search(sentence)) and is_named
            if denies or (words & subject and words & fresh):
                break
        else:
            missing.append(claim)
    return missing


def is_supported(line: str, texts: Sequence[str]) -> bool:
    """Return whether at least half of the words of a title or description occur in these texts.

    A single word is a label and needs no support.
    """
    mine = set(content(line))
    known = {term for text in texts for term in content(text)}
    return len(mine) < MIN_SHARED or len(mine & known) >= MIN_SUPPORTED_SHARE * len(mine)


def is_blank(text: str) -> bool:
    """Return whether a text has no visible letter or digit outside of comments."""
    shown = UNSEEN.sub("", unicodedata.normalize("NFKC", unescaped(_COMMENT.sub("", text))))
    return not any(sign.isalnum() for sign in shown)


def source_records(new: str, quotes: Sequence[UserQuote]) -> list[str]:
    """Return the records that support a text: they contain a claim of it, or share enough terms."""
    mine = set(terms(new))
    claims = [claim for claim in _claims(new) if claim.kind != "number"]
    found = []
    for quote in quotes:
        theirs = set(terms(quote.text))
        is_source = len(mine & theirs) >= min(MIN_SHARED, len(theirs) or 1)
        if not is_source:
            facts = _KnownFacts.of([quote.text], at=quote.at, zone=UTC)
            is_source = any(map(facts.has, claims))
        if is_source:
            found.append(quote.record_id)
    return found


@dataclass(frozen=True, slots=True)
class _Claim:
    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class _KnownFacts:
    """The conversation in the forms in which claims are looked up."""

    text: str
    stems: set[str]
    numbers: set[str]
    dates: set[PartialDate]
    at: datetime | None

    @staticmethod
    def of(texts: Sequence[str], *, at: datetime | None, zone: tzinfo) -> _KnownFacts:
        whole = unicodedata.normalize("NFKC", "\n".join(texts))
        days = set(find_dates(whole))
        if at:
            days |= {day for text in texts for day in find_dates(resolve_dates(text, at, zone))}
        stems = set[str]()
        for word in re.findall(r"[^\W_]+(?:['’-][^\W_]+)*", whole):
            stems.update(map(_bare, (word, *re.split(r"['’-]", word))))
        return _KnownFacts(_normal(whole), stems, set(_numbers(whole)), days, at)

    def has(self, claim: _Claim) -> bool:
        match claim.kind:
            case "date":
                return any(map(self._has_date, find_dates(claim.text)))
            case "number":
                return _plain_number(claim.text) in self.numbers
            case "name" if _bare(claim.text) in self.stems:
                return True
            case _:
                return _normal(claim.text) in self.text

    def _has_date(self, day: PartialDate) -> bool:
        # A day without a year is in the year of the conversation, or the next.
        if day in self.dates or day[:2] in self.dates or (day[0] != 0 and (0, *day[1:]) in self.dates):
            return True
        return self.at is not None and (is_near(day, self.at, self.text) or _follows(day, self.at, self.text))


def _claims(text: str) -> Iterator[_Claim]:
    """Yield the claims of a text, each part of it once, most specific form first."""
    left = _MARKER.sub("", unicodedata.normalize("NFKC", text))
    for pattern, kind in ((_ADDRESS, "address"), (_QUOTED, "quotation")):
        for match in pattern.finditer(left):
            yield _Claim(kind, next((part for part in match.groups() if part), match[0]).rstrip(".,;:"))
        left = pattern.sub(" . ", left)
    found, left = without_dates(left)
    yield from (_Claim("date", one) for one in found)
    for match in _TOKEN.finditer(left):
        if _is_identifier(match[0]):
            yield _Claim("identifier", match[0])
    left = _TOKEN.sub(lambda match: " " * len(match[0]) if _is_identifier(match[0]) else match[0], left)
    yield from (_Claim("number", match[0]) for match in _NUMBER.finditer(left))
    yield from (_Claim("name", match[0]) for match in _NAME.finditer(left) if _is_name(match, left))
    yield from (_Claim("place", match[1]) for match in _WHERE.finditer(left))


def _sentences(text: str) -> list[str]:
    normal = unicodedata.normalize("NFKC", text)
    return [one for one in _SENTENCE_END.split(normal) if one and one.strip()]


def _is_identifier(token: str) -> bool:
    if not _JOINED.search(token) or token.lower().strip(".") in _ABBREVIATED:
        return False
    parts = [part for part in re.split(r"[/]", token) if part]
    # "and/or", "read/write": two words, not a path.
    return not (
        token[0] != "/" and len(parts) > 1 and all(part.isalpha() and _is_common(part) for part in parts)
    )


def _is_name(match: re.Match[str], text: str) -> bool:
    word = match[0].removesuffix("'s").removesuffix("’s")
    if CJK_RUN.search(word) or not word[0].isupper() or _is_common(word):
        return False
    if not _PLAIN_END.search(word):
        return True
    return not _START.search(text, max(0, match.start() - LOOK_BACK), match.start())


def _is_common(word: str) -> bool:
    lower = word.lower()
    return len(word) < 2 or lower in STOP or lower in _OURS or lower in NUMBERS or stem(lower) in SHARES


def _bare(word: str) -> str:
    return stem(word.casefold().removesuffix("'s").removesuffix("’s"))


def _numbers(text: str) -> Iterator[str]:
    yield from (_plain_number(found) for found in re.findall(r"\d+(?:[.,]\d+)*", text))
    yield from (str(NUMBERS[word]) for word in re.findall(r"[a-z]+", text.lower()) if word in NUMBERS)
    yield from (_HAN_NUMBERS[sign] for sign in text if sign in _HAN_NUMBERS)


def _plain_number(text: str) -> str:
    plain = re.sub(r",(?=\d{3}\b)", "", text).lstrip("0") or "0"
    return plain.rstrip("0").rstrip(".") if "." in plain else plain


def _normal(text: str) -> str:
    folded = unicodedata.normalize("NFKC", text).casefold().translate(_QUOTES)
    return " ".join(folded.split())


def _follows(day: PartialDate, at: datetime, said: str) -> bool:
    """Whether a date follows from a month's name, an ordinal day or a month's end in what was said."""
    year = day[0] or at.year
    months = (year * 12 + day[1]) - (at.year * 12 + at.month)
    if len(day) < 3:
        return abs(months) <= MONTHS and MONTH_NAMES[day[1] - 1] in said
    last = monthrange(year, day[1])[1] if 1 <= day[1] <= MONTHS and 1 <= year <= 9_999 else 0
    ends = {found[1] or found[2] for found in _MONTH_END.finditer(said)}
    named = {end for end in ends if end in MONTH_NAMES or (end or "").isdigit()}
    is_meant = MONTH_NAMES[day[1] - 1] in named or str(day[1]) in named or bool(ends - named)
    is_end = day[2] == last and is_meant
    is_named = re.search(rf"\b{day[2]}(?:st|nd|rd|th)\b|(?<!\d){day[2]}\s*[号日]", said) is not None
    return abs(months) <= 1 and (is_end or is_named)


def is_near(day: PartialDate, at: datetime, said: str) -> bool:
    """Return whether a date is the day of the conversation, or a near weekday that it names."""
    if len(day) < 3:
        return day == (at.year, at.month)
    with suppress(ValueError):
        one = date(day[0] or at.year, day[1], day[2])
        distance = abs(one - at.astimezone(UTC).date())
        # In the user's time zone it may be another day.
        if distance <= timedelta(days=1):
            return True
        signs = (f"周{_HAN_WEEKDAYS[one.weekday()]}", f"星期{_HAN_WEEKDAYS[one.weekday()]}")
        is_named = any(sign in said for sign in (WEEKDAYS[one.weekday()], *signs))
        return is_named and distance <= timedelta(days=NEAR_DAYS)
    return False
