"""The lock on consolidating one memory directory: who is at it, and when it was last done (D2).

Its time is the last consolidation. Its lines: process, host, start of the process, the time before, and
whether it was finished. Who dies in between leaves all that is needed to put the old time back.
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

from filelock import FileLock, Timeout

from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.errors import StoreError
from nacre.process import is_alive, started
from nacre.store import disk

FILE = ".consolidate-lock"
STALE_SECONDS = 3_600.0
"""A dream takes half an hour at most; what is older was left behind, or sleeps with its machine."""
SETTLE_SECONDS = 0.05
"""Between writing and reading back: on a disk that two machines share, the slower write must have come in."""
DONE = "done"
HELD = "held"
_NONE = "-"
_PID = re.compile(r"[0-9]{1,10}")
_TIME = re.compile(r"-?[0-9]{1,19}")
"""What the system takes for a number and for a time: a body that says more was not written by anybody."""
_NS = 1_000_000_000
MAX_BYTES = 4_096


@dataclass(frozen=True, slots=True)
class Body:
    """What stands in the file."""

    pid: int
    host: str = ""
    start: str = ""
    previous: int | None = None
    """The time before, in nanoseconds; none: there was no file."""
    state: str = DONE
    """Other programs write the process alone: what they leave counts as finished once they are gone."""

    @classmethod
    def parse(cls, data: bytes) -> Body | None:
        lines = [line.strip() for line in data.decode(errors="replace").splitlines()]
        lines += [""] * (5 - len(lines))
        if not _PID.fullmatch(lines[0]):
            return None
        previous = int(lines[3]) if _TIME.fullmatch(lines[3]) else None
        return cls(int(lines[0]), lines[1], lines[2], previous, lines[4] or DONE)

    @property
    def data(self) -> bytes:
        before = _NONE if self.previous is None else str(self.previous)
        return "\n".join((str(self.pid), self.host, self.start, before, self.state, "")).encode()


class Held:
    """The lock while it is ours: `finish` after success, `give_back` after anything else."""

    def __init__(self, lock: Lock, body: Body, before: bytes | None) -> None:
        self._lock = lock
        self._body = body
        self._before = before

    @property
    def is_ours(self) -> bool:
        """Whether nobody took it for abandoned meanwhile; asked once more before anything is written."""
        found = self._lock.read()
        return found is not None and found[0] == self._body

    @property
    def last(self) -> datetime | None:
        """When memory was consolidated before."""
        return None if self._body.previous is None else _moment(self._body.previous)

    def finish(self) -> None:
        """Consolidated now."""
        with self._lock.alone():
            if self.is_ours:
                body = self._body
                self._lock.write(Body(body.pid, body.host, body.start, body.previous, DONE).data)

    def give_back(self) -> None:
        """As if nobody had begun: the next session tries again."""
        with self._lock.alone():
            if self.is_ours:
                self._lock.restore(self._body, self._before)


class Lock:
    """The lock file of one memory directory; `cache` holds what serialises the processes of this machine."""

    def __init__(self, directory: Path, cache: Path, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self.path = directory / FILE
        self._guard = cache / "dream.lock"
        self._clock = clock

    def last(self) -> datetime | None:
        """When memory was last consolidated: one stat."""
        try:
            return _moment(self.path.stat().st_mtime_ns)
        except (OSError, ValueError, OverflowError):
            return None

    def holder(self) -> Body | None:
        """Who is at it now, if anybody."""
        found = self.read()
        return found[0] if found is not None and self._is_held(*found) else None

    def recover(self) -> bool:
        """Put the old time back where whoever held the lock died in the middle; says whether that was so."""
        found = self.read()
        if found is None or found[0].state == DONE or self._is_held(*found):
            return False
        with self.alone():
            found = self.read()
            if found is None or found[0].state == DONE or self._is_held(*found):
                return False
            self.restore(found[0], None)
            return True

    def acquire(self) -> Held | None:
        """Ours from now on; none where another is at it."""
        try:
            with self.alone():
                return self._acquire()
        except _BusyError:
            return None

    def _acquire(self) -> Held | None:
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
        body = Body(os.getpid(), _host(), started(os.getpid()), previous, HELD)
        self.write(body.data)
        time.sleep(SETTLE_SECONDS)
        held = Held(self, body, before)
        return held if held.is_ours else None

    def read(self) -> tuple[Body, float] | None:
        """What stands in the file, and its age in seconds; none where there is no such file."""
        try:
            descriptor = disk.open_regular(self.path, os.O_RDONLY)
            with os.fdopen(descriptor, "rb") as source:
                data = source.read(MAX_BYTES)
                at = os.fstat(source.fileno()).st_mtime_ns
        except OSError:
            return None
        body = Body.parse(data)
        return None if body is None else (body, abs(self._clock.now().timestamp() - at / _NS))

    def write(self, data: bytes, at: int | None = None) -> None:
        """Put the file in place whole, with its time: now, unless another is given."""
        stamp = int(self._clock.now().timestamp() * _NS) if at is None else at
        try:
            disk.replace_file(self.path, data, temp_name=f"{FILE}.tmp")
            os.utime(self.path, ns=(stamp, stamp))
        except OSError as error:
            raise StoreError(disk.explain(error, self.path)) from error

    def restore(self, body: Body, before: bytes | None) -> None:
        """The file as it was before this body was written, or no file."""
        if body.previous is None:
            self.path.unlink(missing_ok=True)
            return
        done = Body(body.pid, body.host, body.start, None, DONE)
        self.write(done.data if before is None else before, body.previous)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """One process of this machine at a time changes the file; a killed one is no longer in the way."""
        disk.make_folder(self._guard.parent)
        guard = FileLock(self._guard, mode=disk.FILE_MODE, thread_local=False)
        try:
            guard.acquire(timeout=1.0)
        except Timeout:
            raise _BusyError(f"another process has held {self._guard} for over a second") from None
        try:
            yield
        finally:
            guard.release()

    def _is_held(self, body: Body, age: float) -> bool:
        if body.state == DONE and body.host:
            return False
        if age >= STALE_SECONDS:
            return False
        # Of another machine's processes nothing can be known: only time tells.
        if body.host and body.host != _host():
            return True
        return is_alive(body.pid, body.start)


class _BusyError(StoreError):
    """Somebody is taking the lock at this very moment."""


def _host() -> str:
    return socket.gethostname()


def _moment(ns: int) -> datetime:
    return datetime.fromtimestamp(ns / _NS, UTC)
