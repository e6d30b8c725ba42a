"""Check recordings, and import them as sessions: nacre logs byte for byte, other formats converted (T5-T7).

Nothing is overwritten: the same session again is skipped, another session with the same id gets a new id.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Literal

from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.errors import TranscriptError
from nacre.inspect.export import place_new
from nacre.inspect.sources import DEFAULT_LIMITS, Progress, SourceLimits, TranscriptSource, open_source
from nacre.messages.blocks import ToolCall, ToolResult
from nacre.messages.foreign import ForeignSession, read_foreign
from nacre.messages.jsonl import Envelope, chained_id, encode
from nacre.messages.jsonl_encode import derived_id
from nacre.messages.records import Compacted, LogProblem, Record, Said
from nacre.messages.view import View
from nacre.session.read_session import SlimReader
from nacre.store import disk, lease
from nacre.store.home import slug
from nacre.store.session_log import free_name, log_path
from nacre.version import VERSION

CHUNK = 1_048_576
"""Bytes compared or hashed at a time."""
SUBAGENT_PREFIX = "agent-"
"""Prefix of sub-agent logs, whose lines carry the id of the parent session."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionCheck:
    """Counts and problems of one session in a file."""

    session: str | None
    records: int
    messages: int
    problems: list[LogProblem]


def check_file(
    path: Path,
    *,
    session: str | None = None,
    limits: SourceLimits = DEFAULT_LIMITS,
    progress: Progress | None = None,
) -> tuple[str, list[SessionCheck]]:
    """Return the format of a transcript file and a check of each of its sessions."""
    with open_source(path, limits=limits, progress=progress) as source:
        if source.form == "claude-code":
            reader = SlimReader(session_id=session, subagent=source.stem.startswith(SUBAGENT_PREFIX))
            for line in source.lines:
                reader.line(line)
            loaded = reader.done()
            return source.form, [findings(loaded.session_id, loaded.records, loaded.problems)]
        sessions = read_foreign(source.lines, name=path.name.removesuffix(".gz"))
    return source.form, [findings(one.session_id, one.records, one.problems) for one in sessions]


def findings(session: str | None, records: Sequence[Record], problems: Sequence[LogProblem]) -> SessionCheck:
    """Return problems from reading, from folding, and calls and results without a counterpart."""
    view = View.of(records)
    return SessionCheck(
        session=session,
        records=len(records),
        messages=count_messages(records),
        problems=[*problems, *view.problems, *_unanswered(records, still_open=view.open_calls)],
    )


def count_messages(records: Iterable[Record]) -> int:
    """Count user and assistant records, summaries included, as the session list does."""
    return sum(
        record.role != "system" if isinstance(record, Said) else isinstance(record, Compacted)
        for record in records
    )


def _unanswered(records: Sequence[Record], *, still_open: Sequence[str]) -> list[LogProblem]:
    said = [record for record in records if isinstance(record, Said) and record.aside is None]
    blocks = [block for record in said for block in record.blocks]
    answered = {block.call_id for block in blocks if isinstance(block, ToolResult)}
    waiting = frozenset(still_open)
    return [
        LogProblem("open_call", block.id, f"{block.name} has no result yet")
        if block.id in waiting
        else LogProblem(
            "call_without_result", block.id, f"{block.name} never got a result; taken as interrupted"
        )
        for block in blocks
        if isinstance(block, ToolCall) and block.id not in answered
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedSession:
    """A session that was imported or already present."""

    session: str
    path: Path
    form: str
    cwd: str
    records: int
    messages: int
    problems: list[LogProblem]
    status: Literal["imported", "unchanged", "renamed"]
    notices: tuple[str, ...] = ()
    """Notices for the user: a new id, or torn bytes that were set aside."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportDestination:
    """Where imported sessions are stored."""

    home: Path
    here: Path
    """Working directory of sessions that name none."""
    cwd: Path | None = None
    """Overrides the working directory of the recordings."""

    def cwd_of(self, said: str | None) -> str:
        return str(self.cwd) if self.cwd is not None else said or str(self.here)


def import_file(
    path: Path,
    place: ImportDestination,
    *,
    limits: SourceLimits = DEFAULT_LIMITS,
    progress: Progress | None = None,
    clock: Clock = SYSTEM_CLOCK,
) -> list[ImportedSession]:
    """Import every session of a file; after an error nothing of it remains in the home."""
    with open_source(path, limits=limits, progress=progress) as source:
        is_subagent = source.stem.startswith(SUBAGENT_PREFIX)
        if source.form == "claude-code" and not is_subagent:
            with _spool(place.home, clock) as spool:
                return [_copied(source, place, spool)]
        sessions = read_foreign(source.lines, name=path.name.removesuffix(".gz"))
    if is_subagent and source.form == "claude-code":
        return [_written(sessions[0], derived_id("session", source.stem), source, place, clock)]
    return [_written(one, one.session_id, source, place, clock) for one in sessions]


def _copied(source: TranscriptSource, place: ImportDestination, spool: Path) -> ImportedSession:
    """Copy a log in nacre's format; only a torn end is set aside."""
    reader = SlimReader()
    with spool.open("wb") as file:
        for line in source.lines:
            reader.line(line)
            file.write(line)
        loaded = reader.finished(source.stem)
        if loaded.torn:
            file.truncate(file.tell() - len(loaded.torn))
        file.flush()
        os.fsync(file.fileno())
    found = findings(loaded.session_id, loaded.records, loaded.problems)
    cwd = place.cwd_of(loaded.cwd)
    session = loaded.session_id or derived_id("session", source.stem)
    imported = _installed(spool, source, found, session=session, folder=_folder(place.home, cwd), cwd=cwd)
    if not loaded.torn or imported.status == "unchanged":
        return imported
    kept = _put_aside(loaded.torn, imported.path.with_suffix(""))
    notice = f"the last line was torn off; its {len(loaded.torn):,} bytes are in {kept}"
    return replace(imported, notices=(*imported.notices, notice))


def _written(
    recorded: ForeignSession, session: str, source: TranscriptSource, place: ImportDestination, clock: Clock
) -> ImportedSession:
    """Convert a foreign session; reading the result gives the same records."""
    found = findings(session, recorded.records, recorded.problems)
    cwd = place.cwd_of(recorded.cwd)
    envelope = Envelope(session_id=session, cwd=cwd, version=VERSION)
    with _spool(place.home, clock) as spool:
        parent = None
        with spool.open("wb") as file:
            for record in recorded.records:
                file.write(encode(record, envelope=envelope, parent=parent))
                parent = chained_id(record) or parent
            file.flush()
            os.fsync(file.fileno())
        return _installed(spool, source, found, session=session, folder=_folder(place.home, cwd), cwd=cwd)


def _installed(
    spool: Path, source: TranscriptSource, found: SessionCheck, *, session: str, folder: Path, cwd: str
) -> ImportedSession:
    """Give the file its name unless that session exists already."""
    home = folder.parent.parent
    notices: list[str] = []
    status: Literal["imported", "unchanged", "renamed"] = "imported"
    if not _is_id(session):
        notices.append(f"{session!r} cannot be a session id; it has a new one")
        session = derived_id("session", session)
        status = "renamed"
    path = _same(home, session, spool)
    if path is None and _logs(home, session):
        # Derived from the content, so that a repeated import finds the first one.
        other = derived_id("import", session, _digest(spool))
        notices.append(f"another session has the id {session}; this one is now {other}")
        session = other
        status = "renamed"
        path = _same(home, session, spool)
    if path is not None:
        status = "unchanged"
        notices = ["it was there already and is left as it is"]
    else:
        path = folder / f"{session}.jsonl"
        disk.make_folder(path.parent)
        try:
            place_new(spool, path)
        except FileExistsError:
            raise TranscriptError(f"another import has just written {path}; try again") from None
        disk.sync_folder(path.parent)
        # From now on `nacre gc` treats it like any other session.
        lease.take(home, path).release()
    return ImportedSession(
        session=session,
        path=path,
        form=source.form,
        cwd=cwd,
        records=found.records,
        messages=found.messages,
        problems=found.problems,
        status=status,
        notices=tuple(notices),
    )


def _folder(home: Path, cwd: str) -> Path:
    """Return the project folder of a directory, which may be one of another machine."""
    return home / "projects" / slug(os.path.realpath(cwd) if cwd.startswith("/") else cwd)


def _is_id(session: str) -> bool:
    try:
        log_path(Path("/"), "/", session)
    except TranscriptError:
        return False
    return True


def _logs(home: Path, session: str) -> list[Path]:
    """Return the logs in the home with this session id, of any working directory."""
    return sorted(home.glob(f"projects/*/{session}.jsonl"))


def _same(home: Path, session: str, spool: Path) -> Path | None:
    """Find a log that begins with the same bytes; a session that continued since is still the same."""
    return next((path for path in _logs(home, session) if _begins_with(path, spool)), None)


def _begins_with(path: Path, spool: Path) -> bool:
    try:
        with path.open("rb") as known, spool.open("rb") as new:
            while chunk := new.read(CHUNK):
                if known.read(len(chunk)) != chunk:
                    return False
    except OSError as error:
        raise TranscriptError(disk.explain(error, path)) from error
    return True


def _digest(path: Path) -> str:
    digest = blake2b(digest_size=16)
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


@contextmanager
def _spool(home: Path, clock: Clock) -> Iterator[Path]:
    """Create a temporary file on the disk of the projects and remove it afterwards."""
    folder = home / "projects"
    path = folder / f".import-{clock.new_id()}.tmp"
    descriptor = -1
    try:
        disk.make_folder(folder)
        disk.remove_abandoned(folder.glob(".import-*.tmp"))
        descriptor = disk.open_temporary(path)
        yield path
    except OSError as error:
        raise TranscriptError(disk.explain(error, error.filename or path)) from error
    finally:
        # One that stays is removed by the next import.
        with suppress(OSError):
            path.unlink(missing_ok=True)
        if descriptor >= 0:
            os.close(descriptor)


def _put_aside(torn: bytes, folder: Path) -> Path:
    kept = free_name(folder)
    disk.replace_file(kept, torn, temp_name=f".{kept.name}.tmp")
    return kept
