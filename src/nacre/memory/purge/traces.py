"""Recognise quotations of one memory in any text: cut, numbered, escaped or wrapped (M14b).

Texts are compared word by word, so that line breaks, markup and punctuation between them do not matter.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

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
QUOTED_WEIGHT = 6
"""A whole line is recognised from here on in a text that is about this memory."""
DIGIT_WEIGHT = 3
"""What a digit, or a sign of a script without spaces, counts for: a number rarely matches by chance."""
RARE_CHARS = 8
"""Characters of the shortest single word that is searched for on its own."""
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
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://[^\s\"'`<>()\[\]{}]+|[\w.+-]+@[\w-]+\.[\w.-]*\w", re.IGNORECASE)
"""A URL or an e-mail address."""
_NUMBER = re.compile(r"(?<!\d)(?!\d{4}-\d\d-\d\d)\+?\d(?:[ -]?\d){8,}(?!\d)")
"""Nine digits or more, in groups or not, such as the number of a card or a telephone; not a date."""
_ORDINARY = re.compile(
    r"""
    \d{4}-\d\d-\d\d(?:T[\d:.+Z-]*)?  # a date, with or without a time
    | (?:~|\.{0,2})/(?:[\w.-]+/.*|[\w.-]*)  # a path
    | [a-z0-9_.-]+/[a-z0-9_./-]*
    | [\w/-]+\.[A-Za-z]{1,4}(?::\d+)*  # a file name, with or without a line number
    | \d{1,4}-[a-z]+(?:-[a-z]+)*  # "12-factor"
    | [a-z]+(?:-[a-z]+)*(?:-\d{1,2}(?:[.-]\d{1,2})*|\d{1,2}(?:\.\d{1,2})+)  # a name and its version
    """,
    re.VERBOSE,
)
"""Words with digits that are not rare: they name files, versions and dates in many other texts."""
_SIGN = re.compile(r"\w[#$%^!?~+\\]+\w")
"""A sign inside a word that ordinary words do not contain."""
_SEPARATORS = re.compile(r"[\"'`<>()\[\]{},;|=:@]+")
"""What stands between a password or key and its label, when no space does."""
_EDGES = "\"'`<>()[]{},;:.!?*"


@dataclass(frozen=True, slots=True)
class _Word:
    text: str
    start: int
    end: int


class Traces:
    """The words and the file name of one memory, as patterns to search for."""

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
        self.rare_words = _rare_words((file.removesuffix(".md"), *said), stays)
        """Single words that are searched for on their own, in any text."""
        self._rare = _rare_pattern(self.rare_words)
        self._needles = frozenset(max(_spelled(word), key=_rarity) for word in self.rare_words)
        long = sorted((one for one, words in lines.items() if _is_probe(words) and _runs(words)), key=len)
        self.probes = _probes([*long[-PROBES:], *(word for word in self.rare_words if _is_unbounded(word))])
        self._name = re.compile(rf"(?<![\w.-]){re.escape(file)}(?![\w-]|\.\w)")
        self._pointer = re.compile(rf"^.*\]\((?:\./)?{re.escape(file)}\).*$", re.MULTILINE)
        self._rarest = _by_rarest([*self._runs, *lines.values()])
        self._candidate = _candidates(file, [*self._rarest, *self._needles])

    def may_be_in(self, block: bytes) -> bool:
        """Whether a block may contain a trace; a quick no for nearly everything."""
        return self._candidate.search(block.lower()) is not None

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

    def without_rare_words(self, text: str) -> str:
        """Return the text with a mark for every rare word."""
        folded = text.casefold()
        return self._rare.sub(MARK, text) if any(each in folded for each in self._needles) else text

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
        for plain in _spellings(text):
            for spelling in (plain, json.dumps(plain)[1:-1]):
                found.setdefault(spelling.encode("utf-8", "surrogateescape"))
    return tuple(found)


def _spellings(text: str) -> tuple[str, str, str]:
    return text, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]


def _rare_words(texts: Iterable[str], others: Iterable[str]) -> tuple[str, ...]:
    """Passwords, keys, identifiers, long numbers and addresses that no other text contains, longest first."""
    folded = [text.casefold() for text in others]
    found = {
        word
        for text in texts
        for word in _candidate_words(text)
        if len(word) >= RARE_CHARS and _spelled(word)
    }
    rare = [word for word in found if not any(word.casefold() in text for text in folded)]
    return tuple(sorted(rare, key=lambda word: (-len(word), word)))


def _candidate_words(text: str) -> Iterator[str]:
    yield from (found[0].rstrip(_EDGES) for found in _ADDRESS.finditer(text))
    yield from (found[0] for found in _NUMBER.finditer(text))
    for chunk in text.split():
        whole = chunk.strip(_EDGES)
        parts = [*_SEPARATORS.split(whole), *re.split("[=:]", whole, maxsplit=1)]
        yield from (word for word in (whole, *(part.strip(_EDGES) for part in parts)) if _is_rare(word))


def _is_rare(word: str) -> bool:
    """Whether a word looks like a password, a key or an identifier."""
    if _ORDINARY.fullmatch(word) or not any(letter.isalpha() for letter in word):
        return False
    has_digit = any(letter.isdigit() for letter in word)
    changes_case = len(re.findall("[a-z][A-Z]", word)) > 2  # more often than "JavaScript"
    return has_digit or changes_case or _SIGN.search(word) is not None


def _is_unbounded(word: str) -> bool:
    """Whether a word counts inside a longer one; a number and an address do not."""
    return any(letter.isalpha() for letter in word) and _ADDRESS.fullmatch(word) is None


def _rare_pattern(words: Iterable[str]) -> re.Pattern[str]:
    """Finds the first of these words that fits, upper or lower case, escaped as in JSON or not."""
    found = []
    for word in words:
        spelled = "|".join(re.escape(each) for each in dict.fromkeys(_spellings(word)))
        if _ADDRESS.fullmatch(word):
            found.append(rf"(?<![\w.+-])(?:{spelled})(?![./-]?\w)")
        elif not _is_unbounded(word):
            found.append(rf"(?<!\d)(?:{spelled})(?!\d)")
        else:
            found.append(spelled)
    return re.compile("|".join(found), re.IGNORECASE)


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
