"""One process at a time changes a small file of the home, so that no two lose what the other wrote."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from nacre.errors import StoreError
from nacre.store import disk
from nacre.store.lease import LEASE_FOLDER

WAIT_SECONDS = 10.0
"""Such a change takes milliseconds; whoever holds the lock for longer is stuck."""

POLL_SECONDS = 0.05
"""Between two tries; who shares a file with many that change it all the time tries more often."""


@contextmanager
def one_writer(path: Path, *, wait: float = WAIT_SECONDS, poll: float = POLL_SECONDS) -> Iterator[None]:
    """Hold the lock of a file while it is read, changed and written; makes its folder if need be."""
    folder = path.parent / LEASE_FOLDER
    # Each holder opens the file itself, so that threads of one process exclude each other as well.
    lock = FileLock(folder / f"{path.name}.lock", mode=disk.FILE_MODE, thread_local=False)
    try:
        disk.make_folder(folder)
        lock.acquire(timeout=wait, poll_interval=poll)
    except Timeout:
        raise StoreError(f"another process has held {path} for over {wait:g} s; try again later") from None
    except OSError as error:
        raise StoreError(disk.explain(error, path)) from error
    try:
        yield
    finally:
        lock.release()
