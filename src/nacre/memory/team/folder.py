"""Shared memory in a plain folder: a network share, a synchronised drive (M18).

One holder of the lock at a time reads or writes. Files are written first and the list of known versions last:
a process killed in between leaves whole files, and the next sync corrects the list.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import hashlib
import json
import os
import stat
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.errors import StoreError
from nacre.memory.files.folder import SUFFIX, version_of
from nacre.memory.files.scan import MAX_DEPTH
from nacre.memory.team.remote import (
    KNOWN_FILE,
    MAX_FILES,
    MAX_KNOWN_BYTES,
    RefusedFile,
    RemoteSnapshot,
    encode_known,
    known_after,
    parse_known,
    size_objection,
)
from nacre.store import disk
from nacre.store.locks import FOREIGN_SECONDS, FileLock, Timeout

LOCK_FILE = ".nacre-team.lock"
LOCK_WAIT = 30.0
"""Seconds to wait for others; on a slow share each of them may take a few."""
_OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OPEN_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class FolderRemote:
    """One folder, which must exist, because an empty folder in place of an unmounted one would mislead.

    With `inside` the files are in a folder below it, which is made when needed.
    """

    def __init__(
        self, folder: Path, *, inside: str = "", clock: Clock = SYSTEM_CLOCK, wait: float = LOCK_WAIT
    ) -> None:
        self._folder = folder / inside
        self._top = folder
        self.address = f"folder:{self._folder}"
        self._clock = clock
        self._wait = wait

    async def pull(self) -> RemoteSnapshot:
        def pull() -> RemoteSnapshot:
            with self._held():
                return self._shared()

        return await asyncio.to_thread(pull)

    async def read(self, shared: RemoteSnapshot, files: Collection[str]) -> Mapping[str, bytes]:
        def read() -> dict[str, bytes]:
            found: dict[str, bytes] = {}
            for file in files:
                # Gone or changed meanwhile: the caller pulls again.
                with contextlib.suppress(OSError):
                    data = self._read(file)
                    if version_of(data) == shared.files.get(file):
                        found[file] = data
            return found

        return await asyncio.to_thread(read)

    async def push(self, base: RemoteSnapshot, changes: Mapping[str, bytes | None], reason: str) -> bool:
        def push() -> bool:
            with self._held():
                if self._shared().version != base.version:
                    return False
                for file in sorted(changes):
                    self._write(file, changes[file])
                known = known_after(base, {file: version_of(data) for file, data in changes.items()})
                self._write(KNOWN_FILE, encode_known(known))
                return True

        return await asyncio.to_thread(push)

    @contextmanager
    def _held(self) -> Iterator[None]:
        """Hold the lock of the folder; a killed holder releases it."""
        try:
            mode = self._top.stat().st_mode
            if not stat.S_ISDIR(mode):
                raise NotADirectoryError(errno.ENOTDIR, "not a folder", str(self._top))
            self._folder.mkdir(mode=stat.S_IMODE(mode), parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(
                f"the shared folder {self._folder} cannot be reached ({error.strerror}); nothing is lost"
            ) from error
        try:
            path = self._folder / LOCK_FILE
            lock = FileLock(path, mode=mode & 0o666, foreign_seconds=FOREIGN_SECONDS)
            lock.acquire(timeout=self._wait)
        except Timeout as error:
            raise StoreError(
                f"another process has locked {self._folder} for {self._wait:g} s; try again"
            ) from error
        except OSError as error:
            raise StoreError(disk.explain(error, self._folder / LOCK_FILE)) from error
        try:
            yield
        except OSError as error:
            raise StoreError(disk.explain(error, error.filename or self._folder)) from error
        finally:
            lock.release()

    def _shared(self) -> RemoteSnapshot:
        files: dict[str, str] = {}
        refused: list[RefusedFile] = []
        self._visit("", files, refused)
        known: dict[str, tuple[str, ...]] = {}
        try:
            known = parse_known(self._read(KNOWN_FILE, MAX_KNOWN_BYTES))
        except FileNotFoundError:
            pass
        except (OSError, ValueError) as error:
            refused.append(RefusedFile(KNOWN_FILE, f"cannot be understood: {error}"))
        state = json.dumps([sorted(files.items()), sorted(known.items())])
        version = hashlib.blake2b(state.encode(errors="surrogateescape"), digest_size=20).hexdigest()
        return RemoteSnapshot(version=version, files=files, known=known, refused=tuple(sorted(refused)))

    def _visit(self, inside: str, files: dict[str, str], refused: list[RefusedFile]) -> None:
        with os.scandir(self._folder / inside) as listing:
            items = sorted(listing, key=lambda one: one.name)
        for item in items:
            file = inside + item.name
            if item.name.startswith("."):
                continue
            if item.is_dir(follow_symlinks=False):
                if inside.count("/") < MAX_DEPTH:
                    self._visit(f"{file}/", files, refused)
            elif item.name.endswith(SUFFIX) or item.is_symlink():
                try:
                    file.encode()
                    files[file] = version_of(self._read(file))
                    continue
                except UnicodeEncodeError:
                    why = "has a name that is not UTF-8"
                except ValueError as error:
                    why = str(error)
                except OSError as error:
                    is_link = error.errno in {errno.ELOOP, errno.ENXIO}
                    why = (
                        "is a symlink or no regular file" if is_link else f"cannot be read: {error.strerror}"
                    )
                refused.append(RefusedFile(ascii(file)[1:-1], why))
        if len(files) > MAX_FILES:
            raise StoreError(f"{self._folder} holds over {MAX_FILES:,} memories; at most so many are read")

    def _read(self, file: str, limit: int | None = None) -> bytes:
        """Return a regular file's bytes, without following links."""
        with self._opened(file) as (folder, name):
            descriptor = os.open(name, _OPEN_FILE, dir_fd=folder)
        with os.fdopen(descriptor, "rb") as source:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                raise ValueError("is no regular file")
            if limit is None and (why := size_objection(found.st_size)):
                raise ValueError(why)
            return source.read(limit or found.st_size)

    def _write(self, file: str, data: bytes | None) -> None:
        """Write a file atomically with the permissions of its folder; None removes it."""
        with self._opened(file, make=data is not None) as (folder, name):
            if data is None:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=folder)
                return
            temp = f"{disk.TEMP_PREFIX}{self._clock.new_id()}"
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(temp, flags, disk.FILE_MODE, dir_fd=folder)
            try:
                os.fchmod(descriptor, os.fstat(folder).st_mode & 0o666)
                disk.write_all(descriptor, data)
                os.fsync(descriptor)
                os.replace(temp, name, src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                os.unlink(temp, dir_fd=folder)
                raise
            finally:
                os.close(descriptor)

    @contextmanager
    def _opened(self, file: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
        """Open the folder of a file step by step; return it and the file's name in it."""
        *folders, name = file.split("/")
        descriptor = os.open(self._folder, _OPEN_FOLDER & ~os.O_NOFOLLOW)
        try:
            for each in folders:
                is_new = False
                if make:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(each, disk.FOLDER_MODE, dir_fd=descriptor)
                        is_new = True
                below = os.open(each, _OPEN_FOLDER, dir_fd=descriptor)
                if is_new:  # with the permissions of its parent
                    os.fchmod(below, stat.S_IMODE(os.fstat(descriptor).st_mode))
                os.close(descriptor)
                descriptor = below
            yield descriptor, name
        finally:
            os.close(descriptor)
