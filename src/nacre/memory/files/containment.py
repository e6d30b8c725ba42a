"""Check every path that is written below a memory directory: inside it, and not disguised (M6)."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote

from nacre.errors import OutsideStore
from nacre.store import disk

MAX_NAME_BYTES = 200
"""Below the 255 bytes of common file systems, with room for a temporary name."""
MAX_PATH_BYTES = 800
"""Topics are one or two folders deep; a longer path is a mistake or an attack."""
MAX_DECODINGS = 8
"""Percent-encoding nests (`%25252e`); a text that still changes after so many rounds is refused."""

_RESERVED_FILES = frozenset({"memory.md", "claude.md", "claude.local.md", "agents.md"})
"""The index, and names that would be read as instructions instead of as a memory."""
_RESERVED_FOLDERS = frozenset({"team", "logs"})
"""Shared and daily memory: written through their own functions, with rules of their own (M17, M18)."""
_DEVICE = re.compile(r"(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\..*)?", re.DOTALL)
"""Names that mean a device on Windows, where a team's memory may be checked out."""
_DRIVE = re.compile(r"[A-Za-z]:")
_WIDE_ESCAPE = re.compile(r"%u([0-9a-fA-F]{4})")
_LOOKALIKES = str.maketrans({
    **dict.fromkeys("\u2044\u2215\u29f8\u2571\u27cb", "/"),
    **dict.fromkeys("\u2216\u29f5\u29f9\u2572\u27cd", "\\"),
    **dict.fromkeys("\u3002\uff61\u06d4\u0701\u0702", "."),
})  # fmt: skip
"""Slashes, backslashes and dots that Unicode's own folding does not change."""
_TURNING = frozenset("\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
"""Characters that change the writing direction make one name look like another."""


def inside(root: Path, path: str | Path) -> Path:
    """Return the real file of a path below the root; `OutsideStore` for anything else, however disguised."""
    text = os.fspath(path)
    real_root = Path(os.path.realpath(root))
    if "\0" in text:
        raise _refusal(text, "it holds a NUL")
    relative = _below(real_root, text, root) if text.startswith("/") else re.sub(r"^(\./)+", "", text)
    if relative is None:
        raise _refusal(text, f"it is outside {root}")
    if reason := _objection(relative):
        raise _refusal(text, reason)
    try:
        steps = Path(relative).parts
        paths = [real_root.joinpath(*steps[:number]) for number in range(1, len(steps) + 1)]
        # The target of a dangling link could be created before the write.
        is_dangling = any(path.is_symlink() and not path.exists() for path in paths)
        resolved = None if is_dangling else _below(real_root, os.path.realpath(paths[-1]))
    except OSError as error:
        raise _refusal(text, disk.explain(error, relative)) from error
    if resolved is None:
        raise _refusal(text, "it passes a symlink that leaves the directory or points nowhere")
    if reason := _objection(resolved):
        raise _refusal(text, f"it is a symlink to {resolved!r}: {reason}")
    return real_root / resolved


def topic_inside(root: Path, path: str | Path) -> Path:
    """Return the real file of a topic: inside the root, Markdown, and not a reserved name."""
    found = inside(root, path)
    relative = found.relative_to(os.path.realpath(root)).as_posix()
    plain = _folded(relative)
    name = plain.rpartition("/")[2]
    if not found.name.endswith(".md") or name == ".md":
        raise _refusal(os.fspath(path), "a topic's name ends in .md")
    if name in _RESERVED_FILES or _DEVICE.fullmatch(name):
        raise _refusal(os.fspath(path), f"{found.name} is a reserved name")
    if "/" in plain and plain.partition("/")[0] in _RESERVED_FOLDERS:
        raise _refusal(os.fspath(path), f"{relative.partition('/')[0]}/ is written in its own way")
    return found


@contextmanager
def folder_inside(root: Path, path: str | Path, *, make: bool = False) -> Iterator[tuple[int, str]]:
    """Open the folder of a path; return it and the name in it; no link is followed.

    The folder is opened step by step from the root, so that a symlink planted after the check is refused, and
    operations by descriptor and name stay inside, whatever becomes of the path.
    """
    real_root = Path(os.path.realpath(root))
    *folders, name = inside(root, path).relative_to(real_root).parts
    descriptor = os.open(real_root, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        for folder in folders:
            below = _step(descriptor, folder, make=make)
            os.close(descriptor)
            descriptor = below
        yield descriptor, name
    finally:
        os.close(descriptor)


def open_inside(root: Path, path: str | Path, flags: int) -> int:
    """Open a regular file inside the root; with `O_CREAT` missing folders are created, too."""
    with folder_inside(root, path, make=bool(flags & os.O_CREAT)) as (folder, name):
        wanted = flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            descriptor = os.open(name, wanted, disk.FILE_MODE, dir_fd=folder)
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise _planted(name) from error
            if error.errno == errno.ENXIO:  # a socket, or a FIFO without a reader
                raise disk.NotRegularError(errno.EINVAL, "not a regular file", name) from error
            raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise disk.NotRegularError(errno.EINVAL, "not a regular file", os.fspath(path))
    return descriptor


def _refusal(text: str, reason: str) -> OutsideStore:
    return OutsideStore(f"{text!r} cannot be a memory file: {reason}; use a plain name such as deploys.md")


def _below(real_root: Path, text: str, *spellings: Path) -> str | None:
    """Return the part of an absolute path after the root; the root is matched by name or by identity.

    By identity, because a file system that ignores case has many names for one directory.
    """
    for start in (text, os.path.realpath(text)):
        for known in (real_root, *spellings):
            if start.startswith(f"{known}/"):
                return start.removeprefix(f"{known}/")
        for above in Path(start).parents:
            if disk.is_same_file(above, real_root):
                return start.removeprefix(f"{above}/")
    return None


def _objection(relative: str) -> str | None:
    """Why a relative path is refused, or nothing."""
    try:
        parts = [len(part.encode()) for part in relative.split("/")]
    except UnicodeEncodeError:
        return "it is not valid Unicode"
    if 0 in parts or relative.startswith("~") or _DRIVE.match(relative):
        return "it is empty, has an empty part, or names a home or a drive"
    if max(parts) > MAX_NAME_BYTES or sum(parts) > MAX_PATH_BYTES:
        return f"it is longer than {MAX_NAME_BYTES} bytes a part or {MAX_PATH_BYTES} in all"
    if any(unicodedata.category(sign) == "Cc" or sign in _TURNING for sign in relative):
        return "it holds a control character"
    plain = _folded(relative)
    if "\\" in plain or "\0" in plain or "%" in plain or plain.count("/") != relative.count("/"):
        return "it holds a backslash, an encoded separator or a look-alike of one"
    if any(part.strip().startswith(".") for part in plain.split("/")):
        return "a part of it is '.', '..' or hidden"
    return None


def _folded(text: str) -> str:
    """Return the text as the most careless reader could take it: decoded, look-alikes replaced, case ignored.

    What cannot be fully decoded keeps a `%` in front of a code, or becomes a lone `%`.
    """
    for _ in range(MAX_DECODINGS):
        before = text
        try:
            text = unquote(_WIDE_ESCAPE.sub(lambda found: chr(int(found[1], 16)), text), errors="strict")
        except UnicodeDecodeError:
            return "%"
        text = unicodedata.normalize("NFKC", text.translate(_LOOKALIKES)).casefold()
        text = "".join(sign for sign in text if unicodedata.category(sign) != "Cf")
        if text == before:
            return text.replace("%", "")  # what is left is a percent sign and nothing else
    return "%"


def _step(folder: int, name: str, *, make: bool) -> int:
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(name, flags, dir_fd=folder)
    except FileNotFoundError:
        if not make:
            raise
    except OSError as error:
        with contextlib.suppress(OSError):
            is_link = stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
            if error.errno in {errno.ELOOP, errno.ENOTDIR} and is_link:
                raise _planted(name) from error
        raise
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, disk.FOLDER_MODE, dir_fd=folder)
    return _step(folder, name, make=False)


def _planted(name: str) -> OutsideStore:
    return OutsideStore(f"{name!r} became a symlink while it was being opened; remove the link and try again")
