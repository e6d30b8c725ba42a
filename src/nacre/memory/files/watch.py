"""Files touched in a memory directory, as the kernel reports to a long-running process (Linux).

Without a watch each file must be checked before each write to find edits: 35 ms with 10,000 files. A watch
reports what was touched instead. If it lost events, all files are checked again.
"""

from __future__ import annotations

import os
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from nacre.memory.files.folder import TEAM

_EVENT = struct.Struct("iIII")
_READ_BYTES = 65_536
_MODIFY = 0x2
_ATTRIB = 0x4
_CLOSE_WRITE = 0x8
_MOVED_FROM = 0x40
_MOVED_TO = 0x80
_CREATE = 0x100
_DELETE = 0x200
_DELETE_SELF = 0x400
_MOVE_SELF = 0x800
_ONLY_FOLDER = 0x0100_0000
_NO_LINK = 0x0200_0000
_IS_FOLDER = 0x4000_0000
_LOST = 0x2000 | 0x4000 | 0x8000 | _DELETE_SELF | _MOVE_SELF
"""Unmounted, too many events, no longer watched, deleted, moved: earlier events are incomplete."""
_ASKED = (
    _MODIFY | _ATTRIB | _CLOSE_WRITE | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE
    | _DELETE_SELF | _MOVE_SELF | _ONLY_FOLDER | _NO_LINK
)  # fmt: skip


class Watch:
    """Held by a process as long as it works on a directory; used under the directory's lock only.

    All watches of a process share one descriptor: the kernel allows a user 128 of them.
    """

    def __init__(self, root: Path) -> None:
        self.commit = ""
        """The newest commit when nothing was pending; meaningless while `touched` is None."""
        self._root = root
        self._folders: dict[int, str] = {}
        self._arrived: set[str] = set()
        """Files touched since `touched` was last called: another watch may read their events."""
        self._pending: set[str] = set()
        self._is_complete = False
        self._is_settled = False

    def start(self) -> None:
        """Start to watch; the caller then checks all files and calls `settled`."""
        with _QUEUE.lock:
            self._stop()
            if not _QUEUE.is_open():
                return
            self._is_complete = True
            # The folders below the root that hold memories, each before its content.
            for path, folders, _ in os.walk(self._root):
                here = os.path.relpath(path, self._root)
                number = _QUEUE.add(self, os.fsencode(self._root / here))
                if number < 0:
                    self._stop()
                    return
                self._folders[number] = "" if here == "." else f"{here}/"
                hidden = {name for name in folders if name.startswith(".") or (here == "." and name == TEAM)}
                folders[:] = sorted(set(folders) - hidden)
            if not self._folders:
                self._stop()

    def touched(self) -> set[str] | None:
        """Return files touched since all was last settled; None if that is unknown."""
        with _QUEUE.lock:
            if not self._is_settled:
                return None
            _QUEUE.read()
            if not self._is_complete:
                self._stop()
                return None
            self._pending |= self._arrived
            self._arrived.clear()
            return set(self._pending)

    def settled(self, commit: str) -> None:
        """Record that every file that `touched` returned is what this commit has."""
        with _QUEUE.lock:
            self.commit = commit
            self._pending.clear()
            self._is_settled = self._is_complete

    def close(self) -> None:
        """Stop the watch; a second call does nothing."""
        with _QUEUE.lock:
            self._stop()

    def receive(self, number: int, mask: int, name: str) -> None:
        """Take an event of one of the folders; called with the queue's lock held."""
        folder = self._folders.get(number, "")
        # After a folder appears or disappears, all files must be checked.
        is_folder = mask & _IS_FOLDER and name and not name.startswith(".") and (folder or name != TEAM)
        if mask & _LOST or is_folder:
            self._is_complete = False
        elif name and not mask & _IS_FOLDER:
            self._arrived.add(folder + name)

    def _stop(self) -> None:
        for number in self._folders:
            _QUEUE.remove(self, number)
        self._folders.clear()
        self._arrived.clear()
        self._pending.clear()
        self._is_complete = False
        self._is_settled = False


class _EventQueue:
    """The descriptor from which all watches of this process get their events; closed after the last one."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._descriptor = -1
        self._owner = 0
        self._watches: dict[int, set[Watch]] = {}

    def is_open(self) -> bool:
        """Open the queue if needed; False where the system has none to give."""
        if self._descriptor >= 0 and self._owner != os.getpid():
            # A forked process would take events from its parent.
            self._give(-1, _LOST, "")
            self._close()
        if self._descriptor < 0 and (calls := _calls()) is not None:
            self._descriptor = calls.begin()
            self._owner = os.getpid()
        return self._descriptor >= 0

    def add(self, watch: Watch, path: bytes) -> int:
        """Watch a folder and return its number; negative if that failed."""
        calls = _calls()
        number = calls.add(self._descriptor, path, _ASKED) if calls else -1
        if number >= 0:
            self._watches.setdefault(number, set()).add(watch)
        return number

    def remove(self, watch: Watch, number: int) -> None:
        watches = self._watches.get(number, set())
        watches.discard(watch)
        calls = _calls()
        is_last = not watches and self._watches.pop(number, None) is not None
        if is_last and calls is not None and self._owner == os.getpid():
            calls.remove(self._descriptor, number)
        if not self._watches:
            self._close()

    def read(self) -> None:
        """Give each waiting event to the watches of its folder."""
        if self._owner != os.getpid():  # the events are the parent's
            self._give(-1, _LOST, "")
            return
        while True:
            try:
                data = os.read(self._descriptor, _READ_BYTES)
            except BlockingIOError:
                return
            except OSError:
                self._give(-1, _LOST, "")
                return
            at = 0
            while at < len(data):
                number, mask, _, length = _EVENT.unpack_from(data, at)
                name = os.fsdecode(data[at + _EVENT.size : at + _EVENT.size + length].rstrip(b"\0"))
                at += _EVENT.size + length
                self._give(number, mask, name)

    def _give(self, number: int, mask: int, name: str) -> None:
        # A lost event has no folder. One of a folder that is no longer watched is of no interest.
        everyone = {watch for watches in self._watches.values() for watch in watches}
        for watch in everyone if number < 0 else self._watches.get(number, set()):
            watch.receive(number, mask, name)

    def _close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = -1
        self._watches.clear()


_QUEUE = _EventQueue()


@dataclass(frozen=True, slots=True)
class _Calls:
    """The system calls of inotify."""

    begin: Callable[[], int]
    add: Callable[[int, bytes, int], int]
    remove: Callable[[int, int], int]


@cache
def _calls() -> _Calls | None:
    """Return the functions that create a queue, add and remove a folder; None on other systems."""
    import ctypes  # noqa: PLC0415 - a few milliseconds that only a process that stays needs

    try:
        library = ctypes.CDLL(None, use_errno=True)
        first = library.inotify_init1
        add = library.inotify_add_watch
        remove = library.inotify_rm_watch
    except (AttributeError, OSError, TypeError):
        return None
    add.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_uint32]
    return _Calls(lambda: int(first(os.O_NONBLOCK | os.O_CLOEXEC)), add, remove)
