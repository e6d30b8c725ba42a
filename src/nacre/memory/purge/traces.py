"""Recognise quotations of one memory in any text: cut, numbered, escaped or wrapped (M14b).

Texts are compared word by word, so that line breaks, markup and punctuation between them do not matter.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from nacre.memory.purge.values import QUOTED, ValuePattern, find_values
from nacre.messages.untrusted_text import neutralise

MARK = "[erased memory]"
"""Replaces words of an erased memory."""
RUN_WORDS = 6
"""So many words in a row that are the memory's own are a quotation of it."""
RUN_WEIGHT = 24
"""Letters such a run has at least: six very short words in a row occur in any text."""
LINE_WORDS = 4
LINE_WEIGHT = 16
"""A whole line of the memory is recognised from here on in any text; shorter ones are too common."""
MAX_LINE_WORDS = 60
"""A longer line is recognised by its runs of words."""
QUOTED_WEIGHT = 6
"""A whole line is recognised from here on in a text that is about this memory."""
DIGIT_WEIGHT = 3
"""What a digit, or a sign of a script without spaces, counts for: a number rarely matches by chance."""
PROBES = 40
"""Lines that are searched for by bytes at the end; the longest ones are the most specific."""

MAX_PATH = 4_096
"""Characters; no file system takes a longer path."""

Words: TypeAlias = tuple[str, ...]

_DENSE = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
"""Scripts that put no spaces between words."""
_WORD = re.compile(
    rf"(?:^|\\n) *\d+(?:\t|\\+t)|\\[nrtbf]|({re.escape(MARK)}|[{_DENSE}]|[^\W_{_DENSE}]+)", re.MULTILINE
)
"""A word, or our own mark, which is no word; an escaped line break inside a text of JSON is none, nor is the
number of a line with the tab behind it, as Read writes them."""
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
    """The words and the file name of one memory, as patterns to search for."""

    def __init__(
        self,
        file: str,
        texts: Iterable[str],
        *,
        folder: str = "memory",
        others: Iterable[str] = (),
        common: Iterable[str] = (),
    ) -> None:
        """`texts` are all that it ever said, `folder` the last part of where it lay.

        What `others` say too, the memories that stay, is not its own, and neither are `common` words.
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
        short = [words for words in lines.values() if len(words) <= MAX_LINE_WORDS]
        self._lines = _by_first(words for words in short if _is_distinct(words))
        self._quoted = _by_first(words for words in short if _weight(words) >= QUOTED_WEIGHT)
        kept = frozenset(common)
        folded = [text.casefold() for text in stays]
        values = [value for value in find_values((file.removesuffix(".md"), *said)) if value not in kept]
        self._values = ValuePattern(
            each for each in values if not any(each.casefold() in text for text in folded)
        )
        long = sorted((one for one, words in lines.items() if _is_probe(words) and _runs(words)), key=len)
        self.probes = _probes(long[-PROBES:])
        self._name = re.compile(rf"(?<![\w.-]){re.escape(file)}(?![\w-]|\.\w)")
        self._pointer = re.compile(rf"^.*\]\((?:\./)?{re.escape(file)}\).*$", re.MULTILINE)
        self._rarest = _by_rarest([*self._runs, *lines.values()])
        self._candidates = _shortest(_candidates(file, self._rarest) | self._values.needles)

    @property
    def rare_words(self) -> tuple[str, ...]:
        """Values that are searched for on their own, in any text."""
        return self._values.values

    def may_be_in(self, block: bytes) -> bool:
        """Whether a block may contain a trace; a quick no for nearly everything."""
        lowered = block.lower()
        return any(each in lowered for each in self._candidates) or self._values.may_be_encoded_in(lowered)

    def names(self, text: str) -> bool:
        """Whether the text names the memory's file."""
        return next(self._named(text), None) is not None

    def are_in(self, text: str, *, is_about: bool = False) -> bool:
        """Whether a text contains any trace."""
        return self.without(text, is_about=is_about) != text

    def without(self, text: str, *, is_about: bool = False) -> str:
        """Return the text with a mark for every quotation; `is_about` also finds short lines."""
        is_about = is_about or self.names(text)
        text = self._pointer.sub(MARK, text)
        text = _cut(text, self._named(text))
        return self.without_rare_words(_cut(text, self._found(text, is_about=is_about)))

    def without_rare_words_beside_name(self, text: str) -> str:
        """Return the text with a mark for every rare word that is not in the name of the file."""
        return self.file.join(map(self.without_rare_words, text.split(self.file)))

    def without_rare_words(self, text: str) -> str:
        """Return the text with a mark for every rare word."""
        # The rest of a longer word may be another value, once a part of it is gone.
        before = ""
        while text != before and self._values.may_be_in(text.lower().encode("utf-8", "surrogatepass")):
            before, text = text, self._values.without(text, MARK)
        return text

    def _named(self, text: str) -> Iterator[tuple[int, int]]:
        """Return where its file is named, alone or with its path; a file of that name elsewhere is not it."""
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
        """Whether all words of any run or line occur, in any order, which is far cheaper to check."""
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
        first = 0
        last = -2
        is_long = False
        for place, word in enumerate(words):
            if words[place : place + RUN_WORDS] in self._runs:
                if last < place - 1:
                    first = place
                    is_long = False
                last = place + RUN_WORDS - 1
                # A run only grows, so it is weighed until it is long enough.
                is_long = is_long or _weight(words[first : last + 1]) >= RUN_WEIGHT
                if is_long:
                    yield first, last
            for line in lines.get(word, ()):
                if words[place : place + len(line)] == line:
                    yield place, place + len(line) - 1


def _lines(text: str) -> Iterator[str]:
    for line in text.splitlines():
        if one := line.strip():
            yield one
            if rest := _HEAD.sub("", one):
                yield rest
            yield from (next(filter(None, found.groups())) for found in QUOTED.finditer(one))


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
    """Whether a line is specific: several words, or a number among them."""
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


def _probes(texts: Iterable[str]) -> tuple[bytes, ...]:
    """Texts as they stand in a file: plain, in JSON, and in JSON that stands in JSON."""
    found: dict[bytes, None] = {}
    for text in texts:
        for plain in (text, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]):
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


def _candidates(file: str, words: Iterable[str]) -> frozenset[bytes]:
    """Lower-case bytes, one of which every text with one of these words contains, escaped or not."""
    spellings = {file.removesuffix(".md").casefold(), *words}
    raw = {each.encode("utf-8", "surrogateescape") for each in spellings}
    return frozenset(raw | {json.dumps(each)[1:-1].lower().encode() for each in spellings})


def _shortest(needles: Iterable[bytes]) -> tuple[bytes, ...]:
    """Return the needles without those that contain another one, which is found wherever they are."""
    kept: list[bytes] = []
    for needle in sorted(needles, key=len):
        if not any(each in needle for each in kept):
            kept.append(needle)
    return tuple(kept)


def _rarity(word: str) -> tuple[bool, int]:
    """A word of plain letters has one spelling, and a long one is rarer."""
    return word.isascii(), len(word)


def _joined(stretches: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Stretches that touch as one, in order."""
    begin = -1
    end = -2
    for first, last in sorted(stretches):
        if first > end + 1:
            if end >= begin >= 0:
                yield begin, end
            begin = first
            end = last
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
