"""English stems: the Snowball "English" (Porter 2) rules, after a table of irregular forms.

Pure functions of one lower-case word; everything else of a language model's morphology is left out.
"""

from __future__ import annotations

import re
from functools import lru_cache

from nacre.memory.recall.local.wordlists import IRREGULAR

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
"""Words of one or two letters have no ending to take off."""
CACHE_SIZE = 1 << 17
"""About the vocabulary of 100,000 files; one entry costs some 200 bytes."""


@lru_cache(maxsize=CACHE_SIZE)
def stem(word: str) -> str:
    """The stem of one lower-case word."""
    word = IRREGULAR.get(word, word)
    if len(word) < SHORTEST or not word.isascii() or not word.isalpha():
        return word
    if word in WHOLE:
        return WHOLE[word]
    return _suffixes_off(_mark_consonant_y(word)).lower()


def _mark_consonant_y(word: str) -> str:
    if word[0] == "y":
        word = "Y" + word[1:]
    return re.sub(r"([aeiouy])y", r"\1Y", word)


def _regions(word: str) -> tuple[int, int]:
    """Where R1 and R2 begin: after the first, then the second, non-vowel that follows a vowel."""
    prefix = next((p for p in PREFIXES if word.startswith(p)), None)
    if prefix:
        r1 = len(prefix)
    else:
        found = R1.search(word)
        r1 = found.end() if found else len(word)
    found = R1.search(word, r1)
    return r1, found.end() if found else len(word)


def _suffixes_off(word: str) -> str:
    r1, r2 = _regions(word)
    word = _plural(word)
    word = _past(word, r1)
    if len(word) > 2 and word[-1] in "yY" and word[-2] not in VOWELS:
        word = word[:-1] + "i"
    word = _derived(word, r1)
    word = _adjective(word, r1, r2)
    word = _residual(word, r2)
    return _final_e(word, r1, r2)


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
