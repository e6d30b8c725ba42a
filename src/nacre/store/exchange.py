"""Renames that never destroy what they find: swap two names, or take a name only while it is free.

Python's `os` has neither. On Linux both are one system call; elsewhere, and on file systems that refuse it,
a hard link takes a free name and `is_swapped` says no, so that the caller does what it can.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_NO_REPLACE = 1
_EXCHANGE = 2
_UNSUPPORTED = frozenset({errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EPERM})
_AT_FDCWD = -100


@dataclass(frozen=True, slots=True)
class Name:
    """A name in a folder that is held open, so that nobody can put another folder in its place."""

    folder: int
    name: str


def is_swapped(one: Path | Name, other: Path | Name) -> bool:
    """Exchange what two names stand for, at once; False when this system cannot."""
    return _renamed(one, other, _EXCHANGE)


def take_free(source: Path | Name, target: Path | Name) -> None:
    """Rename, or raise `FileExistsError` when the target's name is taken."""
    if _renamed(source, target, _NO_REPLACE):
        return
    (from_folder, from_name), (to_folder, to_name) = _at(source), _at(target)
    # A link fails when the name is taken, which a plain rename does not.
    os.link(from_name, to_name, src_dir_fd=from_folder, dst_dir_fd=to_folder, follow_symlinks=False)
    os.unlink(from_name, dir_fd=from_folder)


def _renamed(source: Path | Name, target: Path | Name, flags: int) -> bool:
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


def _at(place: Path | Name) -> tuple[int | None, str]:
    return (place.folder, place.name) if isinstance(place, Name) else (None, str(place))


def _fd(folder: int | None) -> int:
    return _AT_FDCWD if folder is None else folder


@cache
def _renameat2() -> Callable[[int, bytes, int, bytes, int], int] | None:
    """The system call as a function that returns an error number or 0; none where there is none."""
    import ctypes  # noqa: PLC0415 - a few milliseconds that only a write needs

    try:
        function = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError, TypeError):
        return None
    function.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint]

    def call(from_folder: int, source: bytes, to_folder: int, target: bytes, flags: int) -> int:
        return ctypes.get_errno() if function(from_folder, source, to_folder, target, flags) else 0

    return call
