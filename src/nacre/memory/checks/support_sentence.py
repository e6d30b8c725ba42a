"""A sentence as `support` compares it: words, clauses, what is denied, who reports it (M16b)."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from nacre.memory.checks.casual_text import expanded, without_interjections
from nacre.memory.checks.grounding import claims_in
from nacre.memory.checks.support_scope import SCOPE_WORDS
from nacre.memory.checks.support_words import (
    GENERIC,
    GENERIC_HAN,
    NEGATIVE,
    SOFT_NEGATIVE,
    SYNONYMS,
    TASKS,
)
from nacre.memory.recall.ranking.terms import CJK, CJK_RUN, STOP_TERMS, normal, terms

MIN_STEM = 4
"""Letters that two stems share at their start as forms of one word, such as "indent" and "indentation"."""
MAX_ENDING = 5
_SENTENCE = re.compile(
    r"(?<=[.!?;])(?<!\b[Aa]m \d\.)(?<!\b[Aa]m \d\d\.)"
    r"(?<!\bDr\.)(?<!\bMr\.)(?<!\bMs\.)(?<!\bMrs\.)(?<!\bProf\.)(?<!\bAbs\.)\s+|(?<=[。！？；])|\n+"
)
QUESTION = re.compile(r"[?？]\W*$|吗\W*$")
_UNASSERTED = re.compile(
    r"^\W*(?:is|are|does|did|was|were|has|why|(?:should|shall|do|can|could|would) (?:we|i|they|it|the))\b"
    r"|\b(?:whether|wonder\w*|is it true|if|maybe|perhaps|probably|might|used to|supposedly|allegedly"
    r"|apparently|reportedly|seems?|looks? like|rumou?rs?|according to|find out|figure out|look into"
    r"|check (?:that|why|how)"
    r"|(?:claim|suggest|insist|argu|assert|propos|recommend|declar|announc|believ|assum|pretend)(?:e?s|e?d)"
    r"|says|said|saying|tells|told|thinks|thought|wrote|writes|reckons|heard|lol|lmao|yeah,? (?:sure|right)"
    r"|great idea|as if|(?:bug|issue|problem|case|place|code|example)s? (?:where|that|in which)"
    r"|the (?:one|page|file|line|part|section|thing|text|link|mail|email|message|ticket) (?:about|with|on)"
    r"|(?:they|people|\w+s) (?:say|think|believe|claim|suggest|insist|assume|recommend)"
    r"|(?:they|he|she|people|someone|somebody|everyone|everybody) (?:wants?|wanted|asks?|asked)"
    r"|(?:state|report|mention|note|read|explain|promise|write|warn)(?:e?d|s)?(?: \w+){0,3} that"
    r"|ob|falls|vielleicht|angeblich|laut|behauptet\w*|oder nicht|est-ce que|peut-être|selon|dime si|quizás?"
    r"|tal vez|según)\b"
    r"|是否|如果|也许|可能|据说|声称|听说|かどうか|か調べ|もし|らしい",
    re.IGNORECASE,
)
"""In a sentence that asks, supposes or reports: it supports only a text that does so in the same words."""
_OWN_VIEW = re.compile(
    r"\b(?:i|we)(?:'d|'ll)?\s+(?:\w+\s+)?(?:said|say|think|thought|believe|suggest|recommend|insist|mention\w*|propose)\b",
    re.IGNORECASE,
)
_LEANS = re.compile(
    r"\W*(?:because|since|so|and|also|but|which|plus|otherwise|weil|denn|因为|所以)\b", re.IGNORECASE
)
_LIMITED = re.compile(
    r"[,;:()—–]|\b(?:but|because|so|since)\b"
    r"|\band\b(?! (?:newer|up|later|more|above|higher|older|below|less|fewer|lower))"
)
MORE_NEGATIONS = re.compile(
    r"\b(?:(?:do|does|did|is|are|was|ca|wo|should|must|have|has)nt|no longer|hardly|barely|nunca|jamás"
    r"|ningun[oa]?|ne|n'\w+|jamais|pas|mai|no way|nope|forget (?:it|that)|not happening"
    r"|(?:that|this|it)(?:'s| is|s) (?:wrong|nonsense|(?:a |such a )?(?:bad|terrible|stupid) idea))\b"
    r"|从不|从来不|从来没|决不",
    re.IGNORECASE,
)
"""Words that deny a whole sentence, rejections of what others want included."""
ANY_NEGATION = re.compile(
    rf"{MORE_NEGATIONS.pattern}|\b(?:no|not|never|without|\w+n't|cannot|nicht|kein\w*|nie|niemals|ohne|non|sin"
    r"|avoid\w*|forbid\w*|stop\w*|rather than|instead of|off|banned)\b|不|没|别|勿|禁止|ない|ません",
    re.IGNORECASE,
)
_WORD = re.compile(r"[^\W_]+(?:['’._/:@+#-]+[^\W_]+)*|[,;:()—–，、：（）]")
_BREAK = frozenset(",;:()—–，、：（）") | frozenset(
    "but because since so when while if unless although whereas and then until aber weil denn und".split()
)
_CONTRAST = re.compile(r"\b(?:instead of|rather than|as opposed to|in place of|in favou?r of not)\b")
_PREFERS = frozenset({"prefer", "favor", "favour", "choos", "pick", "like", "better", "good"})
PREPOSITIONS = frozenset(
    "in on at for with by from to of into during between under within across via per as".split()
)
_ARTICLES = frozenset({"the", "a", "an", "our", "my", "its", "their", "your"})
_FIRST_PERSON = frozenset(normal(word) for word in "i we us you let wir ich nous je".split())
_POSSESSIVE = frozenset(normal(word) for word in ("my", "our", "your"))
_COPULAS = frozenset({"is", "are", "was", "were", "be", normal("is"), normal("are"), normal("was")})
_DOUBTS = frozenset(
    normal(word) for word in "doubt suppose imagine assume guess wish hope pretend fear suspect dream".split()
)
_PASSIVE = re.compile(
    r"\b(?:is|are|was|were|be|been|being|gets?|got)(?: \w+)?? "
    r"(?:\w+ed|built|made|kept|held|sent|done|run|set|put|written|shown|given|taken|led|read|paid|bought|\w+own)\b"
    r"|\bby (?!hand\b)|\b(?:runs?|lives?|sits?|resides?) (?:on|in|at|under)\b"
)
"""A clause whose subject does not act: "it is built by otter", "it runs on otter"."""
_AUXILIARIES = frozenset(
    """
    is are was were be been am do does did can could may might must shall should will would has have had
    ca wo need needs goes go i we you they he she it user
    """.split()
)
"""After these words "not" denies a whole clause, not only what follows it."""
_BE = frozenset({"is", "are", "was", "were", "be", "been"})
_PASSIVE_DENIALS = frozenset(
    """
    banned forbidden prohibited excluded disallowed refused rejected omitted bypassed ignored disabled dropped
    removed deleted skipped avoided stopped
    """.split()
)
_SHORT_SCOPE = frozenset({"no", "without", "insteadof", "kein", "keine", "ohne"})
_WHOLE_SCOPE = frozenset({"not", "never", "nicht", "nie", "niemals"})
HAN = re.compile(rf"[{CJK}]+")
"""Runs of scripts that are written without blanks; they are compared by pairs of characters."""
_ACRONYMS = re.compile(r"\b([A-Z]{2,})s\b")
"""Plurals such as "PRs"."""
_SECURE = re.compile(r"\b(https|ftps|ldaps|imaps|smtps|wss|mqtts|amqps)\b", re.IGNORECASE)
"""Protocols whose last letter is no plural."""
_SIGNED = re.compile(r"\b([A-Za-z])(\+\+|#)(?!\w)")
"""Languages whose names end with signs: "C++", "C#"."""
_NAMES = re.compile(r"\b(?:US|IT|WHO|AM|MY|ME|OR|IN)\b")
"""Abbreviations of countries and departments that are common words in small letters."""
_FRAME = re.compile(
    r"^(?:(?:the )?(?:user|person|human|developer|team)(?:'s)?\s+(?:has\s+)?"
    r"(?:said|says|stated|states|asked|told|mentioned|confirmed|wants|explained)(?:\s+(?:me|us)\b)?(?:\s+(?:that|to)\b)?\s*:?)\s*"
    r"|^(?:remember|note|please remember|keep in mind)(?:\s+(?:that|this))?\s*:?\s*",
    re.IGNORECASE,
)


_PHRASE = r"[^.,;!?\n]{1,60}?"
_REWORDED = tuple(
    (re.compile(pattern), words)
    for pattern, words in (
        (
            rf"(?i)\b(?:nobody|no one) (?:should|may|must|can|shall) ({_PHRASE}) before ([^.,;!?\n]{{1,60}})",
            r"\2 before \1",
        ),
        (
            r"\b((?i:changes?|edits?|releases?|deployments?|decisions?|requests?)[^.,;!?\n]{0,60}?)"
            r" (?:must |should |has to |have to )?(?:go|goes) through ([A-Z]\w+)\b",
            r"ask \2 before \1",
        ),
        (rf"\b(?i:send|forward|address|direct) ({_PHRASE}) (?=to (?:her|him|them|[A-Z]))", r"\1 go "),
        (r"(?i)\bhand-?written\b", "written by hand"),
    )
)
"""Phrases for approvals and recipients that are said in two ways, as one of them."""


def normalised(text: str) -> str:
    plain = unicodedata.normalize("NFKC", text)
    if not plain.isupper():
        plain = _NAMES.sub(lambda found: f"{found[0]}x", plain)
    plain = _SIGNED.sub(lambda found: found[1] + ("plusplus" if found[2] == "++" else "sharp"), plain)
    for pattern, words in _REWORDED:
        plain = pattern.sub(words, plain)
    return _SECURE.sub(r"\1ecure", _ACRONYMS.sub(r"\1", expanded(plain)))


@dataclass(frozen=True)
class Sentence:
    """A sentence by its words, in order."""

    text: str
    words: tuple[str, ...]
    """Stems, stop words and marks between clauses included."""
    clauses: tuple[Clause, ...]

    @classmethod
    @lru_cache(maxsize=2048)
    def of(cls, text: str) -> Sentence:
        clauses = tuple(_clauses(text))
        return cls(text, tuple(word for clause in clauses for word in clause.words), clauses)

    @cached_property
    def content(self) -> tuple[str, ...]:
        return tuple(word for word in self.words if is_content(word))

    @cached_property
    def generic(self) -> tuple[str, ...]:
        """Words that any memory may contain; they count in a text without others: "Ask before you delete"."""
        return tuple(word for word in self.words if word in GENERIC and word not in STOP_TERMS)

    @cached_property
    def letters(self) -> str:
        return "".join(sign for sign in self.text.casefold() if sign.isalnum())

    @cached_property
    def stems(self) -> frozenset[str]:
        return frozenset(form for word in self.words for form in forms(word))

    @cached_property
    def frames(self) -> frozenset[str]:
        """Words by which it asks, supposes or reports, and who reports."""
        plain = _OWN_VIEW.sub(" ", self.text)
        found: set[str] = set()
        for match in _UNASSERTED.finditer(plain):
            found.add(normal(match[0].strip().lower()))
            found.update(Sentence.of(plain[: match.start()]).content[-1:])
        return frozenset(found)

    @cached_property
    def adjuncts(self) -> frozenset[str]:
        """Content words that end a phrase with a preposition."""
        plain = [*(word for word in self.words if word not in _ARTICLES), ""]
        return frozenset(
            word
            for before, word, after in zip(plain, plain[1:], plain[2:], strict=False)
            if before in PREPOSITIONS and not is_content(after)
        )

    @cached_property
    def phrases(self) -> tuple[tuple[str, ...], ...]:
        """The content words of each phrase that begins with a preposition."""
        found: list[list[str]] = []
        is_inside = False
        for word in self.words:
            if word in PREPOSITIONS:
                found.append([])
                is_inside = True
            elif is_inside and is_content(word):
                found[-1].append(word)
            elif word not in _ARTICLES:
                is_inside = False
        return tuple(tuple(one) for one in found if one)

    @cached_property
    def restrictions(self) -> frozenset[str]:
        """Content words of phrases with a preposition: "in generated code", "to shared branches"."""
        found: set[str] = set()
        is_inside = False
        for word in self.words:
            if is_content(word):
                found.update([word] if is_inside else [])
            elif word not in _ARTICLES:
                is_inside = word in PREPOSITIONS
        return frozenset(found)

    def limited_to(self, mine: Sentence) -> str:
        """Return the text of the parts that share a content word with another sentence."""
        return " , ".join(part.text for part in self.parts_about(mine))

    def parts_about(self, mine: Sentence) -> list[Sentence]:
        """Return the parts that share a content word with another sentence."""
        parts = (Sentence.of(part) for part in _LIMITED.split(self.text) if part.strip())
        return [part for part in parts if any(among(word, mine.content) for word in part.content)]

    @property
    def leans(self) -> bool:
        """Whether it needs the sentence before it: it begins with a pronoun or a conjunction."""
        return (
            _LEANS.match(self.text) is not None
            or re.match(
                r"(?:\W*\w+){0,2}\W*\b(?:he|she|it|they|that|this|there|those|these|her|him|them)\b",
                self.text.lower(),
            )
            is not None
        )

    @cached_property
    def values(self) -> frozenset[str]:
        """Stems of names, numbers, dates and identifiers."""
        kinds = ("name", "number", "identifier", "date", "address")
        found = (term for claim in claims_in(self.text, kinds=kinds) for term in terms(claim))
        return frozenset(filter(is_content, found))

    @cached_property
    def han(self) -> str:
        return "".join(HAN.findall(GENERIC_HAN.sub("", self.text)))

    @cached_property
    def han_pairs(self) -> frozenset[str]:
        runs = HAN.findall(GENERIC_HAN.sub(" ", self.text))
        return frozenset(run[at : at + 2] for run in runs for at in range(max(1, len(run) - 1)))

    def has(self, word: str) -> bool:
        if not self.stems.isdisjoint(forms(word)):
            return True
        return len(word) >= MIN_STEM and any(is_same_word(word, other) for other in self.stems)

    def names(self, word: str) -> bool:
        """Return whether a word is in it, not only as a part of an identifier."""
        return any(is_alike(word, other) for clause in self.clauses for other in clause.order)


@dataclass(frozen=True)
class Clause:
    """A part of a sentence that is denied or not as a whole."""

    words: tuple[str, ...]
    denied: frozenset[str]
    """Content words in the reach of a negation."""
    focus: frozenset[str]
    """Those that the negation is about: the next words after it."""
    is_bad: bool
    """The person calls it a problem, which supports a rule against it."""
    order: tuple[str, ...] = ()
    """One stem for each word."""
    is_passive: bool = False

    def is_own(self, word: str) -> bool:
        """Whether a word is an action or request of the person, not of others."""
        at = self.order.index(word)
        before = set(self.order[:at])
        after = self.order[at + 1] if at + 1 < len(self.order) else ""
        is_order = at == 0 and word not in TASKS and (after in _ARTICLES or not after.isalpha())
        is_about_us = not before.isdisjoint(_POSSESSIVE) and after in _COPULAS
        is_mine = not before.isdisjoint(_FIRST_PERSON | NEGATIVE)
        return word not in _DOUBTS and (is_order or is_about_us or is_mine)


def split_sentences(text: str) -> list[str]:
    framed = (_FRAME.sub("", one.strip(" \t*-#>")) for one in _SENTENCE.split(text) if one)
    return [one for one in framed if any(sign.isalnum() for sign in one)]


def _clauses(text: str) -> Iterator[Clause]:
    lowered = without_interjections(text.replace("’", "'").lower())
    lowered = re.sub(r"(?<=\w\w)'s\b", "", lowered)
    lowered = re.sub(r"\bcan(?:'t|not)\b", "can not", lowered).replace("won't", "will not")
    marked = _CONTRAST.sub(" , insteadof ", re.sub(r"\b(\w+)n't\b", r"\1 not", lowered))
    words: list[str] = []
    for token in _WORD.findall(marked):
        if token in _BREAK:
            if words:
                yield _clause(words)
            words = []
        else:
            words.append(token)
    if words:
        yield _clause(words)


def _clause(raw: Sequence[str]) -> Clause:
    tokens = [(word, _term(word)) for word in raw]
    denied: set[str] = set()
    near: set[str] = set()
    prefers = any(not _PREFERS.isdisjoint(stems) for _, stems in tokens)
    for at, (word, stems) in enumerate(tokens):
        is_over = (word == "over" or (word == "to" and _until(tokens[:at]))) and prefers
        is_over = is_over or (word == "than" and "rather" in raw)
        is_negative = word in NEGATIVE or (word.isalpha() and not NEGATIVE.isdisjoint(stems))
        if not is_over and not is_negative:
            continue
        rest = tokens[at + 1 :]
        # "In grams, not cups", "in grams not cups": only what follows is denied.
        is_contrast = word == "not" and at > 0 and raw[at - 1] not in _AUXILIARIES and bool(_until(rest))
        reached = _until(rest, is_short=is_over or is_contrast or word in _SHORT_SCOPE)
        first = _until(rest, is_first_run=True)
        is_whole = (word in _WHOLE_SCOPE and not is_contrast) or _is_passive_denial(raw, at)
        if not reached or is_whole:
            # "Fridays are ruled out", "the code should not be touched": what is before it is denied as well.
            reached += _until(tokens[:at])
            first = first or reached
        near.update(first)
        denied.symmetric_difference_update(set(reached))
    stems = tuple(stem for _, stems in tokens for stem in stems)
    is_bad = not SOFT_NEGATIVE.isdisjoint(stems)
    order = tuple(stems[0] if word.replace("'", "").isalpha() else word for word, stems in tokens if stems)
    is_passive = _PASSIVE.search(" ".join(raw)) is not None
    return Clause(stems, frozenset(denied), frozenset(near & denied), is_bad, order, is_passive)


def _is_passive_denial(raw: Sequence[str], at: int) -> bool:
    """Whether a word such as "banned" is said of what is before it: "cash is not banned here"."""
    before = [word for word in raw[max(0, at - 2) : at] if word not in _WHOLE_SCOPE]
    return raw[at] in _PASSIVE_DENIALS and bool(before) and before[-1] in _BE


def _until(
    tokens: Sequence[tuple[str, tuple[str, ...]]], *, is_short: bool = False, is_first_run: bool = False
) -> list[str]:
    """Return the content words that a negation reaches: all, those to a preposition, or the first run."""
    found: list[str] = []
    for word, stems in tokens:
        mine = [stem for stem in stems if is_content(stem)]
        is_end = (is_short and word in PREPOSITIONS) or (is_first_run and not mine)
        if found and is_end:
            break
        found += mine
    return found


@lru_cache(maxsize=8192)
def _term(token: str) -> tuple[str, ...]:
    if CJK_RUN.match(token):
        return ()
    # A run that is too long to be a word still says something.
    return tuple(term for term in terms(token) if not CJK_RUN.match(term)) or (token,)


def is_content(word: str) -> bool:
    is_weak = word in STOP_TERMS or word in GENERIC or word in SCOPE_WORDS
    return not is_weak and any(sign.isalnum() for sign in word)


@lru_cache(maxsize=8192)
def forms(word: str) -> frozenset[str]:
    return SYNONYMS.get(word, frozenset()) | {word}


def is_same_word(one: str, other: str) -> bool:
    short, long = sorted((one, other), key=len)
    return len(short) >= MIN_STEM and long.startswith(short) and len(long) - len(short) <= MAX_ENDING


def is_alike(one: str, other: str) -> bool:
    return one == other or bool(one and other and (forms(one) & forms(other) or is_same_word(one, other)))


def among(word: str, words: Collection[str]) -> bool:
    return any(is_alike(word, other) for other in words)
