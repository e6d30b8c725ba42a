"""Text to terms: words by stem, identifiers whole and in parts, unsegmented scripts by bigram."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from nacre.memory.recall.local.stem import stem
from nacre.memory.recall.local.wordlists import NUMBERS, STOP

CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uac00-\ud7af\u0e00-\u0e7f"
TOKEN = re.compile(rf"[{CJK}]+|[^\W_{CJK}]+(?:['’.\-_/:@+#]+[^\W_{CJK}]+)*[+#]*")
CJK_RUN = re.compile(rf"[{CJK}]")
JOINT = re.compile(r"['’.\-_/:@+#]+")
CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
CONTRACTED = frozenset({"s", "t", "d", "ll", "m", "re", "ve"})
LOOSE = re.compile(
    "什么时候|为什么|什么|怎么样|怎么|怎样|哪里|哪个|哪些|哪儿|何时|多少|多久|谁|哪|几|吗|呢|吧|啊|的|了|是|在|我|你|您|他|她|它|们"
    "|请|有|和|与|或|把|被|由|这|那|就|都|也|很|会|要|想|能|可以|应该|每|どうして|どのように|いつ|どこ|どう|なぜ|どの|どれ|だれ|誰|何"
    "|いくつ|です|ます|ました|ません|でした|している|して|した|する|から|まで|より|か|は|が|を|に|で|と|の|も|へ|や|ね|よ"
)
"""Signs that hold a Chinese or Japanese sentence together, or ask: what stands between them is looked for."""
LONGEST = 64
"""Longer runs are data (keys, hashes, base64), not words anyone asks for."""


def terms(text: str) -> list[str]:
    """The terms of a text in order, stop words included."""
    found: list[str] = []
    for token in TOKEN.findall(text if text.isascii() else unicodedata.normalize("NFKC", text)):
        found.extend(_of_token(token))
    return found


def content(text: str) -> list[str]:
    """The terms without the words that only hold a sentence together."""
    return [term for term in terms(text) if term not in STOP_TERMS]


@lru_cache(maxsize=1 << 17)
def _of_token(token: str) -> tuple[str, ...]:
    if len(token) > LONGEST and token.isascii():
        return ()
    if CJK_RUN.match(token):
        return _bigrams(token)
    if token.isascii() and token.isalpha() and not CAMEL.search(token):
        return (normal(token.lower()),)
    parts = [p for piece in JOINT.split(token) for p in CAMEL.split(piece) if p]
    if parts[1:] and all(p.lower() in CONTRACTED for p in parts[1:]):
        return (normal(parts[0].lower()),)
    split = tuple(normal(p.lower()) for p in parts if p.lower() not in CONTRACTED)
    whole = token.lower()
    return split if len(parts) == 1 or not is_identifier(token) else (*split, whole)


def is_identifier(token: str) -> bool:
    """Whether a joined token is a name of code rather than hyphenated prose."""
    return any(c in token for c in "_/.:@#") or bool(CAMEL.search(token)) or any(c.isdigit() for c in token)


def normal(word: str) -> str:
    """One lower-case word as a term."""
    return stem(NUMBERS.get(word, word))


def _bigrams(run: str) -> tuple[str, ...]:
    """Pairs of signs between the words that only hold a sentence together or ask (R11)."""
    found: list[str] = []
    for part in LOOSE.split(run):
        found += [part[i : i + 2] for i in range(len(part) - 1)] or ([part] if part else [])
    return tuple(found)


STOP_TERMS = frozenset(stem(w) for w in STOP) | STOP
