"""Where a session's tools work: the working directory, what was read in which version, what runs behind."""

from __future__ import annotations

import asyncio
import hashlib
import os
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias, TypeVar

from nacre.errors import ToolError
from nacre.process import end_group, group_is_alive
from nacre.tools.files import make_directory, replace_file, resolve

T = TypeVar("T")
Writer: TypeAlias = Callable[[Path, bytes], Awaitable[None]]
"""Writes a file of a directory it owns; a `ToolError` refuses."""


@dataclass(frozen=True, slots=True)
class Version:
    """Which state of a file the model has seen."""

    mtime_ns: int
    size: int
    digest: str | None
    """None for a file too large to be held whole, which Edit and Write therefore refuse."""


@dataclass(frozen=True, slots=True)
class Copies:
    """Stand for the files of some directories: who works on them changes nothing there (E5)."""

    root: Path
    of: Callable[[Path], Path]
    """The file that is worked on instead of this one; a path of no such directory stands for itself."""
    behind: Callable[[Path], Path]
    """The other way round: the file that a copy stands for, which is what rules speak of."""
    make: Callable[[Path], None]
    """Lays a copy out, if this is one and it is not there yet; only for a call that was allowed."""
    write: Writer


_judged: ContextVar[Path | None] = ContextVar("judged", default=None)
"""The real file a guard allowed the present call to touch."""


@contextmanager
def expecting(path: Path | None) -> Iterator[None]:
    """Hold a call to the file that was judged: a tool that finds another one is refused."""
    token = _judged.set(path)
    try:
        yield
    finally:
        _judged.reset(token)


class UnresolvedPathError(ToolError):
    """The file system could not say where a path leads; the next look may succeed."""


class Workspace:
    """Mutable, and owned by one session."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self.cwd = self.root
        self._seen: dict[Path, Version] = {}
        self._groups: set[int] = set()
        self.owned: dict[Path, Writer] = {}
        """Directories whose files somebody else writes: memory, for one, which keeps an index and history."""
        self.copies: Copies | None = None
        self.before_change: Callable[[Path], Awaitable[None]] = _nothing
        """Called with the real file before a tool changes it; raising stops the change."""

    def locate(self, file_path: str) -> Path:
        """The file to work on, as it was allowed; a copy is there from now on."""
        path = self.aim(file_path)
        if (judged := _judged.get()) is not None and judged != path:
            raise ToolError(f"{file_path} led to {judged} when it was allowed and leads to {path} now.")
        if self.copies is not None:
            self.copies.make(path)
        return path

    def aim(self, file_path: str) -> Path:
        """The real file a path means, links followed; relative paths start at the working directory."""
        if not file_path or "\0" in file_path:
            raise ToolError("The path is empty or holds a zero byte; give the path of a file.")
        try:
            path = resolve(self.cwd / os.path.expanduser(file_path))  # noqa: PTH111  # no error on an unknown ~user
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            raise UnresolvedPathError(f"The path {file_path} cannot be resolved: {why}.") from None
        except ValueError as error:
            raise ToolError(f"Cannot use the path {file_path}: {error}.") from None
        return self.copies.of(path) if self.copies else path

    def behind(self, path: Path) -> Path:
        """The file that is meant by a path, where that is a copy."""
        return self.copies.behind(path) if self.copies else path

    def shown(self, path: Path) -> str:
        """The path as briefly as it can be said from the working directory."""
        return str(path.relative_to(self.cwd)) if path.is_relative_to(self.cwd) else str(path)

    def saw(self, path: Path, version: Version) -> None:
        """Remember that the model knows this version of the file."""
        self._seen.pop(path, None)  # so that the newest stands last
        self._seen[path] = version

    def seen(self, path: Path) -> Version | None:
        """The version of a file that the model knows; none if it has not read it."""
        return self._seen.get(path)

    def recently_seen(self) -> list[Path]:
        """Files the model has read or written, newest first."""
        return list(reversed(self._seen))

    def forget(self, paths: Iterable[Path]) -> None:
        """The model no longer sees what it knew of these files: they must be read again before a change."""
        for path in paths:
            self._seen.pop(path, None)

    def clone(self) -> Workspace:
        """The same knowledge for a fork; what one of the two learns later the other does not know."""
        twin = Workspace(self.root)
        twin.cwd = self.cwd
        twin._seen = dict(self._seen)
        return twin

    def keep_running(self, group: int) -> None:
        """Take on a process group that a command left in the background on purpose."""
        self._groups = {known for known in self._groups if group_is_alive(known)} | {group}

    async def close(self) -> None:
        """End what commands left running in the background."""
        groups = self._groups
        self._groups = set()
        await asyncio.gather(*(end_group(group) for group in groups if group_is_alive(group)))


async def put(workspace: Workspace, path: Path, content: bytes, *, before: os.stat_result | None) -> Version:
    """Give a file its new content: through the owner of its directory, or by replacing it whole."""
    owners = workspace.owned
    if workspace.copies is not None:
        owners = {workspace.copies.root: workspace.copies.write, **owners}
    owner = next((write for root, write in owners.items() if path.is_relative_to(root)), None)
    if owner is not None:
        await owner(path, content)
        return version_of(content, await in_thread(lambda _: path.stat()))
    return await in_thread(lambda stop: _replace(path, content, before, stop, workspace.shown(path)))


def _replace(
    path: Path, content: bytes, before: os.stat_result | None, stop: threading.Event, shown: str
) -> Version:
    if before is None:
        make_directory(path.parent, shown)
    return version_of(content, replace_file(path, content, before=before, stop=stop))


async def _nothing(path: Path) -> None:
    return None


def check_seen(seen: Version | None, content: bytes, shown: str) -> None:
    """Refuse to change what the model has not read, or what somebody changed since."""
    if seen is None:
        raise ToolError(f"Read {shown} before changing it.")
    if seen.digest is None:
        raise ToolError(f"{shown} was too large to be read whole; change it with a command in Bash.")
    if hashlib.sha256(content).hexdigest() != seen.digest:
        raise ToolError(f"{shown} has changed since it was read; read it again.")


def version_of(content: bytes, stat: os.stat_result) -> Version:
    return Version(stat.st_mtime_ns, len(content), hashlib.sha256(content).hexdigest())


async def in_thread(work: Callable[[threading.Event], T]) -> T:
    """Run blocking work aside; when cancelled, it is told to stop and awaited: nothing changes afterwards."""
    stop = threading.Event()
    running = asyncio.ensure_future(asyncio.to_thread(work, stop))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        stop.set()
        await asyncio.wait({running})
        if not running.cancelled():
            running.exception()  # looked at, so that nobody warns about it: the caller is gone
        raise
