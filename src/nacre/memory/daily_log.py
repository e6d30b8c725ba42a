"""Daily log mode: facts are appended to the log of the day, and only a dream writes topics (M17).

A line of a log looks like this: `- 14:05 feedback: each test file builds its own data`. Logs are parsed
tolerantly and only appended to, except when the user forgets a fact. The index is read and not written.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from pathlib import Path

from nacre.clock import Clock
from nacre.errors import StoreError, VersionConflict
from nacre.memory.files.folder import Folder
from nacre.memory.files.location import Location
from nacre.memory.files.scan import LOGS
from nacre.memory.format.entry import DOUBTFUL, KINDS, Entry, Kind, MemoryChange, Origin
from nacre.memory.memory import MAX_FOUND, Memory, refuse_secrets, single_match
from nacre.memory.similarity import ScoredEntry, rank

MAX_TEXT_CHARS = 4_000
"""A line of a log is one fact; a longer text should be several lines."""
MAX_LOGS = 400
"""Recall reads this many of the newest logs, more than a year of them: a dream has sorted the older ones."""
MAX_TRIES = 3
"""Attempts to append while another program writes the same log."""
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogResult:
    """The line of an appended fact, and the commit that added it."""

    line: LogLine
    commit: str
    """Empty when the log of today already contained the fact."""


async def append_fact(
    memory: Memory, text: str, change: MemoryChange, *, clock: Clock, kind: Kind | None = None
) -> LogResult:
    """Append one fact to the log of the clock's local date, unless that log already contains it."""
    line = as_one_line(text)
    if not line:
        raise StoreError("there is nothing to remember: the text is empty")
    if len(line) > MAX_TEXT_CHARS:
        raise StoreError(f"a line of the log has at most {MAX_TEXT_CHARS:,} characters; log it fact by fact")
    # Both forms: a key may be recognised only by its line breaks, or only once they are removed.
    refuse_secrets(text)
    refuse_secrets(line)
    for _ in range(MAX_TRIES - 1):
        with contextlib.suppress(VersionConflict):
            return await _append(memory, line, change, clock=clock, kind=kind)
    return await _append(memory, line, change, clock=clock, kind=kind)


def read_logs(location: Location, *, newest: int = MAX_LOGS) -> tuple[LogLine, ...]:
    """Return the facts of the newest logs, latest log first; unreadable logs are skipped."""
    folder = Folder(location.directory)
    lines = list[LogLine]()
    for file in log_files(location.directory)[:newest]:
        with contextlib.suppress(OSError, StoreError):
            lines += read_log(file, folder.read(file) or b"")
    return tuple(lines)


def log_files(directory: Path) -> list[str]:
    """Return the paths of all logs in a memory directory, latest first."""
    found = (path.relative_to(directory).as_posix() for path in (directory / LOGS).rglob("*.md"))
    return sorted(found, key=lambda file: (day_of(file) or date.min, file), reverse=True)


async def search_logs(memory: Memory, query: str, *, limit: int = MAX_FOUND) -> list[ScoredEntry]:
    """Return the topics and log lines that match a query, best first."""
    return rank(query, [one.entry for one in await candidates(memory)])[:limit]


async def find_candidate(memory: Memory, wanted: str, *, without: frozenset[str] = frozenset()) -> Candidate:
    """Return the one topic or log line that a name, a `file:line` or a query refers to.

    Files in `without` are not searched, and no error message names them.
    """
    allowed = [one for one in await candidates(memory) if one.entry.file not in without]
    entry = single_match(wanted, [one.entry for one in allowed])
    return next(one for one in allowed if one.entry is entry)


async def forget_candidate(
    memory: Memory, wanted: str, change: MemoryChange, *, without: frozenset[str] = frozenset()
) -> tuple[Entry, str]:
    """Remove one topic or log line and return it with the commit; the history still contains it."""
    found = await find_candidate(memory, wanted, without=without)
    if found.line is None:
        return await memory.forget(found.entry.file, change)
    return found.entry, await forget_line(memory, found.line, change)


async def forget_line(memory: Memory, line: LogLine, change: MemoryChange) -> str:
    """Remove one line from its log, and the log when it becomes empty; return the commit."""
    async with memory.transact(change) as tx:
        data, version = tx.read(line.file)
        lines = [one for one in read_log(line.file, data or b"") if one == line]
        if not lines:
            raise StoreError(f"{line.file} was changed meanwhile; look for it again")
        left = without(data or b"", lines)
        if left.strip():
            tx.write(line.file, left, if_version=version)
        else:
            tx.delete(line.file, if_version=version)
    return tx.commit


async def confirm_line(memory: Memory, place: str, change: MemoryChange) -> tuple[Entry, str]:
    """Remove the mark of one line, given as `file:line`, and return the line with the commit."""
    file = place.rpartition(":")[0]
    async with memory.transact(change) as tx:
        data, version = tx.read(file)
        line = next((one for one in read_log(file, data or b"") if one.place == place), None)
        if line is None:
            raise StoreError(f"there is no line {place}; `nacre memory review` lists what is unverified")
        origin = origin_of_line(line.text)
        if origin not in DOUBTFUL:
            raise StoreError(f"{place} is confirmed already")
        lines = (data or b"").split(b"\n")
        before, _, after = lines[line.end - 1].rpartition(f" [{origin}]".encode())
        lines[line.end - 1] = before + after
        tx.write(file, b"\n".join(lines), if_version=version)
    text = line.text.removesuffix(f"[{origin}]").rstrip()
    return Entry(file=place, name=text, body=text, kind=line.kind), tx.commit


@dataclass(frozen=True, slots=True)
class Candidate:
    """A topic or a log line that a query may refer to."""

    entry: Entry
    line: LogLine | None = None


async def candidates(memory: Memory) -> Sequence[Candidate]:
    """Return all topics and log lines of a memory."""
    found = [Candidate(entry) for entry in await memory.list()]
    for line in await asyncio.to_thread(read_logs, memory.location):
        text = line.text
        entry = Entry(
            file=line.place,
            name=text,
            description=text,
            body=text,
            kind=line.kind,
            written=datetime.combine(line.day, line.at or time()).astimezone() if line.day else None,
            origin=origin_of_line(text),
        )
        found.append(Candidate(entry, line))
    return found


async def _append(
    memory: Memory, words: str, change: MemoryChange, *, clock: Clock, kind: Kind | None
) -> LogResult:
    async with memory.transact(change) as tx:
        # Read under the lock, so that lines are in the order of their times.
        now = clock.now().astimezone()
        file = log_file(now.date())
        data, version = tx.read(file)
        if (data or b"").startswith(_UTF_16):
            raise StoreError(f"{file} is not UTF-8; save it as UTF-8, and try again")
        same = next(
            (one for one in read_log(file, data or b"") if (one.text, one.kind) == (words, kind)), None
        )
        if same is not None:
            return LogResult(line=same, commit="")
        new = appended(data or b"", bullet(words, at=now.time(), kind=kind))
        tx.write(file, new, if_version=version)
        line = read_log(file, new)[-1]
    return LogResult(line=line, commit=tx.commit)


_DAY = re.compile(r"(\d{4})[-_](\d{2})[-_](\d{2})(?!\d)")
_ITEM = re.compile(r"([ \t]*)(?:[-*+•]|\d{1,3}[.)])(?:[ \t]+(.*)|$)")
_MARKUP = re.compile(r"#{1,6}(?:\s|$)|(?:[-*_=][ \t]*){3,}$|<!--.*-->$")
_MARKS = r"[*_`\[(]{0,3}"
_ENDS = r"[*_`\])]{0,3}"
_TIME = re.compile(
    rf"{_MARKS}(?:\d{{4}}-\d\d-\d\d[T ])?(\d{{1,2}}):(\d\d)(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?"
    rf"([ap]m)?{_ENDS}(?:[ \t]*[-–—:])?(?:[ \t]+|$)",
    re.IGNORECASE,
)
_KINDS = "|".join(KINDS)
_KIND = re.compile(
    rf"(?:\[({_KINDS})\]:?|\(({_KINDS})\):?|[*_`]{{0,3}}({_KINDS})[*_`]{{0,3}}:[*_`]{{0,3}})(?:[ \t]+|$)",
    re.IGNORECASE,
)
_LEADING = re.compile(r"(?:[-*+•–—:]\s+)+")
UNTRUSTED = "[untrusted]"
"""Marks a line that repeats tool output (M16b), so that no dream treats it as the user's statement."""
UNVERIFIED = "[unverified]"
"""Marks a line of an agent that nothing the user typed supports (M16b)."""
NOON = 12
HOURS = 24
MINUTES = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """One fact in a log."""

    file: str
    line: int
    """Its first line, counted from one."""
    end: int
    """Its last line; the text may be wrapped."""
    text: str
    at: time | None = None
    """Local time of day."""
    kind: Kind | None = None

    @property
    def place(self) -> str:
        """`file:line`."""
        return f"{self.file}:{self.line}"

    @property
    def day(self) -> date | None:
        return day_of(self.file)


def log_file(day: date) -> str:
    """Return the path of a day's log within a memory directory."""
    return f"{LOGS}/{day.year:04}/{day.month:02}/{day.isoformat()}.md"


def day_of(file: str) -> date | None:
    """Return the day of a log from its file name; None when the name has no date."""
    found = _DAY.search(file.rpartition("/")[2]) if file.startswith(f"{LOGS}/") else None
    try:
        return date(*map(int, found.groups())) if found else None
    except ValueError:
        return None


def as_one_line(text: str) -> str:
    """Return the text on one line: whitespace runs become one blank, control characters are removed."""
    # Cs: half of a surrogate pair cannot be encoded as UTF-8.
    shown = (
        " " if char.isspace() else char
        for char in text
        if char.isspace() or unicodedata.category(char) not in {"Cc", "Cs"}
    )
    return _LEADING.sub("", " ".join("".join(shown).split()), count=1) if text.strip() else ""


def bullet(text: str, *, at: time, kind: Kind | None = None) -> str:
    """Return a fact as a line of a log."""
    return f"- {at:%H:%M} {f'{kind}: ' if kind else ''}{as_one_line(text)}"


def appended(data: bytes, line: str) -> bytes:
    """Return the log with one more line, in the line ending that it uses; no earlier byte changes."""
    ending = b"\r\n" if data.rpartition(b"\n")[0].endswith(b"\r") else b"\n"
    gap = b"" if not data or data.endswith(b"\n") else b"\n" if data.endswith(b"\r") else ending
    return data + gap + line.encode() + ending


def without(data: bytes, gone: Iterable[LogLine]) -> bytes:
    """Return the log without some lines; the bytes of all others stay the same."""
    numbers = {number for one in gone for number in range(one.line, one.end + 1)}
    *lines, rest = data.split(b"\n")
    whole = [*(line + b"\n" for line in lines), rest]
    return b"".join(line for number, line in enumerate(whole, 1) if number not in numbers)


def origin_of_line(text: str) -> Origin:
    """Return the origin of a line of a log by the mark at its end."""
    return "untrusted" if text.endswith(UNTRUSTED) else "unverified" if text.endswith(UNVERIFIED) else "user"


def with_mark(text: str, origin: Origin) -> str:
    """Return a line with the mark of its origin."""
    return f"{text} [{origin}]" if origin in DOUBTFUL else text


def with_marks(file: str, before: bytes, after: bytes, *, origin_of: Callable[[str], Origin]) -> bytes:
    """Return the new log with a mark after each added line whose origin is not trusted (M16b)."""
    old = {one.text for one in read_log(file, before)}
    lines = after.split(b"\n")
    for one in read_log(file, after):
        if one.text in old or origin_of_line(one.text) in DOUBTFUL:
            continue
        line = lines[one.end - 1]
        bare = line.rstrip()
        lines[one.end - 1] = with_mark("", origin_of(one.text)).encode().join((bare, line[len(bare) :]))
    return b"\n".join(lines)


def read_log(file: str, data: bytes) -> tuple[LogLine, ...]:
    """Return every fact in a log, oldest first; each bullet and each paragraph is a fact."""
    items: list[_LogItem] = []
    current: _LogItem | None = None
    is_after_blank = False
    text = data.decode(errors="replace").removeprefix("\ufeff")
    for number, raw in enumerate(text.split("\n"), 1):
        line = raw.rstrip()
        if not line:
            is_after_blank = True
            continue
        indent = len(line) - len(line.lstrip())
        found = _ITEM.match(line)
        if _MARKUP.match(line.lstrip()):
            current = None
        elif current is not None and (indent > current.indent or (found is None and not is_after_blank)):
            current.parts.append((found[2] or "") if found else line)
            current.end = number
        else:
            current = _LogItem(number, number, indent, [(found[2] or "") if found else line])
            items.append(current)
        is_after_blank = False
    return tuple(fact for item in items if (fact := _log_line(file, item)).text)


@dataclass(slots=True)
class _LogItem:
    """A bullet or a paragraph of a log, while its lines are collected."""

    line: int
    end: int
    indent: int
    parts: list[str]


def _log_line(file: str, item: _LogItem) -> LogLine:
    text = " ".join(" ".join(item.parts).split())
    at = None
    if found := _TIME.match(text):
        hour = int(found[1])
        minute = int(found[2])
        half = (found[3] or "").lower()
        if half:
            hour = hour % NOON + NOON * (half == "pm") if 0 < hour <= NOON else HOURS
        if hour < HOURS and minute < MINUTES:
            at = time(hour, minute)
            text = text[found.end() :]
    found = _KIND.match(text)
    kind = next((one for one in KINDS if found and found[found.lastindex or 1].lower() == one), None)
    text = text[found.end() :] if found else text
    return LogLine(file=file, line=item.line, end=item.end, text=text, at=at, kind=kind)
