"""Locks between processes on files of the home.

A lock is the kernel's `flock`. Some network file systems grant it to two machines at once: a lock that guards
a change therefore also creates a link `.held` beside itself, which only one process can create. Its text
names the holder, so that the link of a killed process is replaced and that of another machine is respected.

Uses no library, because every command imports this.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import TracebackType

from nacre.clock import SYSTEM_CLOCK
from nacre.errors import StoreError
from nacre.store import disk

LOCK_FOLDER = "locks"
"""Outside the projects, so that other programs that scan logs never see a lock."""


WAIT_SECONDS = 10.0
"""Such a change takes milliseconds; a process that holds the lock for longer is stuck."""


POLL_SECONDS = 0.05
"""Seconds between two tries; callers that share a file with many frequent writers pass a smaller value."""
HELD = ".held"
"""Suffix of the link that names the holder of a lock; its text is created with it, unlike that of a file."""
FOREIGN_SECONDS = 300.0
"""Age from which the link of another machine counts as left behind; a change takes milliseconds."""
_NO_LINKS = frozenset({errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EPERM})
"""Errors of file systems without symbolic links; there the kernel's lock must do."""


_UNKNOWN = "-"


class Timeout(TimeoutError):  # noqa: N818 - named as in the libraries for locks
    """Raised when another process holds the lock."""


@dataclass(frozen=True, slots=True)
class LockOwner:
    """A process of a machine, and the lock object in it."""

    host: str
    pid: int
    start: str
    """Of the process, with the start of the machine."""
    token: str

    @classmethod
    def here(cls, token: str) -> LockOwner:
        return cls(socket.gethostname(), os.getpid(), _start(os.getpid()), token)

    @classmethod
    def at(cls, path: Path) -> LockOwner | None:
        """Return the holder that a link names; None if it cannot be read."""
        try:
            return cls.parse(os.readlink(path))  # noqa: PTH115 - the text is no path
        except OSError:
            return None

    @classmethod
    def parse(cls, text: str) -> LockOwner | None:
        """Return the holder from its `text`; None for another text."""
        try:
            pid, start, token, host = text.split(" ", 3)
            return cls(host, int(pid), start, token)
        except ValueError:
            return None

    @classmethod
    def claim(cls) -> LockOwner:
        """Return a new holder of this process, which counts as alive until `disclaim`."""
        token = SYSTEM_CLOCK.new_id()[:8]
        _TOKENS.add(token)
        return cls.here(token)

    def disclaim(self) -> None:
        _TOKENS.discard(self.token)

    @property
    def text(self) -> str:
        return f"{self.pid} {self.start} {self.token} {self.host}"

    def is_gone(self) -> bool | None:
        """Return whether the holder is gone; None if another machine would have to be asked."""
        boot = _start(os.getpid()).partition(":")[0]
        if self.host != socket.gethostname() or self.start.partition(":")[0] != boot:
            return None
        if self.pid == os.getpid():
            return self.token not in _TOKENS
        from nacre.process import is_alive  # noqa: PLC0415 - a hook must start quickly, and rarely finds a link

        return not is_alive(self.pid, self.start.removeprefix(_UNKNOWN))


@cache
def _start(pid: int) -> str:
    from nacre.process import start_time  # noqa: PLC0415 - as above

    return start_time(pid) or _UNKNOWN


_TOKENS: set[str] = set()
"""Of the locks that this process holds: a link with another token was left by a failed deletion."""


class FileLock:
    """A lock on a file that is created for it; each object is its own holder, also within one process."""

    def __init__(
        self,
        path: str | Path,
        *,
        timeout: float = -1,
        mode: int = disk.FILE_MODE,
        foreign_seconds: float | None = None,
    ) -> None:
        """With `foreign_seconds` the lock also excludes other machines, whose links count until this age."""
        self.lock_file = str(path)
        self._timeout = timeout
        self._mode = mode
        self._held = Path(f"{path}{HELD}")
        self._foreign_seconds = foreign_seconds
        self._token = ""
        self._descriptor = -1

    @property
    def is_locked(self) -> bool:
        return self._descriptor >= 0

    def acquire(self, timeout: float | None = None, poll_interval: float = POLL_SECONDS) -> FileLock:
        """Wait for the lock, for ever if the time is negative; `Timeout` if another process holds it.

        Raises `OSError` where the file system has no locks.
        """
        seconds = self._timeout if timeout is None else timeout
        until = SYSTEM_CLOCK.seconds() + seconds
        while not self._is_taken():
            if seconds >= 0 and SYSTEM_CLOCK.seconds() >= until:
                raise Timeout(f"another process holds {self.lock_file}")
            time.sleep(poll_interval)
        return self

    def release(self) -> None:
        """Give the lock up; a second call does nothing."""
        if self._descriptor < 0:
            return
        _TOKENS.discard(self._token)
        with contextlib.suppress(OSError):
            # Another machine may have replaced it if this process was suspended for long.
            if self._token and LockOwner.at(self._held) == LockOwner.here(self._token):
                self._held.unlink()
        os.close(self._descriptor)
        self._descriptor = -1

    def __enter__(self) -> FileLock:
        if self._descriptor < 0:
            self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def _is_taken(self) -> bool:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        # Each holder opens the file itself, so that threads of one process exclude each other as well.
        descriptor = os.open(self.lock_file, flags, self._mode)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # A name that was deleted meanwhile excludes no other process.
            is_ours = os.fstat(descriptor).st_nlink > 0 and self._is_claimed()
        except BlockingIOError:
            is_ours = False
        except BaseException:
            os.close(descriptor)
            raise
        if is_ours:
            self._descriptor = descriptor
        else:
            os.close(descriptor)
        return is_ours

    def _is_claimed(self) -> bool:
        """Create the link that names this holder, unless another may still hold the lock."""
        if self._foreign_seconds is None:
            return True
        token = SYSTEM_CLOCK.new_id()[:8]
        for _ in range(2):
            try:
                self._held.symlink_to(LockOwner.here(token).text)
            except FileExistsError:
                owner = LockOwner.at(self._held)
                if not self._is_abandoned(owner, self._foreign_seconds):
                    return False
                if LockOwner.at(self._held) == owner:
                    self._held.unlink(missing_ok=True)
                continue
            except OSError as error:
                if error.errno not in _NO_LINKS:
                    raise
            else:
                self._token = token
                _TOKENS.add(token)
            return True
        return False

    def _is_abandoned(self, owner: LockOwner | None, foreign_seconds: float) -> bool:
        is_gone = None if owner is None else owner.is_gone()
        if is_gone is not None:
            return is_gone
        if not disk.is_shared(self._held.parent):
            # No other machine is there: this one was restarted or renamed, and the kernel's lock is free.
            return True
        try:
            written = os.lstat(self._held).st_mtime
            # By the clock of the file system, not of this machine.
            os.utime(self.lock_file)
            return abs(Path(self.lock_file).stat().st_mtime - written) >= foreign_seconds
        except FileNotFoundError:
            return True


@contextmanager
def one_writer(path: Path, *, wait: float = WAIT_SECONDS, poll: float = POLL_SECONDS) -> Iterator[None]:
    """Hold the lock of a file while it is read, changed and written; create its folder if needed."""
    folder = path.parent / LOCK_FOLDER
    lock = FileLock(folder / f"{path.name}.lock", foreign_seconds=FOREIGN_SECONDS)
    try:
        disk.make_folder(folder)
        lock.acquire(timeout=wait, poll_interval=poll)
    except Timeout as error:
        raise StoreError(f"another process has held {path} for over {wait:g} s; try again later") from error
    except OSError as error:
        raise StoreError(disk.explain(error, path)) from error
    try:
        yield
    finally:
        lock.release()
