"""Daily log mode: what is remembered is added to today's log, and only a dream writes topics (M17).

The log is append-only: a line goes to its end, whatever stands before it. Only what the person wants
forgotten is ever taken out. The index is read as ever, and not written.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, time
from pathlib import Path
from typing import Annotated

from nacre import prompts
from nacre.clock import Clock
from nacre.errors import StoreError, VersionConflict
from nacre.memory.corrections import parse_correction
from nacre.memory.files.folder import Folder
from nacre.memory.files.location import Location
from nacre.memory.files.recovery import as_store_error
from nacre.memory.files.scan import LOGS
from nacre.memory.format.entry import KINDS, Entry, Kind, MemoryChange
from nacre.memory.memory import MAX_FOUND, Memory, refuse_secrets, single_match
from nacre.memory.similarity import ScoredEntry, rank, same_subject
from nacre.memory.tools import (
    RECALL,
    WHICH,
    MakeChange,
    OriginOf,
    as_tool_error,
    by_agent,
    format_entry,
    shorten_body,
)
from nacre.tools.base import Tool, tool

REMEMBER = prompts.load("nacre.memory", "tool_remember_daily")
CORRECT = prompts.load("nacre.memory", "tool_correct_daily")
FORGET = prompts.load("nacre.memory", "tool_forget_daily")

MAX_TEXT_CHARS = 4_000
"""A line of a log is one fact; more is a page, which nobody reads to its end."""
MAX_LOGS = 400
"""The newest logs that recall looks into, more than a year of them: a dream has sorted the older ones."""
MAX_TRIES = 3
"""An editor that saves the log at the same moment is rare; one that does so every time is not waited for."""
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogResult:
    """Where a fact stands in the log."""

    line: LogLine
    commit: str
    """Empty when today's log had it already."""


async def append(
    memory: Memory, text: str, change: MemoryChange, *, clock: Clock, kind: Kind | None = None
) -> LogResult:
    """Add one fact to the log of the clock's local date; what that log has already is not doubled."""
    words = as_one_line(text)
    if not words:
        raise StoreError("there is nothing to remember: the text is empty")
    if len(words) > MAX_TEXT_CHARS:
        raise StoreError(f"a line of the log has at most {MAX_TEXT_CHARS:,} characters; log it fact by fact")
    # As it came and as it will stand: a key is known by its lines, and may be put together by losing them.
    refuse_secrets(text)
    refuse_secrets(words)
    for _ in range(MAX_TRIES - 1):
        with contextlib.suppress(VersionConflict):
            return await _append(memory, words, change, clock=clock, kind=kind)
    return await _append(memory, words, change, clock=clock, kind=kind)


def entries_of_day(location: Location, day: date) -> tuple[LogLine, ...]:
    """What the log of a day says, oldest first; nothing when the day has none."""
    file = log_file(day)
    with as_store_error(location.directory / file):
        return read_log(file, Folder(location.directory).read(file) or b"")


def read_logs(location: Location, *, newest: int = MAX_LOGS) -> tuple[LogLine, ...]:
    """The lines of the newest logs, latest log first; what cannot be read is left to `lint`."""
    folder = Folder(location.directory)
    lines = list[LogLine]()
    for file in log_files(location.directory)[:newest]:
        with contextlib.suppress(OSError, StoreError):
            lines += read_log(file, folder.read(file) or b"")
    return tuple(lines)


def log_files(directory: Path) -> list[str]:
    """Every log below a memory directory, latest first."""
    found = (path.relative_to(directory).as_posix() for path in (directory / LOGS).rglob("*.md"))
    return sorted(found, key=lambda file: (day_of(file) or date.min, file), reverse=True)


def daily_tools(memory: Memory, *, session: str, clock: Clock, origin_of: OriginOf = by_agent) -> list[Tool]:
    """The four tools where memory is a log; what they change is the agent's work in this session."""

    def sign(reason: str) -> MemoryChange:
        return MemoryChange(author="agent", reason=reason, session=session)

    return [
        _correct(memory, sign, clock),
        _forget(memory, sign),
        _recall(memory),
        _remember(memory, sign, clock, origin_of),
    ]


def _remember(memory: Memory, sign: MakeChange, clock: Clock, origin_of: OriginOf) -> Tool:
    @tool(name="remember", description=REMEMBER)
    async def remember(
        text: Annotated[str, "What to keep: one fact, in a sentence that will still be clear in a year."],
        type: Annotated[Kind | None, "user, feedback, project or reference."] = None,  # noqa: A002 - the model's word
    ) -> str:
        said = f"{text} {UNTRUSTED}" if origin_of(text) == "untrusted" else text
        with as_tool_error():
            done = await append(memory, said, sign("remember"), clock=clock, kind=type)
        return f"Logged in {done.line.place}." if done.commit else f"It stands in {done.line.place} already."

    return remember


def _recall(memory: Memory) -> Tool:
    @tool(name="recall", description=RECALL, read_only=True)
    async def recall(query: Annotated[str, "What to look for, in a few words."]) -> str:
        with as_tool_error():
            found = await search(memory, query)
        return "\n\n".join(map(format_entry, found)) or "Nothing in memory has to do with that."

    return recall


def _correct(memory: Memory, sign: MakeChange, clock: Clock) -> Tool:
    @tool(name="correct", description=CORRECT)
    async def correct(
        query: Annotated[str, WHICH], text: Annotated[str, "What it shall say instead, whole."]
    ) -> str:
        with as_tool_error():
            entry = (await find(memory, query)).entry
            # Words that nobody vouches for get no line without their mark (M16b).
            given = parse_correction(text) if entry.origin != "untrusted" else None
            text = (given and given.applied(entry.body)) or text
            said = f"{as_one_line(text)} (instead of {entry.file})" if as_one_line(text) else ""
            done = await append(memory, said, sign("correct"), clock=clock, kind=entry.kind)
        return f"Logged in {done.line.place}, instead of {entry.file}, which says: {shorten_body(entry.body)}"

    return correct


def _forget(memory: Memory, sign: MakeChange) -> Tool:
    @tool(name="forget", description=FORGET)
    async def forget(query: Annotated[str, WHICH]) -> str:
        with as_tool_error():
            gone, _ = await forget_one(memory, query, sign("forget"))
            left = same_subject("", gone.body, [one.entry for one in await _candidates(memory)])
        more = f" {left.file} says much the same; forget it too if it is meant." if left else ""
        return f"Forgot {gone.file}, which said: {shorten_body(gone.body)}{more}"

    return forget


async def search(memory: Memory, query: str, *, limit: int = MAX_FOUND) -> list[ScoredEntry]:
    """The topics and lines of logs that have to do with some words, best first."""
    return rank(query, [one.entry for one in await _candidates(memory)])[:limit]


async def find(memory: Memory, wanted: str, *, without: frozenset[str] = frozenset()) -> Candidate:
    """The topic or the line of a log that is meant by a name, a place, or words that only it answers to.

    Files that are left out cannot be meant, and no error names them.
    """
    candidates = [one for one in await _candidates(memory) if one.entry.file not in without]
    entry = single_match(wanted, [one.entry for one in candidates])
    return next(one for one in candidates if one.entry is entry)


async def forget_one(
    memory: Memory, wanted: str, change: MemoryChange, *, without: frozenset[str] = frozenset()
) -> tuple[Entry, str]:
    """Remove the topic or the line of a log that is meant; the history still has it. Also the commit."""
    meant = await find(memory, wanted, without=without)
    if meant.line is None:
        return await memory.forget(meant.entry.file, change)
    return meant.entry, await forget_line(memory, meant.line, change)


async def forget_line(memory: Memory, line: LogLine, change: MemoryChange) -> str:
    """Take one line out of its log; a log that says nothing any more goes with it. Returns the commit."""
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


@dataclass(frozen=True, slots=True)
class Candidate:
    """Something that may be meant: a topic, or a line of a log."""

    entry: Entry
    line: LogLine | None = None


async def _candidates(memory: Memory) -> Sequence[Candidate]:
    lines = await asyncio.to_thread(read_logs, memory.location)
    topics = [Candidate(entry) for entry in await memory.list()]
    return [*topics, *(Candidate(_as_entry(line), line) for line in lines)]


def _as_entry(line: LogLine) -> Entry:
    """A line as recall ranks and shows memories."""
    written = datetime.combine(line.day, line.at or time()).astimezone() if line.day else None
    text = line.text
    entry = Entry(file=line.place, name=text, description=text, body=text, kind=line.kind, written=written)
    return replace(entry, origin="untrusted") if text.endswith(UNTRUSTED) else entry


async def _append(
    memory: Memory, words: str, change: MemoryChange, *, clock: Clock, kind: Kind | None
) -> LogResult:
    async with memory.transact(change) as tx:
        # Not before the lock is held: lines then stand in the order of their times.
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
"""Ends a line that repeats what a tool said (M16b): no dream may take it for the person's word."""
NOON = 12
HOURS = 24
MINUTES = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """One fact of a log."""

    file: str
    line: int
    """Where it begins, counted from one."""
    end: int
    """Its last line; a person may have wrapped it."""
    text: str
    at: time | None = None
    """Local time of day."""
    kind: Kind | None = None

    @property
    def place(self) -> str:
        """What to call it: the file and the line."""
        return f"{self.file}:{self.line}"

    @property
    def day(self) -> date | None:
        return day_of(self.file)


def log_file(day: date) -> str:
    """The file of a day's log in a memory directory."""
    return f"{LOGS}/{day.year:04}/{day.month:02}/{day.isoformat()}.md"


def day_of(file: str) -> date | None:
    """The day a log is of, by its name; none for a name that holds no date."""
    found = _DAY.search(file.rpartition("/")[2]) if file.startswith(f"{LOGS}/") else None
    try:
        return date(*map(int, found.groups())) if found else None
    except ValueError:
        return None


def as_one_line(text: str) -> str:
    """A fact on one line: breaks become blanks, what no line may hold is left out."""
    shown = (" " if char.isspace() else char for char in text if char.isspace() or _is_shown(char))
    return _LEADING.sub("", " ".join("".join(shown).split()), count=1) if text.strip() else ""


def bullet(text: str, *, at: time, kind: Kind | None = None) -> str:
    """A fact as the log has it."""
    return f"- {at:%H:%M} {f'{kind}: ' if kind else ''}{as_one_line(text)}"


def appended(data: bytes, line: str) -> bytes:
    """The log with one more line: every byte before it stays, and line ends are what they were."""
    ending = b"\r\n" if data.rpartition(b"\n")[0].endswith(b"\r") else b"\n"
    gap = b"" if not data or data.endswith(b"\n") else b"\n" if data.endswith(b"\r") else ending
    return data + gap + line.encode() + ending


def without(data: bytes, gone: Iterable[LogLine]) -> bytes:
    """The log without some lines; all others stay byte for byte."""
    numbers = {number for one in gone for number in range(one.line, one.end + 1)}
    *lines, rest = data.split(b"\n")
    whole = [*(line + b"\n" for line in lines), rest]
    return b"".join(line for number, line in enumerate(whole, 1) if number not in numbers)


def with_marks(file: str, before: bytes, after: bytes, *, is_untrusted: Callable[[str], bool]) -> bytes:
    """The log as it is to be, with a mark behind each new line that is from outside (M16b)."""
    known = {one.text for one in read_log(file, before)}
    new = [one for one in read_log(file, after) if one.text not in known]
    ends = {one.end for one in new if not one.text.endswith(UNTRUSTED) and is_untrusted(one.text)}
    lines = after.split(b"\n")
    for number in ends:
        line = lines[number - 1]
        bare = line.rstrip()
        lines[number - 1] = bare + f" {UNTRUSTED}".encode() + line[len(bare) :]
    return b"\n".join(lines)


def read_log(file: str, data: bytes) -> tuple[LogLine, ...]:
    """Every fact of a log, oldest first, however people wrote it down: what is no heading says something."""
    reading = _Reading(file)
    text = data.decode(errors="replace").removeprefix("\ufeff")
    for number, raw in enumerate(text.split("\n"), 1):
        reading.take(number, raw.rstrip())
    return tuple(line for item in reading.items if (line := item.told(file)).text)


@dataclass(slots=True)
class _Item:
    """A bullet or a paragraph, as it grows line by line."""

    line: int
    end: int
    indent: int
    words: list[str]

    def told(self, file: str) -> LogLine:
        text = " ".join(" ".join(self.words).split())
        at, text = _timed(text)
        found = _KIND.match(text)
        kind = next((one for one in KINDS if found and found[found.lastindex or 1].lower() == one), None)
        said = text[found.end() :] if found else text
        return LogLine(file=file, line=self.line, end=self.end, text=said, at=at, kind=kind)


class _Reading:
    """One pass over the lines of a log."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.items: list[_Item] = []
        self._open: _Item | None = None
        self._is_after_blank = False

    def take(self, number: int, line: str) -> None:
        if not line:
            self._is_after_blank = True
            return
        indent = len(line) - len(line.lstrip())
        found = _ITEM.match(line)
        if _MARKUP.match(line.lstrip()):
            self._open = None
        elif found and (self._open is None or indent <= self._open.indent):
            self._begin(_Item(number, number, indent, [found[2] or ""]))
        elif self._open is not None and (indent > self._open.indent or not self._is_after_blank):
            self._open.words.append((found[2] or "") if found else line)
            self._open.end = number
        else:
            self._begin(_Item(number, number, indent, [line]))
        self._is_after_blank = False

    def _begin(self, item: _Item) -> None:
        self.items.append(item)
        self._open = item


def _timed(text: str) -> tuple[time | None, str]:
    found = _TIME.match(text)
    if not found:
        return None, text
    hour = int(found[1])
    minute = int(found[2])
    half = (found[3] or "").lower()
    if half:
        hour = hour % NOON + NOON * (half == "pm") if 0 < hour <= NOON else HOURS
    return (time(hour, minute), text[found.end() :]) if hour < HOURS and minute < MINUTES else (None, text)


def _is_shown(char: str) -> bool:
    """Whether a line of UTF-8 may hold it: no control character, no half of a character."""
    return unicodedata.category(char) not in {"Cc", "Cs"}
