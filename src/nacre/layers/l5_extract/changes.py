"""Finds the remembered statement that a reported change or a correction is about (M14c, E10).

How probable it is that a statement gives another value for an earlier one is estimated by `replacement`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from difflib import SequenceMatcher

from nacre.layers.l5_extract.replacement import probability, share_terms
from nacre.layers.l5_extract.values import (
    ADDRESS,
    CLAUSE,
    CUES,
    DAY_MONTH,
    EVENT,
    HAN,
    IS_NOW,
    LANGUAGE,
    NUMBER,
    PRONOUN,
    STRONG,
    TIME,
    WEEKDAY,
    Values,
    denied_terms,
    is_elliptic,
    subject,
    without_said,
)
from nacre.memory.checks.grounding import claims_in
from nacre.memory.checks.support_sentence import among
from nacre.memory.corrections import parse_correction
from nacre.memory.dates.absolute import without_dates
from nacre.memory.format.entry import Entry
from nacre.memory.similarity import terms

MIN_OWN = 0.55
"""A statement of the same session is replaced from this probability on."""
MIN_OTHER = 0.8
"""And one of an earlier session from this one on."""
NO_LONGER = ("**Superseded ", "**Said earlier:**")
"""Beginnings of the paragraphs that say what a memory said before."""
ELIDED = "…"
"""In the place of a value that no longer holds."""
MIN_ALIGNED = 2
"""Words before a value that a statement and a change share."""
MAX_ALIGNED = 4
"""Words of such a value."""
_TOKEN = re.compile(r"[^\W\u4e00-\u9fff][\w.+:/@-]*(?<=\w)|[\u4e00-\u9fff]")
_NO_NAME = re.compile(rf"{PRONOUN.pattern}.*|[A-Z]{{2,3}}s?")
"""Pronouns and abbreviations such as PR."""
_COMMA = re.compile(r"\s*[,;，；]\s*")
_RESTRICTS = re.compile(r"\b(?:only|just|except|unless|nur|au(?:ß|ss)er)\b|[只仅]|除了", re.IGNORECASE)
_OLD_WORD = re.compile(r"[A-Za-zÀ-ÿ][\w.+-]*\w|(?<![\w-])\d+(?![\w-])|[\u4e00-\u9fff]{2,4}")
_LEADING_CUES = re.compile(
    r"^(?:\W*(?:(?:actually|sorry|oops|wrong|wait|no|nope|nah|hm+|oh|ok|well|correction|update|small update"
    r"|ach|nein|korrektur|nachtrag|falsch|quatsch|更正|不对|说错了?|等等|其实|哦对了)\b|\s)[\s,，:：—–-]*)+",
    re.IGNORECASE,
)
_UNIT = re.compile(r"\d+(?P<unit>\s?[A-Za-z%€]+)")
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
        rf"\b(?:it is|it['’]?s|es ist|es sind|ist jetzt|sind jetzt) {_NEW},? (?:and )?(?:not|nicht) {_OLD}$",
        rf"\b(?:no more|not|no longer|nicht) {_OLD}(?: any ?more| mehr| sorry| please)?,"
        rf" (?:it is|it['’]s|its|use|sondern) {_NEW}"
        r"(?= (?:now|in|from now on)\b|[,.;]|$)",
    )
)
"""Forms that name the old and the new value."""


def with_named_values(old: str, change: str) -> str:
    """Return a statement with the new value of a change that names both; empty without the old one."""
    found = (_replaced(old, gone, new) for new, gone in _named_pairs(change))
    return next(filter(None, found), "")


def with_new_values(old: str, change: str) -> str:
    """Return a statement with the values of a change; empty unless it is clear which replaces which."""
    if named := with_named_values(old, change):
        return named
    found = old
    change = _LEADING_CUES.sub("", change)
    if not is_elliptic(change) and not _is_same_subject(change, old):
        return ""
    for pattern in (ADDRESS, WEEKDAY, LANGUAGE, TIME):
        found = _swapped(found, pattern.findall(found), pattern.findall(change))
    found = _swapped(found, _dates(found), _dates(change))
    _, mine = without_dates(change)
    _, theirs = without_dates(found)
    units = {one["unit"]: one[0] for one in NUMBER.finditer(mine) if one["unit"]}
    for one in NUMBER.finditer(theirs):
        if one["unit"] in units and found.count(one[0]) == 1:
            found = found.replace(one[0], units[one["unit"]])
    kinds = ("name", "identifier")
    names = _names(theirs, kinds)
    fresh = _names(NUMBER.sub(" ", mine), kinds)
    if denied := [one for one in names if one in _denied(change, old)]:
        names = denied
    if denied or is_elliptic(change) or STRONG.search(change) or IS_NOW.search(change):
        found = _swapped(found, names, fresh)
    return found if found != old else ""


def _names(text: str, kinds: Sequence[str]) -> list[str]:
    found = claims_in(WEEKDAY.sub(" ", text), kinds=kinds)
    return [one for one in found if not _NO_NAME.fullmatch(one)]


def _is_same_subject(change: str, old: str) -> bool:
    """Whether a change names what a statement is about, and does not tell what happened once."""
    units = {one["unit"].lower() for one in NUMBER.finditer(change) if one["unit"]}
    shared = [one for one in subject(change) - units if among(one, terms(old))]
    rest = subject(change) - units - Values.of(change).name_terms
    return (bool(shared) or len(rest) <= 1) and not EVENT.search(change)


def without_old_values(old: str, change: str) -> str:
    """Return a former statement without the values that a change gives anew or denies.

    What else it says may still hold: "interns start 2027-06-01 and there will be … of them".
    """
    found = _aligned(old, change)
    for one in sorted(_denied(change, old), key=len, reverse=True):
        found = re.sub(
            rf"(?<!\w){re.escape(one)}(?!\w)" if not HAN.search(one) else re.escape(one), ELIDED, found
        )
    for pattern in (ADDRESS, WEEKDAY, LANGUAGE, TIME):
        found = _elided(found, pattern.findall(found), pattern.findall(change))
    found = _elided(found, _dates(found), _dates(change))
    _, mine = without_dates(without_denial(change, old))
    _, theirs = without_dates(found)
    numbers = [one[0].removesuffix(one["unit"] or "").strip() for one in NUMBER.finditer(theirs)]
    fresh = [one[0].removesuffix(one["unit"] or "").strip() for one in NUMBER.finditer(mine)]
    return _elided(found, numbers, fresh)


def without_denial(change: str, old: str) -> str:
    """Return a change without clauses that only deny what a statement says: "heron is gone"."""
    gone = set(terms(old))
    clauses = _COMMA.split(change)
    kept = [one for one in clauses if not _only_denies(one, gone)]
    text = ("，" if HAN.search(change) else ", ").join(kept)
    says_what = bool(subject(old) & subject(text)) and bool(set(terms(text)) - gone)
    return text if len(kept) < len(clauses) and says_what and not is_elliptic(text) else change


def _only_denies(clause: str, gone: Collection[str]) -> bool:
    """Whether a clause denies words and gives no value of its own."""
    found = terms(clause)
    has_value = any(any(sign.isdigit() for sign in one) and one not in gone for one in found)
    is_denied = any(among(word, gone) for word in denied_terms(clause))
    return is_denied and not has_value and not _RESTRICTS.search(clause)


def _aligned(old: str, change: str) -> str:
    """Return a statement without the words that have others in their place in a change."""
    mine = list(_TOKEN.finditer(old))
    words = [one[0].lower() for one in mine]
    found = old
    matcher = SequenceMatcher(None, words, [one.lower() for one in _TOKEN.findall(change)], autojunk=False)
    codes = matcher.get_opcodes()
    for number, (kind, start, end, _, _) in reversed(list(enumerate(codes))):
        before = codes[number - 1] if number else None
        is_led = before is not None and before[0] == "equal" and before[2] - before[1] >= MIN_ALIGNED
        if kind == "replace" and is_led and end - start <= MAX_ALIGNED:
            found = f"{found[: mine[start].start()]}{ELIDED}{found[mine[end - 1].end() :]}"
    return found


def _denied(change: str, old: str) -> list[str]:
    """Return the words of a statement that a change denies."""
    words = denied_terms(change)
    found = [one for one in _OLD_WORD.findall(old) if any(among(term, words) for term in terms(one))]
    shown = set(terms(change)) - words
    return [one for one in found if not any(term in shown for term in terms(one))]


def _elided(text: str, old: Sequence[str], new: Sequence[str]) -> str:
    """Return a text without its one value of a kind where a change has another one."""
    mine = {one.lower() for one in new}
    gone = list(dict.fromkeys(one for one in old if one.lower() not in mine))
    is_clear = len(gone) == 1 and bool(mine - {one.lower() for one in old}) and text.count(gone[0]) == 1
    return text.replace(gone[0], ELIDED) if is_clear else text


def _dates(text: str) -> list[str]:
    dates, rest = without_dates(without_said(text))
    return [*dates, *DAY_MONTH.findall(rest)]


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
    if not old or not new or CUES.fullmatch(new):
        return ""
    old = _with_unit(old, new, text)
    whole = re.escape(old) if HAN.search(old) else rf"(?<!\w){re.escape(old)}(?!\w)"
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


def _with_unit(old: str, new: str, text: str) -> str:
    """Return an old number with the unit that it has in a text, if the new one has the same: "7am not 8"."""
    unit = _UNIT.fullmatch(new)
    if unit is None or not old.isdecimal():
        return old
    found = re.search(rf"(?<![\w.:]){old}{re.escape(unit['unit'])}(?!\w)", text, re.IGNORECASE)
    return found[0] if found else old


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
    return " " in text[at - 1 : at + 1] or bool(HAN.match(text[at]))


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
    values = Values.of(change)
    olds = Values.of(old)
    theirs = subject(old) - olds.name_terms
    mine = subject(change)
    # A name is left out only if another one takes its place.
    gone = [one for one in olds.names - values.names if not among(one, mine)]
    is_named = not gone or (len(gone) == 1 and bool(values.names - olds.names))
    if is_named and not is_elliptic(change) and all(among(one, mine) for one in theirs):
        return True
    clauses = CLAUSE.split(change)
    return (
        bool(theirs) and len(clauses) > 1 and any(one.strip() and covers(one.strip(), old) for one in clauses)
    )


def current(body: str) -> str:
    """Return the paragraphs of a memory that still hold."""
    return "\n\n".join(one for one in body.strip().split("\n\n") if not one.startswith(NO_LONGER))


def changed_statement(
    text: str, statements: Sequence[Entry], *, session: str, corrects: bool = False
) -> Entry | None:
    """Return the statement that a change is about; None if that is not certain.

    `statements` are newest first; `corrects` says that words that took something back were left out. A
    change is looked for among the statements of the session before the others.
    """
    own = [one for one in statements if session in one.sources]
    others = [
        one for one in statements if session not in one.sources and share_terms(text, current(one.body))
    ]
    is_open = is_elliptic(text)
    named = [one for one in own if with_named_values(current(one.body), text)]
    if len(named) == 1:
        return named[0]
    for group, least in ((own, MIN_OWN), ([] if is_open else others, MIN_OTHER)):
        scored = [(probability(text, current(one.body), corrects=corrects), one) for one in group]
        best = max((share for share, _ in scored), default=0.0)
        found = [one for share, one in scored if share == best]
        if best >= least and (len(found) == 1 or is_open):
            return found[0]
    return None
