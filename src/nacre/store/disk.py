"""Atomic operations on local files private to their owner (M27: 0600, 0700), and safe relative paths (M6)."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import glob
import os
import re
import stat
import unicodedata
from collections.abc import Callable, Iterable
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
_UNAVAILABLE = frozenset({errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS})
"""Errors of file systems without locks, as some network ones are."""
_SHARED = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "lustre", "gpfs", "glusterfs"}
)
"""File systems that several machines can mount at once; so can those in user space (FUSE) and virtiofs."""
_DRIVE = re.compile(r"[A-Za-z]:")
_DECODE_ROUNDS = 3
"""Percent-encoding nests (`%252e`); three rounds cover what a careless reader would decode."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultSettings:
    """Limits of the files with tool results."""

    max_bytes: int = 2_000_000_000
    """Of one result: a command with more output is stopped."""
    free_bytes: int = 256 * 1024 * 1024
    """Space on the disk that no result may take: other programs need it, and so do the session's logs."""


class NotRegularError(OSError):
    """Raised when the path is a FIFO, a socket, a device or a directory."""


def explain(error: OSError, path: str | os.PathLike[str]) -> str:
    """Return one line that explains an error of a path and what to do about it."""
    if error.errno in _FULL:
        return f"disk full: {path} is as it was before; free some space and try again"
    if error.errno in _FORBIDDEN:
        return f"no permission for {path}; check its owner, its mode and whether the disk is read-only"
    if error.errno in _UNAVAILABLE:
        return f"{path}: its file system cannot do this ({error.strerror}); keep it on a disk of this machine"
    if error.errno == errno.EMFILE:
        return f"{path}: this process has too many open files; close sessions or raise `ulimit -n`"
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


def is_shared(folder: Path) -> bool:
    """Return whether a folder is on a file system that other machines may use as well; False if unknown."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            lines = Path(f"/proc/self/fdinfo/{descriptor}").read_text(encoding="ascii").splitlines()
        finally:
            os.close(descriptor)
        mount = next(line.split()[1] for line in lines if line.startswith("mnt_id:"))
        mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        kind = next(line.partition(" - ")[2].split()[0] for line in mounts if line.startswith(f"{mount} "))
    except (OSError, StopIteration, IndexError):
        return False
    return kind in _SHARED or kind == "virtiofs" or kind.startswith("fuse")


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
    path: Path,
    data: bytes,
    *,
    temp_name: str | None = None,
    sync: bool = True,
    mode: int = FILE_MODE,
    time_ns: int | None = None,
) -> None:
    """Replace a file atomically: write a temporary file, flush, rename, flush the folder.

    `time_ns` is its modification time, in place of now.

    A caller that holds a lock passes the same temporary name each time, so that what a killed process left is
    overwritten by the next write. Without a name it is unique, and those that killed processes left go.
    """
    if temp_name is None:
        remove_abandoned(path.parent.glob(f".{glob.escape(path.name)}.*.tmp"))
        temp = path.with_name(f".{path.name}.{os.urandom(4).hex()}.tmp")
    else:
        temp = path.with_name(temp_name)
    try:
        if temp_name is None:
            descriptor = open_temporary(temp)
        else:
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(temp, flags, FILE_MODE)
        try:
            os.fchmod(descriptor, mode)
            write_all(descriptor, data)
            if time_ns is not None:
                os.utime(descriptor, ns=(time_ns, time_ns))
            if sync:
                os.fsync(descriptor)
            temp.replace(path)
        finally:
            os.close(descriptor)
    except BaseException:
        with contextlib.suppress(OSError):
            temp.unlink(missing_ok=True)
        raise
    if sync:
        sync_folder(path.parent)


def open_temporary(path: Path) -> int:
    """Create a file that is locked until it is closed, so that `remove_abandoned` leaves it in place."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.path.lexists(path):
            return descriptor
        os.close(descriptor)  # removed by another process before it was locked


def remove_abandoned(paths: Iterable[Path]) -> None:
    """Remove temporary files that no process has open; those that cannot be removed stay."""
    for path in paths:
        with contextlib.suppress(OSError):
            descriptor = open_regular(path, os.O_RDONLY | os.O_NOFOLLOW)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink()
            finally:
                os.close(descriptor)


def append_whole(descriptor: int, data: bytes, *, sync: bool = False) -> int:
    """Append bytes with one write and return the new size; on failure the file is truncated again.

    The caller is the only writer. A short write is tried once more, which yields the reason it was short.
    """
    before = os.fstat(descriptor).st_size
    try:
        write_all(descriptor, data)
        if sync:
            os.fsync(descriptor)
    except BaseException:
        with contextlib.suppress(OSError):
            os.ftruncate(descriptor, before)
        raise
    return before + len(data)


def append_lines(descriptor: int, lines: bytes, *, sync: bool = False) -> int:
    """Append whole lines as `append_whole` does; after a torn line that stayed, on a new line."""
    size = os.fstat(descriptor).st_size
    if size and os.pread(descriptor, 1, size - 1) != b"\n":
        lines = b"\n" + lines
    return append_whole(descriptor, lines, sync=sync)


def write_all(descriptor: int, data: bytes) -> None:
    """Write every byte; nearly always this is one call."""
    written = os.write(descriptor, data)
    while written < len(data):
        written += os.write(descriptor, memoryview(data)[written:])


def is_same_file(one: Path, other: Path) -> bool:
    """Return whether both paths are one existing file, by identity; False if that cannot be found out."""
    try:
        return one.samefile(other)
    except (OSError, ValueError):
        return False


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
    from_fd, to_fd = (_AT_FDCWD if one is None else one for one in (from_folder, to_folder))
    failed = call(from_fd, os.fsencode(from_name), to_fd, os.fsencode(to_name), flags)
    if failed in _UNSUPPORTED:
        return False
    if failed:
        raise OSError(failed, os.strerror(failed), to_name)
    return True


def _at(place: Path | NameInFolder) -> tuple[int | None, str]:
    return (place.folder, place.name) if isinstance(place, NameInFolder) else (None, str(place))


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
