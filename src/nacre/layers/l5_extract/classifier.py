"""A linear classifier of statements: worth keeping as which kind of memory, a reason, or nothing (E10).

Words, word pairs and Chinese characters are hashed into one table of weights, which `bench/extract/train.py`
makes from labelled sentences.
"""

from __future__ import annotations

import math
import re
import tomllib
import zlib
from collections.abc import Iterator, Sequence
from functools import cache

from nacre.prompts import packaged_file

LABELS = ("none", "user", "feedback", "project", "reference", "reason")
"""What a statement is; `reason` is the why or the scope of the statement beside it."""
BUCKETS = 1 << 16
SCALE = 32.0
"""Weights are stored as whole numbers: this many are 1."""
WEIGHTS = "weights.bin"


def probabilities(text: str) -> list[float]:
    """Return the probability of each label for one statement."""
    return softmax(scores(features(text)))


def scores(found: Sequence[int]) -> list[float]:
    weights = _weights()
    width = len(LABELS)
    sums = [0] * width
    for bucket in found:
        start = bucket * width
        for label in range(width):
            sums[label] += weights[start + label]
    return [total / SCALE for total in sums]


def softmax(values: Sequence[float]) -> list[float]:
    top = max(values)
    powers = [math.exp(value - top) for value in values]
    total = sum(powers)
    return [power / total for power in powers]


def features(text: str) -> list[int]:
    """Return the buckets of all features of a statement, each once."""
    return sorted({zlib.crc32(one.encode()) % BUCKETS for one in named_features(text)})


def named_features(text: str) -> Iterator[str]:
    """Yield the features of a statement as text."""
    words = list(tokens(text))
    by_word, chinese = _word_classes()
    yield "bias"
    yield f"length {min(len(words), 40).bit_length()}"
    yield f"ends {words[-1]}" if words else "empty"
    padded = ["^", *words, "$"]
    for place, word in enumerate(words):
        before = padded[place]
        yield word
        yield f"{before} {word}"
        if place < FIRST_WORDS:
            yield f"first {word}"
        if _HAN.match(word):
            if place > 1:
                yield f"{words[place - 2]} {before} {word}"
        elif len(word) > SHORT_WORD:
            yield f"{word[:5]}-"
            yield f"-{word[-3:]}"
        if place > 0 and word in _PAIRING:
            yield f"{words[0]} … {word}"
        for name in by_word.get(word, ()):
            yield f"<{name}>"
            yield f"{before} <{name}>"
            yield f"<{name}> {padded[place + 2]}"
    yield f"{padded[-2]} $"
    if match := chinese.findall(text):
        for found in match:
            yield from (f"<{name}>" for name in by_word[found])
    yield from _signs(text)


def _signs(text: str) -> Iterator[str]:
    """Yield what the words alone do not say: names, numbers, addresses, code, shouting."""
    names = len(_NAME.findall(text))
    if names:
        yield f"names {min(names, 3)}"
    for name, pattern in _SIGNS:
        if pattern.search(text):
            yield f"has {name}"


def tokens(text: str) -> Iterator[str]:
    """Yield lower-case words, single Chinese characters, and signs for numbers, addresses and code."""
    for match in _TOKEN.finditer(text.replace("’", "'")):
        kind = match.lastgroup
        word = match[0]
        if kind == "word":
            low = word.lower().replace("'", "")
            yield _DATES.get(low, low)
        elif kind == "han" or kind == "mark":
            yield word
        else:
            yield f"<{kind}>"


FIRST_WORDS = 3
SHORT_WORD = 3
_HAN = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]")
_TOKEN = re.compile(
    r"(?P<url>https?://\S+|\b[\w-]+(?:\.[\w-]+)*\.(?:com|org|net|io|dev|internal|corp|edu|local)\b[/\w.-]*)"
    r"|(?P<channel>[#@][A-Za-z][\w-]+)"
    r"|(?P<path>(?:~|\.{1,2})?/?[\w.-]+(?:/[\w.-]+)+/?|\b[\w-]+\.(?:py|js|ts|tsx|go|rs|java|kt|php|md|css"
    r"|html|json|ya?ml|toml|csv|xlsx|pdf|png|tex|sql|sh|c|h|cpp|txt)\b)"
    r"|(?P<code>`[^`\n]+`|\b\w+\(\)|\b[a-z]+[A-Z]\w*|\b\w+_\w+|\b[A-Z][a-z]+[A-Z]\w*)"
    r"|(?P<quote>\"[^\"\n]{2,}\"|“[^”\n]+”|「[^」\n]+」)"
    r"|(?P<number>\d[\d.,:/-]*(?:st|nd|rd|th|am|pm|k|h|%)?)"
    r"|(?P<han>[\u3040-\u30ff\u4e00-\u9fff])"
    r"|(?P<word>[^\W\d_\u3040-\u30ff\u4e00-\u9fff]+(?:'[^\W\d_]+)?)"
    r"|(?P<mark>[?？!！:：=])"
)
_NAME = re.compile(r"(?<=[a-z,;\u4e00-\u9fff] )[A-Z][a-z]+|(?<=[\u4e00-\u9fff])[A-Z][a-z]+")
_SIGNS = (
    ("question", re.compile(r"[?？]|吗[。.!！]?$")),
    ("project key", re.compile(r"\b[A-Z]{3,}(?:-\d+)?\b")),
    ("trace", re.compile(r"\b\w+(?:Error|Exception)\b|^\s*at |\bline \d|第 ?\d+ ?行", re.IGNORECASE)),
    ("shout", re.compile(r"\b(?:NO|NOT|NEVER|ALWAYS|DON'?T|MUST|ONLY)\b")),
    ("assignment", re.compile(r"\w=\S|\w: ?[\"{\[]|[{};]\s*$")),
)
_PAIRING = frozenset(
    """
    always never only not no because so until before after when anymore from on now is are here this for all
    """.split()
)
"""Words that together with the first word say what a sentence does."""
_DATES = {
    **dict.fromkeys(
        """
        monday tuesday wednesday thursday friday saturday sunday mon tue tues wed thu thurs fri sat sun
        """.split(),
        "<weekday>",
    ),
    **dict.fromkeys(
        """
        january february march april june july august september october november december jan feb mar apr jun
        jul aug sep sept oct nov dec
        """.split(),
        "<month>",
    ),
    **dict.fromkeys(
        "mondays tuesdays wednesdays thursdays fridays saturdays sundays weekends".split(), "<weekdays>"
    ),
}


@cache
def _word_classes() -> tuple[dict[str, list[str]], re.Pattern[str]]:
    """Return the classes of each word, and a pattern for the Chinese words."""
    text = packaged_file("nacre.layers.l5_extract", "data/words.toml").decode()
    classes: dict[str, list[str]] = {}
    for name, words in tomllib.loads(text).items():
        for word in words.split():
            classes.setdefault(word.replace("'", ""), []).append(name)
    chinese = sorted((word for word in classes if _HAN.match(word)), key=len, reverse=True)
    return classes, re.compile("|".join(chinese))


@cache
def _weights() -> memoryview:
    packed = packaged_file("nacre.layers.l5_extract", f"data/{WEIGHTS}")
    return memoryview(zlib.decompress(packed)).cast("b")
