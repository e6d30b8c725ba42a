"""One memory entry: its fields, its file as bytes, and the title, description, kind and file name by rule.

Every writer derives titles, descriptions and file names here: they say the subject in the words of the text.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import count, dropwhile
from typing import Literal, TypeAlias

from nacre.memory.format.fields import FieldValue, NewValue
from nacre.memory.format.frontmatter import MarkdownFile

Kind: TypeAlias = Literal["user", "feedback", "project", "reference"]
"""The closed set of kinds (M12); an entry of any other kind is untyped."""
KINDS: tuple[Kind, ...] = ("user", "feedback", "project", "reference")

Origin: TypeAlias = Literal["user", "agent", "unverified", "untrusted"]
"""Who said it (M16b): the user, an agent, an agent without support in the user's words after it had read text
from outside, or an untrusted source."""

DOUBTFUL: frozenset[Origin] = frozenset({"unverified", "untrusted"})
"""Origins that are stored and found on request only."""

Author: TypeAlias = Literal["user", "agent", "extract", "dream", "team", "sync", "import", "unconfirmed"]
"""Author of a commit in the history (M15)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One topic file as it was read."""

    file: str
    """Its path in the memory directory, with forward slashes."""
    name: str = ""
    description: str = ""
    """One specific line, by which recall ranks the entry."""
    kind: Kind | None = None
    body: str = ""
    created: datetime | None = None
    modified: datetime | None = None
    """From the frontmatter; the modification time of the file is `written`."""
    written: datetime | None = None
    origin: Origin = "user"
    pinned: bool = False
    local_only: bool = False
    """Never leaves this machine (M27)."""
    verified: datetime | None = None
    sources: tuple[str, ...] = ()
    """The session and messages that the fact came from."""
    bytes: int = 0
    indexed: bool = False
    """Whether the index points to it."""
    is_unlisted: bool = False
    """The file says `indexed: false`: it is left out of the index on purpose (M8)."""

    @property
    def changed(self) -> datetime | None:
        """The earlier time of frontmatter and file, because copying a file makes no memory younger."""
        return min((at for at in (self.modified, self.written) if at is not None), default=None)

    @property
    def is_trusted(self) -> bool:
        """Whether it may be attached, listed, merged and shared: neither unverified nor untrusted (M16b)."""
        return self.origin not in DOUBTFUL

    @property
    def title(self) -> str:
        """Its name, else the words of its file name."""
        stem = self.file.rpartition("/")[2].removesuffix(".md")
        return self.name or " ".join(stem.replace("_", " ").replace("-", " ").split())


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryDraft:
    """A memory to save: a new entry, or the next state of an existing one."""

    body: str
    kind: Kind | None = None
    name: str = ""
    """A title; derived from the body when empty."""
    description: str = ""
    """Derived from the body when empty."""
    file: str = ""
    """The file to update; when empty, the entry on the same subject is updated, else a file is created."""
    origin: Origin = "user"
    pinned: bool | None = None
    local_only: bool | None = None
    sources: tuple[str, ...] = ()
    is_supported: bool = False
    """The user's words support the text, so a trusted origin replaces `unverified` (M16b)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryChange:
    """Author and reason of a change, for its commit in the history (M15)."""

    author: Author
    reason: str
    session: str = ""


def read_entry(file: str, data: bytes, *, written: datetime | None = None, indexed: bool = False) -> Entry:
    """Parse one memory from any bytes."""
    document = MarkdownFile.parse(data)
    entry = entry_of(document.fields, file=file, written=written, size=len(data), indexed=indexed)
    return replace(entry, body=document.body)


def whole_text(entry: Entry) -> str:
    """Return name, description and body of an entry, one below the other."""
    return "\n".join(part for part in (entry.name, entry.description, entry.body) if part)


def entry_of(
    fields: Mapping[str, FieldValue],
    *,
    file: str,
    written: datetime | None = None,
    size: int = 0,
    indexed: bool = False,
) -> Entry:
    """Return an entry without its body from the fields of a frontmatter."""
    kind = _word(fields, "type").lower()
    origin = _word(fields, "origin").strip().lower()
    return Entry(
        file=file,
        name=one_line(_word(fields, "name")),
        description=one_line(_word(fields, "description")),
        kind=kind if kind in KINDS else None,
        created=parse_timestamp(_word(fields, "created")),
        modified=parse_timestamp(_word(fields, "modified")),
        written=written,
        # No value means the user; an unknown one is not trusted.
        origin=origin if origin in _TRUST else "untrusted" if origin else "user",
        pinned=_word(fields, "pinned").lower() in _TRUE,
        local_only=(_word(fields, "local-only") or _word(fields, "local_only")).lower() in _TRUE,
        verified=parse_timestamp(_word(fields, "verified")),
        sources=_words(fields, "source") or _words(fields, "originSessionId"),
        bytes=size,
        indexed=indexed,
        is_unlisted=_word(fields, "indexed").lower() in _FALSE,
    )


def compose(draft: MemoryDraft, *, file: str, now: datetime, previous: MarkdownFile | None = None) -> bytes:
    """Return the bytes of a memory file: a new one, or `previous` with the changes of the draft."""
    if previous is None:
        name = one_line(draft.name) or title_of(draft.body) or Entry(file=file).title
        new: dict[str, NewValue | None] = {
            "name": name,
            "description": one_line(draft.description) or description_of(draft.body, name) or None,
            "type": draft.kind,
            "created": now,
            "modified": now,
            "source": draft.sources or None,
            "origin": None if draft.origin == "user" else draft.origin,
            **_switches(draft, Entry(file=file)),
        }
        return MarkdownFile.parse(MarkdownFile.parse(b"").with_fields(**new)).with_body(_ended(draft.body))
    before = replace(entry_of(previous.fields, file=file), body=previous.body)
    body = draft.body if draft.body.strip() else before.body
    changes: dict[str, NewValue | None] = {"modified": now}
    # The user's words replace what an agent said without them; title and description go with the text.
    is_verified = before.origin == "unverified" and draft.is_supported and draft.origin not in DOUBTFUL
    name = before.name
    if draft.name or is_verified or not before.name or _is_derived_title(before):
        name = one_line(draft.name) or title_of(body) or Entry(file=file).title
        changes["name"] = name
    if draft.description or is_verified or not before.description or _is_derived_description(before):
        changes["description"] = (
            one_line(draft.description) or description_of(body, name) or before.description
        )
    if draft.kind:
        changes["type"] = draft.kind
    if sources := tuple(dict.fromkeys((*before.sources, *draft.sources))) if draft.sources else ():
        changes["source"] = sources
    # Only the user can make a memory more trusted (M16b).
    is_raised = draft.origin == "user" or is_verified
    origin = draft.origin if is_raised else less_trusted(before.origin, draft.origin)
    if origin != before.origin:
        changes["origin"] = None if origin == "user" else origin
    changes.update(_switches(draft, before))
    edited = MarkdownFile.parse(previous.with_fields(**changes))
    return edited.with_body(_ended(body)) if body != before.body else edited.data


def parse_timestamp(text: str) -> datetime | None:
    """Parse an ISO date or time of a frontmatter; without a zone it is UTC. None when it is no time."""
    if not text:
        return None
    try:
        at = datetime.fromisoformat(text)
        return at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None


def less_trusted(one: Origin, other: Origin) -> Origin:
    """Return the less trusted of two origins (M16b)."""
    return max(one, other, key=_TRUST.index)


_TRUE = {"true", "yes", "on", "1"}
_FALSE = {"false", "no", "off", "0"}
_TRUST: tuple[Origin, ...] = ("user", "agent", "unverified", "untrusted")


def _is_derived_title(entry: Entry) -> bool:
    """Return whether a title is the first clause of the body, or its first sentence as in older files."""
    sentence = clipped(description_of(entry.body, "").rstrip(".。:："), MAX_TITLE_CHARS)
    return entry.name in {title_of(entry.body), sentence}


def _is_derived_description(entry: Entry) -> bool:
    return entry.description in {description_of(entry.body, entry.name), description_of(entry.body, "")}


def _switches(draft: MemoryDraft, before: Entry) -> dict[str, NewValue | None]:
    """Return the switches that change; None removes one that is turned off."""
    wanted = {"pinned": (draft.pinned, before.pinned), "local-only": (draft.local_only, before.local_only)}
    return {
        key: True if new else None for key, (new, old) in wanted.items() if new is not None and new != old
    }


def _word(fields: Mapping[str, FieldValue], key: str) -> str:
    value = fields.get(key, "")
    return ", ".join(value) if isinstance(value, tuple) else value


def _words(fields: Mapping[str, FieldValue], key: str) -> tuple[str, ...]:
    value = fields.get(key, ())
    return ((value,) if value else ()) if isinstance(value, str) else value


def _ended(body: str) -> str:
    return body.strip("\n").rstrip() + "\n" if body.strip() else ""


MAX_DESCRIPTION_CHARS = 150
"""A description is one line of an index or a manifest, which have limited space."""
MAX_TITLE_CHARS = 60
"""A longer title leaves no room for the hook on its index line."""
MAX_NAME_CHARS = 60
"""A longer file name is cut off in listings."""
MAX_NAME_BYTES = 200
"""File systems allow 255 bytes; the rest is for a suffix, `.md` and the name of a temporary file."""

MIN_TITLE_WORDS = 2
"""A clause with fewer words says no subject."""
MIN_DESCRIPTION_WORDS = 4
"""A shorter rest of a text does not describe it."""
MAX_SUBJECT_WORDS = 5
"""Words of a title in a file name."""
MIN_HAN = 4
MAX_HAN = 18
"""Fewest and most characters of a Chinese title in a file name."""

_EDGES = " ,，;；.。!！:：-—"
_WHY = "Why:"
_HAN = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]")
_HAN_TITLE = re.compile(r"[\u3040-\u30ff\u4e00-\u9fffA-Za-z0-9]+")
_HAN_BREAK = re.compile(r"[在是要用都和把从到不没跟给为按]")
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)?")
_PLAIN_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?(?=\s|$)")
_DAY = re.compile(r"\(said \d{4}-\d{2}-\d{2}\)|\d{4}-\d{2}-\d{2}|\d{4}年(?:\d{1,2}月)?(?:\d{1,2}日)?")
_BECAUSE = re.compile(r"^(?:(?:because|bc|cuz|since|and|but|und|aber)\s+|因为\s*)")
_CLAUSE_END = re.compile(
    r"[,，;；。！!]\s*|\.\s|\s[-–—]+\s|\s\(|\s+(?=(?:because|bc|cuz|so that|which|since|but)\b)"
    r"|(?<=[\u4e00-\u9fff])(?=因为|所以)",
    re.IGNORECASE,
)
_FILLER = re.compile(
    r"^(?:(?:please|pls|so|and|but|also|btw|by the way|oh|just|from now on|going forward|fyi"
    r"|heads up)[,:;!. —–-]+"
    r"|(?:no|yes|yeah|yep|ok|okay|well|actually|sorry|wait|correction|exactly|perfect|great|nice|good|hm+"
    r"|yes exactly|请|对|好|嗯|另外|对了|还有|以后|更正一下|说错了)[,:;!.，。：！—–]+\s*)+",
    re.IGNORECASE,
)
_NO = {"dont": "no", "don": "no", "never": "no", "not": "no", "stop": "no"}
_EMPTY = frozenset(
    """
    a an the i im ive am is are was were be been being my me we our us it its that
    thats this these those and or but so to of in on at for with from by as also just actually really
    have has had do did does which who some very about into than then there them they he she his her you
    your please pls here now always ever all any thing things stuff anything everything per
    """.split()
)
"""Words of a title that a file name leaves out."""
_SENTENCE_END = re.compile(r"(?<=[.!?])(?=\s)|(?<=[。！？])")
_MARKUP = re.compile(r"^(?:#{1,6}\s+|>\s+|[-*+]\s+|\d+[.)]\s+)+|(?<!\\)(?:\*\*|__|`)")
_LINK = re.compile(r"\[([^\[\]]*+)\]\([^()]*+\)")
_FENCE = re.compile(r"^\s*(?:```|~~~)")
_RULE = re.compile(r"^\s*(?:[-*_=]\s*){3,}$|^\s*<!--.*")
_LATIN = dict(zip("ßæœøđðłþıħ", ("ss", "ae", "oe", "o", "d", "d", "l", "th", "i", "h"), strict=True))
_TAKEN_BY_WINDOWS = {
    "con",
    "prn",
    "aux",
    "nul",
    *(f"{port}{n}" for port in ("com", "lpt") for n in range(10)),
}
_TAKEN_BY_INDEX = "memory"
_APOSTROPHES = str.maketrans({"’": "'", "‘": "'", "ʼ": "'"})
_CONDUCT = re.compile(
    r"^(?:please\b|always\b|never\b|don't\b|do not\b|use\b|avoid\b|prefer\b|stop\b|make sure\b)"
    r"|\b(?:from now on|going forward)\b|^in (?:the )?future\b"
    r"|^(?:以后|今后|往后|从现在|从今|总是|不要|别|永远|请)",
    re.IGNORECASE,
)
_ADDRESS = re.compile(r"https?://\S")
_PERSON = re.compile(r"(?:i|my|me|(?:the )?(?:user|person)(?:'s)?)\b|我(?!们)", re.IGNORECASE)
_PLACE = re.compile(
    r"\b(?:dashboards?|trackers?|wikis?|runbooks?|jira|grafana|confluence)\b|看板|仪表盘", re.IGNORECASE
)


def one_line(text: str) -> str:
    """Return the text on one line, without runs of blanks and invisible characters."""
    if text.isprintable() and "  " not in text:
        return text.strip()
    shown = (char if char.isprintable() else " " if char.isspace() else "" for char in text)
    return " ".join("".join(shown).split())


def clipped(text: str, limit: int) -> str:
    """Return at most `limit` characters of a text, cut between words where possible, with an ellipsis."""
    if len(text) <= limit:
        return text
    head = text[: limit - 1]
    words = head.rpartition(" ")[0]
    return (words if len(words) > limit // 2 else head).rstrip(" ,;:—-") + "…"


def title_of(body: str) -> str:
    """Return a title for a body: its first heading, else the first clause, without introductory words."""
    first = next(_lines(body, with_headings=True), "")
    if first != next(_lines(body, with_headings=False), ""):
        return clipped(_sentence(first).rstrip(".。:："), MAX_TITLE_CHARS)
    return _clause(first)


def description_of(body: str, title: str) -> str:
    """Return what a body says beside its title, else its first sentence below the headings."""
    line = next(_lines(body, with_headings=False), "") or next(_lines(body, with_headings=True), "")
    sentence = _sentence(line)
    if title and title == _clause(line):
        bare = _without_filler(line)
        rest = bare[len(title) :].strip(_EDGES) if bare.lower().startswith(title.lower()) else ""
        reason = next((one for one in _lines(body, with_headings=False) if one.startswith(_WHY)), "")
        added = _BECAUSE.sub("", "; ".join(filter(None, (rest, reason.removeprefix(_WHY).strip()))))
        if _size(added) >= MIN_DESCRIPTION_WORDS:
            return clipped(added, MAX_DESCRIPTION_CHARS)
        sentence = line if is_repetition(sentence, title) else sentence
    return clipped(sentence, MAX_DESCRIPTION_CHARS)


def is_repetition(text: str, title: str) -> bool:
    """Return whether a text says no more than a title: the same words in the same order."""
    return _WORD.findall(_without_filler(text).casefold()) == _WORD.findall(title.casefold())


def kind_of(body: str, *, is_shared: bool = False) -> Kind:
    """Return the kind of a memory by its words: feedback, reference, user, else project.

    A memory for the team is never classified as `user`, because team memories of that kind are refused (M18).
    """
    first = description_of(body, "").translate(_APOSTROPHES)
    if _CONDUCT.search(first):
        return "feedback"
    if _ADDRESS.search(body):
        return "reference"
    if not is_shared and _PERSON.match(first):
        return "user"
    return "reference" if _PLACE.search(first) else "project"


def file_title(kind: Kind | None, title: str) -> str:
    """Return the words of the name of a new file: the kind, and the subject that a title names (M11)."""
    subject = _subject(title)
    return subject if kind is None or subject.startswith(f"{kind} ") else f"{kind} {subject}"


def derived_file_name(entry: Entry) -> str:
    """Return the name of a file that is named by rule after its text."""
    return file_name(file_title(entry.kind or kind_of(entry.body), title_of(entry.body)))


def file_subject(file: str) -> str:
    """Return the words of a file name without the kind that it begins with."""
    words = Entry(file=file).title
    kind, _, subject = words.partition(" ")
    return subject if subject and kind in KINDS else words


def file_name(title: str, *, taken: Iterable[str] = ()) -> str:
    """Return a readable `snake_case.md` name that is not taken."""
    used = {normalised_name(name) for name in taken}
    return next(name for name in file_names(title) if normalised_name(name) not in used)


def file_names(title: str) -> Iterator[str]:
    """Yield readable file names for a title, best first, without end; non-Latin letters are kept."""
    words = _name_words(title)
    while len(words) > 1 and len("_".join(words)) > MAX_NAME_CHARS:
        words.pop()
    stem = "_".join(words)[:MAX_NAME_CHARS]
    while len(stem.encode()) > MAX_NAME_BYTES:
        stem = stem[:-1]
    stem = stem or "untitled"
    if stem in _TAKEN_BY_WINDOWS or stem == _TAKEN_BY_INDEX:
        stem += "_note"
    yield f"{stem}.md"
    yield from (f"{stem}_{number}.md" for number in count(2))


def _clause(line: str) -> str:
    """Return the first clause of a line with enough words for a title, with a capital letter."""
    head = _without_filler(line)[: 2 * MAX_TITLE_CHARS]
    ends = (match.start() for match in _CLAUSE_END.finditer(head))
    end = next((place for place in ends if _size(head[:place]) >= MIN_TITLE_WORDS), len(head))
    title = clipped(head[:end].strip(_EDGES), MAX_TITLE_CHARS)
    # Identifiers, paths and names such as "iOS" are written as they are.
    word = _PLAIN_WORD.match(title)
    return title[:1].upper() + title[1:] if word and word[0].islower() else title


def _without_filler(line: str) -> str:
    return _FILLER.sub("", line).strip() or line


def _subject(title: str) -> str:
    """Return the words of a title with content, and negations; at most `MAX_SUBJECT_WORDS`."""
    bare = _DAY.sub(" ", title)
    if len(_HAN.findall(bare)) > len(_WORD.findall(_HAN.sub(" ", bare))):
        return _cut("".join(_HAN_TITLE.findall(bare))).rstrip("在是的了要到从和")
    words = _name_words(bare) or _name_words(title) or ["note"]
    telling = [_NO.get(word, word) for word in words if word not in _EMPTY] or words
    return " ".join(telling[:MAX_SUBJECT_WORDS])


def _cut(title: str) -> str:
    """Return a Chinese title for a file name, cut before a word that opens the next part."""
    if len(_HAN.findall(title)) <= MAX_HAN:
        return title
    ends = [match.start() for match in _HAN_BREAK.finditer(title) if MIN_HAN <= match.start() <= MAX_HAN]
    return title[: ends[-1] if ends else MAX_HAN]


def _size(text: str) -> int:
    """Return the number of words of a text; two Chinese characters count as one."""
    return len(_HAN.findall(text)) // 2 + len(_WORD.findall(_HAN.sub(" ", text)))


def _name_words(title: str) -> list[str]:
    """Return the words of a title as they appear in a file name."""
    folded = "".join(_folded(char) for char in unicodedata.normalize("NFKC", title).lower())
    words = unicodedata.normalize("NFC", folded).split()
    # An accent whose letter was dropped would combine with the character before it.
    bare = ("".join(dropwhile(lambda sign: unicodedata.category(sign)[0] == "M", word)) for word in words)
    return [word for word in bare if word]


def _lines(body: str, *, with_headings: bool) -> Iterator[str]:
    """Yield the lines of a body that contain text, without their markup."""
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
    """Return a letter or digit as it appears in a file name; other characters separate words."""
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


def normalised_name(name: str) -> str:
    """Return the form in which two names are the same file on some file system."""
    return unicodedata.normalize("NFC", name.rpartition("/")[2]).casefold()
