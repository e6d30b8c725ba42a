"""Change some lines of a file that others may read: all of it at once, or nothing (M14b, T8).

Whoever calls holds the session's lease. The file that is there is never written to; a copy takes its place.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import BinaryIO

from nacre.errors import StoreError
from nacre.store import disk

ASIDE = ".{name}.rewriting"
"""Where the copy is made; begins with a dot and ends in no known way, so that no listing shows it."""


class ChangedMeanwhileError(StoreError):
    """Somebody wrote to the file while it was being copied; it is as they left it."""


def rewrite(path: Path, change: Callable[[BinaryIO], Iterable[tuple[bytes, bytes]]]) -> bool:
    """Put a file in place whose pieces are changed: `change` yields each piece as it was and as it shall be.

    Says whether anything differed; if not, the file stays the one it was. Its mode and the time it was last
    written stay, so that listings keep their order.
    """
    aside = path.with_name(ASIDE.format(name=path.name))
    with os.fdopen(disk.open_regular(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as source:
        found = os.fstat(source.fileno())
        try:
            differs = False
            with os.fdopen(_opened(aside, stat.S_IMODE(found.st_mode)), "wb") as target:
                for old, new in change(source):
                    differs |= new != old
                    target.write(new)
                target.flush()
                if differs:
                    os.fsync(target.fileno())
            if not differs:
                return False
            os.utime(aside, ns=(found.st_atime_ns, found.st_mtime_ns))
            if _mark(path.lstat()) != _mark(found):
                raise ChangedMeanwhileError(
                    f"{path} was written to meanwhile; close what uses it, then retry"
                )
            aside.replace(path)
            disk.sync_folder(path.parent)
        finally:
            aside.unlink(missing_ok=True)
    return True


def _opened(aside: Path, mode: int) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(aside, flags, disk.FILE_MODE)
    os.fchmod(descriptor, mode)
    return descriptor


def _mark(found: os.stat_result) -> tuple[int, int, int, int]:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
