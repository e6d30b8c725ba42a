"""Find and commit what other programs changed in a memory directory since the last commit (M15).

Every file's stamp is compared with its stamp at a commit; only files that differ are read. An edit is the
user's unless an agent was live on the directory: an agent's shell could have made it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from filelock import FileLock, Timeout

from nacre.clock import Clock
from nacre.errors import OutsideStore, StoreError
from nacre.memory.files.folder import Stamp, file_system_time, is_ours, is_reliable, version_of
from nacre.memory.files.recovery import MemoryStorage, record
from nacre.memory.format.entry import Author
from nacre.store import disk
from nacre.store.derived import DerivedCache
from nacre.store.history import Signature

EditKind: TypeAlias = Literal["added", "changed", "removed"]

LIVE = "live"
"""Folder of marks, one for each agent that is live, or was when it died."""
REWRITE_FROM = 16
"""Number of unchanged files read from which the stamps are stored again."""
NAME = "seen"
_FORMAT = "1"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalEdit:
    """One file that another program changed."""

    file: str
    kind: EditKind


@dataclass(frozen=True, slots=True)
class ExternalEdits:
    """The edits, and the stamps of all files."""

    edits: Mapping[str, bytes | None]
    """New contents; None for deleted files."""
    stamps: Mapping[str, Stamp]
    """Stamps of all files; empty if a watch named those that changed."""
    now: int
    """Time of the stamps, by the file system's clock."""
    looked_at: int
    """Number of files that had to be read."""


def pick_up(storage: MemoryStorage, clock: Clock) -> str:
    """Commit what others changed, if anything, and return the newest commit."""
    newest = storage.history.newest
    found = find(storage, newest)
    if found.edits:
        newest = commit_edits(storage, found.edits, newest, clock)
    if storage.watch is not None:
        storage.watch.settled(newest)
    if found.stamps and found.looked_at >= REWRITE_FROM:
        trusted = {file: stamp for file, stamp in found.stamps.items() if is_reliable(stamp, found.now)}
        DerivedCache(storage.cache).put(NAME, (newest, trusted), _FORMAT)
    drop_stale_marks(storage)
    return newest


def commit_edits(storage: MemoryStorage, edits: Mapping[str, bytes | None], newest: str, clock: Clock) -> str:
    """Commit what others wrote, and return the id of the commit."""
    author: Author = "unconfirmed" if has_marks(storage) else "user"
    signed = Signature(author=author, reason=_reason(edits), session="", at=clock.now())
    prepared = storage.history.prepare(edits, signed, on=newest)
    record(storage, prepared)
    return prepared.id


def find(storage: MemoryStorage, newest: str) -> ExternalEdits:
    """Return what differs from the newest commit."""
    now = 0
    stamps = {}
    doubtful = _touched(storage, newest)
    if doubtful is None:
        if storage.watch is not None:
            storage.watch.start()
        now = file_system_time(storage.cache)
        stamps = storage.folder.scan()
        doubtful = _doubtful(storage, newest, stamps)
    edits: dict[str, bytes | None] = {}
    for file in sorted(filter(_is_kept, doubtful)):
        # What is too large for a memory, or no longer a regular file, is left to `lint`.
        with contextlib.suppress(StoreError, disk.NotRegularError):
            data = storage.folder.read(file)
            if version_of(data) != storage.history.version(newest, file):
                edits[file] = data
    return ExternalEdits(edits, stamps, now, len(doubtful))


def _touched(storage: MemoryStorage, newest: str) -> set[str] | None:
    """Return the files that may differ, by a watch and by commits since; None if that is unknown."""
    watch = storage.watch
    touched = None if watch is None else watch.touched()
    if watch is None or touched is None:
        return None
    try:
        return touched | storage.history.changes(watch.commit, newest).keys()
    except StoreError:  # the history was rewritten since
        return None


def _is_kept(file: str) -> bool:
    """Return whether a file name can be part of the history; other names are left to `lint`."""
    try:
        return is_ours(disk.check_key(file))
    except OutsideStore:
        return False


def kinds(storage: MemoryStorage, edits: Mapping[str, bytes | None], newest: str) -> tuple[ExternalEdit, ...]:
    def kind(file: str) -> EditKind:
        if edits[file] is None:
            return "removed"
        return "changed" if storage.history.version(newest, file) else "added"

    return tuple(ExternalEdit(file=file, kind=kind(file)) for file in sorted(edits))


def has_marks(storage: MemoryStorage) -> bool:
    """Return whether an agent is live on the directory, or was since edits were last picked up."""
    with contextlib.suppress(FileNotFoundError):
        return any((storage.cache / LIVE).iterdir())
    return False


def drop_stale_marks(storage: MemoryStorage) -> None:
    """Remove marks of agents that ended without removing them: what they may have done is committed now."""
    with contextlib.suppress(FileNotFoundError):
        for mark in list((storage.cache / LIVE).iterdir()):
            lock = FileLock(mark, mode=disk.FILE_MODE, thread_local=False)
            try:
                lock.acquire(timeout=0)
            except Timeout:
                continue
            mark.unlink(missing_ok=True)
            lock.release()


def _doubtful(storage: MemoryStorage, newest: str, stamps: Mapping[str, Stamp]) -> set[str]:
    """Return the files that may differ from the newest commit, by the stamps they had at an earlier one."""
    history = storage.history
    stored: tuple[str, dict[str, Stamp]] | None = DerivedCache(storage.cache).get(NAME, _FORMAT)
    commit, before = stored or ("", {})
    try:
        since = set(history.changes(commit, newest)) if commit != newest else set()
    except StoreError:  # the history was rewritten since
        return {*stamps, *(history.tree(newest) if newest else ())}
    other = {file for file, stamp in stamps.items() if before.get(file) != stamp}
    return since | other | (before.keys() - stamps.keys())


def _reason(edits: Mapping[str, bytes | None]) -> str:
    names = sorted(edits)
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f"edited by other means: {names[0]}{more}"
