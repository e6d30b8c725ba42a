"""Paths below `/memories` as files of a memory directory: what exists, what is meant, what is refused (M6).

Pure but for the gate, which looks at links. A folder is there while a file lies in it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from nacre.errors import OutsideStore
from nacre.memory.contain import inside, topic_inside
from nacre.memory.folder import SUFFIX, is_ours

ROOT = "/memories"
LEVELS = 2
"""How deep a folder is listed; the API tells the model so."""
SKIPPED = "node_modules"
KILO = 1024


@dataclass(frozen=True, slots=True)
class Places:
    """A memory directory at one moment, as paths below `/memories`."""

    root: Path
    files: Mapping[str, int]
    """Sizes by name."""
    hidden: frozenset[str] = frozenset()
    """Names of files that the model is not told of; nothing can be put there."""

    def file(self, path: str, *, to_change: bool = False) -> str | None:
        """The file that a path means, with or without `.md`; none when there is none."""
        relative = self._relative(path)
        name = relative if relative in self.files else relative + SUFFIX
        if name not in self.files or (name != relative and self.below(path) is not None):
            return None
        return self._topic(name) if to_change else name

    def new_file(self, path: str) -> str:
        """The name for a file that is to be made: memories are Markdown, so that others get the ending."""
        relative = self._relative(path)
        if not relative:
            raise OutsideStore(f"{path} is the memory directory itself; name a file in it")
        return self._topic(relative if relative.endswith(SUFFIX) else relative + SUFFIX)

    def is_taken(self, path: str) -> bool:
        """Whether something is there already, under this name or the one it would be given."""
        there = self.file(path) is not None or self.below(path) is not None
        return there or self.new_file(path) in self.hidden

    def below(self, path: str) -> dict[str, int] | None:
        """Sizes of the files in a folder, named from there; none when there is no such folder."""
        relative = self._relative(path)
        if not relative:
            return dict(self.files)
        start = f"{relative}/"
        return {
            name.removeprefix(start): size for name, size in self.files.items() if name.startswith(start)
        } or None

    def meant(self, path: str, act: str) -> list[str]:
        """The files that a command on a path would change: one, or all of a folder."""
        if not self._relative(path):
            raise OutsideStore(f"cannot {act} the {ROOT} directory itself")
        if (file := self.file(path, to_change=True)) is not None:
            return [file]
        start = f"{self._relative(path)}/"
        return [self._topic(name) for name in sorted(self.files) if name.startswith(start)]

    def moves(self, old: str, new: str) -> dict[str, str]:
        """What each of the files would be called; empty when there is nothing to rename."""
        files = self.meant(old, "rename")
        if self.file(old) is not None:
            return {file: self.new_file(new) for file in files}
        start, to = self._relative(old), self._relative(new)
        return {file: self._topic(f"{to}{file.removeprefix(start)}") for file in files}

    def clearable(self) -> list[str]:
        """Every file that is a memory."""
        return [name for name in sorted(self.files) if _is_topic(self.root, name)]

    def _relative(self, path: str) -> str:
        """What comes behind `/memories`, checked; empty for the directory itself."""
        if path != ROOT and not path.startswith(f"{ROOT}/"):
            raise OutsideStore(f"the path must start with {ROOT}/, got: {path}")
        relative = path.removeprefix(ROOT).lstrip("/").removesuffix("/")
        if relative:
            inside(self.root, relative)
        return relative

    def _topic(self, name: str) -> str:
        """The name as it is kept, links resolved; raises for the index and what else is kept otherwise."""
        found = topic_inside(self.root, name).relative_to(os.path.realpath(self.root)).as_posix()
        if not is_ours(found):
            raise OutsideStore(f"{name!r} is no memory file; choose a plain name that ends in {SUFFIX}")
        return found


def shown_path(file: str) -> str:
    return f"{ROOT}/{file}"


def listing(path: str, below: Mapping[str, int]) -> str:
    """Files and folders two levels deep, each with its size."""
    sizes: dict[str, int] = {}
    for name, size in below.items():
        parts = name.split("/")
        if SKIPPED in parts:
            continue
        for depth in range(1, min(len(parts), LEVELS) + 1):
            shown = "/".join(parts[:depth]) + ("/" if depth < len(parts) else "")
            sizes[shown] = sizes.get(shown, 0) + size
    top = path.removesuffix("/")
    lines = [f"{_size(sum(below.values()))}\t{top}"]
    lines += [f"{_size(size)}\t{top}/{name}" for name, size in sorted(sizes.items())]
    header = f"Here're the files and directories up to {LEVELS} levels deep in {path}, "
    return f"{header}excluding hidden items and {SKIPPED}:\n" + "\n".join(lines)


def _size(count: int) -> str:
    if count < KILO:
        return f"{count}B"
    if count < KILO * KILO:
        return f"{count / KILO:.1f}K"
    return f"{count / KILO / KILO:.1f}M"


def _is_topic(root: Path, name: str) -> bool:
    try:
        topic_inside(root, name)
    except OutsideStore:
        return False
    return is_ours(name)
