"""Files touched in a memory directory, as the kernel reports to a long-running process (Linux).

Without a watch each file must be checked before each write to find edits: 35 ms with 10,000 files. A watch
reports what was touched instead. If it lost events, all files are checked again.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator
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
    """Held by a process as long as it works on a directory; used under the directory's lock only."""

    def __init__(self, root: Path) -> None:
        self.commit = ""
        """The newest commit when nothing was pending; meaningless while `touched` is None."""
        self._root = root
        self._descriptor = -1
        self._folders: dict[int, str] = {}
        self._pending: set[str] = set()
        self._is_settled = False

    def start(self) -> None:
        """Start to watch; the caller then checks all files and calls `settled`."""
        self.close()
        calls = _calls()
        if calls is None:
            return
        begin, add = calls
        self._descriptor = begin()
        if self._descriptor < 0:
            return
        are_added = all(self._is_added(add, folder) for folder in self._inner())
        if not are_added or not self._folders:
            self.close()

    def touched(self) -> set[str] | None:
        """Return files touched since all was last settled; None if that is unknown."""
        if not self._is_settled:
            return None
        while True:
            try:
                data = os.read(self._descriptor, _READ_BYTES)
            except BlockingIOError:
                return set(self._pending)
            except OSError:
                self.close()
                return None
            if not self._is_noted(data):
                self.close()
                return None

    def settled(self, commit: str) -> None:
        """Record that every touched file is what this commit has."""
        self.commit = commit
        self._pending.clear()
        self._is_settled = self._descriptor >= 0

    def close(self) -> None:
        """Stop the watch; a second call does nothing."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = -1
        self._folders.clear()
        self._pending.clear()
        self._is_settled = False

    def _inner(self) -> Iterator[str]:
        """Yield the folders below the root that hold memories, each before its content."""
        for path, folders, _ in os.walk(self._root):
            here = os.path.relpath(path, self._root)
            yield "" if here == "." else f"{here}/"
            hidden = {name for name in folders if name.startswith(".") or (here == "." and name == TEAM)}
            folders[:] = sorted(set(folders) - hidden)

    def _is_added(self, add: Callable[[int, bytes, int], int], folder: str) -> bool:
        number = add(self._descriptor, os.fsencode(self._root / folder), _ASKED)
        self._folders[number] = folder
        return number >= 0

    def _is_noted(self, data: bytes) -> bool:
        """Return whether the events are complete; after a folder appears or disappears, all files must be
        checked."""
        at = 0
        while at < len(data):
            number, mask, _, length = _EVENT.unpack_from(data, at)
            name = os.fsdecode(data[at + _EVENT.size : at + _EVENT.size + length].rstrip(b"\0"))
            at += _EVENT.size + length
            if mask & _LOST or number not in self._folders:
                return False
            if mask & _IS_FOLDER:
                if name and not name.startswith(".") and (self._folders[number] or name != TEAM):
                    return False
            elif name:
                self._pending.add(self._folders[number] + name)
        return True


@cache
def _calls() -> tuple[Callable[[], int], Callable[[int, bytes, int], int]] | None:
    """Return the functions that create a watch and add a folder; None on other systems."""
    import ctypes  # noqa: PLC0415 - a few milliseconds that only a process that stays needs

    try:
        library = ctypes.CDLL(None, use_errno=True)
        first = library.inotify_init1
        add = library.inotify_add_watch
    except (AttributeError, OSError, TypeError):
        return None
    add.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_uint32]
    return (lambda: int(first(os.O_NONBLOCK | os.O_CLOEXEC))), add
