"""File access for tools: regular files only, text with a known encoding, atomic replacement."""

from __future__ import annotations

import codecs
import contextlib
import difflib
import errno
import io
import os
import stat
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from nacre.clock import SYSTEM_CLOCK
from nacre.errors import ToolError

MAX_WHOLE_BYTES = 10 * 1024 * 1024
"""Files up to this size are read whole, compared and edited; larger ones are only streamed."""
SNIFF_BYTES = 8_192
"""A zero byte in this many bytes means a binary file, as for git."""
SIMILAR_NAMES = 3
"""How many names the error for a missing file suggests."""
MAX_LISTED_NAMES = 5_000
"""How many names of a directory are compared with a missing one."""
NEW_FILE_MODE = 0o666
"""The mode of a new file before the umask."""

MAX_LINKS = 40
"""How many symbolic links a path may contain, as for the Linux kernel."""

_MISSING = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG})
"""Errors for a name that does not exist."""
_STEP = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
"""Opens a directory on the way to a file; `O_PATH` needs no permission to list it."""
NEW_DIRECTORY_MODE = 0o777
"""The mode of a new directory before the umask."""


@dataclass(frozen=True, slots=True)
class Encoding:
    """The encoding of a file; decoding and encoding gives the same bytes."""

    name: str
    errors: str
    mark: bytes = b""
    """The byte order mark the file begins with."""


def resolve(path: Path) -> Path:
    """Return the real path of an absolute path; names of missing files stay unchanged.

    `os.path.realpath` removes `..` textually behind a loop of links or an unreadable directory. Here both
    raise `OSError`. So does a link in `/proc`, whose target may depend on the process.
    """
    found = "/"
    links = 0
    waiting = list(reversed(path.parts[1:]))
    while waiting:
        name = waiting.pop()
        if name == "..":
            found = os.path.dirname(found)  # noqa: PTH120
            continue
        here = os.path.join(found, name)  # noqa: PTH118
        try:
            is_link = stat.S_ISLNK(os.lstat(here).st_mode)
        except OSError as error:
            if error.errno not in _MISSING:
                raise
            is_link = False
        if not is_link:
            found = here
            continue
        target = os.readlink(here)  # noqa: PTH115
        links += 1
        if links > MAX_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), here)
        if here.startswith("/proc/"):
            raise OSError(errno.ELOOP, "where a link in /proc leads depends on the process", here)
        found = "/" if target.startswith("/") else found
        waiting += [part for part in reversed(target.split("/")) if part not in {"", "."}]
    return Path(found)


class LinkInPathError(OSError):
    """Raised when a resolved path has a symbolic link in it: it was put there after the check."""


def open_real(path: Path, flags: int, *, make: bool = False) -> int:
    """Open a path that was resolved before, and follow no link in it; `make` creates missing directories.

    Each directory is opened by its name in the one before. A path that `resolve` returned holds no link, so a
    link that is found here replaced something since, and `LinkInPathError` is raised.
    """
    *folders, name = path.parts[1:] or (".",)
    here = os.open("/", _STEP)
    try:
        for folder in folders:
            inner = _open_step(here, folder, make=make)
            os.close(here)
            here = inner
        try:
            return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, NEW_FILE_MODE, dir_fd=here)
        except FileNotFoundError:
            if not (make and flags & os.O_DIRECTORY):
                raise
            os.close(_open_step(here, name, make=True))
            return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=here)
        except OSError:
            _refuse_link(here, name)
            raise
    finally:
        os.close(here)


def _open_step(here: int, name: str, *, make: bool) -> int:
    try:
        return os.open(name, _STEP, dir_fd=here)
    except FileNotFoundError:
        if not make:
            raise
    except OSError:
        _refuse_link(here, name)
        raise
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, NEW_DIRECTORY_MODE, dir_fd=here)
    return _open_step(here, name, make=False)


def _refuse_link(here: int, name: str) -> None:
    try:
        is_link = stat.S_ISLNK(os.stat(name, dir_fd=here, follow_symlinks=False).st_mode)
    except OSError:
        return
    if is_link:
        raise LinkInPathError(errno.ELOOP, "a symbolic link was put into its path after the check", name)


def read_real(path: Path, most: int) -> tuple[bytes, os.stat_result]:
    """Return at most so many bytes of a regular file at its resolved path; `OSError` for anything else."""
    try:
        handle = open_real(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError as error:
        if error.errno == errno.ENXIO:  # a socket
            raise OSError(errno.EINVAL, "not a regular file", str(path)) from error
        raise
    found = os.fstat(handle)
    if not stat.S_ISREG(found.st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    with os.fdopen(handle, "rb") as source:
        return source.read(most), found


@contextlib.contextmanager
def hold_directory(path: Path, shown: str) -> Iterator[Path]:
    """Open a directory at its resolved path, and keep it open.

    Yields a path for the start of a process, which leads to this directory even if a link replaces it.
    """
    try:
        handle = open_real(path, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise ToolError(f"Cannot search {shown}: {_reason(error)}.") from None
    try:
        held = Path(f"/proc/self/fd/{handle}")
        yield held if held.exists() else path
    finally:
        os.close(handle)


def open_regular(path: Path, shown: str) -> tuple[io.BufferedReader, os.stat_result]:
    """Open a regular file at its resolved path without blocking; `ToolError` for anything else."""
    try:
        # Opening a named pipe would otherwise block until there is a writer.
        handle = open_real(path, os.O_RDONLY | os.O_NONBLOCK)
    except FileNotFoundError:
        raise ToolError(f"There is no file {shown}.{_similar(path)}") from None
    except OSError as error:
        raise ToolError(f"Cannot open {shown}: {_reason(error)}.") from None
    found = os.fstat(handle)
    if not stat.S_ISREG(found.st_mode):
        os.close(handle)
        raise ToolError(f"{shown} is {_kind(found.st_mode)}.")
    return os.fdopen(handle, "rb"), found


def read_whole(path: Path, shown: str) -> tuple[bytes, os.stat_result]:
    """Return the bytes of a file that is small enough to be edited."""
    source, found = open_regular(path, shown)
    with source:
        content = source.read(MAX_WHOLE_BYTES + 1) or b""
    if len(content) > MAX_WHOLE_BYTES:
        raise ToolError(
            f"{shown} is larger than {MAX_WHOLE_BYTES:,} bytes; change it with a command in Bash."
        )
    return content, found


def sniff(beginning: bytes, shown: str) -> Encoding:
    """Return the encoding of a text from its beginning; `ToolError` for a binary file."""
    if beginning.startswith(codecs.BOM_UTF8):
        return Encoding("utf-8", "surrogateescape", codecs.BOM_UTF8)
    for name, mark in (("utf-16-le", codecs.BOM_UTF16_LE), ("utf-16-be", codecs.BOM_UTF16_BE)):
        if beginning.startswith(mark):
            return Encoding(name, "surrogatepass", mark)
    if b"\0" in beginning[:SNIFF_BYTES]:
        raise ToolError(f"{shown} is a binary file; look at it with a command in Bash, such as file or xxd.")
    # Bytes that are not UTF-8 become lone surrogates, so that an edit elsewhere in the file keeps them.
    return Encoding("utf-8", "surrogateescape")


def decode(content: bytes, shown: str) -> tuple[str, Encoding]:
    encoding = sniff(content[:SNIFF_BYTES], shown)
    try:
        return content[len(encoding.mark) :].decode(encoding.name, encoding.errors), encoding
    except UnicodeDecodeError:
        raise ToolError(f"{shown} is not valid {encoding.name} text.") from None


def replace_file(
    path: Path,
    content: bytes,
    *,
    before: os.stat_result | None = None,
    mode: int | None = None,
    stop: threading.Event | None = None,
) -> os.stat_result:
    """Write a temporary file, flush it to disk and rename it; mode and owner of `before` are kept.

    The directory of a new file is created with its parents. `path` is resolved; no link in it is followed.
    """
    beside = f".nacre-{SYSTEM_CLOCK.new_id()}.tmp"
    try:
        folder = open_real(path.parent, os.O_RDONLY | os.O_DIRECTORY, make=before is None)
    except OSError as error:
        raise ToolError(f"Cannot write {path}: {_reason(error)}.") from None
    try:
        handle = os.open(
            beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, NEW_FILE_MODE, dir_fd=folder
        )
        with os.fdopen(handle, "wb") as target:
            if before is not None:
                # Owner first: a change of owner clears the set-user bits, which the mode restores.
                with contextlib.suppress(PermissionError):
                    os.fchown(handle, before.st_uid, before.st_gid)
                mode = stat.S_IMODE(before.st_mode)
            if mode is not None:
                os.fchmod(handle, mode)
            target.write(content)
            target.flush()
            os.fsync(handle)
            written = os.fstat(handle)
        if stop is not None and stop.is_set():
            raise ToolError(f"Stopped before {path} was replaced.")
        os.replace(beside, path.name, src_dir_fd=folder, dst_dir_fd=folder)
        # Otherwise a power failure may undo the rename; some file systems do not support it.
        with contextlib.suppress(OSError):
            os.fsync(folder)
    except OSError as error:
        raise ToolError(f"Cannot write {path}: {_reason(error)}.") from None
    finally:
        with contextlib.suppress(OSError):
            os.unlink(beside, dir_fd=folder)
        os.close(folder)
    return written


def _reason(error: OSError) -> str:
    return (error.strerror or type(error).__name__).lower()


def _kind(mode: int) -> str:
    if stat.S_ISDIR(mode):
        return "a directory; list it with Glob, or with ls in Bash"
    if stat.S_ISFIFO(mode):
        return "a named pipe, not a file"
    return "a device or socket, not a file"


def _similar(path: Path) -> str:
    """Return a hint with names similar to the missing one."""
    try:
        with os.scandir(path.parent) as entries:
            names = sorted(entry.name for entry in islice(entries, MAX_LISTED_NAMES))
    except OSError:
        return f" The directory {path.parent} does not exist either."
    same_stem = [name for name in names if Path(name).stem == path.stem]
    close = difflib.get_close_matches(path.name, names, n=SIMILAR_NAMES)
    found = list(dict.fromkeys([*same_stem, *close]))[:SIMILAR_NAMES]
    return f" Similar names there: {', '.join(found)}." if found else ""
