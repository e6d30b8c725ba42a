"""Usage counts per memory: how often it was offered, attached, cited, contradicted, and its tokens.

A JSONL file in the location's cache. It holds no text of a memory, only digests of file names (M14b). Lines
are appended, and merged by file and day when the file is large. A damaged file loses counts, nothing else.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Literal, TypeAlias

from nacre.memory.files.location import Location
from nacre.memory.recall.base import AttachedMemory, Recalled
from nacre.memory.recall.excerpt import Excerpt
from nacre.memory.recall.ranking.terms import content as terms
from nacre.memory.recall.recall import render_attached
from nacre.messages.blocks import Json, JsonObject
from nacre.messages.tokens import estimate_text
from nacre.store import disk
from nacre.store.history import Commit
from nacre.store.locks import FileLock, Timeout

FOLDER = "usage"
"""In a location's cache; a purge removes the lines of one file."""
FILE = "ledger.jsonl"
FOLD_BYTES = 1_048_576
"""A smaller file is read in a few milliseconds and need not be merged."""
FOLD_GROWTH = 2
"""Growth since the last merge before the next one, so that not every line causes one."""
KEPT_DAYS = 400
"""Days with counts of their own, a year and a month for comparison; older ones are summed."""
LOCK_SECONDS = 1.0
"""Other processes hold the lock for milliseconds; a count is not worth a longer wait."""
DIGEST_BYTES = 8
"""Among a million names a collision has a chance of one in 37 million."""

CITED_WEIGHT = 3
"""A memory that a reply cited was more useful than one that was only attached."""

EventKind: TypeAlias = Literal["offered", "attached", "cited", "contradicted"]
COUNTS: tuple[EventKind, ...] = ("offered", "attached", "cited", "contradicted")
OFFERED_REASONS = frozenset({"beyond five", "budget", "not chosen"})
"""Reasons for which a memory that was offered is left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageEvent:
    """One use of a memory."""

    file: str
    """Its path in the memory directory."""
    kind: EventKind
    at: datetime
    tokens: int = 0
    """Tokens of the attachment; each later request of the session contains them again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryUsage:
    """The usage counts of one memory."""

    file: str
    offered: int = 0
    attached: int = 0
    cited: int = 0
    contradicted: int = 0
    tokens: int = 0
    last: datetime | None = None
    """When the last use was counted."""

    @property
    def usefulness(self) -> int:
        """A score: a cited memory counts more than one that was only attached, a contradicted one less."""
        return self.cited * CITED_WEIGHT + self.attached - self.contradicted


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageCount:
    """One line of the file: the counts of one memory on one day, or up to one day."""

    of: str
    """The digest of the file's name."""
    at: datetime
    offered: int = 0
    attached: int = 0
    cited: int = 0
    contradicted: int = 0
    tokens: int = 0

    @property
    def day(self) -> date:
        """The local day."""
        return self.at.astimezone().date()

    def __add__(self, other: UsageCount) -> UsageCount:
        counts = {name: getattr(self, name) + getattr(other, name) for name in (*COUNTS, "tokens")}
        return UsageCount(of=self.of, at=max(self.at, other.at), **counts)


async def record(location: Location, events: Iterable[UsageEvent]) -> None:
    """Count these uses; a file that cannot be written is ignored."""
    counts = (
        UsageCount(of=digest(one.file), at=one.at.astimezone(UTC), tokens=one.tokens, **{one.kind: 1})
        for one in events
    )
    tallies = list(_merged(counts).values())
    if tallies:
        with suppress(OSError, Timeout):
            await asyncio.to_thread(_append, location.cache / FOLDER, tallies)


def read_usage(location: Location, files: Iterable[str] | None = None) -> dict[str, MemoryUsage]:
    """Return the counts of these files, or of all in the directory; files without counts are left out."""
    totals: dict[str, UsageCount] = {}
    for one in read_tallies(location.cache):
        totals[one.of] = totals[one.of] + one if one.of in totals else one
    if not totals:
        return {}
    named = _files(location.directory) if files is None else files
    found: dict[str, MemoryUsage] = {}
    for file in named:
        if (total := totals.get(digest(file))) is not None:
            counts = {name: getattr(total, name) for name in (*COUNTS, "tokens")}
            found[file] = MemoryUsage(file=file, last=total.at, **counts)
    return found


def read_tallies(cache: Path) -> list[UsageCount]:
    """Return every readable line, including those of deleted files."""
    try:
        with os.fdopen(disk.open_regular(cache / FOLDER / FILE, os.O_RDONLY), "rb") as source:
            data = source.read()
    except OSError:
        return []
    found = (_parsed(line) for line in data.splitlines())
    return [one for one in found if one is not None]


def events_of(recalled: Recalled, location: Location, at: datetime) -> list[UsageEvent]:
    """Return the uses of one directory's memories by a recall: which were offered, which attached."""
    mine = [one for one in recalled.picks if one.ranked.directory == location.directory]
    picked = [one.ranked.entry.file for one in mine]
    passed = [
        one.file
        for one in recalled.left_out
        if one.why in OFFERED_REASONS and one.path == location.directory / one.file
    ]
    return [
        *(UsageEvent(file=file, kind="offered", at=at) for file in dict.fromkeys([*picked, *passed])),
        *(
            UsageEvent(file=file, kind="attached", at=at, tokens=estimate_text(one.text))
            for file, one in zip(picked, mine, strict=True)
        ),
    ]


def forget_usage(cache: Path, file: str) -> None:
    """Remove the lines of a purged file (M14b)."""
    folder = cache / FOLDER
    if not (folder / FILE).exists():
        return
    with suppress(OSError, Timeout), _lock(folder):
        _rewrite(folder, [one for one in read_tallies(cache) if one.of != digest(file)])


def digest(file: str) -> str:
    """Return the digest of a file name."""
    return hashlib.blake2b(os.fsencode(file), digest_size=DIGEST_BYTES).hexdigest()


def _append(folder: Path, tallies: Sequence[UsageCount]) -> None:
    disk.make_folder(folder)
    data = b"".join(map(_line, tallies))
    with _lock(folder):
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
        descriptor = disk.open_regular(folder / FILE, flags)
        try:
            size = os.fstat(descriptor).st_size
            disk.append_lines(descriptor, data)
            folded_size = _object(os.pread(descriptor, 64, 0).split(b"\n")[0]).get("folded")
            last_size = folded_size if isinstance(folded_size, int) else 0
            is_large = size > FOLD_BYTES and size > FOLD_GROWTH * last_size
        finally:
            os.close(descriptor)
        if is_large:
            newest = max(one.at for one in tallies)
            oldest = (newest - timedelta(days=KEPT_DAYS)).astimezone().date()
            folded = _merged(read_tallies(folder.parent), oldest).values()
            _rewrite(folder, sorted(folded, key=lambda one: (one.at, one.of)))


def _rewrite(folder: Path, tallies: Sequence[UsageCount]) -> None:
    """Replace all lines; the first line records their size."""
    body = b"".join(map(_line, tallies))
    data = json.dumps({"folded": len(body)}).encode() + b"\n" + body
    disk.replace_file(folder / FILE, data, temp_name=f"{FILE}.tmp", sync=False)


def _lock(folder: Path) -> FileLock:
    """Return the lock for all writes: a line that is appended during a merge would be lost."""
    return FileLock(folder / "lock", timeout=LOCK_SECONDS)


def _merged(tallies: Iterable[UsageCount], oldest: date = date.min) -> dict[tuple[str, date], UsageCount]:
    """Merge counts to one per file and day, and one per file for the days before the oldest."""
    merged: dict[tuple[str, date], UsageCount] = {}
    for one in tallies:
        key = one.of, max(one.day, oldest)
        merged[key] = merged[key] + one if key in merged else one
    return merged


def _line(one: UsageCount) -> bytes:
    counts = {name: getattr(one, name) for name in (*COUNTS, "tokens")}
    fields = {"at": one.at.isoformat(), "of": one.of, **{name: n for name, n in counts.items() if n}}
    return json.dumps(fields, separators=(",", ":")).encode() + b"\n"


def _parsed(line: bytes) -> UsageCount | None:
    """Parse a line; None when it is damaged or has no file."""
    fields = _object(line)
    try:
        at = datetime.fromisoformat(str(fields["at"]))
        of = fields["of"]
        at = at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC)
    except (KeyError, ValueError, OverflowError):
        return None
    if not isinstance(of, str):
        return None
    counts = {name: _count(fields.get(name)) for name in (*COUNTS, "tokens")}
    return UsageCount(of=of, at=at, **counts)


def _object(line: bytes) -> JsonObject:
    try:
        value: Json = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _count(value: Json) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def _files(directory: Path) -> Iterator[str]:
    for base, folders, names in os.walk(directory):
        folders.sort()
        at = Path(base)
        yield from ((at / name).relative_to(directory).as_posix() for name in names if name.endswith(".md"))


RUN_WORDS = 5
"""A run of this many words of a memory is no coincidence."""
RUN_SIGNS = 10
"""The same in scripts without spaces, where two characters are about one word."""
RUN_TERMS = 2
"""Content words of such a run: `as well as in the` proves nothing. The list of stop words is long (it has
`never` and `before`), so that two content words are enough."""
TITLE_WORDS = 2
"""A title of one word may occur by chance."""
IDENTIFIER_CHARS = 4
"""A shorter identifier or number may occur by chance."""
FIRST_YEAR = 1_900
LAST_YEAR = 2_100
"""Numbers in between are common in text."""
ABOUT_TERMS = 1
BODY_TERMS = 2
"""Terms that a correction shares with title and description, or with the whole memory."""

_DENSE = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
"""Scripts without spaces between words."""
_UNIT = re.compile(rf"[{_DENSE}]|[^\W_{_DENSE}]+")
_SIGN = re.compile(f"[{_DENSE}]")
_TOKEN = re.compile(r"-{0,2}[^\W_][\w./:@#-]*[\w]|\b\w+\b")
_CAMEL = re.compile(r"[a-z][A-Z]")
_SPLIT = re.compile(r"\w[_.:@#]\w|/.*/")
"""A single slash does not make an identifier: `and/or`."""
_CORRECTION = re.compile(
    r"""\W*(?:
        (?:no|nope|nein|non|нет)\s*[,.!:;\u2014\u2013-]
      | (?:that|this|it)(?:\s+is|['\u2019]s|\s+was)\s+(?:\w+\s+)?
        (?:wrong|incorrect|false|outdated|obsolete|stale|out\s+of\s+date|(?:not|no\s+longer)\s+(?:\w+\s+)?
        (?:right|true|correct|so|the\s+case|valid))\b
      | (?:that|this|it)\s+isn['\u2019]t\s+(?:right|true|correct|so|the\s+case|valid)\b
      | (?:you\s+are|you['\u2019]re)\s+(?:wrong|mistaken)\b
      | (?:wrong|incorrect|not\s+true|not\s+any\s?more|no\s+longer)\b
      | (?:das\s+ist\s+)?(?:falsch|veraltet)\b | (?:das\s+)?stimmt\s+(?:so\s+)?nicht\b
      | c['\u2019]est\s+faux\b | eso\s+no\s+es\b
      | (?:这|那)?(?:不对|不是|错了|不正确|搞错|弄错|過時|过时|已经不|已經不|不，|不,)
      | (?:いや|いいえ|違う|違います|ちがう|間違|それは違)
    )""",
    re.IGNORECASE | re.VERBOSE,
)
"""The beginning of a correction; `no problem` and `no idea` do not match."""


def is_cited(pick: AttachedMemory, reply: str, context: Iterable[str]) -> bool:
    """Whether a reply contains what only this memory can have supplied.

    `context` is everything else in the request: messages, tool results, other memories. The index does not
    count, as it only names the memory.
    """
    known = "\n".join(context)
    entry = pick.ranked.entry
    name = re.compile(rf"(?<![\w.-]){re.escape(entry.file.rpartition('/')[2])}(?![\w-]|\.\w)", re.IGNORECASE)
    if name.search(reply) and not name.search(known):
        return True
    title = tuple(_units(entry.title))
    # A title of one word or of stop words does not count.
    is_telling = len(title) >= TITLE_WORDS and bool(terms(entry.title))
    in_reply = is_telling and title in _windows(_units(reply), len(title))
    if in_reply and title not in _windows(_units(known), len(title)):
        return True
    words = _own_words(pick)
    # The context may be a hundred times longer, so that it is searched last.
    names = _identifiers(words) & _identifiers(reply)
    if names and names - _identifiers(known):
        return True
    runs = [run for run in map(_spaced, _runs(words) & _runs(reply)) if len(set(terms(run))) >= RUN_TERMS]
    spelled = _spaced(_units(known)) if runs else ""
    return any(run not in spelled for run in runs)


def is_contradicted(
    pick: AttachedMemory,
    *,
    attached: datetime,
    session: str,
    commits: Iterable[Commit] = (),
    next_message: str = "",
) -> bool:
    """Whether a memory turned out to be wrong after it was attached.

    Either the history has a change or removal of it by that session, or the next message begins with a
    correction about it.
    """
    # The history stores whole seconds.
    since = attached.replace(microsecond=0)
    file = pick.ranked.entry.file
    own = (one for one in commits if session and one.session == session and one.at >= since)
    return any(file in one.files for one in own) or is_corrected(pick, next_message)


def is_corrected(pick: AttachedMemory, message: str) -> bool:
    """Whether a message begins with a clear correction and is about this memory."""
    if not _CORRECTION.match(message):
        return False
    in_message = set(terms(message))
    entry = pick.ranked.entry
    about = set(terms(f"{entry.title} {entry.description}"))
    whole = about | set(terms(_own_words(pick)))
    return len(in_message & about) >= ABOUT_TERMS or len(in_message & whole) >= BODY_TERMS


def _own_words(pick: AttachedMemory) -> str:
    """Return the text without header, cautions and the note about a cut."""
    frame = {
        line
        for empty in (Excerpt("", "the end"), Excerpt("", "parts"))
        for line in render_attached(pick.ranked, empty, age_days=pick.age_days, drift=pick.drift).splitlines()
    }
    return "\n".join(line for line in pick.text.splitlines() if line not in frame)


def _identifiers(text: str) -> set[str]:
    """Return the identifiers and numbers that do not occur by chance."""
    found = (token.lstrip("-") if token.startswith("-") else token for token in _TOKEN.findall(text))
    return {token.casefold() for token in found if _is_rare(token)}


def _is_rare(token: str) -> bool:
    if len(token) < IDENTIFIER_CHARS:
        return False
    if token.isdecimal():
        return not FIRST_YEAR <= int(token[:9]) <= LAST_YEAR and not token.endswith("000")
    has_digit = any(map(str.isdigit, token))
    has_letter = any(map(str.isalpha, token))
    return bool(_SPLIT.search(token) or _CAMEL.search(token)) or (has_digit and has_letter)


def _runs(text: str) -> set[tuple[str, ...]]:
    """Return every run of words, and of characters in scripts without spaces."""
    units = _units(text)
    runs = {run for run in _windows(units, RUN_WORDS) if not any(map(_SIGN.fullmatch, run))}
    return runs | {run for run in _windows(units, RUN_SIGNS) if any(map(_SIGN.fullmatch, run))}


def _spaced(units: Iterable[str]) -> str:
    """Join units to one text in which a run is a substring."""
    return f" {' '.join(units)} "


def _windows(units: list[str], size: int) -> Iterator[tuple[str, ...]]:
    return (tuple(units[at : at + size]) for at in range(len(units) - size + 1))


def _units(text: str) -> list[str]:
    return _UNIT.findall(unicodedata.normalize("NFKC", text).casefold())
