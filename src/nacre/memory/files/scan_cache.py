"""What a scan learnt of each file, kept until the file changes: to read every file again costs far more (R3).

Only derived: lost, stale or damaged, it costs time and nothing else. A file is believed by its stamp, and
only if that was old already when the file was read: two writes within one tick of the file system's clock can
leave the same stamp.
"""

from __future__ import annotations

import contextlib
import marshal
import os
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from datetime import datetime
from pathlib import Path
from typing import Any, TypeAlias

from nacre.memory.files.file_stamp import fs_time
from nacre.memory.files.folder import Stamp
from nacre.memory.format.entry import Entry, Kind, Origin
from nacre.store import disk
from nacre.version import VERSION

FILE = "scanned"
WORTH_KEEPING = 500
"""So many files are read in some milliseconds; to write the cache anew costs about as much, so it waits for
more than that."""
_FORMAT = 1
_SUM_BYTES = 4

Rest: TypeAlias = tuple[Origin, bool, bool, str | None, tuple[str, ...], bool]
Row: TypeAlias = tuple[int, int, int, int, str, str, Kind | None, str | None, str | None, Rest | None]
"""A file's stamp, and what its frontmatter says; what few say stands in a part of its own."""


@dataclass(frozen=True, slots=True)
class ScanCache:
    """Where one directory's rows are kept, and whether a scan may write them."""

    folder: Path
    """The location's `cache`, never the memory directory."""
    directory: Path
    writes: bool = False
    worth: int = WORTH_KEEPING
    """From more new files than this on, the rows are written anew."""

    def read(self) -> Mapping[str, Row]:
        """What was kept; nothing when there is nothing that can be believed."""
        with contextlib.suppress(OSError, ValueError, EOFError, TypeError):
            data = (self.folder / FILE).read_bytes()
            if zlib.crc32(data[_SUM_BYTES:]) == int.from_bytes(data[:_SUM_BYTES]):
                head, rows = marshal.loads(data[_SUM_BYTES:])
                if head == self._head:
                    found: Mapping[str, Row] = rows
                    return found
        return {}

    def keep(self, rows: Mapping[str, Row], folders: Mapping[str, int]) -> None:
        """Write the rows down if nobody changes memory meanwhile; failing to is no failure.

        A folder that has changed since it was listed may have lost a file to a purge, whose name must not
        come back (M14b): then nothing is written.
        """
        with self._locked() as is_ours, contextlib.suppress(OSError):
            if is_ours and all(Path(path).stat().st_mtime_ns == at for path, at in folders.items()):
                data = marshal.dumps((self._head, dict(rows)))
                sum_ = zlib.crc32(data).to_bytes(_SUM_BYTES)
                disk.replace_file(self.folder / FILE, sum_ + data, temp_name=f"{FILE}.tmp", sync=False)

    def now(self) -> int | None:
        """The time by the file system's clock, which stamps are in; none where nothing is to be written."""
        if not self.writes:
            return None
        try:
            return fs_time(self.folder)
        except OSError:
            return None

    @property
    def _head(self) -> tuple[int, str, str]:
        return _FORMAT, VERSION, os.fspath(self.directory)

    @contextmanager
    def _locked(self) -> Iterator[bool]:
        # Loaded by who writes: a hook of another program only reads, and somebody waits for it.
        from filelock import FileLock, Timeout  # noqa: PLC0415

        lock = FileLock(self.folder / "lock", mode=disk.FILE_MODE, thread_local=False)
        try:
            lock.acquire(timeout=0)
        except (Timeout, OSError):
            yield False
            return
        try:
            yield True
        finally:
            lock.release()


def row_of(stamp: Stamp, entry: Entry) -> Row:
    """What is kept of an entry."""
    created = _text(entry.created)
    modified = _text(entry.modified)
    verified = _text(entry.verified)
    rest = (entry.origin, entry.pinned, entry.local_only, verified, entry.sources, entry.is_unlisted)
    said = entry.name, entry.description, entry.kind, created, modified
    return *stamp, *said, None if rest == _USUAL else rest


def entry_from(row: Row, file: str, written: datetime, indexed: bool) -> Entry:
    """The entry again. A frozen class sets its fields slowly, so an open one of the same slots is filled."""
    made: Any = _Open()
    _, _, made.bytes, _, made.name, made.description, made.kind, created, modified, rest = row
    made.file = file
    made.body = ""
    made.written = written
    made.indexed = indexed
    made.created = datetime.fromisoformat(created) if created else None
    made.modified = datetime.fromisoformat(modified) if modified else None
    made.origin, made.pinned, made.local_only, verified, made.sources, made.is_unlisted = rest or _USUAL
    made.verified = datetime.fromisoformat(verified) if verified else None
    made.__class__ = Entry  # which Python allows where the slots are the same
    entry: Entry = made
    return entry


class _Open:
    """An entry while its fields are set."""

    __slots__ = tuple(field.name for field in fields(Entry))


_USUAL: Rest = ("user", False, False, None, (), False)


def _text(at: datetime | None) -> str | None:
    return at.isoformat() if at else None
