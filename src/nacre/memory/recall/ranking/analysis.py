"""Splits a memory file into passages with their terms and cues (a date, a number, a rule)."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from datetime import date

from nacre.memory.dates.calendar import MONTHS, WEEKDAYS
from nacre.memory.recall.ranking.terms import content

_COUNT_WORDS = "two|three|four|five|six|seven|eight|nine|ten|eleven|twelve"
_CALENDAR = "|".join(m for m in (*MONTHS, *WEEKDAYS) if m != "may")
_SEASONS = "night|week|month|year|summer|winter|fall|autumn|spring|weekend|" + "|".join(WEEKDAYS)


class Cue:
    """What a passage offers to a kind of question, as bits of an int."""

    TIME = 1
    DURATION = 2
    NUMBER = 4
    PLACE = 8
    FIRST_PERSON = 16
    RULE = 32
    PREFERENCE = 64
    QUESTION = 128


PASSAGE_CUES: tuple[tuple[int, re.Pattern[str]], ...] = (
    (Cue.TIME, re.compile(
        rf"\b(?:yesterday|today|tonight|tomorrow|ago|(?:last|next|this) (?:{_SEASONS}|morning)"
        rf"|{_CALENDAR}"
        r"|recently|just (?:got|started|came|had|finished|went)|since|[12]\d{3}|the other day"
        r"|few (?:days|weeks|months|years))\b",
        re.I)),
    (Cue.DURATION, re.compile(
        rf"\b(?:\d+|a|{_COUNT_WORDS}|few|several|couple)[ -](?:\w+ )?"
        r"(?:second|minute|hour|day|week|month|year)s?\b",
        re.I)),
    (Cue.NUMBER, re.compile(rf"\b(?:\d[\d,.]*|{_COUNT_WORDS}|dozen|hundred|couple|once|twice)\b", re.I)),
    (Cue.PLACE, re.compile(r"\b(?:in|at|from|to|near|around|visit(?:ed|ing)?) (?:the )?[A-Z]\w+")),
    (Cue.FIRST_PERSON, re.compile(r"\b(?:i|i'm|i've|i'll|i'd|my|we|our)\b", re.I)),
    (Cue.RULE, re.compile(
        r"\b(?:always|never|from now on|whenever i|every time i|when i ask|make sure (?:to|you)"
        r"|don't ever)\b", re.I)),
    (Cue.PREFERENCE, re.compile(
        r"\b(?:i(?:'d)? (?:\w+ )?(?:like|love|enjoy|hate|dislike|rather|want to avoid|value)"
        r"|my (?:preference|favou?rite)|instead of|rather than|prefer\w*)\b", re.I)),
)  # fmt: skip
SENTENCE_END = re.compile(r"[.!?]+")
NUMERAL = "#"
YEAR = "####"
"""Pseudo-words of a passage that holds a number or a year."""
UNITS = ("second", "minute", "hour", "day", "week", "month", "year")
NEEDED: dict[int, frozenset[str]] = {
    Cue.TIME: frozenset(
        (YEAR, "yesterday", "today", "tonight", "tomorrow", "ago", "last", "next", "this", "recently",
         "just", "since", "other", "few", *MONTHS, *WEEKDAYS)),
    Cue.DURATION: frozenset((*UNITS, *(f"{unit}s" for unit in UNITS))),
    Cue.NUMBER: frozenset((NUMERAL, *_COUNT_WORDS.split("|"), "dozen", "hundred", "couple", "once", "twice")),
    Cue.PLACE: frozenset(("in", "at", "from", "to", "near", "around", "visit", "visited", "visiting")),
    Cue.FIRST_PERSON: frozenset(("i", "my", "we", "our")),
    Cue.RULE: frozenset(("always", "never", "now", "whenever", "time", "ask", "sure", "ever")),
    Cue.PREFERENCE: frozenset(
        ("like", "love", "enjoy", "hate", "dislike", "rather", "avoid", "value", "preference", "favorite",
         "favourite", "instead", "prefer")),
}  # fmt: skip
"""A passage that matches a cue's pattern has one of these words. One set operation is much faster than the
patterns, which took half of the time to index a memory."""
_WORD = re.compile(r"[a-z0-9_]+")
_NUMERAL = re.compile(r"\b\d")
_YEAR = re.compile(r"\b[12]\d{3}\b")
_LOOK_ALIKE = re.compile("[\u017f\u0131\u0130\u212a]")
"""Characters that match an ASCII letter with IGNORECASE but not in lower case."""

ASKS: tuple[tuple[int, re.Pattern[str]], ...] = (
    (Cue.TIME, re.compile(r"\b(?:when|what (?:date|day|month|year|time)|which (?:month|year|day))\b", re.I)),
    (
        Cue.DURATION,
        re.compile(r"\b(?:how (?:long|old)|how many (?:days|weeks|months|years|hours|minutes))\b", re.I),
    ),
    (
        Cue.NUMBER,
        re.compile(r"\b(?:how (?:many|much|often|far)|what (?:percentage|number|amount|price))\b", re.I),
    ),
    (Cue.PLACE, re.compile(r"\b(?:where|(?:which|what) (?:city|country|state|place|town))\b", re.I)),
)
ABOUT_ME = re.compile(r"\b(?:i|i'm|i've|my|me|mine)\b", re.I)
ABOUT_YOU = re.compile(
    r"\b(?:you (?:\w+ )?(?:recommend|suggest|mention|told|said|gave|provid|list|creat|describ|explain|wrote"
    r"|discuss|had|just)\w*|your (?:\w+ )?(?:recommend|suggest|list|answer)\w*|remind me"
    r"|our (?:previous|last|earlier)|did you)\b",
    re.I,
)
ABOUT_PAST = re.compile(
    r"\b(?:did|have i|was|were|had|how many|how much|when|order in which|brought up|summar\w*|happened"
    r"|how long|my (?:previous|last))\b",
    re.I,
)


def cues_of(passage: str) -> int:
    """Return the cues of a passage; QUESTION when at least half of its sentences are questions."""
    found = 0
    words = _words(passage)
    for cue, pattern in PASSAGE_CUES:
        if (words is None or not words.isdisjoint(NEEDED[cue])) and pattern.search(passage):
            found |= cue
    ends = SENTENCE_END.findall(passage)
    if 2 * sum(1 for end in ends if "?" in end) >= max(1, len(ends)):
        found |= Cue.QUESTION
    return found


def _words(passage: str) -> set[str] | None:
    """Return the words to compare with `NEEDED`; None where only the patterns can decide."""
    if not passage.isascii() and _LOOK_ALIKE.search(passage):
        return None
    lowered = passage.lower()
    words = set(_WORD.findall(lowered))
    if _NUMERAL.search(passage):
        words.update((NUMERAL, YEAR) if _YEAR.search(passage) else (NUMERAL,))
    if "prefer" in lowered:
        words.add("prefer")
    return words


def asked_for(question: str) -> int:
    """Return the cues that an answer to a question should have."""
    return sum(cue for cue, pattern in ASKS if pattern.search(question))


PASSAGE_WORDS = 120
"""Sentences are joined up to this length; 30 to 120 rank alike, and fewer passages are faster."""
LABEL = re.compile(r"^\**([^\W\d_][\w.]*(?: [\w.]+)?)\**: ")
"""In a transcript, a paragraph that begins "name: " is by that author."""
PARAGRAPH = re.compile(r"\n\s*\n")
SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z\"'(*])|\n+")


@dataclass(frozen=True)
class AnalysedPassage:
    """A few sentences by one author."""

    author: str
    counts: dict[str, int]
    length: int
    cues: int
    stems: str
    """Content terms in order, space-separated and -padded, for adjacency tests by substring."""


@dataclass(frozen=True)
class AnalysedFile:
    """The passages of one file."""

    id: str
    folder: str
    order: int
    when: date | None
    passages: tuple[AnalysedPassage, ...]


def analyse(doc: Doc) -> AnalysedFile:
    """Return the passages of a file with their terms and cues."""
    passages = []
    for author, text in pieces(doc):
        terms = content(text)
        counts: dict[str, int] = {}
        for term in terms:
            counts[term] = counts.get(term, 0) + 1
        stems = f" {' '.join(terms)} "
        passages.append(AnalysedPassage(author.lower(), counts, len(terms), cues_of(text), stems))
    return AnalysedFile(doc.id, doc.folder, doc.order, doc.when, tuple(passages))


def pieces(doc: Doc) -> list[tuple[str, str]]:
    """Return author and text of each passage; name and description are the first."""
    head = f"{doc.name}. {doc.description}".strip(". ")
    found = [(doc.author, head)] if head else []
    author = doc.author
    packed = list[str]()
    words = 0
    paragraphs = PARAGRAPH.split(doc.body)
    speakers = frozenset[str]() if doc.author else _speakers(paragraphs)
    for paragraph in paragraphs:
        label = LABEL.match(paragraph) if speakers else None
        if label and label[1].lower() in speakers:
            found.extend(_joined(author, packed))
            author = label[1].strip()
            packed = []
            words = 0
            paragraph = paragraph[label.end() :]
        for sentence in SENTENCE.split(paragraph):
            size = sentence.count(" ") + 1
            if words and words + size > PASSAGE_WORDS:
                found.extend(_joined(author, packed))
                packed = []
                words = 0
            packed.append(sentence)
            words += size
    found.extend(_joined(author, packed))
    return found or [(doc.author, "")]


def _speakers(paragraphs: list[str]) -> frozenset[str]:
    """Return the speakers of a transcript; empty when the file does not begin with one.

    "Note:" and "Pros:" look like speakers, so that only roles count, or names that occur again.
    """
    first = LABEL.match(paragraphs[0])
    if not first:
        return frozenset()
    if first[1].lower() in ROLES:
        return ROLES
    labels = Counter(m[1].lower() for p in paragraphs if (m := LABEL.match(p)))
    return frozenset(name for name, times in labels.items() if times > 1)


def speaker_of(body: str) -> str:
    """Return who says a single message, such as "Nora: I signed up"; empty for any other text."""
    label = LABEL.match(body)
    if not label:
        return ""
    name = label[1]
    is_name = name.lower() in ROLES or (name.istitle() and name.lower() not in HEADINGS)
    others = any(LABEL.match(paragraph) for paragraph in PARAGRAPH.split(body)[1:])
    return name if is_name and not others else ""


def _joined(author: str, sentences: list[str]) -> list[tuple[str, str]]:
    text = " ".join(sentences).strip()
    return [(author, text)] if text else []


USER_ROLES = frozenset({"user", "human", "me"})
ASSISTANT_ROLES = frozenset({"assistant", "ai"})
ROLES = USER_ROLES | ASSISTANT_ROLES | {"system", "tool"}
"""Authors that are roles of a conversation, not names."""
HEADINGS = frozenset(
    "answer attention background bug caution command context date decision done error example fact fix goal"
    " hint how idea important info input link note notes output owner problem question reason reminder result"
    " rule source status summary task tip title todo update usage warning when where who why".split()
)
"""Words before a colon that name no speaker."""


@dataclass(frozen=True, kw_only=True)
class Doc:
    """One memory file.

    `folder` and `order` place it among its neighbours (directory, then file order in it);
    `author` is whose words these are; a paragraph of `body` may name its own as "name: text".
    """

    id: str
    folder: str = ""
    order: int = 0
    when: date | None = None
    name: str = ""
    description: str = ""
    author: str = ""
    body: str = ""
