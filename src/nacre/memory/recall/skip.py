"""When no memory is looked for at all (R2): pure, and asked before anything is read."""

from __future__ import annotations

import re

from nacre.memory.recall.attach import MAX_VIEW_BYTES

MIN_WORDS = 2
"""One word ("thanks", "continue") says too little to tell which memory it is about."""
MIN_SIGNS = 3
"""The same for writing without blanks: two signs are one word there."""

_SIGN = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer
    "\u3005-\u3007\u3040-\u30ff\u3100-\u312f\u31f0-\u31ff\uff66-\uff9d"  # kana, bopomofo
    "\u1100-\u11ff\u3130-\u318f\uac00-\ud7af"  # hangul
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"  # han
)


def why_skip(
    text: str, *, is_on: bool, attached_bytes: int, has_files: bool, is_question: bool = False
) -> str:
    """Why nothing is looked for with this message; empty when something is.

    Where somebody asks memory itself, one word is enough: nobody asks it for "thanks".
    """
    if not is_on:
        return "memory is off"
    if not has_files:
        return "there are no memories"
    if attached_bytes >= MAX_VIEW_BYTES:
        return f"{MAX_VIEW_BYTES:,} bytes of memories are in the conversation already"
    if is_question:
        return "" if any(map(str.isalnum, text)) else "there is no word to look for"
    return "" if says_enough(text) else "the message is too short to tell what it is about"


def says_enough(text: str) -> bool:
    """Whether a message has words enough to be about something."""
    signs = len(_SIGN.findall(text))
    words = sum(any(map(str.isalnum, word)) for word in _SIGN.sub(" ", text).split())
    # A word of one script beside a sign of another is two words.
    return signs >= MIN_SIGNS or words + (signs > 0) >= MIN_WORDS
