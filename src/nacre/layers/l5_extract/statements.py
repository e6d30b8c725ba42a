"""Divides a message into statements; quoted and pasted text is left out (E10)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

MAX_MESSAGE_CHARS = 1_500
"""A longer message contains a document, whose first person may not be the user."""
MAX_SENTENCE_CHARS = 600
"""A longer sentence does not state one fact."""
MAX_ITEMS = 8
"""A message with more list items is a document."""


@dataclass(frozen=True, slots=True)
class Statement:
    """One sentence of a message, or a part of it that says something of its own."""

    text: str
    is_item: bool = False
    """Whether it is an item of a list."""


def statements(message: str) -> list[Statement]:
    """Return the statements of a message; none if it is mostly quoted or pasted text."""
    plain = _FENCE.sub("\n\n", message.replace("\r\n", "\n")).strip()
    lines = plain.splitlines()
    speakers = {match[1].lower() for line in lines if (match := _SPEAKER.match(line))}
    items = sum(1 for line in lines if _ITEM.match(line))
    is_pasted = len(speakers) > 1 or items > MAX_ITEMS or bool(_LETTER.search(plain))
    if len(plain) > MAX_MESSAGE_CHARS or is_pasted:
        return []
    return [one for one in _statements(plain) if 0 < len(one.text) <= MAX_SENTENCE_CHARS]


def blanked(text: str) -> str:
    """Return the text with everything in quotation marks masked, at the same length."""
    return _QUOTED.sub(lambda match: match[0][0] + "\x00" * (len(match[0]) - 2) + match[0][-1], text)


def _statements(text: str) -> Iterator[Statement]:
    for line in text.splitlines():
        if not line.strip() or _QUOTE.match(line) or _CODE.match(line) or _SPEAKER.match(line):
            continue
        item = _ITEM.match(line)
        body = line[item.end() :] if item else line
        for start, end in _spans(body):
            yield Statement(body[start:end].strip(), is_item=item is not None)


def _spans(line: str) -> Iterator[tuple[int, int]]:
    """Yield start and end of each statement of a line; a full stop inside quotation marks is ignored."""
    masked = blanked(line)
    start = 0
    for match in _STOP.finditer(masked):
        if _ABBREVIATION.search(masked[start : match.start() + 1]) or _ORDINAL.match(
            masked, match.start() - 1
        ):
            continue
        yield from _parts(masked, start, match.end())
        start = match.end()
    yield from _parts(masked, start, len(line))


def _parts(masked: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Divide a sentence before a request, a question or a new topic, and after a request."""
    for match in _TURN.finditer(masked, start, end):
        is_turn = _OPENER.match(masked, match.end()) or (
            _REQUEST.match(masked, start) and _ABOUT_SELF.match(masked, match.end())
        )
        if is_turn and match.start() > start:
            yield start, match.start()
            start = match.end()
    yield start, end


_FENCE = re.compile(r"^\s*(```|~~~).*?(?:^\s*\1\s*$|\Z)", re.MULTILINE | re.DOTALL)
_QUOTE = re.compile(r"^\s*(?:>|\|)")
_CODE = re.compile(
    r"^(?: {4}|\t)\S|^\s*[{}<$#]|.*[{};]\s*$|^\s*(?:import|from \S+ import|def|class|SELECT)\b"
)
_ITEM = re.compile(r"^\s*(?:[-*•+]|\d{1,2}[.)、])\s+")
_SPEAKER = re.compile(
    r"^\s*(?:\*\*)?(?!(?i:remember|reminder|note|fyi|btw|also|ps|correction|update|important|korrektur|nachtrag|wichtig|achtung)\b)"
    r"([A-Z][\w.-]*(?: [A-Z][\w.-]*)?"
    r"|user|assistant|human|ai|我|你|他|她|用户|助手)(?:\*\*)?\s*[:：]\s*\S"
)
"""A name and a colon: a line of a dialogue or a form. `Remember:` and its like are no names."""
_LETTER = re.compile(
    r"^\s*(?:dear|hi|hello|hey) [\w .]{1,40},\s*$"
    r"|^\s*(?:best|kind|warm)?\s*regards,?\s*$|^\s*sincerely,?|^\s*(?:subject|from|to|sent):\s",
    re.IGNORECASE | re.MULTILINE,
)
_QUOTED = re.compile(r"\"[^\"\n]{2,}\"|“[^”\n]+”|「[^」\n]+」|『[^』\n]+』|`[^`\n]+`")
_STOP = re.compile(r"(?:[.!?]+[\"”')\]]*(?=\s|$)|…+(?=\s|$)|[。！？；!?]+[”」』）]*(?=[^\x00-\x7f]|\s|$))\s*")
_ABBREVIATION = re.compile(
    r"(?:\b(?:mr|mrs|ms|dr|prof|st|sr|jr|vs|etc|e\.g|i\.e|eg|ie|approx|no|vol|fig|inc|ltd|co|dept|a\.m"
    r"|p\.m|u\.s|u\.k)|\b[A-Z])\.$",
    re.IGNORECASE,
)
_ORDINAL = re.compile(
    r"\d\. (?:jan|feb|märz|mär|apr|mai|jun|jul|aug|sep|okt|nov|dez|uhr|klasse|stock|etage|quartal|woche|tag)",
    re.IGNORECASE,
)
"""A German ordinal number: "am 30. November", "im 2. Stock"."""
_TURN = re.compile(r"\s*[,，;；、]\s*|\s+[-–—]+\s+")
_REQUEST = re.compile(
    r"(?:(?:hi|hey|hello|ok|okay|so)[, ]+)?(?:can|could|would|will) (?:you|u)\b|please\b|pls\b|help me\b"
    r"|need (?:help|a|an|some)\b|how (?:do|can|would|should)\b|what(?:'s| is| are| should)\b|any (?:idea"
    r"|tips)"
    r"|帮我|帮忙|麻烦|请(?!假|客)|能不能|可不可以|可以帮|怎么|如何|想问",
    re.IGNORECASE,
)
_OPENER = re.compile(
    rf"(?:{_REQUEST.pattern}|(?:so|and|but) (?:can|could|would) (?:you|u)\b|by the way\b|btw\b|also\b|fyi\b"
    r"|oh and\b|one more thing|so (?:please|pls|keep|dont|don't|use|make|go|tell|explain|short)\b"
    r"|just tell me\b|对了|另外|顺便|还有[，, ]|你看看?)",
    re.IGNORECASE,
)
_ABOUT_SELF = re.compile(
    r"(?:i'm|im|i am|i've|ive|my|we're|we|our)\b|我是|我在|我做|我叫|我们|本人", re.IGNORECASE
)
