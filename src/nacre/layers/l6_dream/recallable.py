"""Whether what could be found before a dream can still be found after it, asked of the local index (D6)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date

from nacre.layers.l6_dream.copy import Copy, Step, Topic
from nacre.layers.l6_dream.finding import Finder
from nacre.memory.wording import one_line

FOUND_BEFORE = 3
"""A question counts if its memory was among so many answers: what was hard to find before proves nothing."""
FOUND_AFTER = 5
"""And it must be among so many now: as many as a message gets (R5), with room for a neighbour."""
MAX_HEADINGS = 5
MAX_BYSTANDERS = 200
"""Memories that were not touched, but are asked for: a merged one may have pushed itself before them."""
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
    changed = {file for file in copy.changed if file in copy.base or file in copy.now}
    old = Copy(copy.base, written=copy.written)
    before = old.topics()
    touched = [topic for topic in before if topic.entry.file in changed]
    if not touched:
        return []
    others = [topic for topic in before if topic.entry.file not in changed]
    asked = [*touched, *others[:: max(1, len(others) // MAX_BYSTANDERS)][:MAX_BYSTANDERS]]
    finder = Finder(before, asked=today)
    answered = [
        (topic.entry.file, question)
        for topic in asked
        for question in questions(topic)
        if topic.entry.file in finder.found(question, limit=FOUND_BEFORE)
    ]
    for topic in touched:
        finder.forget(topic.entry.file)
    for topic in copy.topics():
        if topic.entry.file in changed:
            finder.learn(topic)
    heirs = successors(copy.steps)
    return [
        Lost(file, question)
        for file, question in answered
        if (heir := _heir(file, copy, heirs)) and heir not in finder.found(question, limit=FOUND_AFTER)
    ]


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
