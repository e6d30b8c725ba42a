"""Move a memory to another scope: to the user's memory of all projects, to the team, or back (M7b)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from nacre.errors import StoreError
from nacre.memory.files.folder import ABSENT, TEAM, Folder, version_of
from nacre.memory.files.location import Location
from nacre.memory.format.entry import Entry, MemoryChange, file_name
from nacre.memory.format.frontmatter import MarkdownFile
from nacre.memory.format.index import INDEX_FILE, MemoryIndex
from nacre.memory.memory import Memory
from nacre.memory.team.rules import UNTRUSTED
from nacre.store.history import Commit, History

MOVED = "moved from "
"""Start of the reason of a move; a purge follows it to the other memory."""
LOOK_BACK = 1_000
"""Commits that are searched for the other commit of a move."""
_SIDES = re.compile(rf"(?P<undone>(?:undo [0-9a-f]{{4,40}}: )*){MOVED}(?P<source>\S+) to (?P<target>\S+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveScopes:
    """The two scopes between which a commit moved a memory."""

    source: str
    target: str
    is_back: bool = False
    """It undoes such a move."""

    def other(self, scope: str) -> str:
        return self.target if scope == self.source else self.source


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveResult:
    """The old and new file of a moved memory, and both commits."""

    was: str
    file: str
    """Its new file; another name when the old one was taken."""
    removed: str
    added: str
    """Empty when the target already contained the same bytes."""


async def move(
    wanted: str, *, source: Memory, target: Memory, change: MemoryChange, is_trusted: bool = False
) -> MoveResult:
    """Copy an entry byte for byte, then remove it: a crash in between leaves two copies, never none.

    The file keeps its modification time. The team gets no untrusted memory, unless `is_trusted` removes the
    mark.
    """
    entry = await source.find(wanted)
    here = Folder(source.location.directory)
    data = here.read(entry.file)
    written = here.written(entry.file)
    if data is None:
        raise StoreError(f"{entry.file} is gone meanwhile; `nacre memory list` shows what is there")
    carried = data
    if target.location.source == TEAM and not entry.is_trusted:
        if not is_trusted:
            raise StoreError(f"{entry.file} {UNTRUSTED}; read it, and vouch for it with --trust")
        carried = MarkdownFile.parse(data).with_fields(origin=None)
    there = Folder(target.location.directory)
    file = entry.file
    present = there.read(entry.file)
    if present is not None and present != carried:
        file = file_name(Entry(file=entry.file).title, taken=there.scan())
        present = None
    added = ""
    if present is None:
        # A secret that was allowed in a private memory is allowed in another; the team memory refuses it.
        added = await target.put(file, carried, change, if_version=ABSENT, allow_secret=True, written=written)
    async with source.transact(change) as tx:
        tx.delete(entry.file, if_version=version_of(data))
        index, version = tx.read(INDEX_FILE)
        if index is not None:
            tx.write(INDEX_FILE, MemoryIndex.parse(index).without(entry.file), if_version=version)
    return MoveResult(was=entry.file, file=file, removed=tx.commit, added=added)


def move_scopes(commit: Commit) -> MoveScopes | None:
    """Return the scopes of a move or of its undo; None for any other commit."""
    found = _SIDES.fullmatch(commit.reason.partition("\n")[0]) if commit.author == "user" else None
    if found is None:
        return None
    is_back = found["undone"].count("undo ") % 2 == 1
    return MoveScopes(source=found["source"], target=found["target"], is_back=is_back)


def other_side(commit: Commit, here: Location, there: Location) -> Commit | None:
    """Return the commit that moved the same memory on the other side; None if nothing changed there."""
    moved = _bodies(History(here.history), commit)
    history = History(there.history)
    found = [
        each
        for each in history.log(LOOK_BACK)
        if move_scopes(each) == move_scopes(commit) and moved & _bodies(history, each)
    ]
    # The same memory may have been moved before: both commits of a move are close in time.
    return min(found, key=lambda each: abs(each.at - commit.at), default=None)


def _bodies(history: History, commit: Commit) -> set[str]:
    """Return the bodies of the memories that a commit added or removed."""
    states = (history.head(commit.id).parent, commit.id)
    topics = [file for file in commit.files if file.rpartition("/")[2] != INDEX_FILE]
    found = (history.read(state, file) for state in states if state for file in topics)
    return {MarkdownFile.parse(data).body for data in found if data is not None}
