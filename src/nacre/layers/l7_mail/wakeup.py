"""A doorbell between processes: a FIFO for each who waits; who waits costs nothing, and a slow look backs it.

The FIFOs lie in a folder beside the box. One appears there only once it is open, so that one nobody reads
belongs to a process that died, and whoever rings takes it away.
"""

from __future__ import annotations

import asyncio
import errno
import os
import stat
import weakref
from collections.abc import Callable, Hashable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.errors import MailError
from nacre.layers.l7_mail.policy import MAIL, MailSettings
from nacre.store import disk

RING = b"\a"
HANGING_TRIES = 5
"""Each can be spoiled by another bell of the same box that is just being taken down."""
_DRAIN = 65_536
"""All that a FIFO holds."""


def ring(folder: Path) -> None:
    """Wake whoever waits; a bell that cannot be rung is nobody's failure, for the letter is safe."""
    try:
        bells = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return
    try:
        for name in os.listdir(bells):  # noqa: PTH208  # by descriptor, so that no link is followed
            if not name.startswith("."):
                _ring_one(bells, name)
    except OSError:
        pass
    finally:
        os.close(bells)


def _ring_one(folder: int, name: str) -> None:
    try:
        bell = os.open(name, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    except OSError as error:
        if error.errno == errno.ENXIO:
            with suppress(OSError):
                os.unlink(name, dir_fd=folder)
        return
    try:
        # A full FIFO was rung often enough; one that was closed meanwhile needs no ringing.
        with suppress(OSError):
            if stat.S_ISFIFO(os.fstat(bell).st_mode):
                os.write(bell, RING)
    finally:
        os.close(bell)


class DoorBell:
    """One bell; where the system has no FIFOs, only the slow look is left."""

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
        self._slow = settings.slow_look_seconds
        self._clock = clock
        self._fifo = _hung(folder, clock.new_id())
        self._take_down = weakref.finalize(self, _taken_down, folder, self._fifo, os.getpid())
        self._listening: _Listening | None = None

    async def rung(self, seconds: float | None = None) -> bool:
        """Wait for a ring, or for a change that a slow look finds."""
        if self._listening is not None:
            raise MailError("somebody waits at this bell already; take another one from the inbox")
        until = None if seconds is None else self._clock.seconds() + seconds
        self._listening = listening = _Listening(self._fifo if self._take_down.alive else None)
        try:
            while self._take_down.alive:
                if self._has_changed():
                    return True
                left = self._slow if until is None else until - self._clock.seconds()
                if left <= 0:
                    return False
                await listening.within(min(left, self._slow))
        finally:
            listening.stop()
            self._listening = None
        return False

    def close(self) -> None:
        """Take the bell down and let go whoever waits at it; to be called where that one waits."""
        if self._listening is not None:
            self._listening.stop()
        self._take_down()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _has_changed(self) -> bool:
        # Drain first: a ring that comes after the stamp was taken is then still there the next time.
        was_rung = self._fifo is not None and _drained(self._fifo[0])
        before = self._seen
        self._seen = self._stamp()
        return was_rung or before != self._seen


class _Listening:
    """While it lasts, a ring ends a wait."""

    def __init__(self, fifo: tuple[int, str] | None) -> None:
        self._event = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._fifo = fifo
        # Some loops cannot watch descriptors; the slow look has to do there.
        with suppress(NotImplementedError, OSError):
            if fifo is not None:
                self._loop.add_reader(fifo[0], self._event.set)

    async def within(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._event.wait()
        self._event.clear()

    def stop(self) -> None:
        """Listen no more, before the descriptor is closed."""
        self._event.set()
        with suppress(NotImplementedError, OSError):
            if self._fifo is not None:
                self._loop.remove_reader(self._fifo[0])
        self._fifo = None


def _hung(folder: Path, name: str) -> tuple[int, str] | None:
    """An open FIFO under its name in the folder, or none where that cannot be."""
    for _ in range(HANGING_TRIES):
        try:
            return _hung_once(folder, name)
        except FileNotFoundError:
            continue  # whoever closed the last bell took the folder away
        except (OSError, AttributeError, NotImplementedError):
            break
    return None


def _hung_once(folder: Path, name: str) -> tuple[int, str] | None:
    hidden = folder / f".{name}"
    disk.make_folder(folder)
    if folder.is_symlink():
        return None
    os.mkfifo(hidden, disk.FILE_MODE)
    try:
        # For writing as well: otherwise it would be at its end, and never silent, whenever nobody rings.
        bell = os.open(hidden, os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            hidden.rename(folder / name)
        except OSError:
            os.close(bell)
            raise
    except OSError:
        hidden.unlink(missing_ok=True)
        raise
    return bell, name


def _taken_down(folder: Path, fifo: tuple[int, str] | None, owner: int) -> None:
    if fifo is None:
        return
    os.close(fifo[0])
    if os.getpid() == owner:  # a fork's copy of the bell is not the fork's to take away
        (folder / fifo[1]).unlink(missing_ok=True)
        with suppress(OSError):
            folder.rmdir()


def _drained(bell: int) -> bool:
    try:
        return bool(os.read(bell, _DRAIN))
    except OSError:
        return False
