"""One memory file to what the index stores of it; independent of every other file."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from datetime import date

from nacre.memory.recall.ranking.cues import cues_of
from nacre.memory.recall.ranking.terms import content

PASSAGE_WORDS = 120
"""Whole sentences are packed up to this; 30 to 120 rank alike, and fewer passages are faster."""
LABEL = re.compile(r"^\**([^\W\d_][\w.]*(?: [\w.]+)?)\**: ")
"""A paragraph that begins "name: " is in that name's words, in a file that is a transcript."""
PARAGRAPH = re.compile(r"\n\s*\n")
SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z\"'(*])|\n+")


@dataclass(frozen=True)
class Passage:
    """A few sentences by one author."""

    author: str
    counts: dict[str, int]
    length: int
    cues: int
    stems: str
    """Content terms in order, space-separated and -padded, for adjacency tests by substring."""


@dataclass(frozen=True)
class Analysis:
    """What the index keeps of one file."""

    id: str
    folder: str
    order: int
    when: date | None
    passages: tuple[Passage, ...]


def analyse(doc: Doc) -> Analysis:
    """Split a file into passages and count their terms."""
    passages = tuple(_passage(author, text) for author, text in pieces(doc))
    return Analysis(doc.id, doc.folder, doc.order, doc.when, passages)


def pieces(doc: Doc) -> list[tuple[str, str]]:
    """Author and text of each passage; name and description stand first, as their own."""
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
    """Who speaks in a transcript; nobody when the file does not begin with a speaker.

    "Note:" and "Pros:" look like speakers, so only roles count, or names that come back.
    """
    first = LABEL.match(paragraphs[0])
    if not first:
        return frozenset()
    if first[1].lower() in ROLES:
        return ROLES
    labels = Counter(m[1].lower() for p in paragraphs if (m := LABEL.match(p)))
    return frozenset(name for name, times in labels.items() if times > 1)


def _joined(author: str, sentences: list[str]) -> list[tuple[str, str]]:
    text = " ".join(sentences).strip()
    return [(author, text)] if text else []


def _passage(author: str, text: str) -> Passage:
    told = content(text)
    counts: dict[str, int] = {}
    for term in told:
        counts[term] = counts.get(term, 0) + 1
    return Passage(author.lower(), counts, len(told), cues_of(text), f" {' '.join(told)} ")


USER_ROLES = frozenset({"user", "human", "me"})
ASSISTANT_ROLES = frozenset({"assistant", "ai"})
ROLES = USER_ROLES | ASSISTANT_ROLES | {"system", "tool"}
"""Authors that are a part in a conversation, not a person's name."""


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
