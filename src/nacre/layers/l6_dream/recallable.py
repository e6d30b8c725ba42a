"""Whether what could be found before a dream can still be found after it, asked of the local index (D6)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from nacre.layers.l6_dream.copy import Copy, Step, Topic, is_topic
from nacre.layers.l6_dream.finding import Finder
from nacre.memory.likeness import terms
from nacre.memory.wording import one_line

FOUND_BEFORE = 3
"""A question counts if its memory was among so many answers: what was hard to find before proves nothing."""
FOUND_AFTER = 5
"""And it must be among so many now: as many as a message gets (R5), with room for a neighbour."""
MAX_HEADINGS = 5
MAX_SAMPLED = 200
"""Memories that lost no word they could be found by, but are asked for: another may stand before them now."""
_HEADING = re.compile(r"^#{1,6}[ \t]+(.+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Lost:
    """A question that the new state does not answer any more."""

    file: str
    question: str

    def __str__(self) -> str:
        return f"{self.file} is no longer found by {self.question!r}"


def lost(copy: Copy, *, today: date) -> list[Lost]:
    """The questions, made from what was there, that found their memory and find it no more."""
    changed = copy.changed
    old = Copy(copy.base, written=copy.written)
    before = old.topics()
    touched = [topic for topic in before if topic.entry.file in changed]
    if not touched:
        return []
    heirs = successors(copy.steps)
    asked = _asked(before, copy, heirs)
    finder = Finder(before, asked=today)
    answered = [
        (topic.entry.file, question)
        for topic, question in asked
        if topic.entry.file in finder.found(question, limit=FOUND_BEFORE)
    ]
    for topic in touched:
        finder.forget(topic.entry.file)
    for file, data in changed.items():
        if data is not None and is_topic(file):
            finder.learn(copy.topic(file))
    return [
        Lost(file, question)
        for file, question in answered
        if (heir := _heir(file, copy, heirs)) and heir not in finder.found(question, limit=FOUND_AFTER)
    ]


def _asked(before: Sequence[Topic], copy: Copy, heirs: Mapping[str, str]) -> list[tuple[Topic, str]]:
    """Every question of which a word is no longer where it was, and of the others some."""
    at_risk: list[tuple[Topic, str]] = []
    safe: list[tuple[Topic, str]] = []
    for topic in before:
        heir = _heir(topic.entry.file, copy, heirs)
        is_same = copy.now.get(topic.entry.file) == copy.base[topic.entry.file]
        known = frozenset[str]() if is_same or not heir else frozenset(terms(copy.topic(heir).text))
        for question in questions(topic):
            is_kept = is_same or set(terms(question)) <= known
            (safe if is_kept else at_risk).append((topic, question))
    return at_risk + safe[:: max(1, len(safe) // MAX_SAMPLED)][:MAX_SAMPLED]


def questions(topic: Topic) -> Iterator[str]:
    """What somebody might ask to find this memory."""
    entry = topic.entry
    headings = [one_line(found) for found in _HEADING.findall(entry.body)][:MAX_HEADINGS]
    yield from dict.fromkeys(text for text in (entry.description, entry.title, *headings) if text.strip())


def successors(steps: list[Step]) -> dict[str, str]:
    """Where what removed files said stands now."""
    return {step.file: step.into for step in steps if step.action == "removed"}


def _heir(file: str, copy: Copy, heirs: Mapping[str, str]) -> str:
    """The file that should answer now; nothing for one that is over and has no successor."""
    seen: set[str] = set()
    while file not in copy.now and file not in seen:
        seen.add(file)
        file = heirs.get(file, "")
    return file
