"""Delete old session data by age or size, never of a session in use (C8).

Only sessions that nacre worked on: another program may share the home.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

from nacre.errors import SessionBusy, StoreError, TranscriptError
from nacre.store import disk, lease
from nacre.store.lines import read_lines
from nacre.store.tool_results import FOLDER, TEMP_PREFIX, ToolResultStore

LEAVING_AGE = timedelta(days=1)
"""A temporary file older than this belongs to a process that has ended."""
_POINTED = re.compile(rb'([^/"\\\\]+)/' + FOLDER.encode() + b"/")
"""Session id in a path that a log refers to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PruneRequest:
    """What may be deleted."""

    older_than: timedelta | None = None
    max_bytes: int | None = None
    """Limit for all sessions together; the oldest are deleted first."""
    transcripts: bool = False
    """Whether whole sessions may be deleted with everything that belongs to them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PruneItem:
    """A file of tool results, or a whole session."""

    kind: Literal["result", "transcript"]
    log: Path
    """Log of its session."""
    path: Path
    bytes: int
    modified: datetime


@dataclass(frozen=True, slots=True)
class ProtectedLogs:
    """Logs that are kept regardless of age."""

    sessions: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PrunePlan:
    """What would be deleted and what is kept."""

    goes: tuple[PruneItem, ...] = ()
    kept_bytes: int = 0
    """Size of what could be deleted but is kept."""
    in_use: tuple[str, ...] = ()
    """Sessions that are open, or that an open session refers to."""
    logs: ProtectedLogs = ProtectedLogs()
    """Session logs, when only results may be deleted."""
    foreign: ProtectedLogs = ProtectedLogs()
    """Sessions that nacre neither wrote nor worked on; they are always kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """What was deleted, and what could not be."""

    gone: tuple[PruneItem, ...] = ()
    failed: tuple[str, ...] = ()


def plan(home: Path, wish: PruneRequest, now: datetime) -> PrunePlan:
    """Return what would be deleted, oldest first, without changing anything."""
    every = list(_logs(home))
    logs = [log for log in every if lease.was_taken(home, log)]
    in_use = _in_use(home, logs)
    found = sorted(
        (piece for log in logs for piece in _pieces(log, wish)), key=lambda one: (one.modified, str(one.path))
    )
    free = [one for one in found if one.log not in in_use]
    taken = {one.path for one in free if _is_old(one, wish, now)}
    left = sum(one.bytes for one in found if one.path not in taken)
    for one in free:
        if wish.max_bytes is None or left <= wish.max_bytes:
            break
        if one.path not in taken:
            taken.add(one.path)
            left -= one.bytes
    whole = {one.log for one in free if one.kind == "transcript" and one.path in taken}
    goes = tuple(one for one in free if one.path in taken or one.log in whole)
    kept = sum(one.bytes for one in found) - sum(one.bytes for one in goes)
    return PrunePlan(
        goes=goes,
        kept_bytes=kept,
        in_use=tuple(sorted(log.stem for log in in_use)),
        logs=ProtectedLogs() if wish.transcripts else _held(logs),
        foreign=_held(set(every) - set(logs)),
    )


def prune(home: Path, planned: PrunePlan) -> Pruned:
    """Delete the planned files, each session under its lease so that no process opens it meanwhile."""
    gone: list[PruneItem] = []
    failed: list[str] = []
    for log, pieces in sessions_of(planned.goes).items():
        try:
            held = lease.take(home, log)
        except (SessionBusy, TranscriptError) as error:
            failed.append(str(error))
            continue
        try:
            for piece in pieces:
                try:
                    _remove(piece, home)
                    gone.append(piece)
                except OSError as error:
                    failed.append(disk.explain(error, piece.path))
            _remove_empty(log.with_suffix("") / FOLDER, log.with_suffix(""))
            if not log.exists() and not log.with_suffix("").exists():
                held.drop()
        finally:
            held.release()
    return Pruned(gone=tuple(gone), failed=tuple(failed))


def sessions_of(pieces: Iterable[PruneItem]) -> dict[Path, list[PruneItem]]:
    """Group the items by session log, in order of deletion."""
    found: dict[Path, list[PruneItem]] = {}
    for piece in pieces:
        found.setdefault(piece.log, []).append(piece)
    return found


def _logs(home: Path) -> Iterator[Path]:
    """Return the log paths of all sessions, also of those whose log is gone but whose results remain."""
    for project in _folders(home / "projects"):
        names = {path.name for path in _folders(project)}
        with contextlib.suppress(OSError):
            names |= {path.stem for path in project.glob("*.jsonl") if path.is_file()}
        for name in sorted(names):
            yield project / f"{name}.jsonl"


def _held(logs: Iterable[Path]) -> ProtectedLogs:
    sizes = []
    for log in logs:
        with contextlib.suppress(OSError):  # gone, with only results left of it
            sizes.append(log.stat().st_size)
    return ProtectedLogs(len(sizes), sum(sizes))


def _folders(place: Path) -> list[Path]:
    try:
        with os.scandir(place) as entries:
            return sorted(Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise StoreError(disk.explain(error, place)) from error


def _in_use(home: Path, logs: Sequence[Path]) -> set[Path]:
    """Return logs of open sessions and of sessions whose results an open branch refers to."""
    live = {log for log in logs if _is_live(home, log)}
    pointed: set[str] = set()
    for log in live:
        with contextlib.suppress(TranscriptError):
            for line in read_lines(log):
                pointed |= {os.fsdecode(name) for name in _POINTED.findall(line)}
    return live | {log for log in logs if log.stem in pointed}


def _is_live(home: Path, log: Path) -> bool:
    try:
        lease.take(home, log).release()
    except SessionBusy:
        return True
    return False


def _pieces(log: Path, wish: PruneRequest) -> Iterator[PruneItem]:
    folder = log.with_suffix("")
    store = ToolResultStore(None if (folder / FOLDER).is_symlink() else folder / FOLDER)
    for held in (*store.held(), *store.leavings()):
        yield PruneItem(kind="result", log=log, path=held.path, bytes=held.bytes, modified=held.modified)
    if wish.transcripts and log.is_file():
        found = log.stat()
        yield PruneItem(
            kind="transcript",
            log=log,
            path=log,
            bytes=found.st_size + _size(folder, but=folder / FOLDER),
            modified=datetime.fromtimestamp(found.st_mtime, UTC),
        )


def _size(folder: Path, *, but: Path) -> int:
    """Return the bytes of all files below a path without following links."""
    size = 0
    for place, names, files in os.walk(folder):
        names[:] = [name for name in names if Path(place, name) != but]
        for name in files:
            with contextlib.suppress(OSError):
                size += Path(place, name).lstat().st_size
    return size


def _is_old(piece: PruneItem, wish: PruneRequest, now: datetime) -> bool:
    if piece.kind == "result" and piece.path.name.startswith(TEMP_PREFIX):
        return now - piece.modified > LEAVING_AGE
    return wish.older_than is not None and now - piece.modified > wish.older_than


def _remove(piece: PruneItem, home: Path) -> None:
    piece.path.unlink(missing_ok=True)
    folder = piece.log.with_suffix("")
    if piece.kind == "transcript" and folder.is_dir() and not folder.is_symlink():
        inner = [log for log in folder.rglob("*.jsonl") if lease.was_taken(home, log)]
        shutil.rmtree(folder)
        for log in inner:
            with contextlib.suppress(SessionBusy, TranscriptError):
                lease.take(home, log).drop()


def _remove_empty(*folders: Path) -> None:
    for folder in folders:
        with contextlib.suppress(OSError):  # not empty, or not there
            folder.rmdir()
