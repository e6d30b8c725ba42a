"""The session log on disk: leased, append only, repaired on opening, resumed from its last boundary.

Plain calls, no coroutines: an append is one write into the page cache. `sync=True` waits for the disk, so an
event loop calls it through a thread.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from nacre.errors import ForeignTranscript, SessionNotFound, TranscriptError
from nacre.store import boundaries, disk, lease
from nacre.store.boundaries import Boundary, BoundaryIndex, ResumeFrom
from nacre.store.home import canonical, slug
from nacre.store.lines import CHUNK, read_lines, whole_lines

SIDECAR_FROM = 262_144
"""Bytes. A shorter log without a boundary gets no sidecar: a scan costs less than a second file."""

_SESSION_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")


def log_path(home: Path, cwd: str | os.PathLike[str], session: str) -> Path:
    """Return the path of the log of a session in a working directory (T1)."""
    if not _SESSION_ID.fullmatch(session):
        raise TranscriptError(f"{session!r} cannot be a session id; use letters, digits, '-', '_' and '.'")
    return home / "projects" / slug(canonical(cwd)) / f"{session}.jsonl"


def branch(source: Path, session: str, *, home: Path) -> SessionLog:
    """Continue a session under a new id, next to the old one, which may be open elsewhere (T8b).

    Copies what a resume would read, in whole lines. Bytes stay unchanged except the envelope's session id
    (`"sessionId":"old"`, outside of strings); the old session's folder stays in place and readable.
    """
    index = boundaries.up_to_date(source, boundaries.load(_sidecar(source)))
    start = index.resume(index.size).offset
    renamed = re.compile(rb'("sessionId"\s*:\s*)"' + re.escape(source.stem.encode()) + rb'"')
    log = SessionLog.create_at(source.with_name(f"{session}.jsonl"), home=home)
    try:
        for _, block in whole_lines(source, start=start, end=index.size):
            log.append(renamed.sub(rb'\g<1>"' + session.encode() + rb'"', block))
        log.sync()
    except BaseException:
        log.close()
        log.path.unlink(missing_ok=True)
        raise
    return log


class SessionLog:
    """One session's log, leased until `close`; made by `create`, `open` or `branch`."""

    def __init__(self, path: Path, file: BinaryIO, held: lease.Lease, *, home: Path) -> None:
        self.path = path
        self.home = home
        self.repaired: Repair | None = None
        self._file = file
        self._lease = held
        self._index: BoundaryIndex | None = None
        self._saved_size = 0

    @classmethod
    def create(cls, home: Path, cwd: str | os.PathLike[str], *, session: str) -> SessionLog:
        """Create an empty log; an existing one is an error."""
        return cls.create_at(log_path(home, cwd, session), home=home)

    @classmethod
    def create_at(cls, path: Path, *, home: Path) -> SessionLog:
        """Create an empty log at a path."""
        if not _SESSION_ID.fullmatch(path.stem):
            raise TranscriptError(
                f"{path.stem!r} cannot be a session id; use letters, digits, '-', '_' and '.'"
            )
        held = lease.take(home, path)
        try:
            with _as_transcript_error(path):
                disk.make_folder(path.parent)
                descriptor = disk.open_regular(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL)
                disk.sync_folder(path.parent)
        except BaseException:
            held.release()
            raise
        return cls(path, os.fdopen(descriptor, "r+b", buffering=0), held, home=home)

    @classmethod
    def open(cls, path: Path, *, home: Path) -> SessionLog:
        """Open a log to continue it: take its lease, repair its end; `repaired` reports the repair."""
        if not path.exists():
            raise SessionNotFound(
                f"there is no session log at {path}; `nacre sessions list` shows what there is"
            )
        held = lease.take(home, path)
        try:
            with _as_transcript_error(path):
                file = os.fdopen(disk.open_regular(path, os.O_RDWR | os.O_APPEND), "r+b", buffering=0)
            log = cls(path, file, held, home=home)
            try:
                with _as_transcript_error(path):
                    log.repaired = repair_tail(file, log.folder)
            except BaseException:
                file.close()
                raise
        except BaseException:
            held.release()
            raise
        return log

    @property
    def session(self) -> str:
        return self.path.stem

    @property
    def folder(self) -> Path:
        """Folder of the session next to its log: tool results, notes, torn bytes, the index."""
        return self.path.with_suffix("")

    @property
    def size(self) -> int:
        return os.fstat(self._file.fileno()).st_size

    def append(self, lines: bytes, *, sync: bool = False) -> int:
        """Append whole lines with one write and return the new size; a failed write leaves no torn line."""
        if not lines.endswith(b"\n"):
            raise ValueError("a log takes whole lines: the bytes must end with a line end")
        with _as_transcript_error(self.path):
            size = disk.append_whole(self._file.fileno(), lines)
            if sync:
                os.fsync(self._file.fileno())
        if any(token in lines for token in boundaries.TOKENS):
            self._refresh()
            self._save()
        return size

    def sync(self) -> None:
        """Wait until everything appended is on disk."""
        with _as_transcript_error(self.path):
            os.fsync(self._file.fileno())

    def read(self, from_offset: int = 0) -> Iterator[bytes]:
        """Yield lines from an offset to the current end, without line ends, one in memory at a time."""
        return read_lines(self.path, start=from_offset, end=self.size)

    def boundaries(self) -> tuple[Boundary, ...]:
        """Return every compaction in the log, oldest first."""
        return self._refresh().boundaries

    def resume_offset(self) -> ResumeFrom:
        """Return where reading must start so that the current view is complete."""
        index = self._refresh()
        if index.size - self._saved_size >= SIDECAR_FROM:
            self._save()
        return index.resume(self.size)

    def branch(self, session: str) -> SessionLog:
        """Continue this session under a new id, next to it."""
        return branch(self.path, session, home=self.home)

    def close(self) -> None:
        """Release the session; a second call does nothing."""
        if self._file.closed:
            return
        try:
            if self._index is not None and self.size - self._saved_size >= SIDECAR_FROM:
                self._refresh()
                self._save()
        finally:
            self._file.close()
            self._lease.release()

    def __enter__(self) -> SessionLog:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _refresh(self) -> BoundaryIndex:
        if self._index is None:
            self._index = boundaries.load(_sidecar(self.path))
            self._saved_size = self._index.size if self._index else 0
        self._index = boundaries.up_to_date(self.path, self._index)
        return self._index

    def _save(self) -> None:
        """Save the index, which only saves time: a full disk does not stop the session."""
        if self._index is None:
            return
        try:
            boundaries.save(_sidecar(self.path), self._index)
        except OSError:
            return
        self._saved_size = self._index.size


def _sidecar(path: Path) -> Path:
    return path.with_suffix("") / "boundaries.json"


@contextmanager
def _as_transcript_error(path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise SessionNotFound(
            f"there is no session log at {path}; `nacre sessions list` shows what there is"
        ) from error
    except FileExistsError as error:
        raise TranscriptError(f"a session log is already at {path}; open it or choose another id") from error
    except OSError as error:
        raise TranscriptError(disk.explain(error, path)) from error


MAX_CHECKED = 33_554_432
"""Bytes. A longer last line is not parsed: only its line end is checked."""


@dataclass(frozen=True, slots=True)
class Repair:
    """What was repaired when a log was opened."""

    torn_bytes: int
    """Bytes removed from the log; 0 if a whole record only lacked its line end."""
    kept_in: Path | None
    """File that holds them now."""


def repair_tail(file: BinaryIO, folder: Path) -> Repair | None:
    """Make the log end with a whole line; the file is open for reading and appending, and leased."""
    size = os.fstat(file.fileno()).st_size
    begin, end = _last_line(file, size)
    if begin == end:
        return None
    has_line_end = end < size
    is_whole = _is_record(file, begin, end)
    if is_whole and has_line_end:
        return None
    if is_whole:
        # The record is complete and only its line end was lost: nothing to remove.
        disk.append_whole(file.fileno(), b"\n")
        os.fsync(file.fileno())
        return Repair(0, None)
    _refuse_foreign(file, begin)
    kept = free_name(folder)
    _copy_aside(file, begin, size, kept)
    os.ftruncate(file.fileno(), begin)
    os.fsync(file.fileno())
    return Repair(size - begin, kept)


def _last_line(file: BinaryIO, size: int) -> tuple[int, int]:
    """Return start and end of the last line that is not blank, without line end; equal if there is none."""
    end = size
    at = size
    seen = b""
    while at > 0:
        step = min(CHUNK, at)
        at -= step
        file.seek(at)
        seen = file.read(step)
        if end == at + step:  # still among the blanks at the end
            end = at + len(seen.rstrip(b"\r\n"))
        found = seen.rfind(b"\n", 0, max(0, end - at))
        if found >= 0 and end > at:
            return at + found + 1, end
    return 0, end


def _is_record(file: BinaryIO, begin: int, end: int) -> bool:
    if end - begin > MAX_CHECKED:
        return end < os.fstat(file.fileno()).st_size
    file.seek(begin)
    try:
        return isinstance(json.loads(file.read(end - begin)), dict)
    except (ValueError, RecursionError):
        return False


def _refuse_foreign(file: BinaryIO, torn_at: int) -> None:
    """Refuse to truncate a file that was never a log: its first record, torn or not, begins like one."""
    file.seek(0)
    start = file.read(min(CHUNK, 64)).lstrip()
    if start[:1] == b"{" or (torn_at == 0 and not start.strip(b"\0")):
        return
    raise ForeignTranscript(
        f"{file.name} is not a session log: it does not begin with a JSON record; left as it is"
    )


def free_name(folder: Path) -> Path:
    """Return a free name for torn bytes next to a log, which does not replace earlier ones."""
    disk.make_folder(folder)
    taken = {path.name for path in folder.glob("torn-*.bin")}
    return next(
        folder / name for number in range(1, len(taken) + 2) if (name := f"torn-{number}.bin") not in taken
    )


def _copy_aside(file: BinaryIO, begin: int, end: int, target: Path) -> None:
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, disk.FILE_MODE)
    try:
        file.seek(begin)
        while begin < end and (chunk := file.read(min(CHUNK, end - begin))):
            disk.write_all(descriptor, chunk)
            begin += len(chunk)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    disk.sync_folder(target.parent)
