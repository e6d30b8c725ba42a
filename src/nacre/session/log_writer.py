"""Where a session's records are written: nowhere, its log on disk, or the log of one of its agents.

Starts, resumes and branches logs on disk (T1, T8, T8b, T9).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Protocol, Self

from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.errors import ForeignTranscript, SessionBusy, TranscriptError
from nacre.loop.round import message_record
from nacre.messages.blocks import Text, ToolResult
from nacre.messages.jsonl_encode import Envelope, chained_id, encode
from nacre.messages.pairing import INTERRUPTED
from nacre.messages.records import LogProblem, Noted, Record, Said
from nacre.messages.view import View
from nacre.store import disk
from nacre.store.lines import read_lines
from nacre.store.session_log import SessionLog, branch, repair_tail
from nacre.version import VERSION


class RecordWriter(Protocol):
    """Stores the records of a session."""

    @property
    def session_id(self) -> str: ...

    async def write(self, records: Sequence[Record]) -> None: ...

    async def sync(self) -> None:
        """Return when everything written would survive a power failure."""
        ...

    async def close(self) -> None: ...


class NullRecordWriter:
    """Discards records, for sessions that are not written to disk."""

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id

    async def write(self, records: Sequence[Record]) -> None:
        return None

    async def sync(self) -> None:
        return None

    async def close(self) -> None:
        return None


MAX_RESUME_BYTES = 64 * 1024 * 1024
"""The most to load behind the last compaction; more would fill any window many times over."""

UNTYPED = "foreign/None"
"""The kind of note for a line without a type."""


class SessionLogWriter:
    """Writes a session's records to its log, each linked to the one before."""

    def __init__(
        self, log: SessionLog, envelope: Envelope, *, parent: str | None = None, is_whole: bool = True
    ) -> None:
        """`is_whole` says that the session has all records of the log, not only those behind a compaction."""
        self._log = log
        self._envelope = envelope
        self._parent = parent
        self._is_whole = is_whole

    @property
    def session_id(self) -> str:
        return self._log.session

    @property
    def path(self) -> Path:
        """The log."""
        return self._log.path

    @property
    def folder(self) -> Path:
        """The folder for the session's other files."""
        return self._log.folder

    @property
    def envelope(self) -> Envelope:
        """The fields that every line of the log repeats."""
        return self._envelope

    async def write(self, records: Sequence[Record]) -> None:
        lines, parent = self._encoded(records)
        # One write into the page cache: a thread would cost more than it saves.
        self._log.append(lines)
        self._parent = parent

    def _encoded(self, records: Sequence[Record]) -> tuple[bytes, str | None]:
        """Return the lines of records, and the parent of the next one."""
        parent = self._parent
        lines = []
        for record in records:
            lines.append(encode(self._as_written(record), envelope=self._envelope, parent=parent))
            parent = chained_id(record) or parent
        return b"".join(lines), parent

    def _as_written(self, record: Record) -> Record:
        return record

    def reread(self) -> Sequence[Record] | None:
        """Return the records with which the session would be resumed now; None if it has all of them."""
        where = self._log.resume_offset()
        if self._is_whole or where.bytes_to_read > MAX_RESUME_BYTES:
            return None
        from nacre.messages.jsonl import decode  # noqa: PLC0415 - few sessions read their log again

        return decode(self._log.read(where.offset), session_id=self._log.session).records

    async def sync(self) -> None:
        await asyncio.to_thread(self._log.sync)

    async def close(self) -> None:
        """Release the session; the file of an empty one is deleted."""
        is_empty = self._log.size == 0
        self._log.close()
        if is_empty:
            # An empty log does no harm, and an error here would hide the one that ended the session.
            with contextlib.suppress(OSError):
                self._log.path.unlink()


@dataclass(frozen=True, slots=True)
class OpenedLog:
    """The records of a session and the writer for more of them."""

    writer: SessionLogWriter
    records: list[Record]
    problems: list[LogProblem]
    notices: list[str]


def start(home: Path, cwd: Path, *, branch_name: str = "", clock: Clock = SYSTEM_CLOCK) -> OpenedLog:
    """Start a new, empty session for a working directory."""
    session_id = clock.new_id()
    log = SessionLog.create(home, cwd, session=session_id)
    return OpenedLog(SessionLogWriter(log, _envelope(session_id, cwd, branch_name)), [], [], [])


def resume(
    path: Path, *, home: Path, cwd: Path | None = None, branch_name: str = "", clock: Clock = SYSTEM_CLOCK
) -> OpenedLog:
    """Resume a session; one that is open in another process continues as a branch with its own id.

    `cwd` is the working directory of a session without messages; by default that of the process.
    """
    notices: list[str] = []
    try:
        log = SessionLog.open(path, home=home)
    except SessionBusy as busy:
        log = branch(path, clock.new_id(), home=home)
        notices.append(f"{busy} Continuing as a branch: session {log.session}.")
    try:
        return _load(log, notices, branch_name, cwd or Path.cwd())
    except BaseException:
        log.close()
        raise


def _load(log: SessionLog, notices: list[str], branch_name: str, cwd: Path) -> OpenedLog:
    where = log.resume_offset()
    if where.bytes_to_read > MAX_RESUME_BYTES:
        raise TranscriptError(
            f"session {log.session} has {where.bytes_to_read / 1e6:,.0f} MB behind its last compaction, "
            f"more than the {MAX_RESUME_BYTES / 1e6:,.0f} MB that can be resumed; read it with "
            f"`nacre sessions show {log.session}` or start a new session"
        )
    from nacre.messages.jsonl import decode  # noqa: PLC0415 - a new session reads no log

    loaded = decode(log.read(where.offset), session_id=log.session)
    if loaded.records and all(isinstance(one, Noted) and one.kind == UNTYPED for one in loaded.records):
        raise ForeignTranscript(
            f"{log.path} is not a session log: none of its lines says what it is; left as it is"
        )
    if log.repaired is not None:
        torn = log.repaired
        notices.append(
            "The last line of the log had lost its end; nothing else was lost."
            if torn.kept_in is None
            else f"The end of the log was torn: {torn.torn_bytes} bytes were moved to {torn.kept_in}."
        )
    envelope = _envelope(log.session, Path(loaded.cwd or cwd), branch_name)
    writer = SessionLogWriter(log, envelope, parent=loaded.leaf, is_whole=where.offset == 0)
    return OpenedLog(writer, loaded.records, loaded.problems, notices)


async def close_open_calls(opened: OpenedLog, clock: Clock = SYSTEM_CLOCK) -> OpenedLog:
    """Record results for tool calls that were running when the process ended: the log is valid then (T8)."""
    open_calls = View.of(opened.records).open_calls
    if not open_calls:
        return opened
    results = tuple(ToolResult(call_id, (Text(INTERRUPTED),), is_error=True) for call_id in open_calls)
    ending = message_record("user", results, clock)
    await opened.writer.write([ending])
    notice = f"{len(open_calls)} tool call{'s' * (len(open_calls) > 1)} did not finish last time."
    return OpenedLog(opened.writer, [*opened.records, ending], opened.problems, [*opened.notices, notice])


def _envelope(session_id: str, cwd: Path, branch_name: str) -> Envelope:
    return Envelope(session_id=session_id, cwd=str(cwd), git_branch=branch_name, version=VERSION)


FOLDER = "subagents"
PREFIX = "agent-"
AGENT = "agentId"
"""The field of a line that names its agent."""


def agent_log_path(folder: Path, agent: str) -> Path:
    """Return the path of an agent's log in the folder of its session."""
    return folder / FOLDER / f"{PREFIX}{agent}.jsonl"


class AgentLog:
    """The log of an agent; `write` is the callback of a transcript."""

    def __init__(self, path: Path, envelope: Envelope, *, agent: str) -> None:
        """Open the file and repair its end if a crash cut it off."""
        from nacre.messages.jsonl import decode  # noqa: PLC0415 - only agents beside the main one

        self.path = path
        self._envelope = envelope
        self._agent = agent
        try:
            disk.make_folder(path.parent)
            descriptor = disk.open_regular(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
        except OSError as error:
            raise TranscriptError(disk.explain(error, path)) from error
        self._file: BinaryIO = os.fdopen(descriptor, "r+b", buffering=0)
        try:
            repair_tail(self._file, path.parent)
            self._parent = decode(read_lines(path), subagent=True).leaf
        except OSError as error:
            self._file.close()
            raise TranscriptError(disk.explain(error, path)) from error
        except BaseException:
            self._file.close()
            raise

    async def write(self, records: Sequence[Record]) -> None:
        """Append all records or none."""
        parent = self._parent
        lines = []
        for record in records:
            lines.append(encode(marked(record, self._agent), envelope=self._envelope, parent=parent))
            parent = chained_id(record) or parent
        try:
            # One write into the page cache: a thread would cost more than it saves.
            disk.append_lines(self._file.fileno(), b"".join(lines))
        except OSError as error:
            raise TranscriptError(disk.explain(error, self.path)) from error
        self._parent = parent

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def marked(record: Record, agent: str) -> Record:
    """Return a record marked as written by an agent."""
    if not isinstance(record, Said) or record.aside is not None:
        return record
    return replace(record, aside="sidechain", extra={**record.extra, AGENT: agent})
