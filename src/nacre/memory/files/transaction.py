"""Changes to a memory directory: locked, versioned, all or nothing, each a commit in its history (M14, M15).

async with transact(location, change) as tx:
    data, version = tx.read("deploys.md")
    tx.write("deploys.md", data + b"...", if_version=version)
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import ParamSpec, TypeVar

from filelock import FileLock, Timeout

from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.errors import StoreError
from nacre.memory.files import external_edits as edits
from nacre.memory.files.containment import INDEX_FILE
from nacre.memory.files.external_edits import ExternalEdit
from nacre.memory.files.folder import MAX_BYTES, conflict, version_of
from nacre.memory.files.location import Location
from nacre.memory.files.recovery import MemoryStorage, apply, as_store_error, settle, storage_of
from nacre.memory.files.scan import LOGS
from nacre.memory.files.watch import Watch
from nacre.memory.format.entry import MemoryChange, read_entry
from nacre.store import disk
from nacre.store.history import Signature

TIMES = "times"
"""The file of the cache with modification times that files had before a change."""
MAX_TIMES = 1_000
"""Maximum number of stored times: as many as an undo looks back."""
LOCK_WAIT = 10.0
"""Seconds to wait for another process; a change takes milliseconds, so that many can queue."""
LOCK_POLL = 0.005
"""Seconds between two tries for the lock: short enough not to be felt, long enough not to spin."""

P = ParamSpec("P")
T = TypeVar("T")


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

    def _with_late_edits(self, files: Iterable[str], clock: Clock) -> str:
        """Commit what others wrote between the opening and the read: this change is based on it."""
        history = self._storage.history
        newest = self._newest
        late = {
            file: self._found[file] for file in files if self._bases[file] != history.version(newest, file)
        }
        return edits.commit_edits(self._storage, late, newest, clock) if late else newest

    def _finish(self, change: MemoryChange, clock: Clock) -> None:
        files = {file: data for file, data in self._files.items() if version_of(data) != self._bases[file]}
        if not files:
            return
        signed = Signature(author=change.author, reason=change.reason, session=change.session, at=clock.now())
        newest = self._with_late_edits(files, clock)
        prepared = self._storage.history.prepare(files, signed, on=newest)
        apply(self._storage, prepared, files, self._bases, self._times(files))
        self.commit = prepared.id

    def _times(self, files: Mapping[str, bytes | None]) -> dict[str, int]:
        """Return the modification times that files keep; those that get lost are stored for an undo."""
        path = self._storage.cache / TIMES
        present = {file: at for file in files if (at := self._storage.folder.written(file)) is not None}
        keeping = {
            file: self._keeping[file] for file in self._keeping.keys() & files.keys() if _is_topic(file)
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
            if _is_topic(file)
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
        await in_thread(_closed, tx, change, clock)


async def recover(
    location: Location,
    *,
    clock: Clock = SYSTEM_CLOCK,
    timeout: float = LOCK_WAIT,  # noqa: ASYNC109 - for the lock, not for the whole
) -> None:
    """Complete what a killed process left, and pack the history if that is due; for every opening."""
    async with held(location, clock=clock, timeout=timeout) as storage:
        await in_thread(_settled, storage)


async def pending_edits(
    location: Location,
    *,
    clock: Clock = SYSTEM_CLOCK,
    timeout: float = LOCK_WAIT,  # noqa: ASYNC109 - for the lock, not for the whole
) -> tuple[ExternalEdit, ...]:
    """Return what others changed since the last commit, without committing it."""
    async with held(location, clock=clock, timeout=timeout) as storage:
        return await in_thread(_pending, storage)


async def pick_up(
    location: Location,
    *,
    clock: Clock = SYSTEM_CLOCK,
    timeout: float = LOCK_WAIT,  # noqa: ASYNC109 - for the lock, not for the whole
) -> str:
    """Commit what others changed, if anything, and return the newest commit."""
    async with held(location, clock=clock, timeout=timeout) as storage:
        return await in_thread(opened, storage, clock)


@asynccontextmanager
async def held(
    location: Location,
    *,
    clock: Clock,
    timeout: float,  # noqa: ASYNC109 - for the lock, not for the whole
    watch: Watch | None = None,
) -> AsyncIterator[MemoryStorage]:
    """Hold the lock between processes; a killed holder releases it."""
    path = location.cache / "lock"
    with as_store_error(path):
        disk.make_folder(location.cache)
        # Each holder opens the file itself, so that tasks of one process exclude each other as well.
        lock = FileLock(path, mode=disk.FILE_MODE, thread_local=False)
        until = clock.seconds() + timeout
        while not lock.is_locked:
            with contextlib.suppress(Timeout):
                lock.acquire(timeout=0)
                break
            if clock.seconds() >= until:
                raise StoreError(
                    f"another process has held {location.directory} for over {timeout:g} s; try again later"
                )
            await asyncio.sleep(LOCK_POLL)
    try:
        with as_store_error(location.directory):
            storage = storage_of(location, watch)
        yield storage
    finally:
        lock.release()


async def in_thread(act: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run to the end even when cancelled: the lock must not be released during a write."""
    task = asyncio.ensure_future(asyncio.to_thread(act, *args, **kwargs))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        while not task.done():
            try:
                await asyncio.wait([task])
            except asyncio.CancelledError:  # asked twice; it takes milliseconds
                continue
        raise


def opened(storage: MemoryStorage, clock: Clock) -> str:
    with as_store_error(storage.folder.root):
        settle(storage)
        return edits.pick_up(storage, clock)


def _closed(tx: Transaction, change: MemoryChange, clock: Clock) -> None:
    with as_store_error(tx._storage.folder.root):
        tx._finish(change, clock)


def _says_age(file: str, data: bytes | None) -> bool:
    return b"modified:" in (data or b"") and read_entry(file, data or b"").modified is not None


def _is_topic(file: str) -> bool:
    return file.rpartition("/")[2] != INDEX_FILE and not file.startswith(f"{LOGS}/")


def _read_times(path: Path) -> dict[str, int]:
    """Return times by file and version; empty if unreadable, because they only make an undo more exact."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        return {str(key): at for key, at in json.loads(path.read_bytes()).items() if isinstance(at, int)}
    return {}


def _settled(storage: MemoryStorage) -> None:
    with as_store_error(storage.folder.root):
        settle(storage, is_opening=True)


def _pending(storage: MemoryStorage) -> tuple[ExternalEdit, ...]:
    with as_store_error(storage.folder.root):
        settle(storage)
        newest = storage.history.newest
        return edits.kinds(storage, edits.find(storage, newest).edits, newest)
