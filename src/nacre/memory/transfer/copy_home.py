"""All memories of one home taken into another: copied where they are missing, nothing overwritten (M1, M15).

Each directory is one change with its author. What the new home has known before, and has changed or forgotten
since, does not come back.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
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
NOBODYS = "nobody wrote down which project it is of; `nacre memory import` in that project takes it in"
_CWD = re.compile(r'"cwd":\s?("(?:[^"\\]|\\.)*")')


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryPair:
    """One memory directory of the old home, and its place in the new one."""

    whose: str
    """For a person: the project's directory, `every project`, or the type of agent."""
    source: Path
    target: Location


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyResult:
    """What came of one directory, or would come of it."""

    crossing: DirectoryPair
    imported: ImportResult = field(default_factory=ImportResult)
    staying: tuple[str, ...] = ()
    """Local-only memories that were left where they are (M27)."""
    has_team: bool = False
    """There is a team's memory in it, which comes by its own way."""
    failed: str = ""
    """Why nothing of it could be taken in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HomeCopy:
    """From which home to which, and what is to stay behind."""

    old: Path
    new: Path
    keeps_index: bool = True
    """Off: projects' memories have no index there (M17, M19)."""
    leaves_local: bool = False
    """Local-only memories stay: another program reads the new home, and sends what it reads (M27)."""

    def crossings(self) -> tuple[list[DirectoryPair], list[SkippedFile]]:
        """Every memory of the old home with its place in the new one, and those that have none."""
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
                without.append(SkippedFile(str(folder / "memory"), NOBODYS))
                continue
            target = project_location(self.new, root)
            found.append(DirectoryPair(whose=str(root), source=folder / "memory", target=target))
        return found, without

    def preview(self, crossing: DirectoryPair) -> CopyResult:
        """What `bring` would do, without doing it."""
        batch, staying = self._batch(crossing)
        imported = (
            preview_import(crossing.target, batch, terms=self._terms(crossing)) if batch else ImportResult()
        )
        return self._told(crossing, imported, staying)

    async def bring(self, crossing: DirectoryPair, *, clock: Clock = SYSTEM_CLOCK) -> CopyResult:
        """Copy what is missing, in one change; what stands in the way is told, and stops nothing else."""
        if crossing.target.root is not None:
            # Another project of the same slug may have taken the folder a moment ago (M2).
            crossing = replace(crossing, target=project_location(self.new, crossing.target.root))
        batch, staying = self._batch(crossing)
        imported = ImportResult()
        if batch:
            change = MemoryChange(author="import", reason=f"brought from {self.old}")
            target = crossing.target
            try:
                await Memory.at(target, target.root or target.directory, clock=clock)
                imported = await import_batch(
                    target, batch, terms=self._terms(crossing), change=change, clock=clock
                )
            except StoreError as error:
                return CopyResult(crossing=crossing, failed=str(error))
        return self._told(crossing, imported, staying)

    def _told(self, crossing: DirectoryPair, imported: ImportResult, staying: tuple[str, ...]) -> CopyResult:
        has_team = next((crossing.source / TEAM).rglob("*.md"), None) is not None
        return CopyResult(crossing=crossing, imported=imported, staying=staying, has_team=has_team)

    def _terms(self, crossing: DirectoryPair) -> ImportOptions:
        is_project = crossing.target.root is not None
        return ImportOptions(keeps_index=self.keeps_index or not is_project)

    def _batch(self, crossing: DirectoryPair) -> tuple[ImportBatch | None, tuple[str, ...]]:
        """What is to come, and the names of what is local and stays."""
        files, skipped = _read(crossing.source)
        index = files.pop(INDEX_FILE, None)
        known = History(crossing.target.history).repository
        staying = [file for file, data in files.items() if self.leaves_local and _is_local(file, data)]
        forgotten = {file for file, data in files.items() if known.has(version_of(data))}
        there = Folder(crossing.target.directory)
        left_out = {*staying, *(file for file in forgotten if there.version(file) != version_of(files[file]))}
        for file in left_out:
            index = None if index is None else MemoryIndex.parse(index).without(file)
        here = Folder(crossing.source)
        coming = tuple(
            ImportFile(file, data, here.written(file)) for file, data in files.items() if file not in left_out
        )
        batch = ImportBatch(files=coming, index=index, skipped=skipped) if coming or skipped else None
        return batch, tuple(staying)


def _read(source: Path) -> tuple[dict[str, bytes], tuple[SkippedFile, ...]]:
    """The files of a memory directory, the team's aside; what is a link or too large is told."""
    folder = Folder(source)
    files = dict[str, bytes]()
    skipped = list[SkippedFile]()
    for file in sorted(folder.scan()):
        try:
            data = folder.read(file)
        except (OutsideStore, StoreError, OSError) as error:
            skipped.append(SkippedFile(str(source / file), str(error)))
            continue
        if data is not None:
            files[file] = data
    return files, tuple(skipped)


def _is_local(file: str, data: bytes) -> bool:
    return read_entry(file, data).local_only


def _root_of(folder: Path) -> Path | None:
    """Which project a folder is of: by its identity, else by where its sessions ran (M2)."""
    try:
        claimed = read_identity(folder / IDENTITY)
    except StoreError:
        return None
    if claimed is not None:
        return Path(claimed.root)
    for cwd in _directories(folder):
        root = canonical_root(cwd)
        if same_folder(folder.name, slug(str(root))):
            return root
    return None


def _directories(folder: Path) -> Iterator[Path]:
    for log in islice(sorted(folder.glob("*.jsonl")), SAMPLED_LOGS):
        try:
            descriptor = disk.open_regular(log, os.O_RDONLY)
        except OSError:
            continue
        with os.fdopen(descriptor, "rb") as source:
            if found := _CWD.search(source.read(SAMPLED_BYTES).decode(errors="replace")):
                named = json.loads(found[1])
                if "\0" not in named and Path(named).is_absolute():
                    yield Path(named)
