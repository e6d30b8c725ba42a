"""Text to the numbers of word pieces, as the model was trained to read them; pure."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache

MAX_WORD = 100
"""Characters; what is longer is no word, and looking for its pieces would take quadratic time."""
KNOWN_WORDS = 20_000
"""Words whose pieces are remembered: most of any text is the same few thousand."""
_IDEOGRAPHS = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002ebef"
_WORD = re.compile(rf"[{_IDEOGRAPHS}]|[^\W_{_IDEOGRAPHS}]+|_|[^\w\s]")


class WordPiece:
    """The pieces of one vocabulary."""

    def __init__(self, vocabulary: Sequence[str]) -> None:
        self._numbers = {piece: number for number, piece in enumerate(vocabulary)}
        self._start, self._end = self._numbers["[CLS]"], self._numbers["[SEP]"]
        self._unknown = (self._numbers["[UNK]"],)
        self._pieces = lru_cache(KNOWN_WORDS)(self._pieces_of)

    def tokens(self, text: str, limit: int) -> list[int]:
        """At most `limit` numbers, those of start and end among them; what comes after is not read."""
        found = [self._start]
        for word in words(text):
            found.extend(self._pieces(word))
            if len(found) >= limit - 1:
                break
        return [*found[: limit - 1], self._end]

    def _pieces_of(self, word: str) -> tuple[int, ...]:
        """The longest known pieces from the left; a word with a part that is none is unknown as a whole."""
        if len(word) > MAX_WORD:
            return self._unknown
        found: list[int] = []
        start, mark = 0, ""
        while start < len(word):
            ends = range(len(word), start, -1)
            end = next((end for end in ends if mark + word[start:end] in self._numbers), start)
            if end == start:
                return self._unknown
            found.append(self._numbers[mark + word[start:end]])
            start, mark = end, "##"
        return tuple(found)


def words(text: str) -> Iterator[str]:
    """Words, ideographs and marks of a text, in lower case and without accents."""
    spread = unicodedata.normalize("NFD", text.lower())
    if not spread.isascii():
        spread = "".join(c for c in spread if unicodedata.category(c) != "Mn")
    return (found[0] for found in _WORD.finditer(spread))
