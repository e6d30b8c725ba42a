"""Written text as pieces that can be dropped whole: paragraphs, items, block quotes, code; and sentences."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

Kind = Literal["blank", "heading", "item", "paragraph", "quote", "code"]

_ITEM = re.compile(r"(\s*)(?:[-*+•‣]|\d{1,3}[.)、])(?:\s+|$)")
_HEADING = re.compile(r"\s{0,3}#{1,6}\s")
_QUOTE = re.compile(r"\s*>")
_FENCE = re.compile(r"\s*(```|~~~)")
_MARKS = re.compile(
    r"""
      (?P<code>`{1,3})(?!`)(?P<in_code>[^`]+)(?P=code)
    | (?<![A-Za-z0-9_"])"(?=\S)(?P<straight>(?:[^"]|"(?=\w)){1,3000}?)(?<=\S)"(?![A-Za-z0-9_])
    | “(?P<curly>[^”]*)”
    | „(?P<low>[^“”]*)[“”]
    | «(?P<guillemets>[^»]*)»
    | 「(?P<corner>[^」]*)」
    | 『(?P<white_corner>[^』]*)』
    | (?<!\w)‘(?P<single_curly>(?:[^’]|’(?=\w))*)’(?!\w)
    | (?<!\w)'(?=\S)(?P<single>(?:[^'\n]|'(?=\w))*)(?<=\S)'(?!\w)
    """,
    re.VERBOSE,
)
_EACH_MARK = re.compile(r"[\"'`“”„‘’«»「」『』<]")
MAX_MARKS = 400
"""In one piece: no person writes more, and the time to pair them grows with their square."""
_LONE = re.compile(r'(?<![A-Za-z0-9_"])["“「](?=\S)')
_STOP = re.compile(r"(?<!\b\d)(?<!\b\d\d)[.!?][\"”’'」』)*_\]]*(?=\s+[^\sa-z])|[。！？][”’」』）]*|\n(?=\n)")


@dataclass(frozen=True, slots=True)
class TextPiece:
    """Some lines that belong together."""

    kind: Kind
    lines: tuple[str, ...]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    @property
    def is_riddled(self) -> bool:
        """Whether it has too many quotation marks to pair them."""
        return len(_EACH_MARK.findall(self.text)) > MAX_MARKS

    @property
    def indent(self) -> int:
        line = self.lines[0]
        return len(line) - len(line.lstrip())

    @property
    def start(self) -> int:
        """Where its words begin, behind a list item's mark."""
        mark = _ITEM.match(self.lines[0]) if self.kind == "item" else None
        return mark.end() if mark else self.indent


@dataclass(frozen=True, slots=True)
class Quotation:
    """Words in quotation marks, and where they stand in a piece's text."""

    start: int
    end: int
    words: str
    is_code: bool = False
    """In backticks."""


def pieces(text: str) -> list[TextPiece]:
    """All of a text, line by line."""
    found: list[TextPiece] = []
    lines = text.split("\n")
    place = 0
    while place < len(lines):
        if fence := _FENCE.match(lines[place]):
            closing = (i for i in range(place + 1, len(lines)) if lines[i].strip().startswith(fence[1]))
            end = next(closing, len(lines) - 1) + 1
            found.append(TextPiece("code", tuple(lines[place:end])))
            place = end
            continue
        line = lines[place]
        kind = _kind(line)
        before = found[-1].kind if found else "blank"
        goes_on = kind == "paragraph" and before in {"paragraph", "item", "quote"}
        if goes_on or kind == before == "quote":
            found[-1] = TextPiece(found[-1].kind, (*found[-1].lines, line))
        else:
            found.append(TextPiece(kind, (line,)))
        place += 1
    return found


def quotations(text: str) -> list[Quotation]:
    """What stands in quotation marks, outermost, in order; one that is never closed runs to the end."""
    found = [
        Quotation(match.start(), match.end(), _inside(match), is_code=match["code"] is not None)
        for match in _MARKS.finditer(text)
    ]
    masked = blanked(text, found)
    if lone := _LONE.search(masked):
        behind = [one for one in found if one.start < lone.start()]
        found = [*behind, Quotation(lone.start(), len(text), text[lone.end() :])]
    return found


def blanked(text: str, marks: Sequence[Quotation]) -> str:
    """The text with every quotation made unreadable, in the same length."""
    parts: list[str] = []
    at = 0
    for one in marks:
        parts += [text[at : one.start], "\x00" * (one.end - one.start)]
        at = one.end
    return "".join([*parts, text[at:]])


def sentences(text: str, marks: Sequence[Quotation]) -> Iterator[tuple[int, int]]:
    """Where each sentence begins and ends; a stop inside quotation marks ends one only at their end."""
    ends = {match.end() for match in _STOP.finditer(blanked(text, marks))}
    for one in marks:
        closes = text[one.start : one.end].rstrip("\"”’'」』»`")[-1:]
        behind = re.match(r"[)*_]*(?=\s+[^\sa-z(\[—–-]|$)", text[one.end :])
        if closes and closes in ".!?。！？" and behind:
            ends.add(one.end + behind.end())
    start = 0
    for stop in sorted(ends):
        if stop > start and text[start:stop].strip():
            yield start, stop
            start = stop
    if start < len(text):
        yield start, len(text)


def _inside(match: re.Match[str]) -> str:
    return next(text for name, text in match.groupdict().items() if name != "code" and text is not None)


def _kind(line: str) -> Kind:
    if not line.strip():
        return "blank"
    for kind, pattern in (("heading", _HEADING), ("quote", _QUOTE), ("item", _ITEM)):
        if pattern.match(line):
            return kind  # type: ignore[return-value]
    return "paragraph"
