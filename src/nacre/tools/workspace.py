"""The state of a session's tools: working directory, files that were read, background processes."""

from __future__ import annotations

import asyncio
import hashlib
import os
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias, TypeVar

from nacre.errors import ToolError
from nacre.process import end_group, group_is_alive
from nacre.tools.files import replace_file, resolve
from nacre.tools.output import OpenOutput
from nacre.tools.shown_lines import ShownLines, covers, join, within, written

T = TypeVar("T")
Writer: TypeAlias = Callable[[Path, bytes], Awaitable[None]]
"""Writes a file of an owned directory; raises `ToolError` to refuse."""
Unsaved: TypeAlias = Callable[[Path], Awaitable[bytes | None]]
"""Returns the content of a file with unsaved changes in an editor; None: the file on disk counts."""


@dataclass(frozen=True, slots=True)
class Version:
    """The version of a file that the model has seen."""

    mtime_ns: int
    size: int
    digest: str | None
    """None for a file that is too large to be read whole, which Edit and Write therefore refuse."""
    lines: ShownLines | None = None
    """The lines that were shown; None: all of them."""


@dataclass(frozen=True, slots=True)
class Copies:
    """Copies of the files of some directories, which are edited in place of the originals (E5)."""

    root: Path
    of: Callable[[Path], Path]
    """Returns the copy of a file; other paths are returned unchanged."""
    behind: Callable[[Path], Path]
    """Returns the original of a copy, to which permission rules apply."""
    make: Callable[[Path], None]
    """Creates a copy if it does not exist yet; only for a call that was allowed."""
    write: Writer


Hidden: TypeAlias = tuple[tuple[str, str], ...]
"""Names of a searched directory, each with a regular expression for files below that are left out."""
_judged: ContextVar[Path | None] = ContextVar("judged", default=None)
"""The real file that the guard allowed for the current call."""
_hidden: ContextVar[Hidden] = ContextVar("hidden", default=())
"""What a search leaves out in the current call."""
AROUND_LINES = 10
"""How many lines before and after those to be edited a refusal advises to read."""
NO_FILE = Path("/dev/null/none")
"""Stands for no file at all, for a call whose arguments name none; no path leads there."""


@contextmanager
def expecting(path: Path | None, hidden: Hidden = ()) -> Iterator[None]:
    """Bind a call to the file that was checked: a tool that resolves another one is refused.

    A search of a directory leaves the hidden files out.
    """
    token = _judged.set(path)
    hiding = _hidden.set(hidden)
    try:
        yield
    finally:
        _judged.reset(token)
        _hidden.reset(hiding)


class UnresolvedPathError(ToolError):
    """Raised when a path cannot be resolved; a later attempt may succeed."""


class Workspace:
    """The mutable tool state of one session."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self.cwd = self.root
        self._seen: dict[Path, Version] = {}
        self._groups: set[int] = set()
        self.owned: dict[Path, Writer] = {}
        """Directories with a writer of their own, such as memory, which keeps an index and history."""
        self.copies: Copies | None = None
        self.unsaved: Unsaved = _nothing
        """Asked before a file is read or changed, so that the model sees what the user sees."""
        self.before_change: Callable[[Path], Awaitable[None]] = _nothing
        """Called with the real file before a change; an exception stops the change."""
        self.opens_output: OpenOutput | None = None
        """Opens the files for outputs that are too long to be shown; None: they are only cut."""

    def locate(self, file_path: str) -> Path:
        """Return the file to open, which must be the one that was allowed; creates a copy if needed."""
        path = self.aim(file_path)
        judged = _judged.get()
        if judged == NO_FILE:
            raise ToolError(f"The path {file_path} was not checked; give the path of one file.")
        if judged is not None and judged != path:
            raise ToolError(f"{file_path} led to {judged} when it was allowed and leads to {path} now.")
        if self.copies is not None:
            self.copies.make(path)
        return path

    @property
    def hidden(self) -> Hidden:
        """What a search leaves out in the current call, because a rule is against reading it."""
        return _hidden.get()

    def aim(self, file_path: str) -> Path:
        """Return the real file of a path, links followed; relative paths start at the working directory."""
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
        """Return the original of a copy; other paths unchanged."""
        return self.copies.behind(path) if self.copies else path

    def shown(self, path: Path) -> str:
        """Return the path relative to the working directory if it is below it."""
        return str(path.relative_to(self.cwd)) if path.is_relative_to(self.cwd) else str(path)

    def saw(self, path: Path, version: Version) -> None:
        """Record that the model has seen this version of a file; lines of the same version add up."""
        before = self._seen.pop(path, None)  # removed, so that the newest is last
        if before is not None and before.digest is not None and before.digest == version.digest:
            known = before.lines
            new = version.lines
            version = replace(version, lines=None if known is None or new is None else join((*known, *new)))
        self._seen[path] = version

    def seen(self, path: Path) -> Version | None:
        """Return the version of a file that the model has seen; None if it has not read it."""
        return self._seen.get(path)

    def still_sees(self, path: Path, lines: ShownLines) -> None:
        """Record that of what was shown of a file only these lines are still in view."""
        seen = self._seen.get(path)
        if seen is not None:
            kept = lines if seen.lines is None else within(seen.lines, lines)
            self._seen[path] = replace(seen, lines=kept)

    def recently_seen(self) -> list[Path]:
        """Return the files that the model has read or written, newest first."""
        return list(reversed(self._seen))

    def forget(self, paths: Iterable[Path]) -> None:
        """Drop the versions of these files: they must be read again before a change."""
        for path in paths:
            self._seen.pop(path, None)

    def clone(self) -> Workspace:
        """Return a copy for a fork; later changes are not shared."""
        copy = Workspace(self.root)
        copy.cwd = self.cwd
        copy._seen = dict(self._seen)
        copy.opens_output = self.opens_output
        copy.unsaved = self.unsaved
        return copy

    def keep_running(self, group: int) -> None:
        """Register a process group that a command left in the background."""
        self._groups = {running for running in self._groups if group_is_alive(running)} | {group}

    async def close(self) -> None:
        """End all registered background processes."""
        groups = self._groups
        self._groups = set()
        await asyncio.gather(*(end_group(group) for group in groups if group_is_alive(group)))


async def put(workspace: Workspace, path: Path, content: bytes, *, before: os.stat_result | None) -> Version:
    """Write a file through the owner of its directory, or by atomic replacement."""
    owners = workspace.owned
    if workspace.copies is not None:
        owners = {workspace.copies.root: workspace.copies.write, **owners}
    owner = next((write for root, write in owners.items() if path.is_relative_to(root)), None)
    if owner is not None:
        await owner(path, content)
        return version_of(content, await in_thread(lambda _: path.stat()))

    def write(stop: threading.Event) -> Version:
        return version_of(content, replace_file(path, content, before=before, stop=stop))

    return await in_thread(write)


async def _nothing(path: Path) -> None:
    return None


def check_seen(seen: Version | None, content: bytes, shown: str) -> Version:
    """Return what was seen; refuse to change a file that was not read, or that has changed since."""
    if seen is None:
        raise ToolError(f"Read {shown} before changing it.")
    if seen.digest is None:
        raise ToolError(f"{shown} was too large to be read whole; change it with a command in Bash.")
    if hashlib.sha256(content).hexdigest() != seen.digest:
        raise ToolError(f"{shown} has changed since it was read; read it again.")
    return seen


def check_shown(seen: Version, first: int, last: int, shown: str) -> None:
    """Refuse to change lines of a file that the model has not seen."""
    if seen.lines is not None and not covers(seen.lines, first, last):
        unread = f"Line {first}" if first == last else f"Lines {first}-{last}"
        begin = max(1, first - AROUND_LINES)
        raise ToolError(
            f"{unread} of {shown} {'was' if first == last else 'were'} not shown yet; "
            f"Read offset={begin} limit={last + AROUND_LINES - begin + 1} first."
        )


def check_all_shown(seen: Version, last: int, shown: str) -> None:
    """Refuse to replace a file of which the model has seen only a part."""
    if seen.lines is not None and not covers(seen.lines, 1, last):
        part = f"Only {written(seen.lines)}" if seen.lines else "None"
        raise ToolError(
            f"{part} of the {last:,} lines of {shown} were shown; read the others before you replace it, "
            "or change it with Edit."
        )


def version_of(content: bytes, stat: os.stat_result) -> Version:
    return Version(stat.st_mtime_ns, len(content), hashlib.sha256(content).hexdigest())


async def in_thread(work: Callable[[threading.Event], T]) -> T:
    """Run blocking work in a thread; on cancellation, set `stop` and wait for its end."""
    stop = threading.Event()
    running = asyncio.ensure_future(asyncio.to_thread(work, stop))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        stop.set()
        await asyncio.wait({running})
        if not running.cancelled():
            running.exception()  # retrieved, so that asyncio does not warn: the caller is gone
        raise
