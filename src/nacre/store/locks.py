"""A lock between processes for a small file of the home.

Uses the kernel's lock directly, because every command imports this.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nacre.clock import SYSTEM_CLOCK
from nacre.errors import StoreError
from nacre.store import disk

LOCK_FOLDER = "locks"
"""Outside the projects, so that other programs that scan logs never see a lock."""


WAIT_SECONDS = 10.0
"""Such a change takes milliseconds; a process that holds the lock for longer is stuck."""


POLL_SECONDS = 0.05
"""Seconds between two tries; callers that share a file with many frequent writers pass a smaller value."""


@contextmanager
def one_writer(path: Path, *, wait: float = WAIT_SECONDS, poll: float = POLL_SECONDS) -> Iterator[None]:
    """Hold the lock of a file while it is read, changed and written; create its folder if needed."""
    folder = path.parent / LOCK_FOLDER
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        disk.make_folder(folder)
        # Each holder opens the file itself, so that threads of one process exclude each other as well.
        descriptor = os.open(folder / f"{path.name}.lock", flags, disk.FILE_MODE)
    except OSError as error:
        raise StoreError(disk.explain(error, path)) from error
    try:
        until = SYSTEM_CLOCK.seconds() + wait
        while not _is_locked(descriptor, path):
            if SYSTEM_CLOCK.seconds() >= until:
                raise StoreError(f"another process has held {path} for over {wait:g} s; try again later")
            time.sleep(poll)
        yield
    finally:
        os.close(descriptor)  # gives the lock up


def _is_locked(descriptor: int, path: Path) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        raise StoreError(disk.explain(error, path)) from error
    return True
