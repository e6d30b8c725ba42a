"""Copies of memories for somebody who works on them: nothing is changed before all of it was judged (E5, E7).

A file is copied when it is first asked for. What was written in the end, and on what, `changed` tells.
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
"""Raises `ToolError` for what may not be written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedFile:
    """One file of a memory as somebody would have it."""

    memory: Memory
    file: str
    before: bytes | None
    after: bytes


class MemoryCopies:
    """Work on some memories; leaving the block removes the copies."""

    def __init__(self, memories: Sequence[Memory], root: Path, check: WriteCheck) -> None:
        """`memories`: an inner directory before the one around it; `root`: a folder of nobody else's."""
        self._memories = [(memory, memory.location.directory.resolve()) for memory in memories]
        self._root = root.resolve()
        self._check = check
        self._known: dict[Path, tuple[Memory, str, bytes | None]] = {}
        """By the path of the copy: whose it is, its file there, and what that held."""

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
        """For whoever works on them."""
        return Copies(self._root, self._copy_of, self._behind, self._lay_out, self._write)

    @property
    def places(self) -> tuple[Path, ...]:
        """Where may be written: the directories by their own names, and where their copies are."""
        return (*(directory for _, directory in self._memories), self._root)

    def changed(self) -> list[ChangedFile]:
        """The files that say something else now, in the order they were first asked for."""
        found = []
        for path, (memory, file, before) in self._known.items():
            after = path.read_bytes() if path.is_file() else None
            if after is not None and after != before:
                found.append(ChangedFile(memory=memory, file=file, before=before, after=after))
        return found

    def _copy_of(self, path: Path) -> Path:
        if path.is_relative_to(self._root) or path.is_dir():
            return path
        for number, (_, directory) in enumerate(self._memories):
            if path.is_relative_to(directory):
                return self._root / str(number) / path.relative_to(directory)
        return path

    def _behind(self, path: Path) -> Path:
        for number, (_, directory) in enumerate(self._memories):
            if path.is_relative_to(self._root / str(number)):
                return directory / path.relative_to(self._root / str(number))
        return path

    def _lay_out(self, path: Path) -> None:
        for number, (memory, _) in enumerate(self._memories):
            folder = self._root / str(number)
            if path.is_relative_to(folder) and path not in self._known and not path.is_dir():
                self._make(path, memory, path.relative_to(folder).as_posix())

    def _make(self, copy: Path, memory: Memory, file: str) -> None:
        folder = Folder(memory.location.directory)
        try:
            key = _topic(folder, file)
            before = folder.read(key)
            disk.make_folder(copy.parent)
            if before is not None:
                copy.write_bytes(before)
        except StoreError as error:
            raise ToolError(str(error)) from error
        except OSError as error:
            raise ToolError(disk.explain(error, copy)) from error
        self._known[copy] = (memory, key, before)

    async def _write(self, path: Path, content: bytes) -> None:
        known = self._known.get(path)
        if known is None:
            raise ToolError("Write to the memory directory by its own name.")
        memory, file, before = known
        await asyncio.to_thread(
            self._check, ChangedFile(memory=memory, file=file, before=before, after=content)
        )
        await asyncio.to_thread(path.write_bytes, content)


def _topic(folder: Folder, file: str) -> str:
    key = folder.key(file)
    if key.startswith(f"{LOGS}/"):
        raise StoreError(f"{file} is a log of the day, which nobody edits")
    return key
