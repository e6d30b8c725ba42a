"""Every quotation said to be the person's, looked up in what they really said (C20).

One that is not there goes, with the sentence or list item that carries it: a summary may forget, but it must
not let a person say what they never said.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from nacre.layers.l4_compact.attribution import (
    attributed,
    introduces,
    introduces_words,
    tagged,
    turn_words,
    unquoted,
)
from nacre.layers.l4_compact.pieces import Piece, blanked, pieces, quotations, sentences

MIN_PART_WORDS = 2
"""Around an ellipsis: single words picked out of a sentence can be made to say anything."""
MIN_PART_CHARS = 4
"""The same for scripts without spaces."""

RIDDLED_CHARS = 200
"""Of a piece that is nothing but quotation marks, for the log."""

_QUOTES = re.compile(r"[\"'`“”„‟‘’‚‛«»‹›「」『』＂＇]+")
_ELLIPSIS = re.compile(r"\s*(?:\[\s*(?:\.{3,}|…+)\s*\]|\(\s*(?:\.{3,}|…+)\s*\)|\.{3,}|…+)\s*")
_ENDS = " \t\n.,;:!?。，；：！？、-–—"
_LATIN = re.compile(r"[^\W\u2e80-\uffff]")
_LABEL_ONLY = re.compile(r"[\W\d_]*(?:\*\*[^*]*\*\*|__[^_]*__)?[\s:：*_—–-]*")


@dataclass(frozen=True, slots=True)
class Checked:
    """A text in which the person says only what they said."""

    text: str
    dropped: list[str] = field(default_factory=list)
    """The quotations that were not found."""
    kept: int = 0
    """The quotations that were."""


def checked(text: str, words: Sequence[str]) -> Checked:
    """The text without quotations of the person that are not in their words, message by message."""
    return _Check(words).run(pieces(text))


def is_said(quotation: str, words: Sequence[str]) -> bool:
    """Whether one of the messages holds these words: white space and the form of quotation marks aside."""
    return _Log(words).holds(quotation)


class _Log:
    def __init__(self, words: Sequence[str]) -> None:
        self._said = [_plain(one) for one in words]

    def holds(self, quotation: str) -> bool:
        parts = [_plain(part).strip(_ENDS) for part in _ELLIPSIS.split(quotation)]
        parts = [part for part in parts if part]
        if not parts:
            return True
        if len(parts) > 1 and not all(_says_something(part) for part in parts):
            return any(_found(_plain(quotation).strip(_ENDS), one) >= 0 for one in self._said)
        return any(_in_order(parts, one) for one in self._said)


class _Check:
    """One pass over the pieces of a text."""

    def __init__(self, words: Sequence[str]) -> None:
        self._log = _Log(words)
        self._dropped: list[str] = []
        self._kept = 0

    def run(self, found: list[Piece]) -> Checked:
        left: list[Piece | None] = []
        introduced: Piece | None = None
        dropped_item: Piece | None = None
        for piece in found:
            if piece.kind != "code" and piece.is_riddled:
                # Who is said to say what in it cannot be told, so that none of it may pass.
                self._dropped.append(" ".join(piece.text.split())[:RIDDLED_CHARS])
                left.append(None)
                continue
            if dropped_item and (piece.kind == "blank" or _belongs(piece, dropped_item)):
                # What elaborates on an invented request goes with it.
                left.append(piece if piece.kind == "blank" else None)
                continue
            dropped_item = None
            if piece.kind != "blank" and introduced and not _is_under(piece, introduced):
                introduced = None
            new = self._sifted(piece, introduced)
            left.append(new)
            if new is None and piece.kind == "item":
                dropped_item = piece
            if new and _announces(piece):
                introduced = piece
        return Checked(_joined(found, left), self._dropped, self._kept)

    def _sifted(self, piece: Piece, introduced: Piece | None) -> Piece | None:
        match piece.kind:
            case "blank" | "heading":
                return piece
            case "code":
                is_theirs = introduced is not None and introduces_words(introduced.text)
                body = "\n".join(piece.lines[1:-1] if len(piece.lines) > 1 else ())
                return piece if not is_theirs or self._look_up(body) else None
            case "quote":
                return self._quoted(piece) if introduced else self._spoken(piece, is_introduced=False)
            case _:
                return self._spoken(piece, is_introduced=introduced is not None)

    def _quoted(self, piece: Piece) -> Piece | None:
        """A block quote under the person's name: all of it is theirs."""
        body = " ".join(line.strip().lstrip(">").strip() for line in piece.lines).strip(" *_")
        marks = quotations(body)
        inside = marks[0].words if marks and marks[0].start == 0 else body
        return piece if self._look_up(inside) else None

    def _spoken(self, piece: Piece, *, is_introduced: bool) -> Piece | None:
        text = piece.text
        if turn := turn_words(text[piece.start :]):
            marks = quotations(turn)
            is_whole = bool(marks) and marks[0].start == 0
            return piece if self._look_up(marks[0].words if is_whole else turn) else None
        if not all(self._look_up(words) for words in tagged(text)):
            return None
        marks = quotations(text)
        theirs = attributed(text, marks)
        if is_introduced and marks and not re.search(r"\w", text[piece.start : marks[0].start]):
            theirs = [marks[0], *(one for one in theirs if one is not marks[0])]
        bad = [one.start for one in theirs if not self._look_up(one.words)]
        spans = list(sentences(text, marks))
        masked = blanked(text, marks)
        for a, b in spans:
            # A turn can stand inside a paragraph, too.
            plain = unquoted(masked[a:b]) or (a > piece.start and turn_words(masked[a:b]))
            if plain and not self._look_up(plain):
                bad.append(a)
        if not bad:
            return piece
        kept = "".join(text[a:b] for a, b in spans if not any(a <= place < b for place in bad))
        return _mended(piece, kept)

    def _look_up(self, quotation: str) -> bool:
        if self._log.holds(quotation):
            self._kept += 1
            return True
        self._dropped.append(" ".join(quotation.split()))
        return False


def _mended(piece: Piece, kept: str) -> Piece | None:
    """What is left of a piece, with its mark; none where only a label would be."""
    head = piece.text[: piece.start]
    body = kept.removeprefix(head).strip()
    if _LABEL_ONLY.fullmatch(body):
        return None
    return Piece(piece.kind, tuple((head + body).split("\n")))


def _is_under(piece: Piece, introduced: Piece) -> bool:
    """Whether a piece still is what an earlier one announced."""
    if piece.is_riddled:
        return False
    if piece.kind in {"item", "quote", "code"}:
        return piece.indent > introduced.indent or introduced.kind != "item"
    marks = quotations(piece.text)
    return piece.kind == "paragraph" and bool(marks) and marks[0].start <= piece.start


def _announces(piece: Piece) -> bool:
    may = piece.kind in {"heading", "item", "paragraph"}
    return may and introduces(piece.text, is_heading=piece.kind == "heading")


def _belongs(piece: Piece, item: Piece) -> bool:
    return piece.kind != "heading" and piece.indent > item.indent


def _joined(found: list[Piece], left: list[Piece | None]) -> str:
    """The text again; an introduction whose whole list went goes, too."""
    for place in reversed(range(len(found))):
        piece = found[place]
        if left[place] is None or piece.kind not in {"item", "paragraph"}:
            continue
        below = _announced(found, place)
        if below and introduces(piece.text, is_heading=False) and all(left[one] is None for one in below):
            left[place] = None
    lines = [line for piece in left if piece is not None for line in piece.lines]
    text = "\n".join(lines)
    return text if len(lines) == sum(len(piece.lines) for piece in found) else _closed_up(text)


def _announced(found: list[Piece], place: int) -> list[int]:
    below: list[int] = []
    for later in range(place + 1, len(found)):
        if found[later].kind == "blank":
            continue
        if not _is_under(found[later], found[place]):
            break
        below.append(later)
    return below


def _closed_up(text: str) -> str:
    return re.sub(r"\n{3,}", "\n\n", text).strip("\n")


def _plain(text: str) -> str:
    """White space as one blank, every kind of quotation mark as one."""
    return " ".join(_QUOTES.sub("'", text).split())


def _in_order(parts: Sequence[str], said: str) -> bool:
    at = 0
    for part in parts:
        found = _found(part, said, at)
        if found < 0:
            return False
        at = found + len(part)
    return True


def _found(part: str, said: str, start: int = 0) -> int:
    """Where whole words stand, from a place on; part of a word is another word."""
    at = said.find(part, start)
    while at >= 0:
        end = at + len(part)
        is_cut_before = at > 0 and _is_word(said[at - 1]) and _is_word(part[0])
        is_cut_behind = end < len(said) and _is_word(said[end]) and _is_word(part[-1])
        if not (is_cut_before or is_cut_behind):
            return at
        at = said.find(part, at + 1)
    return -1


def _is_word(char: str) -> bool:
    return _LATIN.match(char) is not None


def _says_something(part: str) -> bool:
    return len(part.split()) >= MIN_PART_WORDS or (len(part) >= MIN_PART_CHARS and not part.isascii())
