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
from nacre.store.boundaries import BoundaryIndex, ResumeFrom
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
    """One session's log, leased until `close`; made by `create`, `open` or `branch`.

    The file is opened for each append: an idle session holds the descriptor of its lease only, and a log that
    was deleted is reported at the next append.
    """

    def __init__(self, path: Path, held: lease.Lease, *, home: Path) -> None:
        self.path = path
        self.home = home
        self.repaired: Repair | None = None
        self._is_closed = False
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
                os.close(disk.open_regular(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
                disk.sync_folder(path.parent)
        except BaseException:
            held.release()
            raise
        return cls(path, held, home=home)

    @classmethod
    def open(cls, path: Path, *, home: Path) -> SessionLog:
        """Open a log to continue it: take its lease, repair its end; `repaired` reports the repair."""
        if not path.exists():
            raise SessionNotFound(
                f"there is no session log at {path}; `nacre sessions list` shows what there is"
            )
        held = lease.take(home, path)
        try:
            log = cls(path, held, home=home)
            with (
                _as_transcript_error(path),
                os.fdopen(disk.open_regular(path, os.O_RDWR | os.O_APPEND), "r+b", buffering=0) as file,
            ):
                log.repaired = repair_tail(file, log.folder)
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
        with _as_transcript_error(self.path):
            return self.path.stat().st_size

    def append(self, lines: bytes, *, sync: bool = False) -> int:
        """Append whole lines with one write and return the new size; a failed write leaves no torn line."""
        if not lines.endswith(b"\n"):
            raise ValueError("a log takes whole lines: the bytes must end with a line end")
        with self._opened() as descriptor:
            size = disk.append_lines(descriptor, lines, sync=sync)
        if any(token in lines for token in boundaries.TOKENS):
            self._refresh()
            self._save()
        return size

    def sync(self) -> None:
        """Wait until everything appended is on disk."""
        with self._opened() as descriptor:
            os.fsync(descriptor)

    def read(self, from_offset: int = 0) -> Iterator[bytes]:
        """Yield lines from an offset to the current end, without line ends, one in memory at a time."""
        return read_lines(self.path, start=from_offset, end=self.size)

    def resume_offset(self) -> ResumeFrom:
        """Return where reading must start so that the current view is complete."""
        index = self._refresh()
        if index.size - self._saved_size >= SIDECAR_FROM:
            self._save()
        return index.resume(self.size)

    def close(self) -> None:
        """Release the session; a second call does nothing."""
        if self._is_closed:
            return
        self._is_closed = True
        try:
            if self._index is not None and self.size - self._saved_size >= SIDECAR_FROM:
                self._refresh()
                self._save()
        finally:
            self._lease.release()

    def __enter__(self) -> SessionLog:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @contextmanager
    def _opened(self) -> Iterator[int]:
        if self._is_closed:
            raise TranscriptError(f"session {self.session} is closed; open it again to continue")
        with _as_transcript_error(self.path):
            descriptor = disk.open_regular(self.path, os.O_RDWR | os.O_APPEND)
            try:
                yield descriptor
            finally:
                os.close(descriptor)

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
    is_whole = has_line_end
    if end - begin <= MAX_CHECKED:
        file.seek(begin)
        try:
            is_whole = isinstance(json.loads(file.read(end - begin)), dict)
        except (ValueError, RecursionError):
            is_whole = False
    if is_whole and has_line_end:
        return None
    if is_whole:
        # The record is complete and only its line end was lost: nothing to remove.
        disk.append_whole(file.fileno(), b"\n")
        os.fsync(file.fileno())
        return Repair(0, None)
    # A file that was never a log is not truncated: the first record, torn or not, begins like one.
    file.seek(0)
    start = file.read(64).lstrip()
    if start[:1] != b"{" and (begin != 0 or start.strip(b"\0")):
        raise ForeignTranscript(
            f"{file.name} is not a session log: it does not begin with a JSON record; left as it is"
        )
    begin = _begin_of_compaction(file, begin)
    kept = free_name(folder)
    descriptor = os.open(kept, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, disk.FILE_MODE)
    try:
        file.seek(begin)
        while chunk := file.read(CHUNK):
            disk.write_all(descriptor, chunk)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    disk.sync_folder(kept.parent)
    os.ftruncate(file.fileno(), begin)
    os.fsync(file.fileno())
    return Repair(size - begin, kept)


def _begin_of_compaction(file: BinaryIO, begin: int) -> int:
    """Return where the boundary before a torn line begins, because it counts only with its summary."""
    start, end = _last_line(file, begin)
    if not 0 < end - start <= MAX_CHECKED:
        return begin
    file.seek(start)
    line = file.read(end - start)
    if b'"compact_boundary"' not in line:
        return begin
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return begin
    is_boundary = isinstance(record, dict) and record.get("subtype") == "compact_boundary"
    return start if is_boundary else begin


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


def free_name(folder: Path) -> Path:
    """Return a free name for torn bytes next to a log, which does not replace earlier ones."""
    disk.make_folder(folder)
    taken = {path.name for path in folder.glob("torn-*.bin")}
    return next(
        folder / name for number in range(1, len(taken) + 2) if (name := f"torn-{number}.bin") not in taken
    )
