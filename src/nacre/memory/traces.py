"""The words of one memory, recognised wherever they were quoted: cut, numbered, escaped, run together (M14b).

Texts are compared word by word, so that line breaks, markup and punctuation between them do not matter.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from nacre.memory.neutral import neutralise

MARK = "[erased memory]"
"""Stands where words of an erased memory stood; it says that something is gone, and nothing about what."""
RUN_WORDS = 6
"""So many words in a row that are the memory's own are a quotation of it."""
RUN_WEIGHT = 24
"""Letters such a run has at least: six very short words in a row are anybody's."""
LINE_WORDS, LINE_WEIGHT = 4, 16
"""A whole line of the memory is recognised from here on wherever it stands: shorter ones are anybody's."""
QUOTED_WEIGHT = 6
"""A whole line is recognised from here on in a text that is about this memory."""
DIGIT_WEIGHT = 3
"""What a digit, or a sign of a script without spaces, counts for: a number is nobody else's by chance."""
PROBES = 40
"""Lines looked for byte by byte at the end; the longest ones are the ones that nobody else wrote."""

MAX_PATH = 4_096
"""Characters; no file system takes a longer path."""

Words: TypeAlias = tuple[str, ...]

_DENSE = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
"""Scripts that put no spaces between words."""
_WORD = re.compile(rf"\\[nrtbf]|({re.escape(MARK)}|[{_DENSE}]|[^\W_{_DENSE}]+)")
"""A word, or our own mark, which is nobody's; an escaped line break inside a text of JSON is none."""
_NO_PATH = "\n\t \"'`()<>|:;,="
"""What a path is taken to begin after."""
_HEAD = re.compile(r"^[\s>*_#-]*(?:why|how to apply)\b\W*", re.IGNORECASE)
"""How the parts of a memory are introduced, whatever it is about (M12)."""


@dataclass(frozen=True, slots=True)
class _Word:
    text: str
    start: int
    end: int


class Traces:
    """What there is of one memory: its words and its name."""

    def __init__(
        self, file: str, texts: Iterable[str], *, folder: str = "memory", others: Iterable[str] = ()
    ) -> None:
        """`texts` are all that it ever said, `folder` the last part of where it lay.

        What `others` say too, the memories that stay, is not its own.
        """
        self.file = file
        self._folders = (f"{folder}/", "./")
        said = tuple(dict.fromkeys(each for text in texts for each in (text, neutralise(text))))
        stays = tuple(others)
        shared = {run for text in stays for run in _runs(_spelled(text))}
        shared |= {_spelled(line) for text in stays for line in _lines(text)}
        spelled = {one: _spelled(one) for text in said for one in _lines(text)}
        lines = {one: words for one, words in spelled.items() if words and words not in shared}
        self._runs = frozenset(run for text in said for run in _runs(_spelled(text))) - shared
        self._lines = _by_first(words for words in lines.values() if _is_distinct(words))
        self._quoted = _by_first(words for words in lines.values() if _weight(words) >= QUOTED_WEIGHT)
        self.probes = _probes(one for one, words in lines.items() if _is_probe(words) and _runs(words))
        self._name = re.compile(rf"(?<![\w.-]){re.escape(file)}(?![\w-]|\.\w)")
        self._pointer = re.compile(rf"^.*\]\((?:\./)?{re.escape(file)}\).*$", re.MULTILINE)
        self._rarest = _by_rarest([*self._runs, *lines.values()])
        self._candidate = _candidates(file, self._rarest)

    def may_be_in(self, block: bytes) -> bool:
        """Whether a closer look is worth it; a quick no for nearly everything."""
        return self._candidate.search(block.lower()) is not None

    def names(self, text: str) -> bool:
        """Whether the text names the memory's file."""
        return next(self._named(text), None) is not None

    def are_in(self, text: str, *, is_about: bool = False) -> bool:
        """Whether any of the memory stands in a text."""
        return self.without(text, is_about=is_about) != text

    def without(self, text: str, *, is_about: bool = False) -> str:
        """The text with a mark in place of every quotation; `is_about` finds short lines as well."""
        is_about = is_about or self.names(text)
        text = self._pointer.sub(MARK, text)
        text = _cut(text, self._named(text))
        return _cut(text, self._found(text, is_about=is_about))

    def _named(self, text: str) -> Iterator[tuple[int, int]]:
        """Where its file is named, alone or with its path; a file elsewhere by that name is not it."""
        for found in self._name.finditer(text) if self.file in text else ():
            start = found.start()
            if start and text[start - 1] == "/":
                before = text[max(0, start - MAX_PATH) : start]
                path = before[max(before.rfind(sign) for sign in _NO_PATH) + 1 :]
                if not path.endswith(self._folders):
                    continue
                start -= len(path)
            yield start, found.end()

    def _may_hold(self, text: str) -> bool:
        """Whether all words of any run or line are there at all: to look in order costs far more."""
        folded = text.casefold()
        return any(
            word in folded and any(all(each in folded for each in words) for words in sequences)
            for word, sequences in self._rarest.items()
        )

    def _found(self, text: str, *, is_about: bool) -> Iterator[tuple[int, int]]:
        if not self._may_hold(text):
            return
        words = _words(text)
        spelled = tuple(word.text for word in words)
        for first, last in _joined(self._marked(spelled, is_about=is_about)):
            yield words[first].start, words[last].end

    def _marked(self, words: Words, *, is_about: bool) -> Iterator[tuple[int, int]]:
        """Stretches of words that are the memory's, by their first and last place."""
        lines = self._quoted if is_about else self._lines
        run: tuple[int, int] | None = None
        for place, word in enumerate(words):
            if words[place : place + RUN_WORDS] in self._runs:
                run = (run[0] if run and run[1] >= place - 1 else place, place + RUN_WORDS - 1)
                if _weight(words[run[0] : run[1] + 1]) >= RUN_WEIGHT:
                    yield run
            for line in lines.get(word, ()):
                if words[place : place + len(line)] == line:
                    yield place, place + len(line) - 1


def _lines(text: str) -> Iterator[str]:
    for line in text.splitlines():
        if one := line.strip():
            yield one
            if rest := _HEAD.sub("", one):
                yield rest


def _words(text: str) -> list[_Word]:
    return [
        _Word("" if found[1] == MARK else found[1].casefold(), found.start(), found.end())
        for found in _WORD.finditer(text)
        if found[1]
    ]


def _spelled(text: str) -> Words:
    return tuple(word.text for word in _words(text))


def _runs(words: Words) -> set[Words]:
    return {words[place : place + RUN_WORDS] for place in range(len(words) - RUN_WORDS + 1)}


def _weight(words: Words) -> int:
    return sum(
        DIGIT_WEIGHT if letter.isdigit() or "\u3040" <= letter <= "\ud7af" else 1
        for word in words
        for letter in word
    )


def _is_distinct(words: Words) -> bool:
    """Whether a line is nobody else's by chance: some words, or a number among them."""
    has_number = any(letter.isdigit() for word in words for letter in word)
    return _weight(words) >= LINE_WEIGHT and (len(words) >= LINE_WORDS or (has_number and len(words) > 1))


def _is_probe(words: Words) -> bool:
    return _weight(words) >= RUN_WEIGHT


def _by_first(lines: Iterable[Words]) -> dict[str, list[Words]]:
    sorted_lines: dict[str, list[Words]] = {}
    for words in lines:
        if words not in sorted_lines.setdefault(words[0], []):
            sorted_lines[words[0]].append(words)
    return sorted_lines


def _probes(lines: Iterable[str]) -> tuple[bytes, ...]:
    """The longest lines as they stand in a file: plain, in JSON, and in JSON that stands in JSON."""
    found: dict[bytes, None] = {}
    for line in sorted(set(lines), key=len, reverse=True)[:PROBES]:
        for plain in (line, json.dumps(line)[1:-1], json.dumps(line, ensure_ascii=False)[1:-1]):
            for spelling in (plain, json.dumps(plain)[1:-1]):
                found.setdefault(spelling.encode("utf-8", "surrogateescape"))
    return tuple(found)


def _by_rarest(sequences: Iterable[Words]) -> dict[str, list[Words]]:
    """The sequences by the one of their words that is least likely to stand anywhere else."""
    sorted_words: dict[str, list[Words]] = {}
    for words in sequences:
        if any(words):
            sorted_words.setdefault(max(words, key=_rarity), []).append(words)
    return sorted_words


def _candidates(file: str, words: Iterable[str]) -> re.Pattern[bytes]:
    """A test that every text with one of these words passes, however they are escaped."""
    spellings = {file.removesuffix(".md").casefold(), *words}
    raw = {each.encode("utf-8", "surrogateescape") for each in spellings}
    escaped = {json.dumps(each)[1:-1].lower().encode() for each in spellings}
    return re.compile(b"|".join(re.escape(each) for each in sorted(raw | escaped, key=len)))


def _rarity(word: str) -> tuple[bool, int]:
    """A word of plain letters has one spelling, and a long one is rarer."""
    return word.isascii(), len(word)


def _joined(stretches: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Stretches that touch as one, in order."""
    begin, end = -1, -2
    for first, last in sorted(stretches):
        if first > end + 1:
            if end >= begin >= 0:
                yield begin, end
            begin, end = first, last
        else:
            end = max(end, last)
    if end >= begin >= 0:
        yield begin, end


def _cut(text: str, spans: Iterable[tuple[int, int]]) -> str:
    pieces: list[str] = []
    done = 0
    for start, end in spans:
        pieces += [text[done:start], MARK]
        done = end
    return "".join([*pieces, text[done:]])
