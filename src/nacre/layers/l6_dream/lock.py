"""The lock file of a memory directory: which process consolidates it, and when that was last done (D2).

The modification time of the file is the last consolidation. Its lines are: process, host, start of the
process, the time before, `held` or `done`, and a random token of the lease. If a process dies, the time
before can be restored from it.
"""

from __future__ import annotations

import os
import re
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.errors import StoreError
from nacre.process import is_alive, start_time
from nacre.store import disk
from nacre.store.locks import FileLock, Timeout

FILE = ".consolidate-lock"
STALE_SECONDS = 3_600.0
"""A dream takes half an hour at most; an older lock whose process cannot be checked was left behind."""
SETTLE_SECONDS = 0.05
"""Delay between writing and reading back, so that a concurrent write from another machine is seen."""
DONE = "done"
HELD = "held"
_NONE = "-"
_PID = re.compile(r"[0-9]{1,10}")
_TIME = re.compile(r"-?[0-9]{1,19}")
"""Limits of process ids and times; a file that exceeds them is invalid."""
_NS = 1_000_000_000
MAX_BYTES = 4_096


@dataclass(frozen=True, slots=True)
class LockHolder:
    """The content of the lock file."""

    pid: int
    host: str = ""
    start: str = ""
    previous: int | None = None
    """The time before, in nanoseconds; None: there was no file."""
    state: str = DONE
    """Other programs write only the process; without a state the lock is released when that has ended."""
    token: str = ""
    """Distinguishes two dreams of one process: after a jump of the clock, the second may take the lock."""

    @classmethod
    def parse(cls, data: bytes) -> LockHolder | None:
        lines = [line.strip() for line in data.decode(errors="replace").splitlines()]
        lines += [""] * (6 - len(lines))
        if not _PID.fullmatch(lines[0]):
            return None
        previous = int(lines[3]) if _TIME.fullmatch(lines[3]) else None
        return cls(int(lines[0]), lines[1], lines[2], previous, lines[4] or DONE, lines[5])

    @property
    def data(self) -> bytes:
        before = _NONE if self.previous is None else str(self.previous)
        said = [str(self.pid), self.host, self.start, before, self.state]
        return "\n".join([*said, *([self.token] if self.token else []), ""]).encode()


class DreamLease:
    """The lock while this process holds it: `finish` after success, `give_back` otherwise."""

    def __init__(self, lock: DreamLock, holder: LockHolder, before: bytes | None) -> None:
        self._lock = lock
        self._holder = holder
        self._before = before

    @property
    def is_ours(self) -> bool:
        """Whether this process still holds the lock; checked again before anything is written."""
        found = self._lock.read()
        return found is not None and found[0] == self._holder

    @property
    def last(self) -> datetime | None:
        """The time of the previous consolidation."""
        return None if self._holder.previous is None else _moment(self._holder.previous)

    def finish(self) -> None:
        """Release the lock and record the time of this consolidation."""
        with self._lock.alone():
            if self.is_ours:
                holder = self._holder
                self._lock.write(
                    LockHolder(holder.pid, holder.host, holder.start, holder.previous, DONE).data
                )

    def give_back(self) -> None:
        """Release the lock and restore the previous time, so that the next session tries again."""
        with self._lock.alone():
            if self.is_ours:
                self._lock.restore(self._holder, self._before)


class DreamLock:
    """The lock file of one memory directory; a file in `cache` serialises the processes of this machine."""

    def __init__(self, directory: Path, cache: Path, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self.path = directory / FILE
        self._guard = cache / "dream.lock"
        self._clock = clock

    def last(self) -> datetime | None:
        """Return the time of the last consolidation, also while one is running; costs one stat."""
        try:
            return _moment(self.path.stat().st_mtime_ns)
        except (OSError, ValueError, OverflowError):
            return None

    def last_finished(self) -> datetime | None:
        """Return the time of the last consolidation that has ended."""
        found = self.read()
        if found is None or found[0].state == DONE:
            return self.last()
        return None if found[0].previous is None else _moment(found[0].previous)

    def holder(self) -> LockHolder | None:
        """Return the current holder, or None."""
        found = self.read()
        return found[0] if found is not None and self._is_held(*found) else None

    def recover(self) -> bool:
        """Release the lock of a dead process and restore the previous time; True if there was one."""
        found = self.read()
        if found is None or found[0].state == DONE or self._is_held(*found):
            return False
        with self.alone():
            found = self.read()
            if found is None or found[0].state == DONE or self._is_held(*found):
                return False
            self.restore(found[0], None)
            return True

    def acquire(self) -> DreamLease | None:
        """Take the lock; None if another process holds it."""
        try:
            with self.alone():
                return self._take()
        except _BusyError:
            return None

    def _take(self) -> DreamLease | None:
        found = self.read()
        if found is not None and self._is_held(*found):
            return None
        if found is not None and found[0].state != DONE:
            self.restore(found[0], None)
        try:
            before: bytes | None = self.path.read_bytes()[:MAX_BYTES]
            previous: int | None = self.path.stat().st_mtime_ns
        except OSError:
            before = previous = None
        start = start_time(os.getpid())
        token = SYSTEM_CLOCK.new_id()[:8]
        holder = LockHolder(os.getpid(), socket.gethostname(), start, previous, HELD, token)
        self.write(holder.data)
        time.sleep(SETTLE_SECONDS)
        lease = DreamLease(self, holder, before)
        return lease if lease.is_ours else None

    def read(self) -> tuple[LockHolder, float] | None:
        """Return the content of the file and its age in seconds; None if there is no valid file."""
        try:
            descriptor = disk.open_regular(self.path, os.O_RDONLY)
            with os.fdopen(descriptor, "rb") as source:
                data = source.read(MAX_BYTES)
                at = os.fstat(source.fileno()).st_mtime_ns
        except OSError:
            return None
        holder = LockHolder.parse(data)
        return None if holder is None else (holder, abs(self._clock.now().timestamp() - at / _NS))

    def write(self, data: bytes, at: int | None = None) -> None:
        """Replace the file and set its time: now, unless another is given."""
        stamp = int(self._clock.now().timestamp() * _NS) if at is None else at
        try:
            disk.replace_file(self.path, data, temp_name=f"{FILE}.tmp", time_ns=stamp)
        except OSError as error:
            raise StoreError(disk.explain(error, self.path)) from error

    def restore(self, holder: LockHolder, before: bytes | None) -> None:
        """Restore the file as it was before this holder, or delete it."""
        if holder.previous is None:
            try:
                self.path.unlink(missing_ok=True)
            except OSError as error:
                raise StoreError(disk.explain(error, self.path)) from error
            return
        done = LockHolder(holder.pid, holder.host, holder.start, None, DONE)
        self.write(done.data if before is None else before, holder.previous)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Allow one process of this machine at a time to change the file."""
        guard = FileLock(self._guard)
        try:
            disk.make_folder(self._guard.parent)
            guard.acquire(timeout=1.0)
        except Timeout:
            raise _BusyError(f"another process has held {self._guard} for over a second") from None
        except OSError as error:
            raise StoreError(disk.explain(error, self._guard)) from error
        try:
            yield
        finally:
            guard.release()

    def _is_held(self, holder: LockHolder, age: float) -> bool:
        if holder.state == DONE and holder.host:
            return False
        # Processes of another machine cannot be checked: only the age counts.
        if holder.host and holder.host != socket.gethostname():
            return age < STALE_SECONDS
        # Without its start time, a process may be a later one with the same number.
        is_certain = bool(holder.host and holder.start)
        return is_alive(holder.pid, holder.start) and (is_certain or age < STALE_SECONDS)


class _BusyError(StoreError):
    """Raised when another process is changing the lock file."""


def _moment(ns: int) -> datetime:
    return datetime.fromtimestamp(ns / _NS, UTC)
