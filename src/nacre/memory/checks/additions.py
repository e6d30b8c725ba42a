"""What a sentence adds to the one that it comes from: a reason, number, name, scope, day or modality (E9).

A memory may say a thing in other words. It may not say more than one sentence of the person, or two that
follow each other, even where the words occur elsewhere in the conversation.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from itertools import pairwise

from nacre.memory.checks.grounding import unknown_claims
from nacre.memory.checks.statements import Statements
from nacre.memory.checks.support_scope import scope_kinds
from nacre.memory.checks.support_sentence import (
    HAN,
    Sentence,
    among,
    is_alike,
    normalised,
    split_sentences,
)
from nacre.memory.checks.support_words import GENERIC_HAN
from nacre.memory.dates.absolute import without_dates
from nacre.memory.recall.ranking.terms import normal

MIN_PART = 2
"""Content words from which on a part of a sentence is a statement of its own."""
MAX_ITEM = 2
"""Content words of a part that only goes on with a list: "and three drivers"."""
MIN_WORDS_FOR_TWO = 6
"""Content words of a part in which two may be other words for what the source says."""
MIN_KNOWN_PER_NEW = 3
"""Content words of a part for each that may be another word for what the source says."""
FORM_LETTERS = 5
"""Letters in a row that two forms of a word share."""
MIN_HAN_RUN = 2
"""Chinese characters in a row that no source has, from which on they are an addition."""
_PART = re.compile(
    r"\s*([,;—–，、；：()]|:(?!//)|\s-\s"
    r"|\b(?:and|or|but|because|so|since|as|while|which|who|whose|that|und|oder|aber|weil|denn|da|damit|sodass"
    r"|seit|obwohl)\b|因为|由于|所以|并且|而且|以及|并(?!不|没)|(?<=[\u4e00-\u9fff])[和与及或](?=[\u4e00-\u9fff]))\s*",
    re.IGNORECASE,
)
_BOUND = re.compile(
    r"\W*(?:because(?: of)?|since(?! (?:\d|last|then|january|february|march|april|may\b|june|july"
    r"|august|september|october|november|december|monday|tuesday|wednesday|thursday|friday|saturday|sunday))|as"
    r"|so that|due to|which|who|whose|weil|denn|da|damit|因为|由于)(?![^\W\u4e00-\u9fff])\s*",
    re.IGNORECASE,
)
_ADVICE = re.compile(r"\W*(?:how to apply|apply|如何应用|做法)\W", re.IGNORECASE)
"""A part of a memory that says when to use it."""
_NOT_CLAIMED = re.compile(
    r"^(?:since|said|superseded) (?:earlier|\d{4}-\d\d-\d\d)\W+|\(said \d{4}-\d\d-\d\d\)|^(?:why|reason)\W+",
    re.IGNORECASE,
)
"""What nacre writes beside a statement."""
_ITEM = re.compile(r"\W*(?:and|or|und|oder|[,，、])\b", re.IGNORECASE)
_VERB = re.compile(
    r"\b(?:is|are|was|were|has|have|had|do|does|did|will|must|can|may|should|user|i|we|he|she|they|it|ist|sind|hat"
    r"|haben|wird|werden|muss|müssen|darf|dürfen|kann|können|nutzer|\w+(?:es|[^su\W]s|ed|te|[^aeiou\W]t))\b",
    re.IGNORECASE,
)
"""What may be a verb: endings of finite forms, auxiliaries, and pronouns before one."""
_JOINS = re.compile(r"(?:and|or|und|oder|并且|而且|以及|[和与及或、,，])$", re.IGNORECASE)
_HEDGES = tuple(
    re.compile(one, re.IGNORECASE)
    for one in (
        r"\b(?:usually|normally|typically|generally|mostly|mainly|largely|often|in general|as a rule"
        r"|tends? to|most of the time"
        r"|meist(?:ens)?|normalerweise|gewöhnlich|üblicherweise|in der regel|oft|häufig"
        r"|grundsätzlich)\b|一般|通常|大多|经常|往往|原则上",
        r"\b(?:sometimes|occasionally|hardly|barely|rare|rarely|seldom|sparingly|now and then|manchmal"
        r"|gelegentlich|selten|kaum)\b|有时|偶尔|很少",
        r"\b(?:ideally|preferabl[ey]|possible|possibly|by default|where it makes sense|whenever|if they can"
        r"|best effort"
        r"|möglichst|idealerweise|vorzugsweise|standardmäßig|nach möglichkeit|am liebsten|gern\w*)\b"
        r"|最好|尽量|尽可能|默认|优先",
        r"\b(?:maybe|perhaps|probably|likely|apparently|seems?|supposedly|might|vielleicht|wahrscheinlich"
        r"|vermutlich|angeblich|womöglich)\b|可能|也许|大概|似乎|好像",
        r"\b(?:about|around|roughly|approximately|nearly|almost|some|ungefähr|etwa|circa|ca\.?|rund|fast|knapp)"
        r" (?=\d)|大约|左右|差不多|接近",
        r"\b(?:plans? to|hopes? to|wants? to|intends? to|considers?|considering|thinking (?:of|about)|will"
        r"|going to|plant|will|möchte|soll(?:en)?)\b|打算|计划|准备|考虑",
    )
)
"""Words that weaken or put off what is said; by group, of which a source must have one as well."""
_MAY = re.compile(
    r"\b(?:may|might|can|could|allowed|permitted|optional|free to|kann|können|könnte|darf|dürfen"
    r"|erlaubt)\b|可以|可|能",
    re.IGNORECASE,
)
_ALLOWS = re.compile(
    r"\b(?:ok(?:ay)?|fine|no problem|(?:do not|don['’]?t) mind|keep|in ordnung)\b", re.IGNORECASE
)
_NOT_MAY = re.compile(r"\b(?:can|could|may|might)(?:n['’]t| ?not)\b|\bcannot\b", re.IGNORECASE)
_MUST = re.compile(
    r"\b(?:must|ha(?:ve|s) to|should|needs? to|required|mandatory|muss|müssen|sollte|soll)\b"
    r"|必须|应该|务必|一定要",
    re.IGNORECASE,
)
_ORDERS = re.compile(
    r"\b(?:must|ha(?:ve|s) to|should|needs?|required?|mandatory|always|never|only|please|pls|don['’]?t|do not"
    r"|no|not|without|unless|except|before|at (?:least|most)|max|min|muss|müssen|soll\w*|immer|nie|nur|bitte"
    r"|kein\w*|nicht|ohne)\b|必须|应该|务必|一定|要|别|不|只|请|都"
    r"|^\W*(?:use|keep|write|make|answer|reply|run|put|send|check|ask|leave|add|avoid|stop|prefer|call|tell|show"
    r"|explain|round|format|name|tag|commit|push|merge|deploy|test|mark|print|log|store|save|read|speak|treat|give"
    r"|close|open|wait|start|sign|pin|cite|quote|number|sort|list|follow|let|go|set|lock|back)\b",
    re.IGNORECASE,
)
"""What makes a sentence an order, which may be told with "must"."""
_FREE_KINDS = frozenset({"may", "must", "usual", "open end", "most", "some"})
"""Kinds of scope that are compared as modality."""
_SAME_KINDS = {
    "all": {"all", "each"},
    "each": {"all", "each"},
    "if": {"if", "after", "before", "until"},
    "after": {"if", "after", "until"},
    "until": {"until", "at most", "before"},
    "at most": {"at most", "under", "until"},
    "under": {"under", "at most"},
    "over": {"over", "at least"},
    "at least": {"at least", "over"},
    "before": {"before", "if", "until"},
}
_DEGREE = re.compile(
    r"\b(?!only|daily|weekly|monthly|yearly|hourly|nightly|july|family|reply|apply)[a-z]{3,}ly\b"
)
_NEVER = re.compile(r"(?!)")
_SAME_WORDS = {
    "each": re.compile(r"\bper\b|[每各]", re.IGNORECASE),
    "only": re.compile(r"\b(?:just|enough|merely|nur|bloß)\b|[只仅]", re.IGNORECASE),
}
"""Words for a kind of scope that are not counted as one."""
_SUBJECTLESS = re.compile(
    r"\W*(?:(?:and|so|but|no|hey|ok)\W+)*(?:i|we|it|its|it['’]s|they|he|she|this|that|these|those|my|our)\b",
    re.IGNORECASE,
)
"""The start of a source whose subject another message names."""
_HAN_LIST = re.compile(r"[和与及或、]|以及")
_WITH_USER = re.compile(
    r"\b(?:and|or) (?:the )?user\b|\buser (?:and|or) \w+|\b(?:und|oder) (?:der )?nutzer\b", re.IGNORECASE
)
_OWN = re.compile(r"\b(?:i|me|my|mine|we|us|our|ich|mich|mir|mein\w*|wir|uns)\b|我|俺", re.IGNORECASE)
_LIGHT = re.compile(
    r"\b(sent|written|made|given|held|stored|shown|printed|put|served|done|kept|used|planned|scheduled|counts?"
    r"|geschrieben|gemacht|gegeben|gehalten|geschickt|gedruckt|verwendet)\b",
    re.IGNORECASE,
)
"""Participles that only make a sentence of a phrase: "mails in English" are written in English."""
_MONTH = re.compile(
    r"\b(?:in|since|until|by|from|of|to|during|seit|im|bis|ab|von) "
    r"(january|february|march|april|may|june|july|august|september|october|november|december|januar"
    r"|februar|märz|mai|juni|juli|oktober|dezember)\b",
    re.IGNORECASE,
)


_PURPOSE = re.compile(
    r"\b(?:in order )?to (?!be\b)([a-z]+ (?:the|a|an|more|less|some) [^,;:]+)$", re.IGNORECASE
)
"""What something is for, at the end of a sentence: "to get the discount"."""


class SourceSentences:
    """The sentences of some texts, each alone and together with the one that it goes on with."""

    def __init__(self, texts: Iterable[str], *, at: datetime | None = None) -> None:
        """`at` is the time of the conversation, from which "tomorrow" is counted."""
        found: list[str] = []
        self._at = at
        self._wider: dict[str, list[str]] = defaultdict(list)
        """By sentence, the pairs that it is in."""
        before = ""
        self._letters: set[str] = set()
        """The letters of each text and sentence."""
        for text in texts:
            self._letters.add(_letters(text))
            for number, one in enumerate(split_sentences(normalised(text))):
                found.append(one)
                if before and (number or Sentence.of(one).leans):
                    pair = f"{before} {one}"
                    found.append(pair)
                    self._wider[before].append(pair)
                    self._wider[one].append(pair)
                before = one
        self._letters |= {Sentence.of(one).letters for one in found}
        self._letters.discard("")
        self._statements = Statements.of(Sentence.of(one) for one in found)

    def additions(self, text: str) -> list[str]:
        """Return the parts of a text that say more than any one sentence of the sources."""
        found: list[str] = []
        for one in () if self._is_verbatim(_letters(text)) else split_sentences(normalised(text)):
            mine = Sentence.of(_NOT_CLAIMED.sub("", one))
            if not self._is_verbatim(mine.letters) and not _ADVICE.match(one):
                found += self._additions(mine)
        return found

    def _is_verbatim(self, letters: str) -> bool:
        """Whether letters are those of one or several sentences of the sources, one after the other."""
        left = {letters}
        seen: set[str] = set()
        while left:
            seen |= left
            left = {rest[len(one) :] for rest in left for one in self._letters if rest.startswith(one)} - seen
        return "" in seen

    def _additions(self, mine: Sentence) -> list[str]:
        found: list[str] = []
        main: list[Sentence] = []
        whole = frozenset(mine.content)
        for text in _statements(mine.text):
            leads = _BOUND.match(text)
            part = Sentence.of(text[leads.end() :] if leads else text)
            is_item = (
                _ITEM.match(text) is not None and len(part.content) <= MAX_ITEM and not _VERB.search(text)
            )
            if not part.content and not part.han_pairs:
                # "which needs to stay up": nothing to look up, but a claim.
                if leads and main and not any(part.letters in one.letters for one in self._near(main)):
                    found.append(text)
                continue
            sources = self._near(main) if main and (leads or is_item) else self._best(part)
            fitting = [one for one in sources if not self._adds(part, one, whole, is_bound=leads is not None)]
            if not fitting:
                found.append(text)
            elif not leads and not is_item:
                main = fitting
        return found

    def _best(self, part: Sentence) -> list[Sentence]:
        """Return the sentences that have most of a part; a pair only if one sentence has less of it."""
        near = self._statements.nearest(Sentence.of(without_dates(part.text)[1]) if part.content else part)
        shares = {one.text: _share(part, one) for one in near}
        return [
            one
            for one in near
            if not any(
                other.text != one.text and other.text in one.text and shares[other.text] >= shares[one.text]
                for other in near
            )
        ]

    def _near(self, main: Sequence[Sentence]) -> list[Sentence]:
        """Return the sentences that a reason may come from: those of the statement, or beside them."""
        wider = (Sentence.of(pair) for one in main for pair in self._wider[one.text])
        return [*main, *wider]

    def _adds(self, part: Sentence, source: Sentence, whole: Collection[str], *, is_bound: bool) -> bool:
        text = part.text
        if is_bound and not all(map(source.has, part.content)):
            return True
        return (
            _has_new_modality(text, source.text)
            or (_WITH_USER.search(text) is not None and _OWN.search(source.text) is None)
            or self._has_new_words(part, source, whole)
            or _has_new_purpose(text, source)
            or _has_new_han(part, source, is_bound=is_bound)
            or bool(_new_kinds(text, source.text))
            or any(claim.casefold() not in source.text.casefold() for claim in self._unknown(text, source))
            or any(found[1].lower() not in source.text.lower() for found in _MONTH.finditer(text))
        )

    def _has_new_words(self, part: Sentence, source: Sentence, whole: Collection[str]) -> bool:
        """Whether a part has content words that are no other words for something the source says."""
        _, undated = without_dates(part.text)
        content = [*dict.fromkeys(Sentence.of(undated).content)]
        light = {normal(found[1].lower()) for found in _LIGHT.finditer(part.text)}
        missing = [word for word in dict.fromkeys(source.content) if not among(word, whole)]
        new = [word for word in content if not source.has(word) and word not in light]
        new = [word for word in new if not any(_is_form(word, other) for other in missing)]
        if new and new[0] == content[0] and new[0] not in part.values and _SUBJECTLESS.match(source.text):
            # "We sing without a piano" is said of the choir that another message names.
            new = new[1:] if self._statements.has_word(new[0]) else new
        if not new:
            return False
        is_graded = _DEGREE.search(part.text) is not None and _DEGREE.search(source.text) is None
        allowed = 2 if len(content) >= MIN_WORDS_FOR_TWO else 1
        if is_graded or len(new) * MIN_KNOWN_PER_NEW > len(content) or len(new) > min(allowed, len(missing)):
            return True
        listed = _listed(part)
        if any(_is_inserted(word, part.words, source.words) for word in new):
            return True
        return any(word in part.values or word in part.adjuncts or word in listed for word in new)

    def _unknown(self, text: str, source: Sentence) -> list[str]:
        found = unknown_claims(text, said=[source.text], at=self._at)
        return [one for one in found if not (one.isalpha() and source.has(normal(one.lower())))]


def _letters(text: str) -> str:
    return "".join(sign for sign in text.casefold() if sign.isalnum())


def _statements(text: str) -> list[str]:
    """Return the parts of a sentence; one with too few words belongs to the part before or after it."""
    parts: list[str] = []
    begun = ""
    for piece in _PART.split(text):
        begun += f"{piece} " if piece else ""
        if _PART.fullmatch(piece) or not piece.strip():
            continue
        size = len(set(Sentence.of(piece).content)) + len("".join(HAN.findall(piece))) // 3
        is_bound = _BOUND.match(begun) is not None
        if parts and size < MIN_PART and not is_bound:
            parts[-1] += begun
            begun = ""
        elif size >= MIN_PART or is_bound:
            parts.append(begun)
            begun = ""
    if begun and parts:
        parts[-1] += begun
    return [one.strip() for one in parts] or [text]


def _share(part: Sentence, source: Sentence) -> int:
    """Return how many words and pairs of Chinese characters of a part a source has."""
    return sum(map(source.has, part.content)) + sum(pair in source.han_pairs for pair in part.han_pairs)


def _has_new_modality(text: str, source: str) -> bool:
    if any(one.search(text) and not one.search(source) for one in _HEDGES):
        return True
    plain = _NOT_MAY.sub(" ", text)
    is_open = _MAY.search(_NOT_MAY.sub(" ", source)) or _ALLOWS.search(source)
    if _MAY.search(plain) and not HAN.search(text) and not is_open:
        return True
    return bool(_MUST.search(text)) and not _ORDERS.search(source)


def _new_kinds(text: str, source: str) -> set[str]:
    its_kinds = scope_kinds(source)
    return {kind for kind in scope_kinds(text) - _FREE_KINDS if not its_kinds & _SAME_KINDS.get(kind, {kind})}


def _is_inserted(word: str, mine: Sequence[str], theirs: Sequence[str]) -> bool:
    """Whether a new word is between two that the source has side by side: "a severe nut allergy"."""
    at = mine.index(word) if word in mine else 0
    if not 0 < at < len(mine) - 1:
        return False
    return any(
        is_alike(one, mine[at - 1]) and is_alike(other, mine[at + 1]) for one, other in pairwise(theirs)
    )


def _has_new_purpose(text: str, source: Sentence) -> bool:
    """Whether a sentence ends with what something is for, in words that its source does not have."""
    found = _PURPOSE.search(text.rstrip(".!。 "))
    words = Sentence.of(found[1]).content if found else ()
    return bool(words) and not any(map(source.has, words))


def _is_form(word: str, other: str) -> bool:
    """Whether a word has the stem of another inside, as German participles have: "drucken", "ausgedruckt"."""
    return any(
        other[start : start + FORM_LETTERS] in word for start in range(max(0, len(other) - FORM_LETTERS + 1))
    )


def _listed(part: Sentence) -> set[str]:
    """Return the content words beside "and", "or" and commas."""
    found: set[str] = set()
    pieces = _PART.split(part.text)
    for before, sign, after in zip(pieces, pieces[1:], pieces[2:], strict=False):
        if sign and _JOINS.fullmatch(sign):
            found.update(Sentence.of(before).content[-1:])
            found.update(Sentence.of(after).content[:1])
    return found


def _has_new_han(part: Sentence, source: Sentence, *, is_bound: bool) -> bool:
    """Whether a part has Chinese characters that are no other words for something the source says."""
    known = "".join(HAN.findall(source.text))
    mine = "".join(HAN.findall(part.text))
    new = 0
    for run in HAN.findall(GENERIC_HAN.sub(" ", part.text)):
        pairs = [run[at : at + 2] in known for at in range(len(run) - 1)]
        is_known = [before or after for before, after in zip([False, *pairs], [*pairs, False], strict=True)]
        new += sum(not one for one in is_known) if len(run) > 1 else 0
    is_said_otherwise = not is_bound and new <= MIN_HAN_RUN and any(sign not in mine for sign in known)
    return new >= MIN_HAN_RUN and not (is_said_otherwise and not _HAN_LIST.search(part.text))
