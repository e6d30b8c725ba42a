"""The origin of a text: whose words it repeats, determined without a model (M16b).

Texts are compared as a reader sees them, so that hidden characters and encodings do not hide a repetition.
Paraphrases are not recognised.
"""

from __future__ import annotations

import base64
import binascii
import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from nacre.memory.format.entry import Origin
from nacre.memory.recall.ranking.terms import normal
from nacre.messages.untrusted_text import LOOKALIKES, UNSEEN, unescaped

RUN = 3
"""Consecutive words that count as repeated: two match by chance, four miss a slightly changed text."""
FROM_OUTSIDE = 0.3
"""From this share of its runs on, a text repeats tool output: a quotation may be within own words."""
FROM_USER = 0.5
"""From this share on, a text is the user's own statement; below, the agent phrased it."""
SENTENCE_FROM_OUTSIDE = 0.6
"""From this share on, a single sentence repeats tool output."""
SENTENCE_WORDS = 6
"""Shorter sentences match by chance."""
SOLID_LETTERS = 12
"""From this many letters on, a run is also searched without blanks: shorter ones occur inside words."""
CACHED_TEXTS = 512
"""The tool results of a session are compared again with each save."""

_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]|[^\W_]+")
_SENTENCE = re.compile(r"[!?。！？;；\n]|\.(?=\s|$)")
_TAG_SIGN = re.compile("[\U000e0020-\U000e007e]")
_MARKUP = re.compile(r"<[^<>]{0,200}>|(?<=\])\([^()\s]{0,500}\)|(?m:^[ \t]*\d+[\t→:|-])")
"""Invisible parts of a page: tags, targets of links, line numbers."""
_PACKED = re.compile(r"[A-Za-z0-9+/_-]{24,}={0,2}")


def origin_of(text: str, *, by_user: Iterable[str], by_tools: Iterable[str]) -> Origin:
    """Return `untrusted` when a text repeats tool results more than the user, else `user` or `agent`."""
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


@lru_cache(maxsize=CACHED_TEXTS)
def plain_words(text: str) -> frozenset[str]:
    """Return the stems of all words of a text as a reader sees it."""
    return frozenset(normal(word) for word in _words(_plain(text)))


def _is_repeated(words: list[str], tools: _SpokenText, user: _SpokenText, least: float) -> bool:
    share = tools.share(words)
    return share >= least and share > user.share(words)


@dataclass(frozen=True, slots=True)
class _SpokenText:
    """Texts in the two forms in which runs of words are searched."""

    spaced: str
    solid: str
    """Letters only, without separators."""

    @classmethod
    def of(cls, texts: Iterable[str]) -> _SpokenText:
        both = [_forms(text) for text in texts]
        return cls(" | ".join(one for one, _ in both), "|".join(one for _, one in both))

    def share(self, words: list[str]) -> float:
        """Return the share of the runs of some words that occur in the texts."""
        size = min(RUN, len(words))
        if not size:
            return 0.0
        runs = [words[at : at + size] for at in range(len(words) - size + 1)]
        return sum(
            f" {' '.join(run)} " in self.spaced
            or (len(solid := "".join(run)) >= SOLID_LETTERS and solid in self.solid)
            for run in runs
        ) / len(runs)


@lru_cache(maxsize=CACHED_TEXTS)
def _forms(text: str) -> tuple[str, str]:
    plain = _plain(text)
    solid = "".join(_words(_MARKUP.sub("", plain)))
    unpacked = "".join(_words(_plain(" ".join(_unpacked(text)))))
    return f" {' '.join(_words(plain))} ", f"{solid}|{solid[::-1]}|{unpacked}"


def _plain(text: str) -> str:
    """Normalise a text: entities resolved, look-alike letters unified, invisible characters removed."""
    if "&" in text:
        text = unescaped(text)
    if not text.isascii():
        text = _TAG_SIGN.sub(lambda sign: chr(ord(sign[0]) - 0xE0000), text)
        text = UNSEEN.sub("", unicodedata.normalize("NFKD", text))
        text = unicodedata.normalize("NFC", text).translate(LOOKALIKES)
    return text.casefold()


def _unpacked(text: str) -> Iterator[str]:
    """Yield the texts that are encoded in base64."""
    for found in _PACKED.finditer(text):
        packed = found[0].rstrip("=").replace("-", "+").replace("_", "/")
        try:
            said = base64.b64decode(packed + "=" * (-len(packed) % 4)).decode()
        except (binascii.Error, ValueError):
            continue
        if said.isprintable():
            yield said


def _words(text: str) -> list[str]:
    return _WORD.findall(text)
