"""Wakes a receiver that waits for messages: within the process, or between processes through FIFOs.

The FIFOs are in a folder beside the mailbox. A FIFO appears there only once it is open for reading, so one
without a reader belongs to a dead process, and the next sender deletes it.
"""

from __future__ import annotations

import asyncio
import errno
import os
import stat
import threading
import weakref
from collections.abc import Callable, Hashable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.errors import MailError
from nacre.layers.l7_mail.policy import MAIL, MailSettings
from nacre.store import disk

SIGNAL = b"\a"
CREATE_TRIES = 5
"""A try fails if another wakeup of the same mailbox removes the folder at the same moment."""
_DRAIN_BYTES = 65_536
"""The capacity of a FIFO."""
IN_USE = "another receiver uses this wakeup; take another one from the inbox"


class Wakeup(Protocol):
    """Notified when letters may have come; used by one waiter at a time."""

    async def wait(self, seconds: float | None = None) -> bool:
        """Wait until there may be a new letter; False after the time limit or when closed."""
        ...

    def close(self) -> None:
        """Stop waiting and release everything; a second call does nothing."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class MemoryWakeup:
    """A wakeup within the process, notified from any thread."""

    def __init__(self, *, on_close: Callable[[MemoryWakeup], None]) -> None:
        self._on_close = on_close
        self._lock = threading.Lock()
        self._was_notified = False
        self._is_closed = False
        self._waiter: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None

    async def wait(self, seconds: float | None = None) -> bool:
        """Wait for a notification."""
        event = asyncio.Event()
        with self._lock:
            if self._waiter is not None:
                raise MailError(IN_USE)
            self._waiter = (asyncio.get_running_loop(), event)
            if self._was_notified or self._is_closed:
                event.set()
        try:
            async with asyncio.timeout(seconds):
                await event.wait()
        except TimeoutError:
            return False
        finally:
            with self._lock:
                self._waiter = None
                was_notified = self._was_notified
                self._was_notified = False
        return was_notified

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    def notify(self) -> None:
        """Wake the waiter, now or at its next `wait`."""
        with self._lock:
            self._was_notified = True
            self._wake()

    def close(self) -> None:
        """Stop the waiter, now or at its next `wait`."""
        with self._lock:
            self._is_closed = True
            self._wake()
        self._on_close(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _wake(self) -> None:
        # The waiter removes its loop under the same lock, so the loop is still running here.
        if self._waiter is not None:
            loop, event = self._waiter
            loop.call_soon_threadsafe(event.set)


def notify(folder: Path) -> None:
    """Wake all receivers whose FIFOs are in a folder; errors are ignored, because the letter is stored."""
    try:
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return
    try:
        for name in os.listdir(opened):  # noqa: PTH208  # by descriptor, so that no link is followed
            if not name.startswith("."):
                _notify_one(opened, name)
    except OSError:
        pass
    finally:
        os.close(opened)


def _notify_one(folder: int, name: str) -> None:
    try:
        fifo = os.open(name, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    except OSError as error:
        if error.errno == errno.ENXIO:  # no reader: left by a dead process
            with suppress(OSError):
                os.unlink(name, dir_fd=folder)
        return
    try:
        # A full FIFO was signalled often enough; one that was closed meanwhile needs no signal.
        with suppress(OSError):
            if stat.S_ISFIFO(os.fstat(fifo).st_mode):
                os.write(fifo, SIGNAL)
    finally:
        os.close(fifo)


class FifoWakeup:
    """A wakeup through a FIFO; where the system has none, the mailbox is polled slowly."""

    def __init__(
        self,
        folder: Path,
        stamp: Callable[[], Hashable],
        *,
        settings: MailSettings = MAIL,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._stamp = stamp
        self._seen = stamp()
        self._poll_seconds = settings.slow_look_seconds
        self._clock = clock
        self._fifo = _create(folder, clock.new_id())
        self._remove = weakref.finalize(self, _delete, folder, self._fifo, os.getpid())
        self._listener: _FifoListener | None = None

    async def wait(self, seconds: float | None = None) -> bool:
        """Wait for a signal, or for a change that polling finds."""
        if self._listener is not None:
            raise MailError(IN_USE)
        until = None if seconds is None else self._clock.seconds() + seconds
        self._listener = listener = _FifoListener(self._fifo if self._remove.alive else None)
        try:
            while self._remove.alive:
                if self._has_changed():
                    return True
                left = self._poll_seconds if until is None else until - self._clock.seconds()
                if left <= 0:
                    return False
                await listener.within(min(left, self._poll_seconds))
        finally:
            listener.stop()
            self._listener = None
        return False

    def close(self) -> None:
        """Delete the FIFO and stop the waiter; called in the waiter's thread."""
        if self._listener is not None:
            self._listener.stop()
        self._remove()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _has_changed(self) -> bool:
        # Drain first: a signal that comes after the stamp was taken is then still there the next time.
        was_signalled = False
        if self._fifo is not None:
            with suppress(OSError):
                was_signalled = bool(os.read(self._fifo[0], _DRAIN_BYTES))
        before = self._seen
        self._seen = self._stamp()
        return was_signalled or before != self._seen


class _FifoListener:
    """Ends a wait when the FIFO is signalled."""

    def __init__(self, fifo: tuple[int, str] | None) -> None:
        self._event = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._fifo = fifo
        # Some event loops cannot watch descriptors; there, only polling is left.
        with suppress(NotImplementedError, OSError):
            if fifo is not None:
                self._loop.add_reader(fifo[0], self._event.set)

    async def within(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._event.wait()
        self._event.clear()

    def stop(self) -> None:
        """Stop listening, before the descriptor is closed."""
        self._event.set()
        with suppress(NotImplementedError, OSError):
            if self._fifo is not None:
                self._loop.remove_reader(self._fifo[0])
        self._fifo = None


def _create(folder: Path, name: str) -> tuple[int, str] | None:
    """Return the descriptor and name of a new FIFO in the folder, or None if that is not possible."""
    for _ in range(CREATE_TRIES):
        try:
            return _create_once(folder, name)
        except FileNotFoundError:
            continue  # the last wakeup to be closed deleted the folder
        except (OSError, AttributeError, NotImplementedError):
            break
    return None


def _create_once(folder: Path, name: str) -> tuple[int, str] | None:
    hidden = folder / f".{name}"
    disk.make_folder(folder)
    if folder.is_symlink():
        return None
    os.mkfifo(hidden, disk.FILE_MODE)
    try:
        # Also for writing: otherwise it would be readable, at its end, whenever there is no writer.
        fifo = os.open(hidden, os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            hidden.rename(folder / name)
        except OSError:
            os.close(fifo)
            raise
    except OSError:
        hidden.unlink(missing_ok=True)
        raise
    return fifo, name


def _delete(folder: Path, fifo: tuple[int, str] | None, owner: int) -> None:
    if fifo is None:
        return
    os.close(fifo[0])
    if os.getpid() == owner:  # a forked process must not delete the FIFO of its parent
        (folder / fifo[1]).unlink(missing_ok=True)
        with suppress(OSError):
            folder.rmdir()
