"""Temporary copies of memories that a fork edits; its changes are checked before they apply (E5, E7).

A file is copied when it is first accessed; `MemoryCopies.changed` returns what was written.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self, TypeAlias

from nacre.errors import StoreError, ToolError
from nacre.memory.files.folder import Folder
from nacre.memory.files.scan import LOGS
from nacre.memory.memory import Memory
from nacre.store import disk
from nacre.tools.workspace import Copies

WriteCheck: TypeAlias = Callable[["ChangedFile"], None]
"""Raises `ToolError` for a change that is not allowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedFile:
    """One memory file before and after an edit."""

    memory: Memory
    file: str
    before: bytes | None
    after: bytes
    moved_from: bytes | None = None
    """The file that it continues under another name."""


class MemoryCopies:
    """A context manager for copies of some memories; exiting removes the copies."""

    def __init__(self, memories: Sequence[Memory], root: Path, check: WriteCheck) -> None:
        """`memories`: nested directories before those that contain them; `root`: an unused folder."""
        self._memories = [(memory, memory.location.directory.resolve()) for memory in memories]
        self._root = root.resolve()
        self._check = check
        self._originals: dict[Path, tuple[Memory, str, bytes | None]] = {}
        """By the path of the copy: its memory, its file there, and the original bytes."""

    def __enter__(self) -> Self:
        shutil.rmtree(self._root, ignore_errors=True)
        try:
            disk.make_folder(self._root)
        except OSError as error:
            raise StoreError(disk.explain(error, self._root)) from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        shutil.rmtree(self._root, ignore_errors=True)

    @property
    def copies(self) -> Copies:
        """The path mapping for the tools of a fork."""
        return Copies(self._root, self._copy_path, self._original_path, self._ensure_copy, self._write)

    @property
    def places(self) -> tuple[Path, ...]:
        """The writable paths: the memory directories, which are mapped to copies, and the copies."""
        return (*(directory for _, directory in self._memories), self._root)

    def changed(self) -> list[ChangedFile]:
        """Return the files that were changed, in the order of first access."""
        return [
            ChangedFile(memory=memory, file=file, before=before, after=after)
            for path, (memory, file, before) in self._originals.items()
            if path.is_file() and (after := path.read_bytes()) != before
        ]

    def _copy_path(self, path: Path) -> Path:
        if path.is_relative_to(self._root) or path.is_dir():
            return path
        for number, (_, directory) in enumerate(self._memories):
            if path.is_relative_to(directory):
                return self._root / str(number) / path.relative_to(directory)
        return path

    def _original_path(self, path: Path) -> Path:
        for number, (_, directory) in enumerate(self._memories):
            if path.is_relative_to(self._root / str(number)):
                return directory / path.relative_to(self._root / str(number))
        return path

    def _ensure_copy(self, path: Path) -> None:
        for number, (memory, _) in enumerate(self._memories):
            folder = self._root / str(number)
            if not path.is_relative_to(folder) or path in self._originals or path.is_dir():
                continue
            file = path.relative_to(folder).as_posix()
            original = Folder(memory.location.directory)
            try:
                key = original.key(file)
                if key.startswith(f"{LOGS}/"):
                    raise ToolError(f"{file} is a daily log, which cannot be edited")
                before = original.read(key)
                disk.make_folder(path.parent)
                if before is not None:
                    path.write_bytes(before)
            except StoreError as error:
                raise ToolError(str(error)) from error
            except OSError as error:
                raise ToolError(disk.explain(error, path)) from error
            self._originals[path] = (memory, key, before)

    async def _write(self, path: Path, content: bytes) -> None:
        original = self._originals.get(path)
        if original is None:
            raise ToolError("Write to the memory directory by its own name.")
        memory, file, before = original
        change = ChangedFile(memory=memory, file=file, before=before, after=content)
        await asyncio.to_thread(self._check, change)
        await asyncio.to_thread(path.write_bytes, content)
