"""Make text from files safe inside a message: it cannot pass for the program's own text.

The file stays unchanged; only the injected copy changes.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterator
from itertools import islice, pairwise

CONTROL_TAGS = (
    "system-reminder",
    "memory-index",
    "session-notes",
    "persisted-output",
    "command-name",
    "command-message",
    "command-args",
    "local-command-stdout",
    "local-command-stderr",
    "teammate-message",
    "task-notification",
    "function-calls",
    "function-results",
    "tool-use",
    "tool-result",
    "start-of-turn",
    "end-of-turn",
)
"""Tags by which programs address a model, nacre's and others'; a dash matches any dash or none."""
COMMON_WORDS = ("system", "instructions", "memory", "summary", "invoke")
"""Tags that are also words which may follow a less-than sign: only directly after the bracket."""
ESCAPED = "&lt;"
"""Replaces the bracket of such a tag; the text stays readable."""
LOOK_AHEAD = 80
"""Visible characters checked after a bracket: longer than any tag."""

_ENDLESS_ENTITY = re.compile(r"&#[0-9]{8,};?")
"""No character has such a number, and Python refuses to read a very long one."""

LOOKALIKES = str.maketrans(
    "аеорсхуіјѕһԁԛԝкмтвнАЕОРСХУІЈЅҺКМТВНαοειυνρκτΑΒΕΖΗΙΚΜΝΟΡΤΥΧ",
    "aeopcxyijshdqwkmtbhAEOPCXYIJSHKMTBHaoeiuvpktABEZHIKMNOPTYX",
)
"""Cyrillic and Greek letters that look like Latin ones; only for comparison, never shown."""
UNSEEN = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffb\U000e0000-\U000e01ef\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff"
    "\ufe00-\ufe0f\ufe20-\ufe2f]"
)
"""Invisible characters: format and direction, tags, combining marks."""

_WHISPERED = re.compile("[\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f]")
"""Characters that a model reads and a person does not see: tag characters and direction overrides."""
_BRACKET = re.compile("[<\uff1c\ufe64]")
_OWN = "|".join(tag.replace("-", "[-_ ]*") for tag in CONTROL_TAGS)
_TAG = re.compile(
    rf" ?/* ?(?:[a-z]+: ?)?(?:{_OWN})(?![a-z0-9])"
    rf"|/*(?:[a-z]+:)?(?:{'|'.join(COMMON_WORDS)})(?![a-z0-9])"
    r"| ?/*\|[^<>|]{1,60}\|>"  # the special tokens of open models
)
_ASCII_BLANK = re.compile(r"[\x00-\x20\x7f]+")
_SHORT = 200
"""Maximum length of ASCII text that is folded at once instead of letter by letter."""
_LINES = str.maketrans({"\n": "\\n", "\r": "\\r", "\t": "\\t", '"': "&quot;"})
_UNSEEN = frozenset({"Cf", "Mn", "Me"})
_BLANK = frozenset({"Cc", "Zs", "Zl", "Zp"})
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def unescaped(text: str) -> str:
    """Return a text with its HTML entities resolved."""
    return html.unescape(_ENDLESS_ENTITY.sub("\ufffd", text))


def neutralise(text: str) -> str:
    """Return the text with every control tag's bracket escaped, however disguised, without hidden text."""
    text = printable(text) if text.isascii() else _WHISPERED.sub("", printable(text))
    brackets = [found.start() for found in _BRACKET.finditer(text)]
    pieces = []
    start = 0
    for place, following in pairwise([*brackets, len(text)]):
        # A tag holds no second bracket, so each character is checked once.
        if _TAG.match(_folded(text, place + 1, following)):
            pieces += [text[start:place], ESCAPED]
            start = place + 1
    return "".join([*pieces, text[start:]])


def one_line(text: str) -> str:
    """Return a path or name for an attribute: one line, no quotes, no control tags."""
    return neutralise(text).translate(_LINES)


def printable(text: str) -> str:
    """Return the text as valid in a request: surrogates of broken bytes become the replacement character."""
    return text if text.isascii() else _LONE_SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text)


def _folded(text: str, start: int, end: int) -> str:
    """Return the text without differences of case, width, dashes and blanks, and without invisible
    characters."""
    if end - start <= _SHORT and (stretch := text[start:end]).isascii():
        return _ASCII_BLANK.sub(" ", stretch.lower())[:LOOK_AHEAD]
    return "".join(islice(_plain_letters(text, start, end), LOOK_AHEAD))


def _plain_letters(text: str, start: int, end: int) -> Iterator[str]:
    was_blank = False
    for place in range(start, end):
        for letter in unicodedata.normalize("NFKD", text[place]).translate(LOOKALIKES).casefold():
            category = unicodedata.category(letter)
            if category in _UNSEEN:
                continue
            is_blank = category in _BLANK
            if not (is_blank and was_blank):
                yield " " if is_blank else "-" if category == "Pd" else letter
            was_blank = is_blank
