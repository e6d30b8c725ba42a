"""Detection of credentials that a person tells in words (M16): spelled, described, quoted, or as a phrase.

The other detectors judge a value by its shape or by the label directly before it. Here a line counts if it is
about access and gives a value in a way in which only values are given: digits as words, letters one by one,
"capital B", a phrase in quotation marks behind "join with", the last word behind a user, the turns of a lock.
What a line says *about* a credential (where it is kept, how long it must be) is left out by the words of the
statement. Rules and words are in `data/told_secrets.json`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

from nacre.memory.secret_values import FUNCTION_WORDS, Grams, grams, is_ordinary, is_placeholder, is_statement
from nacre.prompts import packaged_file

MAX_LINE = 600
"""Characters of a line that are searched."""
CONTEXT = 80
"""Characters between a value and the word for what it opens."""
MAX_WORDS = 10
"""Words of a phrase that opens something."""
MIN_SENTENCE = 4
"""Words of a phrase that may start with a preposition."""
MIN_WORD = 4
"""Letters of a single word that opens something."""
_PATH_OR_ADDRESS = re.compile(
    r"(?<![\w/.])[a-z_-]{1,40}(?:/[a-z_-]{1,40}){1,12}(?:\.[a-z]{2,4})?(?![\w/])|https?://\S{1,200}"
)
"""Their words say nothing about a value beside them."""
_MARK = re.compile(r"\[removed: [^\]]{1,60}\]")
_NOT_SAVED = re.compile(r"\(not saved\)")
_DENSE = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]")
_SAYS_ABOUT_DENSE = re.compile(
    r"[由在存放保管理设設定加每必需须須要過过期限统統默认認空随隨机找问問位个個字后後台文件员員被給给从從会會已将將应應请請"
    r"和或及与與比的了吗呢吧什么聞知]|不(?:是|会|能|要|得|变|可|应|同|对|过|记|显|存|用|需)|变量|変更|更新|共有|同じ|ない|まで"
    r"|ごと|毎|月|年|桁|以上|以下|場合|もの|こと|ため|から|ここ|どこ|だけ|さん"
)
"""What a Chinese or Japanese clause about a password has, and a password in words has not."""
_NO_WORDS = re.compile(r"[<>{}\[\]()=/\\@$|_]|https?:|\.\w")


@dataclass(frozen=True, slots=True)
class ToldSecret:
    """A value that a line tells, by its place."""

    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ToldRule:
    """A way in which a value is told."""

    regex: re.Pattern[str]
    keys: tuple[str, ...]
    """Each line with a match has one of these lower-case strings; empty for no such condition."""
    judge: str
    """What decides about a match: "opens" (a word beside it for what it opens), "said" (or for an account),
    "word", "access" (a word in a line about access), "phrase", "named" (a phrase in such a line), "quoted" or
    "any"."""
    has_case: bool
    """The regex is for the text as it is written; the others are for the text in lower case."""
    is_stated: bool
    """A line with a rule for passwords, such as "at least", has no value."""
    signs: str
    """Each line with a match has one of these characters as well; empty for no such condition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToldPatterns:
    """The rules, and the words that decide."""

    rules: tuple[ToldRule, ...]
    keys: Mapping[str, Grams]
    """The keys of all rules, with their runs of three characters."""
    opens: re.Pattern[str]
    """Credentials and locks."""
    signs_in: re.Pattern[str]
    """Acts and services for which one has a password."""
    rule_words: re.Pattern[str]
    """What a password must be like, or a place of the product that asks for it."""
    reference: frozenset[str]
    """Words of a phrase that says where a credential is or what became of it."""
    soft: frozenset[str]
    """Words that a phrase may have behind a colon, but not at its start."""
    joiners: re.Pattern[str]
    """What is between an act and a value in quotation marks."""
    screens: re.Pattern[str]
    """What a program shows, and what has a name, before quotation marks."""


@cache
def told_patterns() -> ToldPatterns:
    """Return the compiled table."""
    table: dict[str, Any] = json.loads(packaged_file("nacre.memory", "data/told_secrets.json"))
    words: dict[str, list[str]] = table["words"]
    parts: dict[str, str] = dict(table["parts"])
    for name, listed in words.items():
        parts[name] = f"(?:{_any_of(listed) if name in table['whole'] else _either(listed)})"
    rules = tuple(_rule(rule, words, parts) for rule in table["rules"])
    return ToldPatterns(
        rules=rules,
        keys={key: grams(key) for rule in rules for key in rule.keys},
        opens=re.compile(f"{parts['labels']}|{parts['opens']}"),
        signs_in=re.compile(parts["signs_in"]),
        rule_words=re.compile(parts["rules"]),
        reference=frozenset(words["reference"]),
        soft=frozenset(words["soft"]),
        joiners=re.compile(rf"[:=：]\s*$|(?:^|[\s\"']){parts['joiners']}\s*$"),
        screens=re.compile(parts["screens"]),
    )


def _rule(rule: Mapping[str, Any], words: Mapping[str, list[str]], parts: Mapping[str, str]) -> ToldRule:
    has_case = rule.get("case", False)
    regex = re.sub(r"\(\?&(\w+)\)", lambda found: parts[found[1]], rule["regex"])
    keys = (words[key[1:]] if key[0] == "@" and len(key) > 1 else [key] for key in rule["keys"])
    return ToldRule(
        regex=re.compile(regex, re.IGNORECASE if has_case else 0),
        keys=tuple(key for listed in keys for key in listed),
        judge=rule["judge"],
        has_case=has_case,
        is_stated=rule.get("stated", False),
        signs=rule.get("signs", ""),
    )


def _either(words: Iterable[str]) -> str:
    return "|".join(sorted(words, key=len, reverse=True))


def _any_of(words: Iterable[str]) -> str:
    """Return a pattern for these words; Latin ones start where a word starts."""
    listed = [*words]
    latin = [word for word in listed if not _DENSE.search(word)]
    dense = [word for word in listed if _DENSE.search(word)]
    return "|".join([rf"(?<![a-zà-ÿ_])(?:{_either(latin)})(?![a-zà-ÿ])", *dense])


def told_secrets(text: str, small: str, known: Grams) -> Iterator[ToldSecret]:
    """Yield what a line tells as a credential.

    `small` is the text in lower case, of the same length, and `known` are its runs of three characters.
    """
    patterns = told_patterns()
    present = frozenset(key for key, runs in patterns.keys.items() if runs <= known)
    for sign, pattern, blank in (("(", _NOT_SAVED, "\0"), ("[", _MARK, "\0"), ("/", _PATH_OR_ADDRESS, "\1")):
        if sign in small:
            small = _blanked(small, pattern, blank)
    lines: dict[tuple[str, ...], list[tuple[int, int]]] = {}
    for rule in patterns.rules:
        if rule.keys not in lines:
            lines[rule.keys] = _lines(small, present.intersection(rule.keys))
        searched = text if rule.has_case else small
        places = lines[rule.keys] if rule.keys else _lines_of(rule.regex.finditer(searched), small)
        for start, end in places:
            if rule.signs and not any(sign in small[start:end] for sign in rule.signs):
                continue
            for found in rule.regex.finditer(searched[start:end]):
                first, last = (start + place for place in found.span("value"))
                if _is_told(rule, found, text[first:last], small[start:end], patterns):
                    yield ToldSecret(first, last)


def _blanked(small: str, known: re.Pattern[str], blank: str) -> str:
    return known.sub(lambda found: blank * len(found[0]), small)


def _lines(small: str, keys: Iterable[str]) -> list[tuple[int, int]]:
    """Return start and end of the lines that have one of these keys."""
    found: dict[int, int] = {}
    for key in keys:
        at = small.find(key)
        while at >= 0:
            start, end = _line(small, at)
            found[start] = min(end, start + MAX_LINE)
            at = small.find(key, end)
    return sorted(found.items())


def _lines_of(matches: Iterable[re.Match[str]], small: str) -> list[tuple[int, int]]:
    """Return start and end of the lines in which a match starts."""
    found = dict(_line(small, match.start("value")) for match in matches)
    return [(start, min(end, start + MAX_LINE)) for start, end in found.items()]


def _line(small: str, at: int) -> tuple[int, int]:
    end = small.find("\n", at)
    return small.rfind("\n", 0, at) + 1, len(small) if end < 0 else end


def _is_told(rule: ToldRule, found: re.Match[str], value: str, line: str, patterns: ToldPatterns) -> bool:
    """Return whether what a rule has found is a value."""
    first, last = found.span("value")
    is_blank = "\0" in line[first:last] or ("\1" in line[first:last] and rule.judge != "any")
    if is_blank or (rule.is_stated and patterns.rule_words.search(line)):
        return False
    beside = (line[max(0, first - CONTEXT) : first], line[last : last + CONTEXT])
    match rule.judge:
        case "opens":
            return not _is_counting(value) and any(map(patterns.opens.search, beside))
        case "said":
            return any(patterns.opens.search(part) or patterns.signs_in.search(part) for part in beside)
        case "word":
            return _is_word(value)
        case "access":
            return _is_word(value) and _is_about_access(line, patterns)
        case "phrase":
            return _is_phrase(value, patterns, is_marked=found.groupdict().get("mark") is not None)
        case "named":
            is_marked = found.groupdict().get("mark") is not None
            return _is_about_access(line, patterns) and _is_phrase(value, patterns, is_marked=is_marked)
        case "quoted":
            return _is_quoted_value(value, found.groupdict().get("between"), patterns)
        case _:
            return True


def _is_about_access(line: str, patterns: ToldPatterns) -> bool:
    return patterns.signs_in.search(line) is not None or patterns.opens.search(line) is not None


def _is_counting(value: str) -> bool:
    """Return whether digits follow each other as steps do (1, 2, 3), or are all the same."""
    digits = [int(digit) for digit in re.findall(r"\d+", value)]
    return len(digits) > 1 and (
        all(after == before + 1 for before, after in pairwise(digits)) or len({*digits}) == 1
    )


def _is_word(value: str) -> bool:
    """Return whether a single word may be a password."""
    core = value.strip("\"'“”„«»「」.,!? ")
    return len(core) >= MIN_WORD and not (
        is_ordinary(core) or is_placeholder(core) or is_statement(core) or core.lower() in FUNCTION_WORDS
    )


def _is_quoted_value(value: str, between: str | None, patterns: ToldPatterns) -> bool:
    """Return whether words in quotation marks are a value: no name of a thing, no text on a screen."""
    words = value.split()
    if between is not None:
        is_introduced = patterns.joiners.search(between.rstrip()) is not None
        if not is_introduced or patterns.screens.search(between[-20:]) or len(words) == 1:
            return False
    return _is_word(value) if len(words) == 1 and value.isascii() else 0 < len(words) <= MAX_WORDS


def _is_phrase(value: str, patterns: ToldPatterns, *, is_marked: bool) -> bool:
    """Return whether words are a value and say nothing about one; `is_marked` is after a colon."""
    core = value.strip("\"'“”„«»「」『』.,!?。 ")
    if _DENSE.search(core) and " " not in core.strip():
        return not _SAYS_ABOUT_DENSE.search(core)
    words = [word.strip("'’()*`") for word in re.findall(r"[^\s,]+", core.lower())]
    if not 0 < len(words) <= MAX_WORDS or patterns.reference & {*words} or _NO_WORDS.search(core):
        return False
    if (patterns.soft & {*words} and not is_marked) or (
        words[0] in patterns.soft and len(words) < MIN_SENTENCE
    ):
        return False
    if len(words) == 1:
        return _is_word(core) and core.replace("-", "").isalpha()
    if is_marked and len(words) >= MIN_SENTENCE:
        return True
    ends = re.findall(r"[^\s,]+", core)
    is_said = any(is_statement(word) and word not in FUNCTION_WORDS for word in (ends[0], ends[-1]))
    return not is_said and (is_marked or not FUNCTION_WORDS & {*words})
