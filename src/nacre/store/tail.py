"""The end of a log after a crash: torn bytes are moved aside, whole records stay (T8)."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from nacre.errors import ForeignTranscript
from nacre.store import disk
from nacre.store.lines import CHUNK

MAX_CHECKED = 33_554_432
"""Bytes. A last line longer than this is not parsed: whether it ends in a line end has to do."""


@dataclass(frozen=True, slots=True)
class Repair:
    """What opening a log had to mend."""

    torn_bytes: int
    """How many bytes left the log; none when a whole record only lacked its line end."""
    kept_in: Path | None
    """Where they are now."""


def repair_tail(file: BinaryIO, folder: Path) -> Repair | None:
    """Make the log end with a whole line; the file is open for reading and appending, and ours alone."""
    size = os.fstat(file.fileno()).st_size
    begin, end = _last_line(file, size)
    if begin == end:
        return None
    has_line_end = end < size
    is_whole = _is_record(file, begin, end)
    if is_whole and has_line_end:
        return None
    if is_whole:
        # The record is complete and only its line end was lost: nothing to throw away.
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
    """Where the last line that is not blank begins and ends, without line end; equal when there is none."""
    end = size
    at, seen = size, b""
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
    """Cut nothing off a file that was never a log: its first record, torn or not, begins like one."""
    file.seek(0)
    start = file.read(min(CHUNK, 64)).lstrip()
    if start[:1] == b"{" or (torn_at == 0 and not start.strip(b"\0")):
        return
    raise ForeignTranscript(
        f"{file.name} is not a session log: it does not begin with a JSON record; left as it is"
    )


def free_name(folder: Path) -> Path:
    """Where torn bytes can be put beside a log without replacing earlier ones."""
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
