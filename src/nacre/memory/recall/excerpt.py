"""What is shown of a memory that is too long: its start, and the passages that match the message (R8)."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Literal, NamedTuple

from nacre import prompts
from nacre.messages.untrusted_text import neutralise

MAX_BODY_LINES = 200
MAX_BODY_BYTES = 4_096
"""One memory is one fact (M11): a longer one is a document that the model can read itself."""
START_BYTES = 900
"""Bytes of the start, which says what a file is about, if passages follow."""
PASSAGE_BYTES = 500
"""Sentences and lines are joined up to this size."""
ALREADY_SHOWN = 0.3
"""Weight of a word that a chosen passage has: the next one should add something."""
MAX_PASSAGES = 40
"""Passages that are tried until the room is full."""
BESIDE = 0.25
"""Share of a passage's score that its neighbours get: an answer often follows the words of the question."""

_GAP = prompts.load(__package__, "attached_gap")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])")


@dataclass(frozen=True, slots=True)
class _Piece:
    """A line, or a part of a long one."""

    line: int
    text: str
    begins_line: bool

    @property
    def bytes(self) -> int:
        return len(self.text.encode()) + 1


class Excerpt(NamedTuple):
    """What is shown of a body."""

    text: str
    omits: Literal["nothing", "the end", "parts"] = "nothing"


def excerpt(body: str, question: str = "", *, first_line: int = 1) -> Excerpt:
    """Return what is shown of a body, made safe; the same arguments give the same text.

    A body that fits is shown whole, another one as its start and the passages that match the question, in
    their order; a marker gives the lines of each gap. Without such passages it is cut at the end.
    """
    whole = neutralise(body).rstrip()
    if _fits(whole):
        return Excerpt(whole)
    passages = _passages(whole, first_line)
    best = _best_first(passages, question)
    chosen = set[int]()
    for number in [*_start(passages), *best]:
        if _fits(_render(passages, {*chosen, number})):
            chosen.add(number)
    if max(chosen, default=-1) < len(chosen):
        return Excerpt(_cut(whole), "the end")
    return Excerpt(_render(passages, chosen), "parts")


def _fits(text: str) -> bool:
    return len(text.encode()) <= MAX_BODY_BYTES and text.count("\n") < MAX_BODY_LINES


def _passages(text: str, first_line: int) -> list[list[_Piece]]:
    """Return the lines of a text, joined to passages; a blank line ends one that is half full."""
    passages: list[list[_Piece]] = []
    room = 0
    for piece in _pieces(text, first_line):
        if piece.bytes > room:
            passages.append([])
            room = PASSAGE_BYTES
        passages[-1].append(piece)
        room -= piece.bytes
        if not piece.text and room < PASSAGE_BYTES / 2:
            room = 0
    return passages


def _pieces(text: str, first_line: int) -> Iterator[_Piece]:
    for number, line in enumerate(text.split("\n"), first_line):
        parts = [line]
        if len(line.encode()) >= PASSAGE_BYTES:
            most = PASSAGE_BYTES // 4  # characters, of four bytes each at most
            ends = [0, *(found.end() for found in _SENTENCE_END.finditer(line)), len(line)]
            parts = [
                line[at : min(at + most, end)]
                for start, end in pairwise(ends)
                for at in range(start, end, most)
            ]
        for place, part in enumerate(parts):
            yield _Piece(number, part, begins_line=place == 0)


def _start(passages: Sequence[list[_Piece]]) -> list[int]:
    """Return the numbers of the first passages."""
    sizes = accumulate(sum(piece.bytes for piece in passage) for passage in passages)
    return [number for number, size in enumerate(sizes) if number == 0 or size <= START_BYTES]


def _best_first(passages: Sequence[list[_Piece]], question: str) -> list[int]:
    """Return the numbers of the passages that match a question, best first."""
    from nacre.memory.recall.ranking.match import MAX_CHARS  # noqa: PLC0415 - only for long memories
    from nacre.memory.recall.ranking.related import related  # noqa: PLC0415 - as above
    from nacre.memory.recall.ranking.terms import content  # noqa: PLC0415 - as above

    if len(question) > MAX_CHARS:
        question = f"{question[: MAX_CHARS // 2]} {question[-MAX_CHARS // 2 :]}"
    asked = {term: related(term) for term in dict.fromkeys(content(question))}
    matches: list[dict[str, float]] = []
    for passage in passages:
        words = set(content(" ".join(piece.text for piece in passage)))
        near = {term: words & others.keys() for term, others in asked.items()}
        matches.append(
            {term: max(asked[term][word].strength for word in found) for term, found in near.items() if found}
        )
    spread = Counter(term for found in matches for term in found)
    weights = {term: math.log(1 + len(passages) / count) for term, count in spread.items()}

    def score(number: int) -> float:
        return sum(weights[term] * strength for term, strength in matches[number].items())

    def with_neighbours(number: int) -> float:
        beside = [score(other) for other in (number - 1, number + 1) if 0 <= other < len(matches)]
        return score(number) + BESIDE * max(beside, default=0.0)

    order: list[int] = []
    left = [number for number in range(len(passages)) if with_neighbours(number)]
    while left and len(order) < MAX_PASSAGES:
        best = max(left, key=with_neighbours)
        left.remove(best)
        order.append(best)
        for term in matches[best]:
            weights[term] *= ALREADY_SHOWN
    return order


def _render(passages: Sequence[list[_Piece]], chosen: Collection[int]) -> str:
    """Return the chosen passages in their order, with a marker for each gap."""
    parts: list[str] = []
    last = -1
    for number in sorted(chosen):
        pieces = passages[number]
        if number > last + 1:
            gap = [piece.line for passage in passages[last + 1 : number] for piece in passage]
            lines = f"Lines {gap[0]}-{gap[-1]}" if gap[0] < gap[-1] else f"Part of line {gap[0]}"
            parts.append(f"\n{prompts.render(_GAP, lines=lines)}\n")
            is_new = True
        else:
            is_new = not parts
        for piece in pieces:
            parts.append(piece.text if is_new or not piece.begins_line else f"\n{piece.text}")
            is_new = False
        last = number
    return neutralise("".join(parts)).rstrip()


def _cut(whole: str) -> str:
    """Return the whole lines of a safe text that fit; a line longer than the limit is cut."""
    lines: list[str] = []
    room = MAX_BODY_BYTES
    for line in whole.split("\n", MAX_BODY_LINES)[:MAX_BODY_LINES]:
        room -= bool(lines)
        size = len(line.encode())
        if size > MAX_BODY_BYTES:
            lines.append(line.encode()[: max(room, 0)].decode(errors="ignore"))
        elif size <= room:
            lines.append(line)
            room -= size
            continue
        break
    text = "\n".join(lines).rstrip()
    # A cut can turn a harmless bracket into the start of a tag.
    while len((safe := neutralise(text)).encode()) > MAX_BODY_BYTES:
        text = text[:-1]
    return safe
