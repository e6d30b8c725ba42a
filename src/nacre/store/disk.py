"""Atomic operations on local files private to their owner (M27: 0600, 0700), and safe relative paths (M6)."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from urllib.parse import unquote

from nacre.errors import OutsideStore

FILE_MODE = 0o600
FOLDER_MODE = 0o700
TEMP_PREFIX = ".nacre-tmp-"
"""Marks a file that is still being written."""
MAX_SEGMENT_BYTES = 200
"""Below the 255 bytes of common file systems, with room for the temporary name."""

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_FORBIDDEN = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_DRIVE = re.compile(r"[A-Za-z]:")
_DECODE_ROUNDS = 3
"""Percent-encoding nests (`%252e`); three rounds cover what a careless reader would decode."""


class NotRegularError(OSError):
    """Raised when the path is a FIFO, a socket, a device or a directory."""


def explain(error: OSError, path: str | os.PathLike[str]) -> str:
    """Return one line that explains an error of a path and what to do about it."""
    if error.errno in _FULL:
        return f"disk full: {path} is as it was before; free some space and try again"
    if error.errno in _FORBIDDEN:
        return f"no permission for {path}; check its owner, its mode and whether the disk is read-only"
    if isinstance(error, NotADirectoryError):
        return f"{path}: a part of this path is a file, not a folder; choose another name"
    if isinstance(error, NotRegularError | IsADirectoryError):
        return f"{path} is not a regular file; move it away and try again"
    if isinstance(error, FileNotFoundError):
        return (
            f"{path} does not exist and cannot be created; check the path, and NACRE_HOME if it is below that"
        )
    return f"{path}: {error.strerror or error}"


def check_key(key: str) -> str:
    """Return a relative path unchanged, or raise `OutsideStore` when it could lead out of its folder."""
    if reason := _objection(key):
        raise OutsideStore(f"{key!r} cannot be a key: {reason}; use a relative path such as notes/today.md")
    return key


def _objection(key: str) -> str | None:
    """Return why a relative path is refused, or None."""
    try:
        key.encode()
    except UnicodeEncodeError:
        return "it is not valid Unicode"
    if not key or "\0" in key or "\\" in key or key.startswith("/") or _DRIVE.match(key):
        return "it is empty, absolute, or holds NUL or a backslash"
    segments = key.split("/")
    if any(segment in {"", ".", ".."} for segment in segments):
        return "it has an empty, '.' or '..' part"
    if any(segment.casefold().startswith(TEMP_PREFIX) for segment in segments):
        return "the name is reserved"
    if any(len(segment.encode()) > MAX_SEGMENT_BYTES for segment in segments):
        return f"a part is longer than {MAX_SEGMENT_BYTES} bytes"
    # Separators and dots in percent-encoding or as full-width look-alikes are refused, not decoded.
    plain = key
    for _ in range(_DECODE_ROUNDS):
        plain = unicodedata.normalize("NFKC", unquote(plain))
    if "\0" in plain or "\\" in plain or plain.count("/") != key.count("/"):
        return "it holds an encoded separator"
    if any(segment in {".", ".."} for segment in plain.split("/")):
        return "it holds an encoded '..'"
    return None


def make_folder(folder: Path) -> None:
    """Create a folder and its parents, each for the owner only; those that exist stay as they are."""
    missing = []
    while not folder.is_dir():
        missing.append(folder)
        folder = folder.parent
    for each in reversed(missing):
        with contextlib.suppress(FileExistsError):
            each.mkdir(mode=FOLDER_MODE)


def open_regular(path: Path, flags: int) -> int:
    """Open a regular file; raise `NotRegularError` for anything else instead of blocking."""
    try:
        descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC, FILE_MODE)
    except OSError as error:
        if error.errno == errno.ENXIO:  # a socket, or a FIFO without a reader
            raise NotRegularError(errno.EINVAL, "not a regular file", str(path)) from error
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise NotRegularError(errno.EINVAL, "not a regular file", str(path))
    return descriptor


def replace_file(
    path: Path, data: bytes, *, temp_name: str, sync: bool = True, mode: int = FILE_MODE
) -> None:
    """Replace a file atomically: write a temporary file, flush, rename, flush the folder.

    A caller that holds a lock passes the same temporary name each time, so that what a killed process left is
    overwritten by the next write. A caller without a lock passes a unique one.
    """
    temp = path.with_name(temp_name)
    try:
        descriptor = os.open(
            temp, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, FILE_MODE
        )
        try:
            os.fchmod(descriptor, mode)
            write_all(descriptor, data)
            if sync:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
        temp.replace(path)
    except BaseException:
        temp.unlink(missing_ok=True)
        raise
    if sync:
        sync_folder(path.parent)


def append_whole(descriptor: int, data: bytes) -> int:
    """Append bytes with one write and return the new size; on failure the file is truncated again.

    The caller is the only writer. A short write is tried once more, which yields the reason it was short.
    """
    before = os.fstat(descriptor).st_size
    try:
        write_all(descriptor, data)
    except BaseException:
        os.ftruncate(descriptor, before)
        raise
    return before + len(data)


def write_all(descriptor: int, data: bytes) -> None:
    """Write every byte; nearly always this is one call."""
    written = os.write(descriptor, data)
    while written < len(data):
        written += os.write(descriptor, memoryview(data)[written:])


def sync_folder(folder: Path) -> None:
    """Make a rename or a new name in this folder survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Some network file systems refuse to flush a folder; the data itself is already flushed.
        if error.errno not in {errno.EINVAL, errno.ENOTSUP}:
            raise
    finally:
        os.close(descriptor)


_NO_REPLACE = 1
_EXCHANGE = 2
_UNSUPPORTED = frozenset({errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EPERM})
_AT_FDCWD = -100


@dataclass(frozen=True, slots=True)
class NameInFolder:
    """A name in an open folder, which therefore cannot be replaced by another folder."""

    folder: int
    name: str


def is_swapped(one: Path | NameInFolder, other: Path | NameInFolder) -> bool:
    """Exchange two files atomically; return False where the system cannot."""
    return _renamed(one, other, _EXCHANGE)


def take_free(source: Path | NameInFolder, target: Path | NameInFolder) -> None:
    """Rename, or raise `FileExistsError` when the target exists."""
    if _renamed(source, target, _NO_REPLACE):
        return
    (from_folder, from_name), (to_folder, to_name) = _at(source), _at(target)
    # A link fails when the name is taken, which a plain rename does not.
    os.link(from_name, to_name, src_dir_fd=from_folder, dst_dir_fd=to_folder, follow_symlinks=False)
    os.unlink(from_name, dir_fd=from_folder)


def _renamed(source: Path | NameInFolder, target: Path | NameInFolder, flags: int) -> bool:
    call = _renameat2()
    if call is None:
        return False
    (from_folder, from_name), (to_folder, to_name) = _at(source), _at(target)
    failed = call(_fd(from_folder), os.fsencode(from_name), _fd(to_folder), os.fsencode(to_name), flags)
    if failed in _UNSUPPORTED:
        return False
    if failed:
        raise OSError(failed, os.strerror(failed), to_name)
    return True


def _at(place: Path | NameInFolder) -> tuple[int | None, str]:
    return (place.folder, place.name) if isinstance(place, NameInFolder) else (None, str(place))


def _fd(folder: int | None) -> int:
    return _AT_FDCWD if folder is None else folder


@cache
def _renameat2() -> Callable[[int, bytes, int, bytes, int], int] | None:
    """Return the system call as a function that returns an error number or 0, or None."""
    import ctypes  # noqa: PLC0415 - a few milliseconds that only a write needs

    try:
        function = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError, TypeError):
        return None
    function.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint]

    def call(from_folder: int, source: bytes, to_folder: int, target: bytes, flags: int) -> int:
        return ctypes.get_errno() if function(from_folder, source, to_folder, target, flags) else 0

    return call
