"""How far a statement reaches: bounds, exceptions, frequencies, units, and who does what to whom (M16b)."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache

from nacre.memory.recall.ranking.terms import normal

_PATTERNS: Sequence[tuple[str, str]] = (
    ("only", r"(?:nothing|nobody|no one|none|not anyone|not anything) (?:but|except|besides|other than)"),
    ("most", r"(?:almost|nearly|virtually|practically|just about) (?:all|every\w*|each)"),
    ("rare", r"(?:almost|nearly|hardly) (?:n?ever)|hardly|barely|scarcely|seldom|rarely|once in a while"),
    ("at least", r"at least|no (?:less|fewer|earlier) than|not (?:less|fewer) than|minimum(?: of)?"
     r"|min\.?(?= \d)|(?:or|and) (?:more|up|newer|later|higher|above|greater)|>=|≥|upwards"),
    ("at most", r"at most|no (?:more|longer|later) than|not more than|maximum(?: of)?|max\.?|up to|>?<=|≤"
     r"|(?:or|and) (?:less|fewer|older|earlier|lower|below)|capped at"),
    ("over", r"(?:more|greater|longer|older|higher|larger|bigger) than|over(?= \d)|above|beyond|exceed\w*"),
    ("under", r"(?:less|fewer|shorter|younger|lower|smaller) than|under(?= \d)|below"),
    ("until", r"until|up until"),
    ("out of", r"out of|away from|outside(?: of)?"),
    ("except", r"except\w*|exclud\w*|besides|apart from|aside from|other than|unless|save for"
     r"|(?:all|everyone|everybody|everything|anyone|anything|anybody) but"),
    ("only", r"only|solely|exclusively|alone|nothing else|no one else|nobody else"),
    ("most", r"most|mostly|mainly|largely"),
    ("usual", r"usually|generally|normally|typically|often"),
    ("some", r"some|sometimes|occasionally|few|several|at times|now and then|partly|partially"),
    ("all", r"all|everyone|everybody|everything|any|anyone|anybody|anything|whoever|entire|both"),
    ("each", r"every|each|always|everywhere"),
    ("open end", r"(?:before|after|afterwards|until)(?=\W*$)"),
    ("before", r"before|prior to|ahead of"),
    ("count once", r"once(?= (?:an?|per|every|each|daily|weekly|monthly|in)\b|\W*$)"),
    ("after", r"after|afterwards|once|as soon as|following"),
    ("if", r"if|when|whenever|in case|provided|as long as|while"),
    ("count twice", r"twice|double"),
    ("count three", r"thrice|triple"),
    ("count half", r"half|halve\w*"),
    ("in morning", r"mornings?"),
    ("in evening", r"evenings?|afternoons?"),
    ("in night", r"nights?|nightly|midnight"),
    ("may", r"may|might|can|could|optional(?:ly)?|free to|(?<!not )(?:allowed|permitted)"),
    ("must", r"must|ha(?:ve|s) to|needs? to|required|mandatory|obliged"),
    *((f"unit {unit}", pattern) for unit, pattern in (
        ("second", r"seconds?"), ("minute", r"minutes?"), ("hour", r"hours?|hourly"), ("day", r"days?|daily"),
        ("week", r"weeks?|weekly"), ("month", r"months?|monthly"), ("quarter", r"quarters?|quarterly"),
        ("year", r"years?|yearly|annual(?:ly)?"),
    )),
)  # fmt: skip
"""Phrases by what they do to a statement; the first that fits counts."""
_PHRASE = re.compile(
    "|".join(rf"(?P<p{at}>(?<![\w-])(?:{pattern})(?![\w-]))" for at, (_, pattern) in enumerate(_PATTERNS))
)
_DENIED_MODAL = re.compile(r"\b(?:(?:can|must|may|should|need|could|do|does|have|has)(?:n't| not)(?: to)?)\b")
_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
_BOUNDS = frozenset({"at least", "at most", "over", "under", "until"})
_COUNTS = frozenset(kind for kind, _ in _PATTERNS if kind.startswith("count"))
_EQUAL = _BOUNDS | _COUNTS | {"except", "only", "rare", "some", "most", "out of"}
"""Kinds that may neither be added nor left out."""
CONDITIONS = frozenset({"if", "after", "before"})
"""Kinds that may be left out only if what they name is not."""
_ADDED = {"all": {"all", "each"}, "each": {"all", "each"}}
_FREQUENT = frozenset({"most", "some", "rare", "usual"})
_MODALS = frozenset({"may", "must"})
_FREE = _MODALS | {"usual", "each"}
_UNITS = frozenset(kind for kind, _ in _PATTERNS if kind.startswith("unit"))
_NEUTRAL = frozenset(
    normal(word) for word in "is are be was were been the a an and or , not do does it that".split()
)
"""Words that relate nothing, or both sides alike."""
_NEAR = 24
"""Characters between a phrase and its number."""

SCOPE_WORDS = frozenset(
    normal(word)
    for word in re.sub(r"\(\?[:=!<]+|[^a-z ]", " ", " ".join(one for _, one in _PATTERNS)).split()
    if len(word) > 2
) - set(
    "about alon bare call cap exceed hard just larg long main near out practic provid save sever sole "
    "virtual".split()
)
"""Stems of all words in such phrases: they are compared here, not as words."""


@dataclass(frozen=True, slots=True)
class _Scope:
    kind: str
    number: str
    """The number it belongs to, if there is one beside it."""


@lru_cache(maxsize=4096)
def _scopes(text: str) -> tuple[_Scope, ...]:
    plain = _DENIED_MODAL.sub(" not ", text.lower().replace("’", "'"))
    found = []
    for match in _PHRASE.finditer(plain):
        kind = _PATTERNS[int(str(match.lastgroup)[1:])][0]
        after = _NUMBER.search(plain, match.end(), match.end() + _NEAR)
        before = [one[0] for one in _NUMBER.finditer(plain, max(0, match.start() - _NEAR), match.start())]
        is_before = kind.startswith("unit") or match[0].startswith(("or ", "and "))
        number = (before[-1] if before else "") if is_before else (after[0] if after else "")
        found.append(_Scope(kind, number))
    return tuple(found)


def scope_kinds(text: str) -> set[str]:
    """Return the kinds of phrases in a text, such as "may" or "at least"."""
    return {one.kind for one in _scopes(text)}


def has_same_scope(mine: str, source: str, touched: str) -> bool:
    """Return whether a statement reaches as far as its source: neither further nor less far.

    `touched` is the part of the source that the statement is about; what the rest limits may be left out.
    """
    if not has_same_bounds(mine, source, touched):
        return False
    my_kinds = {one.kind for one in _scopes(mine)}
    its_kinds = {one.kind for one in _scopes(source)}
    if any(not its_kinds & _ADDED.get(kind, {kind}) for kind in my_kinds - _EQUAL - _FREE):
        return False
    if its_kinds & _FREQUENT and "each" in my_kinds and "each" not in its_kinds:
        return False
    my_modals = my_kinds & _MODALS
    its_modals = its_kinds & _MODALS
    return not my_modals or not its_modals or bool(my_modals & its_modals)


def has_same_bounds(
    mine: str, source: str, touched: str, *, may_add: bool = False, may_omit: Collection[str] = ()
) -> bool:
    """Return whether a statement has the bounds, exceptions and units of its source, and no others.

    With `may_add`, it may have more bounds, which other sentences may support. It may omit the kinds in
    `may_omit`.
    """
    my_scopes = _scopes(mine)
    its_scopes = _scopes(source)
    added = {one.kind for one in my_scopes} & _EQUAL - {one.kind for one in its_scopes}
    left_out = {one.kind for one in _scopes(touched)} & _EQUAL - {one.kind for one in my_scopes}
    left_out.difference_update(may_omit)
    return not ((added and not may_add) or left_out) and all(
        _is_bound_kept(one, its_scopes) for one in my_scopes if one.number
    )


def _is_bound_kept(mine: _Scope, theirs: Collection[_Scope]) -> bool:
    """Whether a number has the bound or the unit that it has in the source."""
    family = _UNITS if mine.kind in _UNITS else _BOUNDS if mine.kind in _BOUNDS else frozenset[str]()
    rivals = {one.kind for one in theirs if one.number == mine.number and one.kind in family}
    return not rivals or mine.kind in rivals


def is_exchanged(
    mine: Sequence[str], source: Sequence[str], *, is_content: Callable[[str], bool], has_other_voice: bool
) -> bool:
    """Return whether two words changed places around a word that relates them: "A calls B", "B calls A".

    Both are the stems of a clause. In the other voice, such as "Bo is called by Ann", the places must change.
    """
    here = {word: at for at, word in enumerate(mine) if mine.count(word) == 1}
    there = {word: at for at, word in enumerate(source) if source.count(word) == 1}
    shared = [word for word in there if word in here and is_content(word)]
    for number, one in enumerate(shared):
        for other in shared[number + 1 :]:
            start, end = sorted((here[one], here[other]))
            before = set(source[there[one] + 1 : there[other]])
            now = set(mine[start + 1 : end])
            is_turned = here[other] < here[one]
            if has_other_voice:
                # With an agent, "by" must change the places; without one they may stay.
                is_wrong = not is_turned and ("by" in before) != ("by" in now)
            else:
                is_wrong = is_turned and bool((before & now) - _NEUTRAL)
            if is_wrong:
                return True
    return False
