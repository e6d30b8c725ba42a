"""The lease on a session: one process at a time, released by the kernel when that process dies (T8b)."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import socket
from pathlib import Path

from nacre.errors import SessionBusy, TranscriptError
from nacre.store import disk
from nacre.store.locks import LOCK_FOLDER, FileLock, Timeout


class Lease:
    """Held from `take` until `release`, or until the process ends in any way."""

    def __init__(self, lock: FileLock, holder: Path) -> None:
        self._lock = lock
        self._holder = holder

    def release(self) -> None:
        """Release the session; a second call does nothing."""
        if self._lock.is_locked:
            # A note that stays only names a process that is gone; the next holder replaces it.
            with contextlib.suppress(OSError):
                self._holder.unlink(missing_ok=True)
            self._lock.release()

    def drop(self) -> None:
        """Release a session that is gone for good, and remove the files of its lease."""
        if self._lock.is_locked:
            # No process waits for it: a session is looked up before its lease is taken.
            with contextlib.suppress(OSError):
                Path(self._lock.lock_file).unlink(missing_ok=True)
            self.release()


def take(home: Path, log: Path) -> Lease:
    """Take the lease on a log, or raise `SessionBusy` that names its holder."""
    folder = home / LOCK_FOLDER
    name = _name(log)
    holder = folder / f"{name}.holder"
    try:
        disk.make_folder(folder)
        # A session may be open on another machine for any time.
        lock = FileLock(folder / f"{name}.lock", foreign_seconds=math.inf)
        lock.acquire(timeout=0)
    except Timeout:
        process = "another process"
        with contextlib.suppress(OSError, ValueError, RecursionError, KeyError, TypeError):
            note = json.loads(holder.read_bytes())
            process = f"process {int(note['pid'])} on {note['host']}"
        raise SessionBusy(
            f"session {log.stem} is open in {process}; close it there, or continue as a branch"
        ) from None
    except OSError as error:
        raise TranscriptError(disk.explain(error, folder)) from error
    # The note is only for the message above: losing it must not cost the session.
    with contextlib.suppress(OSError):
        body = json.dumps({"pid": os.getpid(), "host": socket.gethostname()}).encode()
        disk.replace_file(holder, body, temp_name=f".{name}.tmp", sync=False)
    return Lease(lock, holder)


def was_taken(home: Path, log: Path) -> bool:
    """Return whether nacre ever worked on this log, which another program may have written."""
    return (home / LOCK_FOLDER / f"{_name(log)}.lock").exists()


def _name(log: Path) -> str:
    # The same id may occur in two project folders, so the path is part of the name.
    return f"{log.stem}-{hashlib.blake2b(os.fsencode(os.path.realpath(log)), digest_size=4).hexdigest()}"
