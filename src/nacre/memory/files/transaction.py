"""Changes to a memory directory: locked, versioned, all or nothing, each a commit in its history (M14, M15).

async with transact(location, change) as tx:
    data, version = tx.read("deploys.md")
    tx.write("deploys.md", data + b"...", if_version=version)

What other programs changed since the last commit is found and committed first (M15): every file's stamp is
compared with its stamp at a commit, and only files that differ are read. An edit is the user's unless an
agent was live on the directory: an agent's shell could have made it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.errors import StoreError
from nacre.memory.files.folder import (
    MAX_BYTES,
    Stamp,
    conflict,
    file_system_time,
    is_ours,
    is_reliable,
    version_of,
)
from nacre.memory.files.location import Location
from nacre.memory.files.recovery import (
    MemoryStorage,
    apply,
    as_store_error,
    in_thread,
    record,
    settle,
    storage_of,
)
from nacre.memory.files.scan import is_topic
from nacre.memory.files.watch import Watch
from nacre.memory.format.entry import Author, MemoryChange, read_entry
from nacre.store import disk
from nacre.store.derived import DerivedCache
from nacre.store.history import Signature
from nacre.store.locks import FOREIGN_SECONDS, FileLock, Timeout

TIMES = "times"
"""The file of the cache with modification times that files had before a change."""
MAX_TIMES = 1_000
"""Maximum number of stored times: as many as an undo looks back."""
LOCK_WAIT = 10.0
"""Seconds to wait for another process; a change takes milliseconds, so that many can queue."""
LOCK_POLL = 0.005
"""Seconds between two tries for the lock: short enough not to be felt, long enough not to spin."""
LIVE = "live"
"""Folder of marks, one for each agent that is live, or was when it died."""
REWRITE_FROM = 16
"""Number of unchanged files read from which the stamps are stored again."""
SEEN = "seen"
_SEEN_FORMAT = "1"


class Transaction:
    """Reads and planned changes while the lock is held; nothing is written before the end."""

    def __init__(self, storage: MemoryStorage, newest: str) -> None:
        self.commit: str = ""
        """Id of the commit, after the end; empty if nothing changed."""
        self._storage = storage
        self._newest = newest
        self._bases: dict[str, str] = {}
        self._found: dict[str, bytes | None] = {}
        self._files: dict[str, bytes | None] = {}
        self._keys: dict[str, str] = {}
        self._keeping: dict[str, int | None] = {}
        """Files that keep a modification time, with the time if the caller gave it."""

    @property
    def newest(self) -> str:
        """The parent commit of this change; empty before the first."""
        return self._newest

    def changed_since(self, commit: str) -> dict[str, bytes | None]:
        """Return the current content of files changed since an earlier commit; None for a deleted one."""
        with as_store_error(self._storage.folder.root):
            changed = self._storage.history.changes(commit, self._newest)
            return {file: self._storage.folder.read(file) for file in changed}

    def read(self, file: str) -> tuple[bytes | None, str]:
        """Return a file's content and version, with changes made here; None and "" if there is none."""
        key = self._key(file)
        if key in self._files:
            data = self._files[key]
            return data, version_of(data)
        with as_store_error(self._storage.folder.root):
            data = self._storage.folder.read(key)
        self._found[key], self._bases[key] = data, version_of(data)
        return data, self._bases[key]

    def write(
        self,
        file: str,
        data: bytes,
        if_version: str | None = None,
        *,
        keep_time: bool = False,
        written: int | None = None,
    ) -> str:
        """Plan to write this content to a file, and return its version.

        With `if_version` (`""` = must not exist yet) raises `VersionConflict` if it is another by now. With
        `keep_time` the file keeps its modification time, or gets back the one it had with this content: for
        an edit that does not change what a memory says, so that the memory does not seem new. With `written`
        it gets this time, in nanoseconds: for a memory copied from elsewhere.
        """
        if len(data) > MAX_BYTES:
            raise StoreError(f"{file} would be larger than a memory may be ({MAX_BYTES} bytes); shorten it")
        key = self._checked(file, if_version)
        self._files[key] = data
        self._keeping.pop(key, None)
        if keep_time or written:
            self._keeping[key] = written
        return version_of(data)

    def delete(self, file: str, if_version: str | None = None) -> bool:
        """Plan to remove a file; False if there is none."""
        key = self._checked(file, if_version)
        if self.read(key)[0] is None:
            return False
        self._files[key] = None
        return True

    def files(self) -> list[str]:
        """Return every file, including what this change adds, without what it removes."""
        with as_store_error(self._storage.folder.root):
            present = set(self._storage.folder.scan())
        present |= self._files.keys()
        return sorted(file for file in present if self._files.get(file, b"") is not None)

    def _checked(self, file: str, if_version: str | None) -> str:
        """Return the file's key, after the version that the change is based on is known."""
        key = self._key(file)
        if key not in self._bases or if_version is not None:
            version = self.read(key)[1]
            if if_version is not None and if_version != version:
                raise conflict(key)
        return key

    def _key(self, file: str) -> str:
        if file not in self._keys:
            key = self._storage.folder.key(file)
            self._keys |= {file: key, key: key}
        return self._keys[file]

    def _finish(self, change: MemoryChange, clock: Clock) -> None:
        files = {file: data for file, data in self._files.items() if version_of(data) != self._bases[file]}
        if not files:
            return
        signed = Signature(author=change.author, reason=change.reason, session=change.session, at=clock.now())
        # What others wrote between the opening and the read is committed first: this change is based on it.
        newest = self._newest
        history = self._storage.history
        unseen = [file for file in files if self._bases[file] != history.version(newest, file)]
        if late := {file: self._found[file] for file in unseen}:
            newest = commit_edits(self._storage, late, newest, clock)
        prepared = history.prepare(files, signed, on=newest)
        apply(self._storage, prepared, files, self._bases, self._times(files))
        self.commit = prepared.id

    def _times(self, files: Mapping[str, bytes | None]) -> dict[str, int]:
        """Return the modification times that files keep; those that get lost are stored for an undo."""
        path = self._storage.cache / TIMES
        present = {file: at for file in files if (at := self._storage.folder.written(file)) is not None}
        keeping = {
            file: self._keeping[file] for file in self._keeping.keys() & files.keys() if is_topic(file)
        }
        known = _read_times(path) if keeping else {}
        kept = {
            file: written or known.get(f"{file} {version_of(files[file])}", present.get(file))
            for file, written in keeping.items()
        }
        times = {file: at for file, at in kept.items() if at is not None}
        # A changed memory with `modified` states its age itself.
        lost = {
            f"{file} {self._bases[file]}": at
            for file, at in present.items()
            if is_topic(file)
            and times.get(file) != at
            and (files[file] is None or not _says_age(file, self._found[file]))
        }
        if lost:
            newest = dict(list({**_read_times(path), **lost}.items())[-MAX_TIMES:])
            with contextlib.suppress(OSError):
                disk.replace_file(path, json.dumps(newest).encode(), temp_name=f"{path.name}.tmp", sync=False)
        return times


@asynccontextmanager
async def transact(
    location: Location,
    change: MemoryChange,
    *,
    clock: Clock = SYSTEM_CLOCK,
    timeout: float = LOCK_WAIT,  # noqa: ASYNC109 - for the lock, not for the whole
    watch: Watch | None = None,
) -> AsyncIterator[Transaction]:
    """Hold the directory exclusively, and make all changes at the end or, after an exception, none.

    What others changed since the last commit is committed first; a watch avoids checking every file.
    `VersionConflict` if a file that was read here has changed at the end; `StoreError` if the disk fails.
    Either way nothing changed.
    """
    async with held(location, clock=clock, timeout=timeout, watch=watch) as storage:
        newest = await in_thread(opened, storage, clock)
        tx = Transaction(storage, newest)
        yield tx
        with as_store_error(storage.folder.root):
            await in_thread(tx._finish, change, clock)


async def recover(location: Location, *, clock: Clock = SYSTEM_CLOCK) -> None:
    """Complete what a killed process left, and pack the history if that is due; for every opening."""
    await refresh(location, clock=clock)
    async with _locked(location, clock) as storage:
        with as_store_error(storage.folder.root):
            await in_thread(settle, storage, is_opening=True)


async def refresh(location: Location, *, clock: Clock = SYSTEM_CLOCK) -> None:
    """Bring a working copy to the newest state of its rows, before it is read; others stay."""
    rows = location.rows
    if rows is None:
        return
    from nacre.memory.files.working_copy import catch_up, is_current  # noqa: PLC0415 - only for a server

    if not await is_current(storage_of(location), rows):
        async with _locked(location, clock) as storage:
            await catch_up(storage, rows)


async def pick_up(location: Location, *, clock: Clock = SYSTEM_CLOCK) -> str:
    """Commit what others changed, if anything, and return the newest commit."""
    async with held(location, clock=clock) as storage:
        return await in_thread(opened, storage, clock)


@asynccontextmanager
async def held(
    location: Location,
    *,
    clock: Clock = SYSTEM_CLOCK,
    timeout: float = LOCK_WAIT,  # noqa: ASYNC109 - for the lock, not for the whole
    watch: Watch | None = None,
) -> AsyncIterator[MemoryStorage]:
    """Hold the lock between processes; a killed holder releases it.

    For a working copy also the lock of its rows, which get what was committed at the end (S4).
    """
    async with _locked(location, clock, timeout, watch) as storage:
        if location.rows is None:
            yield storage
            return
        from nacre.memory.files.working_copy import change_rows  # noqa: PLC0415 - only for a server

        async with change_rows(storage, location.rows):
            yield storage_of(location, watch)


@asynccontextmanager
async def _locked(
    location: Location,
    clock: Clock,
    timeout: float = LOCK_WAIT,  # noqa: ASYNC109 - as above
    watch: Watch | None = None,
) -> AsyncIterator[MemoryStorage]:
    """Hold the lock between processes of this machine."""
    path = location.cache / "lock"
    with as_store_error(path):
        disk.make_folder(location.cache)
        # Each holder opens the file itself, so that tasks of one process exclude each other as well.
        lock = FileLock(path, foreign_seconds=FOREIGN_SECONDS)
        busy = f"another process has held {location.directory} for over {timeout:g} s; try again later"
        await acquire(lock, clock, seconds=timeout, poll=LOCK_POLL, busy=busy)
    try:
        with as_store_error(location.directory):
            storage = storage_of(location, watch)
        yield storage
    finally:
        lock.release()


async def acquire(lock: FileLock, clock: Clock, *, seconds: float, poll: float, busy: str) -> None:
    """Wait for a lock without blocking the event loop; `StoreError` with this message after some seconds."""
    until = clock.seconds() + seconds
    while True:
        with contextlib.suppress(Timeout):
            lock.acquire(timeout=0)
            return
        if clock.seconds() >= until:
            raise StoreError(busy) from TimeoutError(busy)
        await asyncio.sleep(poll)


def opened(storage: MemoryStorage, clock: Clock) -> str:
    with as_store_error(storage.folder.root):
        settle(storage)
        return commit_external_edits(storage, clock)


def _says_age(file: str, data: bytes | None) -> bool:
    return b"modified:" in (data or b"") and read_entry(file, data or b"").modified is not None


def _read_times(path: Path) -> dict[str, int]:
    """Return times by file and version; empty if unreadable, because they only make an undo more exact."""
    with contextlib.suppress(OSError, ValueError, RecursionError, AttributeError):
        return {str(key): at for key, at in json.loads(path.read_bytes()).items() if isinstance(at, int)}
    return {}


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


def commit_external_edits(storage: MemoryStorage, clock: Clock) -> str:
    """Commit what others changed, if anything, and return the newest commit."""
    newest = storage.history.newest
    found = find_external_edits(storage, newest)
    if found.edits:
        newest = commit_edits(storage, found.edits, newest, clock)
    if storage.watch is not None:
        storage.watch.settled(newest)
    if found.stamps and found.looked_at >= REWRITE_FROM:
        trusted = {file: stamp for file, stamp in found.stamps.items() if is_reliable(stamp, found.now)}
        DerivedCache(storage.cache).put(SEEN, (newest, trusted), _SEEN_FORMAT)
    # Marks of agents that ended without removing them: what they may have done is committed now.
    with contextlib.suppress(FileNotFoundError):
        for mark in list((storage.cache / LIVE).iterdir()):
            lock = FileLock(mark)
            with contextlib.suppress(Timeout):
                lock.acquire(timeout=0)
                mark.unlink(missing_ok=True)
                lock.release()
    return newest


def commit_edits(storage: MemoryStorage, edits: Mapping[str, bytes | None], newest: str, clock: Clock) -> str:
    """Commit what others wrote, and return the id of the commit."""
    author: Author = "user"
    with contextlib.suppress(FileNotFoundError):
        # A mark: an agent is live on the directory, or was since edits were last picked up.
        if any((storage.cache / LIVE).iterdir()):
            author = "unconfirmed"
    names = sorted(edits)
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    reason = f"edited by other means: {names[0]}{more}"
    signed = Signature(author=author, reason=reason, session="", at=clock.now())
    prepared = storage.history.prepare(edits, signed, on=newest)
    record(storage, prepared)
    return prepared.id


def find_external_edits(storage: MemoryStorage, newest: str) -> ExternalEdits:
    """Return what differs from the newest commit."""
    now = 0
    stamps = {}
    doubtful = None
    watch = storage.watch
    if watch is not None and (touched := watch.touched()) is not None:
        with contextlib.suppress(StoreError):  # the history was rewritten since
            doubtful = touched | storage.history.changes(watch.commit, newest).keys()
    if doubtful is None:
        if watch is not None:
            watch.start()
        now = file_system_time(storage.cache)
        stamps = storage.folder.scan()
        doubtful = _doubtful(storage, newest, stamps)
    edits: dict[str, bytes | None] = {}
    for file in sorted(doubtful):
        # A name that the history does not take, a file that is too large or not regular is left to `lint`.
        with contextlib.suppress(StoreError, disk.NotRegularError):
            if not is_ours(disk.check_key(file)):
                continue
            data = storage.folder.read(file)
            if version_of(data) != storage.history.version(newest, file):
                edits[file] = data
    return ExternalEdits(edits, stamps, now, len(doubtful))


def _doubtful(storage: MemoryStorage, newest: str, stamps: Mapping[str, Stamp]) -> set[str]:
    """Return the files that may differ from the newest commit, by the stamps they had at an earlier one."""
    history = storage.history
    stored: tuple[str, dict[str, Stamp]] | None = DerivedCache(storage.cache).get(SEEN, _SEEN_FORMAT)
    commit, before = stored or ("", {})
    try:
        since = set(history.changes(commit, newest)) if commit != newest else set()
    except StoreError:  # the history was rewritten since
        return {*stamps, *(history.tree(newest) if newest else ())}
    other = {file for file, stamp in stamps.items() if before.get(file) != stamp}
    return since | other | (before.keys() - stamps.keys())
