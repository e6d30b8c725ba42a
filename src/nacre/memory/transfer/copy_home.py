"""Copy all memories of one home into another; nothing is overwritten (M1, M15).

Each directory is one commit. A memory that the new home once had, and has changed or forgotten since, does
not come back.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.errors import ConfigError, OutsideStore, StoreError
from nacre.memory.files.folder import TEAM, Folder, version_of
from nacre.memory.files.identity import FILE as IDENTITY
from nacre.memory.files.identity import read_identity
from nacre.memory.files.location import (
    SAMPLED_BYTES,
    SAMPLED_LOGS,
    Location,
    MemoryPaths,
    agent_location,
    project_location,
    user_location,
)
from nacre.memory.files.roots import canonical_root
from nacre.memory.files.scan import SkippedFile
from nacre.memory.format.entry import MemoryChange, read_entry
from nacre.memory.format.index import INDEX_FILE, MemoryIndex
from nacre.memory.memory import Memory
from nacre.memory.transfer.import_memories import ImportOptions, ImportResult, import_batch, preview_import
from nacre.memory.transfer.import_sources import ImportBatch, ImportFile
from nacre.store import disk
from nacre.store.history import History
from nacre.store.home import same_folder, slug

EVERYWHERE = "every project"
NO_PROJECT = "its project is not known; `nacre memory import` in that project imports it"
_CWD = re.compile(r'"cwd":\s?("(?:[^"\\]|\\.)*")')


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryPair:
    """A memory directory of the old home and its location in the new one."""

    whose: str
    """A label: the project's directory, `every project`, or the type of agent."""
    source: Path
    target: Location


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyResult:
    """The result for one directory, also of a preview."""

    pair: DirectoryPair
    imported: ImportResult = field(default_factory=ImportResult)
    staying: tuple[str, ...] = ()
    """Local-only memories that were not copied (M27)."""
    has_team: bool = False
    """It contains a team memory, which is synchronised separately."""
    failed: str = ""
    """Why nothing was copied; empty on success."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HomeCopy:
    """The copy of all memories from one home to another."""

    old: Path
    new: Path
    keeps_index: bool = True
    """Off: memories of projects have no index there (M17, M19)."""
    leaves_local: bool = False
    """Local-only memories are not copied, because another program reads and sends the new home (M27)."""

    def directories(self) -> tuple[list[DirectoryPair], list[SkippedFile]]:
        """Return every directory of the old home with its target, and those that have none."""
        found = list[DirectoryPair]()
        without = list[SkippedFile]()
        if any(self.old.glob("memory/*.md")):
            user = user_location(self.new)
            found.append(DirectoryPair(whose=EVERYWHERE, source=self.old / "memory", target=user))
        for folder in sorted(self.old.glob("agent-memory/*/")):
            try:
                target = agent_location("user", folder.name, MemoryPaths(home=self.new, cwd=self.new))
            except ConfigError as error:
                without.append(SkippedFile(str(folder), str(error)))
                continue
            found.append(DirectoryPair(whose=f"agents of type {folder.name}", source=folder, target=target))
        for folder in sorted(self.old.glob("projects/*/")):
            if next((folder / "memory").rglob("*.md"), None) is None:
                continue
            root = _root_of(folder)
            if root is None:
                without.append(SkippedFile(str(folder / "memory"), NO_PROJECT))
                continue
            target = project_location(self.new, root)
            found.append(DirectoryPair(whose=str(root), source=folder / "memory", target=target))
        return found, without

    def preview(self, pair: DirectoryPair) -> CopyResult:
        """Return what `copy` would do, without doing it."""
        batch, staying = self._batch(pair)
        imported = preview_import(pair.target, batch, options=self._options(pair)) if batch else None
        return _result(pair, imported, staying)

    async def copy(self, pair: DirectoryPair, *, clock: Clock = SYSTEM_CLOCK) -> CopyResult:
        """Copy the missing files of a directory in one commit; a failure is part of the result."""
        if pair.target.root is not None:
            # Another project of the same slug may have taken the folder meanwhile (M2).
            pair = replace(pair, target=project_location(self.new, pair.target.root))
        batch, staying = self._batch(pair)
        if not batch:
            return _result(pair, None, staying)
        target = pair.target
        change = MemoryChange(author="import", reason=f"brought from {self.old}")
        options = self._options(pair)
        try:
            await Memory.at(target, target.root or target.directory, clock=clock)
            imported = await import_batch(target, batch, options=options, change=change, clock=clock)
        except StoreError as error:
            return CopyResult(pair=pair, failed=str(error))
        return _result(pair, imported, staying)

    def _options(self, pair: DirectoryPair) -> ImportOptions:
        return ImportOptions(keeps_index=self.keeps_index or pair.target.root is None)

    def _batch(self, pair: DirectoryPair) -> tuple[ImportBatch | None, tuple[str, ...]]:
        """Return the files to copy, and the names of local-only files that are not copied."""
        here = Folder(pair.source)
        files = dict[str, bytes]()
        skipped = list[SkippedFile]()
        for file in sorted(here.scan()):
            try:
                data = here.read(file)
            except (OutsideStore, StoreError, OSError) as error:
                skipped.append(SkippedFile(str(pair.source / file), str(error)))
                continue
            if data is not None:
                files[file] = data
        index = files.pop(INDEX_FILE, None)
        known = History(pair.target.history).repository
        staying = [
            file for file, data in files.items() if self.leaves_local and read_entry(file, data).local_only
        ]
        forgotten = {file for file, data in files.items() if known.has(version_of(data))}
        there = Folder(pair.target.directory)
        left_out = {*staying, *(file for file in forgotten if there.version(file) != version_of(files[file]))}
        for file in left_out:
            index = None if index is None else MemoryIndex.parse(index).without(file)
        coming = tuple(
            ImportFile(file, data, here.written(file)) for file, data in files.items() if file not in left_out
        )
        batch = ImportBatch(files=coming, index=index, skipped=tuple(skipped)) if coming or skipped else None
        return batch, tuple(staying)


def _result(pair: DirectoryPair, imported: ImportResult | None, staying: tuple[str, ...]) -> CopyResult:
    has_team = next((pair.source / TEAM).rglob("*.md"), None) is not None
    return CopyResult(pair=pair, imported=imported or ImportResult(), staying=staying, has_team=has_team)


def _root_of(folder: Path) -> Path | None:
    """Return the project root of a folder: by its identity, else by its sessions (M2)."""
    try:
        claimed = read_identity(folder / IDENTITY)
    except StoreError:
        return None
    if claimed is not None:
        return Path(claimed.root)
    for log in islice(sorted(folder.glob("*.jsonl")), SAMPLED_LOGS):
        try:
            descriptor = disk.open_regular(log, os.O_RDONLY)
        except OSError:
            continue
        with os.fdopen(descriptor, "rb") as source:
            found = _CWD.search(source.read(SAMPLED_BYTES).decode(errors="replace"))
        cwd = json.loads(found[1]) if found else ""
        if cwd and "\0" not in cwd and Path(cwd).is_absolute():
            root = canonical_root(Path(cwd))
            if same_folder(folder.name, slug(str(root))):
                return root
    return None
