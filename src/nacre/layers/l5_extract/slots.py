"""Facts of which one holds at a time: where somebody lives, what they are called; the newer one counts."""

from __future__ import annotations

import re
from collections.abc import Mapping

_NOW = r"(?:now |currently )?"
SLOTS: Mapping[str, re.Pattern[str]] = {
    "Where the user lives": re.compile(
        rf"\bI(?:'m| am|'ve| have)? {_NOW}(?:live|living|reside|moved|based) (?:in|to)\b"
        r"|我(?:现在|目前)?(?:住在|搬到|搬去)",
        re.IGNORECASE,
    ),
    "The user's name": re.compile(
        r"\bmy name(?:'s| is)\b|\bI(?:'m| am) called\b|我叫|我的名字(?:是|叫)", re.IGNORECASE
    ),
    "Where the user works": re.compile(
        rf"\bI(?:'m| am)? {_NOW}(?:work|working|employed) (?:at|for)\b"
        r"|我(?:现在|目前)?在[^，。,.]{1,15}(?:工作|上班)",
        re.IGNORECASE,
    ),
    "The user's birthday": re.compile(r"\bmy birthday(?:'s| is)\b|我的生日(?:是|在)", re.IGNORECASE),
    "The user's time zone": re.compile(r"\bmy time ?zone(?:'s| is)\b|我的时区是", re.IGNORECASE),
}
"""By the title such a memory has, whatever it says at the time; the same in both languages."""


def slot_of(text: str) -> str:
    """The title of the one memory that such a statement belongs to; empty where there may be several."""
    return next((title for title, form in SLOTS.items() if form.search(text)), "")
