"""One memory: what it says, what kind it is, and who said it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import count
from typing import Literal, TypeAlias

from nacre.memory.format.fields import FieldValue, NewValue
from nacre.memory.format.frontmatter import MarkdownFile

Kind: TypeAlias = Literal["user", "feedback", "project", "reference"]
"""The closed taxonomy (M12); an entry of no known kind is untyped."""
KINDS: tuple[Kind, ...] = ("user", "feedback", "project", "reference")

Origin: TypeAlias = Literal["user", "agent", "untrusted"]
"""Who said it (M16b): the person, an agent, or something that nobody vouches for."""

Author: TypeAlias = Literal["user", "agent", "extract", "dream", "team", "import", "unconfirmed"]
"""Who wrote a change into the history (M15)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One topic file as it was read."""

    file: str
    """Its path in the memory directory, with forward slashes."""
    name: str = ""
    description: str = ""
    """One specific line: it is what recall goes by."""
    kind: Kind | None = None
    body: str = ""
    created: datetime | None = None
    modified: datetime | None = None
    """What the frontmatter says; the file's own time is `written`."""
    written: datetime | None = None
    origin: Origin = "user"
    pinned: bool = False
    local_only: bool = False
    """Never leaves this machine (M27)."""
    verified: datetime | None = None
    sources: tuple[str, ...] = ()
    """The session and the messages the fact came from."""
    bytes: int = 0
    indexed: bool = False
    """Whether the index points to it."""
    is_unlisted: bool = False
    """Its file says `indexed: false`: left out of the index on purpose (M8)."""

    @property
    def changed(self) -> datetime | None:
        """When it last changed: the earlier time of frontmatter and file, as a copy makes nothing younger."""
        return min((at for at in (self.modified, self.written) if at is not None), default=None)

    @property
    def title(self) -> str:
        """What to call it: its name, else its file's name in words."""
        stem = self.file.rpartition("/")[2].removesuffix(".md")
        return self.name or " ".join(stem.replace("_", " ").replace("-", " ").split())


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryDraft:
    """A memory to be saved: a new one, or the next state of one that is there."""

    body: str
    kind: Kind | None = None
    name: str = ""
    """A title; worked out from the body when empty."""
    description: str = ""
    """Worked out from the body when empty."""
    file: str = ""
    """The topic to update; empty looks for one on the same subject, else makes a new one."""
    origin: Origin = "user"
    pinned: bool | None = None
    local_only: bool | None = None
    sources: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryChange:
    """Who changes memory, and why; stands in the history (M15)."""

    author: Author
    reason: str
    session: str = ""


def read_entry(file: str, data: bytes, *, written: datetime | None = None, indexed: bool = False) -> Entry:
    """One memory from its bytes, whatever they are."""
    document = MarkdownFile.parse(data)
    entry = entry_of(document.fields, file=file, written=written, size=len(data), indexed=indexed)
    return replace(entry, body=document.body)


def entry_of(
    fields: Mapping[str, FieldValue],
    *,
    file: str,
    written: datetime | None = None,
    size: int = 0,
    indexed: bool = False,
) -> Entry:
    """What a frontmatter says about its memory; the body is for whoever reads the whole file."""
    kind = _word(fields, "type").lower()
    return Entry(
        file=file,
        name=one_line(_word(fields, "name")),
        description=one_line(_word(fields, "description")),
        kind=kind if kind in KINDS else None,
        created=parse_timestamp(_word(fields, "created")),
        modified=parse_timestamp(_word(fields, "modified")),
        written=written,
        origin=_origin(_word(fields, "origin")),
        pinned=_is_true(_word(fields, "pinned")),
        local_only=_is_true(_word(fields, "local-only") or _word(fields, "local_only")),
        verified=parse_timestamp(_word(fields, "verified")),
        sources=_words(fields, "source") or _words(fields, "originSessionId"),
        bytes=size,
        indexed=indexed,
        is_unlisted=_word(fields, "indexed").lower() in _FALSE,
    )


def compose(draft: MemoryDraft, *, file: str, now: datetime, previous: MarkdownFile | None = None) -> bytes:
    """The bytes of a topic file: a new one, or the next state of one that is there, in the shape it has."""
    if previous is None:
        return _composed_new(draft, file=file, now=now)
    before = replace(entry_of(previous.fields, file=file), body=previous.body)
    body = draft.body if draft.body.strip() else before.body
    changes: dict[str, NewValue | None] = {"modified": now}
    if draft.name or not before.name or before.name == title_of(before.body):
        changes["name"] = one_line(draft.name) or title_of(body) or Entry(file=file).title
    derived = not before.description or before.description == description_of(before.body)
    if draft.description or derived:
        changes["description"] = one_line(draft.description) or description_of(body) or before.description
    if draft.kind:
        changes["type"] = draft.kind
    if sources := tuple(dict.fromkeys((*before.sources, *draft.sources))) if draft.sources else ():
        changes["source"] = sources
    origin = _origin_after(before.origin, draft.origin)
    if origin != before.origin:
        changes["origin"] = None if origin == "user" else origin
    changes.update(_switches(draft, before))
    edited = MarkdownFile.parse(previous.with_fields(**changes))
    return edited.with_body(_ended(body)) if body != before.body else edited.data


def parse_timestamp(text: str) -> datetime | None:
    """A time as frontmatter has it: ISO, with or without a time of day; without a zone it is UTC."""
    if not text:
        return None
    try:
        at = datetime.fromisoformat(text)
        return at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None


def less_trusted(one: Origin, other: Origin) -> Origin:
    """Who stands for words of both (M16b)."""
    return max(one, other, key=_TRUST.index)


_TRUE = {"true", "yes", "on", "1"}
_FALSE = {"false", "no", "off", "0"}
_TRUST: tuple[Origin, ...] = ("user", "agent", "untrusted")


def _composed_new(draft: MemoryDraft, *, file: str, now: datetime) -> bytes:
    changes: dict[str, NewValue | None] = {
        "name": one_line(draft.name) or title_of(draft.body) or Entry(file=file).title,
        "description": one_line(draft.description) or description_of(draft.body) or None,
        "type": draft.kind,
        "created": now,
        "modified": now,
        "source": draft.sources or None,
        "origin": None if draft.origin == "user" else draft.origin,
        **_switches(draft, Entry(file=file)),
    }
    return MarkdownFile.parse(MarkdownFile.parse(b"").with_fields(**changes)).with_body(_ended(draft.body))


def _switches(draft: MemoryDraft, before: Entry) -> dict[str, NewValue | None]:
    """Switches that are to change; one that is off is not written down."""
    wanted = {"pinned": (draft.pinned, before.pinned), "local-only": (draft.local_only, before.local_only)}
    return {
        key: True if new else None for key, (new, old) in wanted.items() if new is not None and new != old
    }


def _origin_after(before: Origin, new: Origin) -> Origin:
    """Who vouches for a changed memory: the user always can, nobody else makes it more trusted (M16b)."""
    return new if new == "user" else less_trusted(before, new)


def _origin(text: str) -> Origin:
    """No word is the user's own; a word nobody knows is not to be trusted."""
    word = text.strip().lower()
    return word if word in _TRUST else "untrusted" if word else "user"


def _is_true(text: str) -> bool:
    return text.lower() in _TRUE


def _word(fields: Mapping[str, FieldValue], key: str) -> str:
    value = fields.get(key, "")
    return ", ".join(value) if isinstance(value, tuple) else value


def _words(fields: Mapping[str, FieldValue], key: str) -> tuple[str, ...]:
    value = fields.get(key, ())
    return ((value,) if value else ()) if isinstance(value, str) else value


def _ended(body: str) -> str:
    return body.strip("\n").rstrip() + "\n" if body.strip() else ""


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
    used = {normalised_name(name) for name in taken}
    return next(name for name in file_names(title) if normalised_name(name) not in used)


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


def normalised_name(name: str) -> str:
    """Names that some file system takes for one and the same."""
    return unicodedata.normalize("NFC", name.rpartition("/")[2]).casefold()
