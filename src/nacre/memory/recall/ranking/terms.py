"""Splits text into terms: stems of words, identifiers whole and in parts, bigrams of unsegmented scripts.

The stemmer is Porter2 by hand: `snowballstemmer` takes 2.5 times as long per word, adds 13 ms to the start of
a hook, and differs in 79 of 128,000 words of the recall sets, for which the weights were learnt.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from nacre.memory.recall.ranking.wordlists import CJK_WORDS, IRREGULAR, NUMBERS, STOP

VOWELS = "aeiouy"
DOUBLES = ("bb", "dd", "ff", "gg", "mm", "nn", "pp", "rr", "tt")
LI_ENDINGS = "cdeghkmnrt"
WHOLE = {
    "skis": "ski", "skies": "sky", "dying": "die", "lying": "lie", "tying": "tie", "idly": "idl",
    "gently": "gentl", "ugly": "ugli", "early": "earli", "only": "onli", "singly": "singl",
    "sky": "sky", "news": "news", "howe": "howe", "atlas": "atlas", "cosmos": "cosmos",
    "bias": "bias", "andes": "andes", "inning": "inning", "outing": "outing",
    "succeed": "succeed", "proceed": "proceed", "exceed": "exceed",
    "canning": "canning", "herring": "herring", "earring": "earring", "evening": "evening",
}  # fmt: skip
STEP_2 = (
    ("ization", "ize"), ("ational", "ate"), ("fulness", "ful"), ("ousness", "ous"),
    ("iveness", "ive"), ("tional", "tion"), ("biliti", "ble"), ("lessli", "less"),
    ("entli", "ent"), ("ation", "ate"), ("alism", "al"), ("aliti", "al"), ("ousli", "ous"),
    ("iviti", "ive"), ("fulli", "ful"), ("enci", "ence"), ("anci", "ance"), ("abli", "able"),
    ("izer", "ize"), ("ator", "ate"), ("alli", "al"), ("bli", "ble"),
)  # fmt: skip
STEP_3 = (
    ("ational", "ate"), ("tional", "tion"), ("alize", "al"), ("icate", "ic"),
    ("iciti", "ic"), ("ical", "ic"), ("ful", ""), ("ness", ""),
)  # fmt: skip
STEP_4 = (
    "ement", "ance", "ence", "able", "ible", "ment", "ant", "ent", "ism", "ate", "iti", "ous",
    "ive", "ize", "al", "er", "ic",
)  # fmt: skip
R1 = re.compile(r"[aeiouy][^aeiouy]")
PREFIXES = ("gener", "commun", "arsen", "univers", "emerg", "organ", "inter")
SHORTEST = 3
"""Shorter words have no suffix."""
CACHE_SIZE = 1 << 17
"""About the vocabulary of 100,000 files; one entry takes about 200 bytes."""


@lru_cache(maxsize=CACHE_SIZE)
def stem(word: str) -> str:
    """Return the stem of a lower-case word."""
    word = IRREGULAR.get(word, word)
    if len(word) < SHORTEST or not word.isascii() or not word.isalpha():
        return word
    if word in WHOLE:
        return WHOLE[word]
    # A "y" that is a consonant is written "Y".
    if word[0] == "y":
        word = "Y" + word[1:]
    word = re.sub(r"([aeiouy])y", r"\1Y", word)
    # R1 and R2 start after the first and second non-vowel that follows a vowel.
    prefix = next((p for p in PREFIXES if word.startswith(p)), None)
    found = None if prefix else R1.search(word)
    r1 = len(prefix) if prefix else found.end() if found else len(word)
    found = R1.search(word, r1)
    r2 = found.end() if found else len(word)
    word = _past(_plural(word), r1)
    if len(word) > 2 and word[-1] in "yY" and word[-2] not in VOWELS:
        word = word[:-1] + "i"
    word = _adjective(_derived(word, r1), r1, r2)
    return _final_e(_residual(word, r2), r1, r2).lower()


def _plural(word: str) -> str:
    if word.endswith("sses"):
        return word[:-2]
    if word.endswith(("ied", "ies")):
        return word[:-2] if len(word) > 4 else word[:-1]
    if word.endswith(("us", "ss")):
        return word
    if word.endswith("s") and any(c in VOWELS for c in word[:-2]):
        return word[:-1]
    return word


def _past(word: str, r1: int) -> str:
    if word.endswith(("eed", "eedly")):
        cut = 3 if word.endswith("eed") else 5
        return word[:-cut] + "ee" if len(word) - cut >= r1 else word
    ending = next((e for e in ("ingly", "edly", "ing", "ed") if word.endswith(e)), None)
    if not ending or not any(c in VOWELS for c in word[: -len(ending)]):
        return word
    word = word[: -len(ending)]
    if word.endswith(("at", "bl", "iz")):
        return word + "e"
    if word.endswith(DOUBLES):
        return word if len(word) == 3 and word[0] in "aeo" else word[:-1]
    return word + "e" if _is_short(word, r1) else word


def _is_short(word: str, r1: int) -> bool:
    if r1 < len(word):
        return False
    if len(word) == 2:
        return word[0] in VOWELS and word[1] not in VOWELS
    return len(word) > 2 and word[-1] not in "aeiouywxY" and word[-2] in VOWELS and word[-3] not in VOWELS


def _derived(word: str, r1: int) -> str:
    for suffix, instead in STEP_2:
        if word.endswith(suffix):
            return word[: -len(suffix)] + instead if len(word) - len(suffix) >= r1 else word
    if word.endswith("ogi") and len(word) - 3 >= r1 and word[-4] == "l":
        return word[:-1]
    if word.endswith("li") and len(word) - 2 >= r1 and word[-3] in LI_ENDINGS:
        return word[:-2]
    return word


def _adjective(word: str, r1: int, r2: int) -> str:
    for suffix, instead in STEP_3:
        if word.endswith(suffix):
            return word[: -len(suffix)] + instead if len(word) - len(suffix) >= r1 else word
    if word.endswith("ative") and len(word) - 5 >= r2:
        return word[:-5]
    return word


def _residual(word: str, r2: int) -> str:
    for suffix in STEP_4:
        if word.endswith(suffix):
            return word[: -len(suffix)] if len(word) - len(suffix) >= r2 else word
    if word.endswith("ion") and len(word) - 3 >= r2 and word[-4] in "st":
        return word[:-3]
    return word


def _final_e(word: str, r1: int, r2: int) -> str:
    if word.endswith("e"):
        at = len(word) - 1
        if at >= r2 or (at >= r1 and not _is_short(word[:-1], at)):
            return word[:-1]
    if word.endswith("ll") and len(word) - 1 >= r2:
        return word[:-1]
    return word


CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uac00-\ud7af\u0e00-\u0e7f"
TOKEN = re.compile(rf"[{CJK}]+|[^\W_{CJK}]+(?:['’.\-_/:@+#]+[^\W_{CJK}]+)*[+#]*")
CJK_RUN = re.compile(rf"[{CJK}]")
JOINT = re.compile(r"['’.\-_/:@+#]+")
CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
CONTRACTED = frozenset({"s", "t", "d", "ll", "m", "re", "ve"})
FUNCTION_WORDS = re.compile(
    "什么时候|为什么|什么|怎么样|怎么|怎样|哪里|哪个|哪些|哪儿|何时|多少|多久|谁|哪|几|吗|呢|吧|啊|的|了|是|在|我|你|您|他|她|它|们"
    "|请|有|和|与|或|把|被|由|这|那|就|都|也|很|会|要|想|能|可以|应该|每|どうして|どのように|いつ|どこ|どう|なぜ|どの|どれ|だれ|誰|何"
    "|いくつ|です|ます|ました|ません|でした|している|して|した|する|から|まで|より|か|は|が|を|に|で|と|の|も|へ|や|ね|よ"
)
"""Function words and question words of Chinese and Japanese; the text between them is indexed."""
_KEPT_OR_FUNCTION = re.compile(f"{'|'.join(CJK_WORDS)}|(?P<function>{FUNCTION_WORDS.pattern})")
_GAP = "\0"
LONGEST = 64
"""Longer runs are data (keys, hashes, base64), not words."""


def terms(text: str) -> list[str]:
    """Return the terms of a text in order, stop words included."""
    found: list[str] = []
    for token in TOKEN.findall(text if text.isascii() else unicodedata.normalize("NFKC", text)):
        found.extend(_of_token(token))
    return found


def content(text: str) -> list[str]:
    """Return the terms of a text without stop words."""
    return [term for term in terms(text) if term not in STOP_TERMS]


@lru_cache(maxsize=1 << 17)
def _of_token(token: str) -> tuple[str, ...]:
    if len(token) > LONGEST and token.isascii():
        return ()
    if CJK_RUN.match(token):
        # Pairs of characters between function words and the words that have the character of one (R11).
        spaced = _KEPT_OR_FUNCTION.sub(
            lambda found: _GAP if found["function"] else f"{_GAP}{found[0]}{_GAP}", token
        )
        parts = [part for part in spaced.split(_GAP) if part]
        return tuple(part[i : i + 2] for part in parts for i in range(max(1, len(part) - 1)))
    if token.isascii() and token.isalpha() and not CAMEL.search(token):
        return (normal(token.lower()),)
    parts = [p for piece in JOINT.split(token) for p in CAMEL.split(piece) if p]
    if parts[1:] and all(p.lower() in CONTRACTED for p in parts[1:]):
        return (normal(parts[0].lower()),)
    split = tuple(normal(p.lower()) for p in parts if p.lower() not in CONTRACTED)
    whole = token.lower()
    return split if len(parts) == 1 or not is_identifier(token) else (*split, whole)


def is_identifier(token: str) -> bool:
    """Whether a joined token is an identifier and not hyphenated prose."""
    return any(c in token for c in "_/.:@#") or bool(CAMEL.search(token)) or any(c.isdigit() for c in token)


def normal(word: str) -> str:
    """Return the term of a lower-case word."""
    return stem(NUMBERS.get(word, word))


STOP_TERMS = frozenset(stem(w) for w in STOP) | STOP
