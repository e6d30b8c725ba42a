"""The Store port on local disk: atomic, versioned, locked between processes, contained in its root."""

from __future__ import annotations

import asyncio
import hashlib
import os
import stat
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from filelock import FileLock, Timeout

from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.errors import OutsideStore, StoreError, VersionConflict
from nacre.store import disk
from nacre.store.base import Blob, Listing
from nacre.store.keys import LOCK_FOLDER, TEMP_PREFIX, check_key, check_prefix, check_range

T = TypeVar("T")

HASHED_UP_TO = 1_048_576
"""Bytes. Up to here a version is a digest of the content: file times tick every few milliseconds and inodes
are reused at once, so two quick writes of one size can look alike. Above, hashing each read would cost more
than the file times risk."""
INLINE_UP_TO = 65_536
"""Bytes. A write of this much lands in the page cache faster than a worker thread starts."""
WRITE_WAIT = 30.0
"""Seconds to wait for another process's write of the same key, which is one write and a flush."""
LOCK_POLL = 0.01
"""Seconds between two tries for a lock: short enough not to be felt, long enough not to spin."""


class FileStore:
    """Keys are paths below a folder that belongs to its owner alone."""

    def __init__(self, root: Path, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        with _as_store_error(root):
            disk.make_folder(Path(root))
            self._root = Path(root).resolve(strict=True)

    @property
    def root(self) -> Path:
        return self._root

    def path(self, key: str) -> Path:
        """Where a key rests, with symlinks resolved; `OutsideStore` when that is not below the root."""
        return self._contained(self._root / check_key(key), key)

    async def read(self, key: str, *, start: int = 0, length: int | None = None) -> Blob | None:
        check_range(start, length)
        return await asyncio.to_thread(self._read, self.path(key), start, length)

    async def write(self, key: str, data: bytes, *, if_version: str | None = None) -> str:
        path = self.path(key)
        async with self._hold(_stripe(path), WRITE_WAIT, key):
            return await _finished(lambda: self._replace(path, data, if_version))

    async def append(self, key: str, data: bytes, *, sync: bool = False) -> int:
        path = self.path(key)
        async with self._hold(_stripe(path), WRITE_WAIT, key):
            if sync or len(data) > INLINE_UP_TO:
                return await _finished(lambda: self._append(path, data, sync))
            return self._append(path, data, sync)

    async def list(self, prefix: str = "") -> list[Listing]:
        folder = check_prefix(prefix)
        start = self.path(folder) if folder else self._root
        return await asyncio.to_thread(lambda: sorted(self._walk(start, folder), key=lambda item: item.key))

    async def delete(self, key: str) -> bool:
        path = self.path(key)
        async with self._hold(_stripe(path), WRITE_WAIT, key):
            return await _finished(lambda: self._delete(path))

    def lock(self, key: str, *, timeout: float = 10.0) -> AbstractAsyncContextManager[None]:
        """Hold this name alone; reads and writes of the key stay possible for the holder."""
        return self._hold(_name_digest(check_key(key)), timeout, key)

    def _contained(self, path: Path, key: str) -> Path:
        resolved = Path(os.path.realpath(path))
        if resolved != self._root and not resolved.is_relative_to(self._root):
            raise OutsideStore(f"{key!r} leads out of the store through a symlink; remove the link")
        # A dangling link inside the root is refused too: what it names could be put outside before we write.
        for step in [path, *path.parents]:
            if step == self._root:
                break
            if step.is_symlink() and not step.exists():
                raise OutsideStore(f"{key!r} passes a symlink that points nowhere; remove the link")
        return resolved

    def _read(self, path: Path, start: int, length: int | None) -> Blob | None:
        with _as_store_error(path):
            try:
                descriptor = disk.open_regular(path, os.O_RDONLY | os.O_NOFOLLOW)
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
                return None
            except disk.NotRegularError:
                if path.is_dir():
                    return None
                raise
            with os.fdopen(descriptor, "rb") as file:
                found = os.fstat(descriptor)
                modified = _moment(found)
                if found.st_size <= HASHED_UP_TO:
                    whole = file.read()
                    stop = None if length is None else start + length
                    return Blob(whole[start:stop], _digest(whole), modified, len(whole))
                file.seek(start)
                part = file.read() if length is None else file.read(length)
                return Blob(part, _stamp(found), modified, found.st_size)

    def _replace(self, path: Path, data: bytes, if_version: str | None) -> str:
        with _as_store_error(path):
            if if_version is not None and if_version != self._version(path):
                raise VersionConflict(
                    f"{path.name} was changed by someone else meanwhile; read it again and retry"
                )
            if path.exists() and not path.is_file():
                raise StoreError(f"{path.name} is a folder or not a regular file; choose another key")
            disk.make_folder(path.parent)
            disk.replace_file(path, data, temp_name=_temp_name(path))
            return _digest(data) if len(data) <= HASHED_UP_TO else self._version(path)

    def _version(self, path: Path) -> str:
        blob = self._read(path, 0, 0)
        return "" if blob is None else blob.version

    def _append(self, path: Path, data: bytes, sync: bool) -> int:
        with _as_store_error(path):
            disk.make_folder(path.parent)
            descriptor = disk.open_regular(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW)
            try:
                size = disk.append_whole(descriptor, data)
                if sync:
                    os.fsync(descriptor)
                    disk.sync_folder(path.parent)
                return size
            finally:
                os.close(descriptor)

    def _delete(self, path: Path) -> bool:
        with _as_store_error(path):
            try:
                path.with_name(_temp_name(path)).unlink(missing_ok=True)
                path.unlink()
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
                return False
            except PermissionError:
                if path.is_dir():  # what unlink says of a folder on some systems
                    return False
                raise
            return True

    def _walk(self, folder: Path, prefix: str) -> Iterator[Listing]:
        """Regular files only; folders behind symlinks are not entered, so a loop of links cannot trap us."""
        try:
            entries = list(os.scandir(folder))
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            raise StoreError(disk.explain(error, folder)) from error
        for entry in entries:
            key = f"{prefix}/{entry.name}" if prefix else entry.name
            if entry.name.startswith(TEMP_PREFIX) or key == LOCK_FOLDER:
                continue
            if entry.is_dir(follow_symlinks=False):
                yield from self._walk(Path(entry.path), key)
            elif (found := self._listed(entry)) is not None:
                yield Listing(key, found.st_size, _moment(found))

    def _listed(self, entry: os.DirEntry[str]) -> os.stat_result | None:
        try:
            if entry.is_symlink() and not Path(os.path.realpath(entry.path)).is_relative_to(self._root):
                return None
            found = entry.stat()
        except OSError:  # gone meanwhile, or a link that points nowhere
            return None
        return found if stat.S_ISREG(found.st_mode) else None

    @asynccontextmanager
    async def _hold(self, name: str, patience: float, key: str) -> AsyncIterator[None]:
        """Each holder opens the lock file itself, so tasks of one process exclude each other as well."""
        folder = self._root / LOCK_FOLDER
        with _as_store_error(folder):
            disk.make_folder(folder)
        lock = FileLock(folder / name, mode=disk.FILE_MODE, thread_local=False)
        until = self._clock.seconds() + patience
        while not _is_acquired(lock):
            if self._clock.seconds() >= until:
                raise StoreError(f"{key} is locked by someone else for over {patience:g} s; try again later")
            await asyncio.sleep(LOCK_POLL)
        try:
            yield
        finally:
            lock.release()


async def _finished(act: Callable[[], T]) -> T:
    """Do it in a thread and wait for its end even when cancelled: until then the lock must be held."""
    running = asyncio.ensure_future(asyncio.to_thread(act))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait({running})
        if not running.cancelled():
            running.exception()  # looked at, so that nobody warns about it: the caller is gone
        raise


def _is_acquired(lock: FileLock) -> bool:
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return False
    except OSError as error:
        raise StoreError(disk.explain(error, lock.lock_file)) from error
    return True


@contextmanager
def _as_store_error(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreError(disk.explain(error, path)) from error


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def _stamp(found: os.stat_result) -> str:
    return f"{found.st_ino:x}-{found.st_mtime_ns:x}-{found.st_size:x}"


def _name_digest(name: str) -> str:
    return hashlib.blake2b(name.encode(), digest_size=16).hexdigest()


def _stripe(path: Path) -> str:
    """Writes share 256 lock files: they are held for a moment, and one file a key would pile up."""
    return f"write-{_name_digest(str(path))[:2]}"


def _temp_name(path: Path) -> str:
    return TEMP_PREFIX + _name_digest(path.name)


def _moment(found: os.stat_result) -> datetime:
    return datetime.fromtimestamp(found.st_mtime, UTC)
