"""Estimates whether a statement gives another value for what an earlier one says (M14c, E10).

A logistic model over a few properties of the two texts: what they share, which values differ, what the later
one denies, and how it says that something changed. `python -m bench.extract.train_replacement` fits it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import lru_cache
from itertools import pairwise

from nacre.layers.l5_extract.classifier import probabilities
from nacre.layers.l5_extract.values import (
    CLAUSE,
    EVENT,
    IS_NOW,
    STRONG,
    Values,
    denied_terms,
    is_elliptic,
    subject,
)
from nacre.memory.checks.support_sentence import among
from nacre.memory.similarity import terms

WEIGHTS: Mapping[str, float] = {
    "bias": -2.66,
    "shared": 1.43,
    "covered": 1.42,
    "held": 2.24,
    "left old": -0.65,
    "left new": 0.27,
    "left both": -0.21,
    "strong shared": 0.38,
    "says change": 1.04,
    "denied": -0.73,
    "denied and shared": 0.92,
    "number": -0.09,
    "units": 0.22,
    "name": -0.38,
    "name replaced": 1.13,
    "elliptic": -0.07,
    "elliptic value": 0.82,
    "corrects": 0.61,
    "long": -0.75,
    "value": 1.84,
    "value and cue": 1.57,
    "held value": -0.57,
    "covered value": -0.8,
    "begins alike": 0.05,
    "points": -0.51,
    "task": -2.48,
    "event": -2.71,
    "now": 1.06,
    "now shared": 0.45,
    "now value": -1.24,
    "fact": 0.5,
    "fact value": -1.63,
    "han": 0.35,
    "han value": 0.67,
    "compound": 2.41,
    "other": 0.52,
    "other without cue": -2.48,
    "no cue": -1.54,
    "left without cue": 0.04,
    "tells": -4.66,
}
MAX_COUNT = 3
"""Counts above this make no difference."""
LONG = 90
"""Characters of a statement that rather tells a story."""
MIN_HELD = 0.3
"""Share of a statement's words that one without another value and without a word of change repeats."""
MAX_DIFFERING = 2
"""Words, or Chinese characters, that each differing place of two such statements has."""
MIN_COMPOUND = 4
"""Letters that a German compound has beside the word that it contains."""
MIN_PART = 5
_SAID_NOW = re.compile(
    r"\b(?:new|sold|outdated|former\w*|used to|turns out|rather|instead|not|no longer|never|left"
    r"|quit|gone"
    r"|stepped down|last day|dropped|bumped|cut|let['’]?s say|fix|changed|checked|decided|wants|says"
    r"|starting|until|delayed|later|earlier|from (?:now|this|next|today)|off|out|over|ended|only|got|went"
    r"|correct\w*|mistake|wrong|actually|sorry|update|since|these days|lately|change of plans?|went back"
    r"|moving (?:off|to)|transferred|rebuilt|can go|told me to stop|legacy|raised|voted|now|jetzt|nun"
    r"|mittlerweile|inzwischen|nur noch|fällt|raus|wird nichts|verrechnet|statt|doch|neue?[rsn]?|anders"
    r"|später|früher|nicht mehr|rente|seit|ab|wurden?|wird|neuerdings|gezogen|abgeschafft|abgelöst"
    r"|aufgerüstet"
    r"|verlängert|dichtgemacht|aufgehört|geschlossen|zugemacht)\b"
    r"|了(?:[，,。]|$)|[变换改涨减挪搬]|升级|迁到|记错|说不要|还是|以后|现在|提前|推迟|要晚|新规"
    r"|调去|关了|过了|到期|统一",
    re.IGNORECASE,
)
"""Words by which people say that something is no longer so; many also say it of other things."""
_TASK = re.compile(
    r"^\W*(?:(?:ok|now|and|please|pls|bitte|jetzt|actually|no|nee)[, ]+)*(?:can you|could you|write"
    r"|sort|fix"
    r"|translate|review|summari[sz]e|name|make (?!it|that)|add|draft|answer|show|explain|schreib"
    r"|fass|帮|把"
    r"|排|i have|i ran|i was|i get)\b|帮我",
    re.IGNORECASE,
)
"""Begins what is to be done now."""
_TELLS = re.compile(
    r"[,;]\s*(?:please |pls |bitte )?(?!(?:it|we|they|he|she|i|you|and|but|or|so|because|since|for"
    r"|from|in|on|at"
    r"|by|with|not|over|under|until|und|aber|weil|für|von|im|auf|bei|mit|nicht|is|are|was|says|said"
    r"|call|use|half|all|both|most|some|none|as|to|of)\b)"
    r"[a-zäöüß]+ (?:it|them|this|that|the|me|sie|ihn|es|das|dem|den|die|der|mir)\b[^,;]*$"
    r"|[，,]\s*(?:请|帮|给我|麻烦|把)",
    re.IGNORECASE,
)
"""Ends with a task: "…, fix the typo"."""
_POINTS = re.compile(r"\b(?:this|these|here|that|dies\w*)\b|[这那]", re.IGNORECASE)
_HAN_NUMBER = re.compile(r"[一二两三四五六七八九十半]+(?=[\u4e00-\u9fff])")
_HAN_PAIR = re.compile(r"(?=([\u4e00-\u9fff]{2}))")
_HAN_COMMON = re.compile(
    r"我们|现在|这个|那个|一个|大家|以后|可以|需要|每[天周月]|时候|什么|[上下这本]周|[年月日号点\d]"
)
_HAN_HEAD = re.compile(r"^([\u4e00-\u9fff]{1,2})([\u4e00-\u9fff]{2})")
_WORD = re.compile(r"[A-Za-zÀ-ÿ][\w'-]*|[\u4e00-\u9fff]{2,}")
_TOKENS = re.compile(r"[\u4e00-\u9fff]|[^\W\u4e00-\u9fff]+")
_LONG_WORD = re.compile(r"[a-zäöüß]{9,}")


@dataclass(frozen=True, slots=True)
class _Text:
    """What is compared of one statement."""

    values: Values
    terms: frozenset[str]
    first: tuple[str, ...]
    """The first two terms."""
    subject: frozenset[str]
    core: frozenset[str]
    """The subject without names."""
    clauses: tuple[tuple[tuple[str, ...], frozenset[str]], ...]
    """The first terms and the subject of each clause."""
    han_numbers: frozenset[str]
    han_pairs: frozenset[str]
    modifiers: Mapping[str, frozenset[str]]
    """The words before a word: "auth" for the service in "the auth service"."""

    @classmethod
    @lru_cache(maxsize=4096)
    def of(cls, text: str) -> _Text:
        values = Values.of(text)
        found = terms(text)
        core = subject(text) - values.name_terms or subject(text)
        clauses = []
        for clause in dict.fromkeys((text, *CLAUSE.split(text))):
            own = subject(clause) - Values.of(clause).name_terms
            if own:
                clauses.append((tuple(terms(clause)[:1]), own))
        pairs = frozenset(_HAN_PAIR.findall(_HAN_COMMON.sub(" ", text)))
        return cls(
            values, frozenset(found), tuple(found[:2]), subject(text), core, tuple(clauses),
            frozenset(_HAN_NUMBER.findall(text)), pairs, _modifiers(text),
        )  # fmt: skip


def _modifiers(text: str) -> Mapping[str, frozenset[str]]:
    found: dict[str, frozenset[str]] = {}
    words = [next((term for term in terms(one) if term.isalpha()), "") for one in _WORD.findall(text)]
    for before, word in pairwise(words):
        if before and word:
            found[word] = found.get(word, frozenset()) | {before}
    head = _HAN_HEAD.match(text)
    return found | ({head[2]: frozenset({head[1]})} if head else {})


def probability(change: str, statement: str, *, corrects: bool = False) -> float:
    """Return how probable it is that the statement no longer holds as it was said.

    `corrects` says that words which took something back were left out of `change`.
    """
    found = features(change, statement, corrects=corrects)
    is_task = found["task"] or found["tells"]
    says_other = found["value"] or found["says change"] or found["held"] >= MIN_HELD
    if found["no cue"] and (is_task or not says_other or _differ_twice(change, statement)):
        return 0.0
    if not found["shared"] and not found["value"] and not found["denied"] and not found["elliptic"]:
        return 0.0
    return 1 / (1 + math.exp(-sum(WEIGHTS[name] * value for name, value in found.items())))


def share_terms(change: str, statement: str) -> bool:
    """Return whether two texts have a term in common; much faster than the model."""
    return not _Text.of(change).terms.isdisjoint(_Text.of(statement).terms)


def says_change(text: str) -> bool:
    """Return whether a text has words by which people say that something is no longer so."""
    return any(one.search(text) for one in (STRONG, IS_NOW, _SAID_NOW))


def features(change: str, statement: str, *, corrects: bool = False) -> dict[str, float]:
    """Return the properties of two texts that the model weighs."""
    new = _Text.of(change)
    old = _Text.of(statement)
    overlap = _overlap(new, old)
    shared = overlap["shared"]
    is_denied = any(among(one, old.terms) for one in denied_terms(change))
    is_strong = STRONG.search(change) is not None
    is_now = IS_NOW.search(change) is not None
    number = (
        bool(new.values.numbers - old.values.numbers and old.values.numbers - new.values.numbers)
        or bool(new.han_numbers - old.han_numbers and old.han_numbers)
    )  # fmt: skip
    is_name = bool(new.values.names - old.values.names and old.values.names - new.values.names)
    value = number or is_name or new.values.clashes(old.values)
    is_said = says_change(change)
    has_cue = is_strong or is_now or is_denied or corrects
    han = len(new.han_pairs & old.han_pairs)
    chance = 1 - probabilities(change)[0]
    other = _is_other(new, old)
    found = {
        "bias": 1,
        **overlap,
        "strong shared": is_strong and shared > 0,
        "says change": is_said,
        "denied": is_denied,
        "denied and shared": is_denied and shared > 1,
        "number": number,
        "units": new.values.counts_the_same(old.values),
        "name": is_name,
        "name replaced": any(among(one, new.terms) for one in old.values.name_terms)
        and bool(new.values.names - old.values.names),
        "elliptic": is_elliptic(change),
        "elliptic value": is_elliptic(change) and value,
        "corrects": corrects,
        "long": len(change) > LONG,
        "value": value,
        "value and cue": value and is_said,
        "held value": overlap["held"] * value,
        "covered value": overlap["covered"] * value,
        "begins alike": any(among(one, old.first) for first, _ in new.clauses for one in first),
        "points": _POINTS.search(change) is not None,
        "task": _TASK.search(change) is not None,
        "event": EVENT.search(change) is not None,
        "now": is_now,
        "now shared": is_now and shared > 0,
        "now value": is_now and value,
        "fact": chance,
        "fact value": chance * value,
        "han": min(2, han),
        "han value": han > 0 and value,
        "compound": _has_compound(change, statement),
        "other": other,
        "other without cue": other and not has_cue,
        "no cue": not has_cue,
        "left without cue": overlap["left both"] * (not has_cue),
        "tells": _TELLS.search(change) is not None,
    }
    return {name: float(one) for name, one in found.items()}


def _overlap(new: _Text, old: _Text) -> dict[str, float]:
    """Return how much of either text the other one has, and what is left of each."""
    shared = sum(among(one, old.terms) for one in new.subject)
    covered = max(
        (sum(among(one, old.subject) for one in own) / len(own) for _, own in new.clauses), default=0
    )
    left_old = sum(not among(one, new.terms) for one in old.core)
    left_new = min(
        (
            sum(not among(one, old.terms) for one in own)
            for _, own in new.clauses
            if any(among(one, old.terms) for one in own)
        ),
        default=MAX_COUNT,
    )
    held = 1 - left_old / max(1, len(old.core))
    return {
        "shared": min(MAX_COUNT, shared),
        "covered": covered,
        "held": held,
        "left old": min(MAX_COUNT, left_old),
        "left new": min(MAX_COUNT, left_new),
        "left both": min(MAX_COUNT, left_old, left_new),
    }


def _is_other(new: _Text, old: _Text) -> bool:
    """Whether both name a thing with another word before it: "the auth service", "the billing service"."""
    return any(
        not mine & old.modifiers[word]
        and not any(among(one, old.terms) for one in mine)
        and not any(among(one, new.terms) for one in old.modifiers[word])
        for word, mine in new.modifiers.items()
        if word in old.modifiers
    )


def _differ_twice(change: str, statement: str) -> bool:
    """Whether two texts of one form differ in subject and value: "Ada owns billing", "Ben owns search"."""
    mine, theirs = (_TOKENS.findall(one.lower()) for one in (change, statement))
    if len(mine) != len(theirs):
        return False
    codes = SequenceMatcher(None, mine, theirs, autojunk=False).get_opcodes()
    differing = [end - start for kind, start, end, *_ in codes if kind != "equal"]
    is_subject = codes[0][0] == "replace" or codes[0][2] == 1
    return is_subject and len(differing) > 1 and max(differing) <= MAX_DIFFERING


def _has_compound(change: str, statement: str) -> bool:
    """Whether a long word of one text contains a word of the other: "Küchenbudget", "Budget"."""
    pairs = ((change, statement), (statement, change))
    return any(
        one in word and len(word) - len(one) >= MIN_COMPOUND
        for whole, part in pairs
        for word in _LONG_WORD.findall(whole.lower())
        for one in _Text.of(part).terms
        if len(one) >= MIN_PART
    )
