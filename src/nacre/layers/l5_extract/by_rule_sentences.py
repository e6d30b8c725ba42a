"""A person's own statements in a message: without code, quotations, pasted text and questions (E10)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

MAX_MESSAGE_CHARS = 1_500
"""A longer message holds a document: whose first person it speaks in, no rule can tell."""
MAX_SENTENCE_CHARS = 600
"""A longer sentence is no statement of one fact."""
MAX_ITEMS = 8
"""A message with more list items is a document."""


@dataclass(frozen=True, slots=True)
class Sentence:
    """One statement, word for word, and where it stands."""

    text: str
    is_item: bool = False
    """Of a list."""


def statements(message: str) -> list[Sentence]:
    """What the person states, in order; nothing when the message is mostly somebody else's text."""
    plain = _FENCE.sub("\n\n", message.replace("\r\n", "\n")).strip()
    if len(plain) > MAX_MESSAGE_CHARS or _is_pasted(plain):
        return []
    return [one for one in _sentences(plain) if 0 < len(one.text) <= MAX_SENTENCE_CHARS]


def blanked(text: str) -> str:
    """The text with everything between quotation marks made unreadable, in the same length."""
    return _QUOTED.sub(lambda match: match[0][0] + "\x00" * (len(match[0]) - 2) + match[0][-1], text)


def _is_pasted(text: str) -> bool:
    lines = text.splitlines()
    speakers = {match[1].lower() for line in lines if (match := _SPEAKER.match(line))}
    items = sum(1 for line in lines if _ITEM.match(line))
    return len(speakers) > 1 or items > MAX_ITEMS or bool(_LETTER.search(text))


def _sentences(text: str) -> Iterator[Sentence]:
    for line in text.splitlines():
        if not line.strip() or _QUOTE.match(line) or _CODE.match(line) or _SPEAKER.match(line):
            continue
        item = _ITEM.match(line)
        body = line[item.end() :] if item else line
        for start, end in _spans(body):
            yield Sentence(body[start:end].strip(), is_item=item is not None)


def _spans(line: str) -> Iterator[tuple[int, int]]:
    """Where each sentence of a line begins and ends; a stop inside quotation marks ends none."""
    masked = blanked(line)
    start = 0
    for match in _STOP.finditer(masked):
        if _ABBREVIATION.search(masked[start : match.start() + 1]):
            continue
        yield start, match.end()
        start = match.end()
    yield start, len(line)


_FENCE = re.compile(r"^\s*(```|~~~).*?(?:^\s*\1\s*$|\Z)", re.MULTILINE | re.DOTALL)
_QUOTE = re.compile(r"^\s*(?:>|\|)")
_CODE = re.compile(
    r"^(?: {4}|\t)\S|^\s*[{}<$#]|.*[{};]\s*$|^\s*(?:import|from \S+ import|def|class|SELECT)\b"
)
_ITEM = re.compile(r"^\s*(?:[-*•+]|\d{1,2}[.)、])\s+")
_SPEAKER = re.compile(
    r"^\s*(?:\*\*)?([A-Z][\w.-]*(?: [A-Z][\w.-]*)?"
    r"|user|assistant|human|ai|我|你|他|她|用户|助手)(?:\*\*)?\s*[:：]\s*\S"
)
"""A name and a colon: a line of a dialogue, or of a form."""
_LETTER = re.compile(
    r"^\s*(?:dear|hi|hello|hey) [\w .]{1,40},\s*$"
    r"|^\s*(?:best|kind|warm)?\s*regards,?\s*$|^\s*sincerely,?|^\s*(?:subject|from|to|sent):\s",
    re.IGNORECASE | re.MULTILINE,
)
_QUOTED = re.compile(r"\"[^\"\n]{2,}\"|“[^”\n]+”|「[^」\n]+」|『[^』\n]+』|`[^`\n]+`")
_STOP = re.compile(r"(?:[.!?]+[\"”')\]]*(?=\s|$)|…+(?=\s|$)|[。！？；!?]+[”」』）]*(?=[^\x00-\x7f]|\s|$))\s*")
_ABBREVIATION = re.compile(
    r"(?:\b(?:mr|mrs|ms|dr|prof|st|sr|jr|vs|etc|e\.g|i\.e|eg|ie|approx|no|vol|fig|inc|ltd|co|dept|a\.m|p\.m|u\.s|u\.k)|\b[A-Z])\.$",
    re.IGNORECASE,
)
