"""Sessions in a database: the log on this machine is a copy of rows, which are written first (S1, S4).

Everything that reads a log, a tool result or a note reads the copy. A record counts once its row is
committed; the files that it may name are written in the same transaction.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.errors import NacreError, SessionBusy, SessionNotFound, StoreError, TranscriptError
from nacre.messages.records import Record
from nacre.session.log_writer import OpenedLog, SessionLogWriter, close_open_calls, resume, start
from nacre.store import disk
from nacre.store.lease import take
from nacre.store.locks import LOCK_FOLDER, POLL_SECONDS, WAIT_SECONDS, FileLock, Timeout
from nacre.store.postgres.session_rows import RENEW_SECONDS, LeaseLostError, SessionLease
from nacre.store.session_log import branch, log_path

if TYPE_CHECKING:
    from nacre.store.postgres.session_rows import SessionRow, SessionRows

MAX_FILE_BYTES = 64 * 1024 * 1024
"""A larger file beside a log stays on the machine that made it."""
PAGE_LINES = 500
NEW_SECONDS = 600.0
LOCAL_ONLY = frozenset({"boundaries.json", ".lock", ".held", ".tmp"})
"""Names and endings of files that have a meaning on one machine only."""


class SharedLogWriter(SessionLogWriter):
    """Writes a session's records to its rows, then to their copy."""

    def __init__(self, opened: SessionLogWriter, lease: SessionLease) -> None:
        """Take over the opened copy; the lease is renewed until `close`."""
        super().__init__(opened._log, opened._envelope, parent=opened._parent, is_whole=opened._is_whole)
        self._lease = lease
        self._writing = asyncio.Lock()
        self._sent: dict[str, tuple[int, int]] = {}
        self._renewing = asyncio.create_task(self._renew(), name=f"lease of {self.session_id}")

    async def write(self, records: Sequence[Record]) -> None:
        async with self._writing:
            lines, parent = self._encoded(records)
            files, stamps = await asyncio.to_thread(changed_files, self.folder, self._sent)
            if lines or files:
                await self._lease.append(lines, files)
            self._sent |= stamps
            if lines:
                self._log.append(lines)
            self._parent = parent

    async def sync(self) -> None:
        """Send files that changed since the last record; a committed record survives a power failure."""
        await self.write(())

    async def close(self) -> None:
        """Release the session; an empty one is removed."""
        self._renewing.cancel()
        await asyncio.gather(self._renewing, return_exceptions=True)
        is_empty = not self._lease.size
        try:
            # A lease that was lost and a database that is down must not hide why the session ended.
            with suppress(NacreError):
                if not is_empty:
                    await self.write(())
                await self._lease.release(remove=is_empty)
        finally:
            await super().close()

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(RENEW_SECONDS)
            try:
                await self._lease.renew()
            except LeaseLostError:  # the next record says so
                return
            except NacreError:
                continue


async def start_shared(
    rows: SessionRows, home: Path, cwd: Path, *, branch_name: str = "", clock: Clock = SYSTEM_CLOCK
) -> OpenedLog:
    """Start a new, empty session of a user."""
    opened = start(home, cwd, branch_name=branch_name, clock=clock)
    return await _shared(rows, opened, home)


async def resume_shared(
    rows: SessionRows, wanted: str, *, home: Path, branch_name: str = "", clock: Clock = SYSTEM_CLOCK
) -> OpenedLog:
    """Resume a session by its id, its beginning or `latest`; one that is open elsewhere as a branch."""
    row = _found(await rows.list(), wanted)
    try:
        lease = await rows.take(row.id)
    except SessionBusy as busy:
        path = await bring_log(rows, row, home)
        log = await asyncio.to_thread(branch, path, clock.new_id(), home=home)
        log.close()
        opened = resume(log.path, home=home, branch_name=branch_name, clock=clock)
        notice = f"{busy} Continuing as a branch: session {log.session}."
        return await _shared(rows, replace(opened, notices=[notice, *opened.notices]), home)
    try:
        path = await bring_log(rows, replace(row, bytes=lease.size), home)
        await _bring_files(rows, row.id, path.with_suffix(""))
        opened = await _opened_copy(path, home, branch_name, clock)
    except BaseException:
        await lease.release()
        raise
    notices = list(opened.notices)
    if lease.home != str(home):
        notices.append(
            f"The session was made with its files below {lease.home}, here they are below {home}; results "
            "that were moved to files are found again only where NACRE_HOME is the same."
        )
    writer = SharedLogWriter(opened.writer, lease)
    return await close_open_calls(replace(opened, writer=writer, notices=notices), clock)


async def _opened_copy(path: Path, home: Path, branch_name: str, clock: Clock) -> OpenedLog:
    opened = resume(path, home=home, branch_name=branch_name, clock=clock)
    if opened.writer.session_id != path.stem:
        # A process that lost its lease, but still has the copy open.
        await opened.writer.close()
        opened.writer.path.unlink(missing_ok=True)
        raise SessionBusy(f"the copy of session {path.stem} is open in another process here; close it there")
    return opened


async def _shared(rows: SessionRows, opened: OpenedLog, home: Path) -> OpenedLog:
    """Add a session that exists only as a copy to the rows."""
    writer = opened.writer
    try:
        lease = await rows.create(writer.session_id, cwd=writer.envelope.cwd, home=str(home))
        if content := await asyncio.to_thread(writer.path.read_bytes):
            await lease.append(content)
    except BaseException:
        await writer.close()
        raise
    return replace(opened, writer=SharedLogWriter(writer, lease))


def _found(sessions: Sequence[SessionRow], wanted: str) -> SessionRow:
    """Return the session with an id or the only one that begins with it; the newest for `latest`."""
    found = [one for one in sessions if one.id.startswith(wanted)] if wanted != "latest" else [*sessions[:1]]
    found = [one for one in found if one.id == wanted] or found
    if len(found) == 1:
        return found[0]
    if found:
        raise TranscriptError(f"{wanted!r} is the beginning of {len(found)} sessions; type more of it")
    raise SessionNotFound(f"this user has no session {wanted!r} in the database")


async def bring_log(rows: SessionRows, row: SessionRow, home: Path) -> Path:
    """Bring the copy of a log to the state of its rows; return its path."""
    path = log_path(home, row.cwd, row.id)
    async with _copying(home, row.id):
        try:
            held = take(home, path)
        except SessionBusy:  # its writer, on this machine, keeps the copy up to date
            return path
        try:
            size = path.stat().st_size if path.is_file() else 0
            if size and not await _is_beginning(rows, row, path, size):
                size = 0
                path.unlink()
                path.with_suffix("").joinpath("boundaries.json").unlink(missing_ok=True)
            while size < row.bytes:
                lines = b"".join(await rows.lines_from(row.id, size, limit=PAGE_LINES))
                if not lines:
                    break
                await asyncio.to_thread(_append, path, lines)
                size += len(lines)
        finally:
            held.release()
    return path


@asynccontextmanager
async def _copying(home: Path, session: str) -> AsyncIterator[None]:
    """Hold the lock of a copy among tasks and processes of this machine."""
    disk.make_folder(home / LOCK_FOLDER)
    lock = FileLock(home / LOCK_FOLDER / f"{session}.copy")
    for _ in range(round(WAIT_SECONDS / POLL_SECONDS)):
        with suppress(Timeout):
            lock.acquire(timeout=0)
            break
        await asyncio.sleep(POLL_SECONDS)
    else:
        raise StoreError(
            f"another process has copied session {session} for over {WAIT_SECONDS:g} s; try again"
        )
    try:
        yield
    finally:
        lock.release()


async def bring_all(rows: SessionRows, home: Path, *, clock: Clock = SYSTEM_CLOCK) -> None:
    """Bring the copies of all sessions of a user to the state of their rows, and remove deleted ones."""
    known = await rows.list()
    behind = await asyncio.to_thread(lambda: [one for one in known if _size(home, one) != one.bytes])
    for row in behind:
        await bring_log(rows, row, home)
    await asyncio.to_thread(_remove_others, home, {one.id for one in known}, clock)


def _size(home: Path, row: SessionRow) -> int:
    try:
        return log_path(home, row.cwd, row.id).stat().st_size
    except FileNotFoundError:
        return 0


def _remove_others(home: Path, known: Collection[str], clock: Clock) -> None:
    """Remove copies of sessions that were deleted; a new one may have a copy before it has a row."""
    for path in home.glob("projects/*/*.jsonl"):
        with suppress(FileNotFoundError):
            is_old = clock.now().timestamp() - path.stat().st_mtime > NEW_SECONDS
            if path.stem not in known and is_old:
                path.unlink()


async def _is_beginning(rows: SessionRows, row: SessionRow, path: Path, size: int) -> bool:
    """Return whether a copy of this size ends with a line that the rows have at the same place."""
    last = await rows.last_before(row.id, size)
    if last is None or size > row.bytes:
        return False
    position, line = last

    def ends_with_it() -> bool:
        with path.open("rb") as file:
            file.seek(position)
            return file.read() == line

    return await asyncio.to_thread(ends_with_it)


def _append(path: Path, lines: bytes) -> None:
    disk.make_folder(path.parent)
    descriptor = disk.open_regular(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
    try:
        disk.append_lines(descriptor, lines)
    finally:
        os.close(descriptor)


async def _bring_files(rows: SessionRows, session: str, folder: Path) -> None:
    for name, digest in (await rows.file_digests(session)).items():
        path = folder / disk.check_key(name)
        if await asyncio.to_thread(_digest, path) != digest:
            data = await rows.file(session, name)
            disk.make_folder(path.parent)
            disk.replace_file(path, data, temp_name=".writing-copy", sync=False)


def _digest(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
    except FileNotFoundError:
        return ""


def changed_files(
    folder: Path, sent: Mapping[str, tuple[int, int]]
) -> tuple[dict[str, bytes], dict[str, tuple[int, int]]]:
    """Return files beside a log that differ from what was sent, and their stamps."""
    files: dict[str, bytes] = {}
    stamps: dict[str, tuple[int, int]] = {}
    for entry in _entries(folder):
        with suppress(FileNotFoundError):  # gone meanwhile
            found = entry.stat(follow_symlinks=False)
            name = os.path.relpath(entry.path, folder)
            stamp = found.st_size, found.st_mtime_ns
            if sent.get(name) != stamp and found.st_size <= MAX_FILE_BYTES:
                files[name] = Path(entry.path).read_bytes()
                stamps[name] = stamp
    return files, stamps


def _entries(folder: Path) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.startswith(".") or entry.name.endswith(tuple(LOCAL_ONLY)):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    yield from _entries(Path(entry.path))
                elif entry.is_file(follow_symlinks=False):
                    yield entry
    except (FileNotFoundError, NotADirectoryError):
        return
