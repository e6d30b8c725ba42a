"""A file layer that fails or kills the process at one call on the disk.

Patches the functions of `os`, `io` and `sqlite3` that change something below a folder; each call is a
point. `install(base, "", 0)` only counts them; with a kind and a number, that point fails.
"""

from __future__ import annotations

import builtins
import errno
import io
import os
import signal
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nacre.store import disk

ONCE = {"eio": errno.EIO, "interrupted": errno.EINTR}
STAYS = {"broken": errno.EIO, "full": errno.ENOSPC, "read-only": errno.EROFS}
KILLS = ("kill-before", "kill-after", "kill-torn")
KINDS = (*ONCE, *STAYS, "short", *KILLS)
"""One error; errors from here on; one write that takes half of the bytes; a kill before, after or in it."""
_NEEDS_ROOM = frozenset({"write", "create", "mkdir", "link", "mkfifo", "sql"})
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_BY_PATH = ("unlink", "remove", "mkdir", "rmdir", "truncate", "utime", "chmod", "mkfifo")
_BY_PAIR = ("rename", "replace", "link", "symlink")
_BY_DESCRIPTOR = ("fsync", "fdatasync", "ftruncate", "fchmod", "pwrite")


class FaultLayer:
    """Counts the points below a folder and applies the fault at one of them."""

    def __init__(self, base: Path, kind: str, at: int) -> None:
        self.points: list[str] = []
        self._base = os.path.realpath(base)
        self._kind = kind
        self._at = at
        self._lock = threading.Lock()

    def covers(self, path: str) -> bool:
        """Return whether a path is below the folder."""
        return path.startswith(self._base)

    def call(
        self, name: str, path: str, act: Callable[[], Any], half: Callable[[], Any] | None = None
    ) -> Any:
        """Carry out one call, unless its point has a fault; `half` does a part of it."""
        if not self.covers(path):
            return act()
        with self._lock:
            self.points.append(f"{name} {path[len(self._base) :]}")
            number = len(self.points)
        is_here = number == self._at
        is_after = bool(self._at) and number > self._at
        kind = self._kind
        if is_here and kind == "kill-torn" and half is not None:
            half()
        if is_here and kind in KILLS and kind != "kill-after":
            os.kill(os.getpid(), signal.SIGKILL)
        if is_here and half is not None and kind in {"short", "full"}:
            return half()
        if is_here and kind in ONCE:
            raise _error(name, ONCE[kind], path)
        if (is_here or is_after) and kind in STAYS and (kind != "full" or name in _NEEDS_ROOM):
            raise _error(name, STAYS[kind], path)
        result = act()
        if is_here and kind == "kill-after":
            os.kill(os.getpid(), signal.SIGKILL)
        return result


def install(base: Path, kind: str, at: int) -> FaultLayer:
    """Patch this process for good: it is a child that does one act."""
    layer = FaultLayer(base, kind, at)
    module: Any = os
    for name in _BY_PATH:
        setattr(module, name, _by_path(layer, name, getattr(os, name)))
    for name in _BY_PAIR:
        setattr(module, name, _by_pair(layer, name, getattr(os, name)))
    for name in _BY_DESCRIPTOR:
        setattr(module, name, _by_descriptor(layer, name, getattr(os, name)))
    _patch_write(layer, module)
    _patch_open(layer, module)
    _patch_rename(layer)
    _patch_sqlite(layer)
    return layer


def _error(name: str, number: int, path: str) -> Exception:
    if name == "sql":
        code = {errno.ENOSPC: sqlite3.SQLITE_FULL, errno.EROFS: sqlite3.SQLITE_READONLY}
        failed = sqlite3.OperationalError(os.strerror(number))
        failed.sqlite_errorcode = code.get(number, sqlite3.SQLITE_IOERR)
        return failed
    # As the kernel's: calls by descriptor carry no name.
    named = name in {"write", *_BY_DESCRIPTOR}
    return OSError(number, os.strerror(number)) if named else OSError(number, os.strerror(number), path)


def _path_of(descriptor: Any) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")  # noqa: PTH115
    except OSError:
        return ""


def _at(path: Any, folder: int | None) -> str:
    if isinstance(path, int):
        return _path_of(path)
    text = os.fsdecode(path)
    if folder is not None and not text.startswith("/"):
        return f"{_path_of(folder)}/{text}"
    return str(Path(text).parent.resolve() / Path(text).name)


def _by_path(layer: FaultLayer, name: str, act: Callable[..., Any]) -> Callable[..., Any]:
    def call(path: Any, *args: Any, **kwargs: Any) -> Any:
        where = _at(path, kwargs.get("dir_fd"))
        return layer.call(name, where, lambda: act(path, *args, **kwargs))

    return call


def _by_pair(layer: FaultLayer, name: str, act: Callable[..., Any]) -> Callable[..., Any]:
    def call(source: Any, target: Any, *args: Any, **kwargs: Any) -> Any:
        where = _at(target, kwargs.get("dst_dir_fd", kwargs.get("dir_fd")))
        return layer.call(name, where, lambda: act(source, target, *args, **kwargs))

    return call


def _by_descriptor(layer: FaultLayer, name: str, act: Callable[..., Any]) -> Callable[..., Any]:
    def call(descriptor: int, *args: Any) -> Any:
        return layer.call(name, _path_of(descriptor), lambda: act(descriptor, *args))

    return call


def _patch_write(layer: FaultLayer, module: Any) -> None:
    write = os.write

    def call(descriptor: int, data: Any) -> int:
        half = bytes(data)[: len(data) // 2]
        started = (lambda: write(descriptor, half)) if half else None
        written: int = layer.call("write", _path_of(descriptor), lambda: write(descriptor, data), started)
        return written

    module.write = call


class _PatchedFile(io.FileIO):
    """Writes through the patched `os.write`."""

    def write(self, data: Any) -> int:
        return os.write(self.fileno(), data)

    def truncate(self, size: int | None = None) -> int:
        size = self.tell() if size is None else size
        os.ftruncate(self.fileno(), size)
        return size


def _patch_open(layer: FaultLayer, module: Any) -> None:
    plain = os.open
    opened = io.open

    def os_open(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        def act() -> int:
            return plain(path, flags, mode, dir_fd=dir_fd)

        if not flags & _WRITES:
            return act()
        name = "create" if flags & os.O_CREAT else "open"
        descriptor: int = layer.call(name, _at(path, dir_fd), act)
        return descriptor

    def io_open(file: Any, mode: str = "r", buffering: int = -1, *args: Any, **kwargs: Any) -> Any:
        where = _at(file, None)
        if not set(mode) & set("wax+") or not layer.covers(where):
            return opened(file, mode, buffering, *args, **kwargs)
        if isinstance(file, int):
            raw = _PatchedFile(file, mode.replace("t", ""), kwargs.get("closefd", True))
        else:
            raw = layer.call("create", where, lambda: _PatchedFile(file, mode.replace("t", "")))
        if buffering == 0:
            return raw
        binary = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
        return binary if "b" in mode else io.TextIOWrapper(binary, *args, **kwargs)

    module.open = os_open
    io_module: Any = io
    io_module.open = io_open
    python: Any = builtins
    python.open = io_open


def _patch_rename(layer: FaultLayer) -> None:
    renamed = disk._renamed

    def call(source: Any, target: Any, flags: int) -> bool:
        folder, name = disk._at(target)
        done: bool = layer.call("renameat2", _at(name, folder), lambda: renamed(source, target, flags))
        return done

    disk._renamed = call


def _patch_sqlite(layer: FaultLayer) -> None:
    class Connection(sqlite3.Connection):
        path = ""

        def execute(self, sql: str, *args: Any) -> sqlite3.Cursor:
            if sql.lstrip().split(None, 1)[0].upper() in {"SELECT", "PRAGMA", "EXPLAIN"}:
                return super().execute(sql, *args)
            act = super().execute
            found: sqlite3.Cursor = layer.call("sql", self.path, lambda: act(sql, *args))
            return found

        def executemany(self, sql: str, rows: Any) -> sqlite3.Cursor:
            act = super().executemany
            found: sqlite3.Cursor = layer.call("sql", self.path, lambda: act(sql, rows))
            return found

        def commit(self) -> None:
            act = super().commit
            layer.call("sql", self.path, act)

        def __exit__(self, *args: Any) -> Any:
            act = super().__exit__
            return layer.call("sql", self.path, lambda: act(*args))

    connect = sqlite3.connect

    def call(database: Any, *args: Any, **kwargs: Any) -> sqlite3.Connection:
        opened: Connection = connect(database, *args, **{**kwargs, "factory": Connection})
        opened.path = os.fsdecode(database)
        return opened

    module: Any = sqlite3
    module.connect = call
