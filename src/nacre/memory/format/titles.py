"""Words for a memory that came without: a title, a description, a file name."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from itertools import count

MAX_DESCRIPTION_CHARS = 150
"""A description is one line of an index or a manifest; longer ones crowd out the others."""
MAX_TITLE_CHARS = 60
"""A title longer than this leaves no room for the hook on its index line."""
MAX_NAME_CHARS = 60
"""A file name longer than this is cut off in every listing."""
MAX_NAME_BYTES = 200
"""File systems stop at 255 bytes; the rest is for a suffix, `.md` and a temporary name beside it."""

_SENTENCE_END = re.compile(r"(?<=[.!?])(?=\s)|(?<=[。！？])")
_MARKUP = re.compile(r"^(?:#{1,6}\s+|>\s+|[-*+]\s+|\d+[.)]\s+)+|(?<!\\)(?:\*\*|__|`)")
_LINK = re.compile(r"\[([^\[\]]*+)\]\([^()]*+\)")
_FENCE = re.compile(r"^\s*(?:```|~~~)")
_RULE = re.compile(r"^\s*(?:[-*_=]\s*){3,}$|^\s*<!--.*")
_LATIN = {
    "ß": "ss",
    "æ": "ae",
    "œ": "oe",
    "ø": "o",
    "đ": "d",
    "ð": "d",
    "ł": "l",
    "þ": "th",
    "ı": "i",
    "ħ": "h",
}
_TAKEN_BY_WINDOWS = {
    "con",
    "prn",
    "aux",
    "nul",
    *(f"{port}{n}" for port in ("com", "lpt") for n in range(10)),
}
_TAKEN_BY_INDEX = "memory"


def one_line(text: str) -> str:
    """The text without breaks, runs of blanks and characters that show nothing."""
    if text.isprintable() and "  " not in text:
        return text.strip()
    shown = (char if char.isprintable() else " " if char.isspace() else "" for char in text)
    return " ".join("".join(shown).split())


def clipped(text: str, limit: int) -> str:
    """At most so many characters, cut between words where there are some, and marked as cut."""
    if len(text) <= limit:
        return text
    head = text[: limit - 1]
    words = head.rpartition(" ")[0]
    return (words if len(words) > limit // 2 else head).rstrip(" ,;:—-") + "…"


def title_of(body: str) -> str:
    """A title: the first heading or line, up to the end of its sentence."""
    first = next(_lines(body, with_headings=True), "")
    return clipped(_sentence(first).rstrip(".。:："), MAX_TITLE_CHARS)


def description_of(body: str) -> str:
    """One line on what it says: the first sentence below the headings, else the heading."""
    first = next(_lines(body, with_headings=False), "") or next(_lines(body, with_headings=True), "")
    return clipped(_sentence(first), MAX_DESCRIPTION_CHARS)


def file_name(title: str, *, taken: Iterable[str] = ()) -> str:
    """A readable `snake_case.md` that is not taken."""
    used = {alike(name) for name in taken}
    return next(name for name in file_names(title) if alike(name) not in used)


def file_names(title: str) -> Iterator[str]:
    """Readable names for a file, best first, without end; letters of other scripts stay as they are."""
    folded = "".join(_folded(char) for char in unicodedata.normalize("NFKC", title).lower())
    words = (_without_loose_marks(word) for word in unicodedata.normalize("NFC", folded).split())
    stem = _bounded("_".join(filter(None, words))) or "untitled"
    if stem in _TAKEN_BY_WINDOWS or stem == _TAKEN_BY_INDEX:
        stem += "_note"
    yield f"{stem}.md"
    yield from (f"{stem}_{number}.md" for number in count(2))


def _lines(body: str, *, with_headings: bool) -> Iterator[str]:
    """The lines of a body that say something, without their markup."""
    in_code = False
    for line in body.splitlines():
        if _FENCE.match(line):
            in_code = not in_code
        elif not in_code and not _RULE.match(line) and (with_headings or not line.startswith("#")):
            words = one_line(_LINK.sub(r"\1", _MARKUP.sub("", line.strip())))
            if words:
                yield words


def _sentence(line: str) -> str:
    return _SENTENCE_END.split(line, maxsplit=1)[0].strip()


def _folded(char: str) -> str:
    """A letter or digit as it goes into a file name; everything else parts words."""
    if char in "'’ʼ":
        return ""
    if char.isascii():
        return char if char.isalnum() else " "
    base = unicodedata.normalize("NFD", char)[0]
    if base.isascii() and base.isalnum():
        return base
    if char in _LATIN:
        return _LATIN[char]
    if unicodedata.category(char) == "Cf":
        return ""
    return char if unicodedata.category(char)[0] in "LMN" else " "


def _bounded(stem: str) -> str:
    stem = stem[:MAX_NAME_CHARS]
    while len(stem.encode()) > MAX_NAME_BYTES:
        stem = stem[:-1]
    return stem.strip("_")


def _without_loose_marks(word: str) -> str:
    """An accent whose letter was dropped would settle on whatever stands before it."""
    while word and unicodedata.category(word[0])[0] == "M":
        word = word[1:]
    return word


def alike(name: str) -> str:
    """Names that some file system takes for one and the same."""
    return unicodedata.normalize("NFC", name.rpartition("/")[2]).casefold()
