"""Who said what a memory says: judged by whose words it repeats, mechanically and without a model (M16b).

A text is compared as a reader sees it, so that no disguise of what was read hides that it is repeated. What
is put into other words is beyond this.
"""

from __future__ import annotations

import base64
import binascii
import html
import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from nacre.memory.format.entry import Origin
from nacre.messages.untrusted_text import LOOKALIKES, UNSEEN

RUN = 3
"""Words in a row that count as repeated: two meet by chance, and four miss a text with small changes."""
FROM_OUTSIDE = 0.3
"""From this share of its runs on a text repeats what a tool said: a quotation may be wrapped in own words."""
FROM_USER = 0.5
"""From this share on it is the person's own statement; below it the agent put it into words."""
SENTENCE_FROM_OUTSIDE = 0.6
"""From this share on one sentence does, however many others stand around it."""
SENTENCE_WORDS = 6
"""Shorter sentences meet by chance."""
SOLID_LETTERS = 12
"""From so many letters on a run is found without its blanks, too: fewer meet inside other words."""
CACHED_TEXTS = 512
"""A session's results are compared again with each save."""

_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]|[^\W_]+")
_SENTENCE = re.compile(r"[!?。！？;；\n]|\.(?=\s|$)")
_TAG_SIGN = re.compile("[\U000e0020-\U000e007e]")
_MARKUP = re.compile(r"<[^<>]{0,200}>|(?<=\])\([^()\s]{0,500}\)|(?m:^[ \t]*\d+[\t→:|-])")
"""What stands between the words of a page and shows none: tags, the targets of links, numbers of lines."""
_PACKED = re.compile(r"[A-Za-z0-9+/_-]{24,}={0,2}")


def origin_of(text: str, *, by_user: Iterable[str], by_tools: Iterable[str]) -> Origin:
    """`untrusted` when a text repeats tool results more than the person, else `user` or `agent`."""
    user = _SpokenText.of(by_user)
    tools = _SpokenText.of(by_tools)
    sentences = (
        words for one in _SENTENCE.split(text) if len(words := _words(_plain(one))) >= SENTENCE_WORDS
    )
    if any(_is_repeated(words, tools, user, SENTENCE_FROM_OUTSIDE) for words in sentences):
        return "untrusted"
    words = _words(_plain(text))
    if _is_repeated(words, tools, user, FROM_OUTSIDE):
        return "untrusted"
    return "user" if user.share(words) >= FROM_USER else "agent"


def _is_repeated(words: list[str], tools: _SpokenText, user: _SpokenText, least: float) -> bool:
    share = tools.share(words)
    return share >= least and share > user.share(words)


@dataclass(frozen=True, slots=True)
class _SpokenText:
    """What somebody said, in the two forms that a run of words is looked for in."""

    spaced: str
    solid: str
    """Without anything between its letters."""

    @classmethod
    def of(cls, texts: Iterable[str]) -> _SpokenText:
        both = [_forms(text) for text in texts]
        return cls(" | ".join(one for one, _ in both), "|".join(one for _, one in both))

    def share(self, words: list[str]) -> float:
        """How many of the runs of some words were said."""
        size = min(RUN, len(words))
        if not size:
            return 0.0
        runs = [words[at : at + size] for at in range(len(words) - size + 1)]
        return sum(map(self._has, runs)) / len(runs)

    def _has(self, run: list[str]) -> bool:
        if f" {' '.join(run)} " in self.spaced:
            return True
        solid = "".join(run)
        return len(solid) >= SOLID_LETTERS and solid in self.solid


@lru_cache(maxsize=CACHED_TEXTS)
def _forms(text: str) -> tuple[str, str]:
    plain = _plain(text)
    solid = "".join(_words(_MARKUP.sub("", plain)))
    unpacked = "".join(_words(_plain(" ".join(_unpacked(text)))))
    return f" {' '.join(_words(plain))} ", f"{solid}|{solid[::-1]}|{unpacked}"


def _plain(text: str) -> str:
    """How a text reads: entities resolved, letters of one look made one, what is not seen left out."""
    if "&" in text:
        text = html.unescape(text)
    if not text.isascii():
        text = _TAG_SIGN.sub(lambda sign: chr(ord(sign[0]) - 0xE0000), text)
        text = UNSEEN.sub("", unicodedata.normalize("NFKD", text))
        text = unicodedata.normalize("NFC", text).translate(LOOKALIKES)
    return text.casefold()


def _unpacked(text: str) -> Iterator[str]:
    """What is written in base64."""
    for found in _PACKED.finditer(text):
        packed = found[0].rstrip("=").replace("-", "+").replace("_", "/")
        try:
            data = base64.b64decode(packed + "=" * (-len(packed) % 4))
            said = data.decode()
        except (binascii.Error, ValueError):
            continue
        if said.isprintable():
            yield said


def _words(text: str) -> list[str]:
    return _WORD.findall(text)
