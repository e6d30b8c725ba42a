"""Daily log mode: what is remembered is added to today's log, and only a dream writes topics (M17).

The log is append-only: a line goes to its end, whatever stands before it. Only what the person wants
forgotten is ever taken out. The index is read as ever, and not written.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, time
from pathlib import Path
from typing import Annotated

from nacre import prompts
from nacre.clock import Clock
from nacre.errors import StoreError, VersionConflict
from nacre.memory.corrections import correction_of
from nacre.memory.daily_format import (
    UNTRUSTED,
    LogLine,
    appended,
    bullet,
    day_of,
    folded,
    log_file,
    read_log,
    without,
)
from nacre.memory.files.folder import Folder
from nacre.memory.files.location import Location
from nacre.memory.files.recovery import told
from nacre.memory.files.scan import LOGS
from nacre.memory.format.entry import Change, Entry, Kind
from nacre.memory.memory import MAX_FOUND, Memory, refuse_secrets, the_one
from nacre.memory.similarity import Found, rank, same_subject
from nacre.memory.tools import (
    RECALL,
    WHICH,
    OriginOf,
    Sign,
    as_tool_error,
    by_agent,
    in_short,
    shown,
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
class Logged:
    """Where a fact stands in the log."""

    line: LogLine
    commit: str
    """Empty when today's log had it already."""


async def append(
    memory: Memory, text: str, change: Change, *, clock: Clock, kind: Kind | None = None
) -> Logged:
    """Add one fact to the log of the clock's local date; what that log has already is not doubled."""
    words = folded(text)
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
    with told(location.directory / file):
        return read_log(file, Folder(location.directory).read(file) or b"")


def logged(location: Location, *, newest: int = MAX_LOGS) -> tuple[LogLine, ...]:
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

    def sign(reason: str) -> Change:
        return Change(author="agent", reason=reason, session=session)

    return [
        _correct(memory, sign, clock),
        _forget(memory, sign),
        _recall(memory),
        _remember(memory, sign, clock, origin_of),
    ]


def _remember(memory: Memory, sign: Sign, clock: Clock, origin_of: OriginOf) -> Tool:
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
        return "\n\n".join(map(shown, found)) or "Nothing in memory has to do with that."

    return recall


def _correct(memory: Memory, sign: Sign, clock: Clock) -> Tool:
    @tool(name="correct", description=CORRECT)
    async def correct(
        query: Annotated[str, WHICH], text: Annotated[str, "What it shall say instead, whole."]
    ) -> str:
        with as_tool_error():
            entry = (await find(memory, query)).entry
            # Words that nobody vouches for get no line without their mark (M16b).
            given = correction_of(text) if entry.origin != "untrusted" else None
            text = (given and given.applied(entry.body)) or text
            said = f"{folded(text)} (instead of {entry.file})" if folded(text) else ""
            done = await append(memory, said, sign("correct"), clock=clock, kind=entry.kind)
        return f"Logged in {done.line.place}, instead of {entry.file}, which says: {in_short(entry.body)}"

    return correct


def _forget(memory: Memory, sign: Sign) -> Tool:
    @tool(name="forget", description=FORGET)
    async def forget(query: Annotated[str, WHICH]) -> str:
        with as_tool_error():
            gone, _ = await forget_one(memory, query, sign("forget"))
            left = same_subject("", gone.body, [one.entry for one in await _candidates(memory)])
        more = f" {left.file} says much the same; forget it too if it is meant." if left else ""
        return f"Forgot {gone.file}, which said: {in_short(gone.body)}{more}"

    return forget


async def search(memory: Memory, query: str, *, limit: int = MAX_FOUND) -> list[Found]:
    """The topics and lines of logs that have to do with some words, best first."""
    return rank(query, [one.entry for one in await _candidates(memory)])[:limit]


async def find(memory: Memory, wanted: str, *, without: frozenset[str] = frozenset()) -> Candidate:
    """The topic or the line of a log that is meant by a name, a place, or words that only it answers to.

    Files that are left out cannot be meant, and no error names them.
    """
    candidates = [one for one in await _candidates(memory) if one.entry.file not in without]
    entry = the_one(wanted, [one.entry for one in candidates])
    return next(one for one in candidates if one.entry is entry)


async def forget_one(
    memory: Memory, wanted: str, change: Change, *, without: frozenset[str] = frozenset()
) -> tuple[Entry, str]:
    """Remove the topic or the line of a log that is meant; the history still has it. Also the commit."""
    meant = await find(memory, wanted, without=without)
    if meant.line is None:
        return await memory.forget(meant.entry.file, change)
    return meant.entry, await forget_line(memory, meant.line, change)


async def forget_line(memory: Memory, line: LogLine, change: Change) -> str:
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
    lines = await asyncio.to_thread(logged, memory.location)
    topics = [Candidate(entry) for entry in await memory.list()]
    return [*topics, *(Candidate(_as_entry(line), line) for line in lines)]


def _as_entry(line: LogLine) -> Entry:
    """A line as recall ranks and shows memories."""
    written = datetime.combine(line.day, line.at or time()).astimezone() if line.day else None
    text = line.text
    entry = Entry(file=line.place, name=text, description=text, body=text, kind=line.kind, written=written)
    return replace(entry, origin="untrusted") if text.endswith(UNTRUSTED) else entry


async def _append(memory: Memory, words: str, change: Change, *, clock: Clock, kind: Kind | None) -> Logged:
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
            return Logged(line=same, commit="")
        new = appended(data or b"", bullet(words, at=now.time(), kind=kind))
        tx.write(file, new, if_version=version)
        line = read_log(file, new)[-1]
    return Logged(line=line, commit=tx.commit)
