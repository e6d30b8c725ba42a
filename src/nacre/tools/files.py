"""Files as the tools see them: only regular ones, text in a known encoding, replaced whole or not at all."""

from __future__ import annotations

import codecs
import contextlib
import difflib
import errno
import io
import os
import re
import stat
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from nacre.clock import SYSTEM_CLOCK
from nacre.errors import ToolError

MAX_WHOLE_BYTES = 10 * 1024 * 1024
"""Files up to this size are held whole: read, compared and edited; larger ones are only streamed."""
SNIFF_BYTES = 8_192
"""A zero byte this early means the file is no text, as git decides it."""
SIMILAR_NAMES = 3
"""How many names a missing file's error suggests."""
MAX_LISTED_NAMES = 5_000
"""How many names of a directory are compared with a missing one; comparing is slow."""
NEW_FILE_MODE = 0o666
"""What a new file may be used for, before the user's umask takes its share."""

MAX_LINKS = 40
"""How many symbolic links a path may lead through, as for the Linux kernel."""

_MISSING = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG})
"""Errors that say that nothing has this name."""
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Encoding:
    """How a file's bytes are text; decoding and encoding again gives the same bytes."""

    name: str
    errors: str
    mark: bytes = b""
    """The byte order mark the file begins with."""


def resolve(path: Path) -> Path:
    """The real path that an absolute path leads to; names of missing files are kept as they are.

    `os.path.realpath` removes `..` from the text behind a loop of links or an unreadable directory. Here both
    raise `OSError`. So does a link in `/proc`, which may lead to another place in another process.
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
        target = _link_target(here)
        if target is None:
            found = here
            continue
        links += 1
        if links > MAX_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), here)
        if here.startswith("/proc/"):
            raise OSError(errno.ELOOP, "where a link in /proc leads depends on the process", here)
        found = "/" if target.startswith("/") else found
        waiting += [part for part in reversed(target.split("/")) if part not in {"", "."}]
    return Path(found)


def _link_target(path: str) -> str | None:
    """Where a symbolic link leads; None if the path is no link, or missing."""
    try:
        is_link = stat.S_ISLNK(os.lstat(path).st_mode)
    except OSError as error:
        if error.errno not in _MISSING:
            raise
        return None
    return os.readlink(path) if is_link else None  # noqa: PTH115


@contextlib.contextmanager
def hold_directory(path: Path, shown: str) -> Iterator[Path]:
    """Check that a directory is where its path says, and hold it open.

    Gives a path for the start of a process, which leads to this directory even if a link replaces it.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise ToolError(f"Cannot search {shown}: {_reason(error)}.") from None
    try:
        _check_place(handle, path, shown)
        held = Path(f"/proc/self/fd/{handle}")
        yield held if held.exists() else path
    finally:
        os.close(handle)


def open_regular(path: Path, shown: str) -> tuple[io.BufferedReader, os.stat_result]:
    """Open a file for reading without ever waiting for it; what is no regular file is refused in one line."""
    try:
        # Without waiting: opening a pipe would otherwise block until somebody writes into it.
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise ToolError(f"There is no file {shown}.{_similar(path)}") from None
    except OSError as error:
        raise ToolError(f"Cannot open {shown}: {_reason(error)}.") from None
    found = os.fstat(handle)
    if not stat.S_ISREG(found.st_mode):
        os.close(handle)
        raise ToolError(f"{shown} is {_kind(found.st_mode)}.")
    source = os.fdopen(handle, "rb")
    try:
        _check_place(handle, path, shown)
    except ToolError:
        source.close()
        raise
    return source, found


def read_whole(path: Path, shown: str) -> tuple[bytes, os.stat_result]:
    """A file's bytes, if it is small enough to be edited."""
    source, found = open_regular(path, shown)
    with source:
        content = source.read(MAX_WHOLE_BYTES + 1) or b""
    if len(content) > MAX_WHOLE_BYTES:
        raise ToolError(
            f"{shown} is larger than {MAX_WHOLE_BYTES:,} bytes; change it with a command in Bash."
        )
    return content, found


def sniff(beginning: bytes, shown: str) -> Encoding:
    """The encoding of a text that begins like this; what is no text is refused."""
    if beginning.startswith(codecs.BOM_UTF8):
        return Encoding("utf-8", "surrogateescape", codecs.BOM_UTF8)
    for name, mark in (("utf-16-le", codecs.BOM_UTF16_LE), ("utf-16-be", codecs.BOM_UTF16_BE)):
        if beginning.startswith(mark):
            return Encoding(name, "surrogatepass", mark)
    if b"\0" in beginning[:SNIFF_BYTES]:
        raise ToolError(f"{shown} is a binary file; look at it with a command in Bash, such as file or xxd.")
    # Bytes that are not UTF-8 travel as lone surrogates, so that an edit elsewhere in the file keeps them.
    return Encoding("utf-8", "surrogateescape")


def decode(content: bytes, shown: str) -> tuple[str, Encoding]:
    encoding = sniff(content[:SNIFF_BYTES], shown)
    try:
        return content[len(encoding.mark) :].decode(encoding.name, encoding.errors), encoding
    except UnicodeDecodeError:
        raise ToolError(f"{shown} is not valid {encoding.name} text.") from None


def printable(text: str) -> str:
    """Text a request can carry: what stands for a broken byte becomes the replacement character."""
    return text if text.isascii() else _LONE_SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text)


def replace_file(
    path: Path, content: bytes, *, before: os.stat_result | None, stop: threading.Event
) -> os.stat_result:
    """Write aside, flush to disk, rename; the file keeps its mode and owner.

    `path` must be real, not a link: renaming over a link would replace the link.
    """
    beside = f".nacre-{SYSTEM_CLOCK.new_id()}.tmp"
    try:
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise ToolError(f"Cannot write {path}: {_reason(error)}.") from None
    try:
        _check_place(folder, path.parent, str(path))
        written = _write_beside(folder, beside, content, before)
        if stop.is_set():
            raise ToolError(f"Stopped before {path} was replaced.")
        os.replace(beside, path.name, src_dir_fd=folder, dst_dir_fd=folder)
        # Without this the rename itself may be lost in a power cut; some file systems do not offer it.
        with contextlib.suppress(OSError):
            os.fsync(folder)
    except OSError as error:
        raise ToolError(f"Cannot write {path}: {_reason(error)}.") from None
    finally:
        with contextlib.suppress(OSError):
            os.unlink(beside, dir_fd=folder)
        os.close(folder)
    return written


def make_directory(directory: Path, shown: str) -> None:
    """Make the directory of a file that shall be created, with those above it."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ToolError(f"Cannot make the directory of {shown}: {_reason(error)}.") from None


def _write_beside(folder: int, name: str, content: bytes, before: os.stat_result | None) -> os.stat_result:
    handle = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, NEW_FILE_MODE, dir_fd=folder)
    with os.fdopen(handle, "wb") as target:
        if before is not None:
            _take_after(handle, before)
        target.write(content)
        target.flush()
        os.fsync(handle)
        return os.fstat(handle)


def _check_place(handle: int, path: Path, shown: str) -> None:
    """Refuse a file or directory that is not where its path says: a link was put in the way meanwhile."""
    try:
        place = Path(f"/proc/self/fd/{handle}").readlink()
    except OSError:
        return  # a system that does not tell; the path was real a moment ago
    if place != path and not str(place).endswith(" (deleted)"):
        raise ToolError(f"{shown} moved to {place} while it was being opened; try again.")


def _take_after(handle: int, before: os.stat_result) -> None:
    # Owner first: changing it clears the set-user bits, which the mode brings back. Only root may give away.
    with contextlib.suppress(PermissionError):
        os.fchown(handle, before.st_uid, before.st_gid)
    os.fchmod(handle, stat.S_IMODE(before.st_mode))


def _reason(error: OSError) -> str:
    return (error.strerror or type(error).__name__).lower()


def _kind(mode: int) -> str:
    if stat.S_ISDIR(mode):
        return "a directory; list it with Glob, or with ls in Bash"
    if stat.S_ISFIFO(mode):
        return "a named pipe, not a file"
    return "a device or socket, not a file"


def _similar(path: Path) -> str:
    """A hint at names like the one that was asked for."""
    try:
        with os.scandir(path.parent) as entries:
            names = sorted(entry.name for entry in islice(entries, MAX_LISTED_NAMES))
    except OSError:
        return f" The directory {path.parent} does not exist either."
    same_stem = [name for name in names if Path(name).stem == path.stem]
    close = difflib.get_close_matches(path.name, names, n=SIMILAR_NAMES)
    found = list(dict.fromkeys([*same_stem, *close]))[:SIMILAR_NAMES]
    return f" Similar names there: {', '.join(found)}." if found else ""
