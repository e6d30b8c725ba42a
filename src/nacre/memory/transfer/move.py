"""Move a memory to another directory: promote it to what holds everywhere, or bring it back (M7b)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from nacre.errors import StoreError
from nacre.memory.files.folder import ABSENT, TEAM, Folder, version_of
from nacre.memory.files.location import Location
from nacre.memory.format.entry import MemoryChange, file_name
from nacre.memory.format.frontmatter import MarkdownFile
from nacre.memory.format.index import MemoryIndex
from nacre.memory.memory import INDEX_FILE, Memory
from nacre.memory.team.rules import UNTRUSTED
from nacre.store.history import Commit, History

MOVED = "moved from "
"""How the reason of a move begins: whoever erases a memory looks for it on the other side, too."""
LOOK_BACK = 1_000
"""Changes that are looked through for the other side of a move."""
_SIDES = re.compile(rf"(?P<undone>(?:undo [0-9a-f]{{4,40}}: )*){MOVED}(?P<source>\S+) to (?P<target>\S+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveScopes:
    """Between which two scopes a commit moved a memory."""

    source: str
    target: str
    is_back: bool = False
    """It takes such a move back."""

    def other(self, scope: str) -> str:
        return self.target if scope == self.source else self.source


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveResult:
    """Where a memory was and is, and the commit on either side."""

    was: str
    file: str
    """Its name there; another one when the old was taken."""
    removed: str
    added: str
    """Empty when the same bytes were there already."""


async def move(
    wanted: str, *, source: Memory, target: Memory, change: MemoryChange, is_trusted: bool = False
) -> MoveResult:
    """Take an entry over byte for byte, then remove it: a crash in between leaves it twice, never nowhere.

    Its file keeps its modification time, so that it does not seem new. The team gets nothing that nobody
    vouches for, unless the person does: `is_trusted` takes the mark off.
    """
    entry = await source.find(wanted)
    here = Folder(source.location.directory)
    data = here.read(entry.file)
    written = here.written(entry.file)
    if data is None:
        raise StoreError(f"{entry.file} is gone meanwhile; `nacre memory list` shows what is there")
    carried = data
    if target.location.source == TEAM and entry.origin == "untrusted":
        if not is_trusted:
            raise StoreError(f"{entry.file} {UNTRUSTED}; read it, and vouch for it with --trust")
        carried = MarkdownFile.parse(data).with_fields(origin=None)
    there = Folder(target.location.directory)
    file = entry.file
    present = there.read(entry.file)
    if present is not None and present != carried:
        file = file_name(entry.title, taken=there.scan())
        present = None
    added = ""
    if present is None:
        # What is private stays private on either side, so a secret that was allowed here is allowed there;
        # the team's memory refuses it all the same.
        added = await target.put(file, carried, change, if_version=ABSENT, allow_secret=True, written=written)
    async with source.transact(change) as tx:
        tx.delete(entry.file, if_version=version_of(data))
        index, version = tx.read(INDEX_FILE)
        if index is not None:
            tx.write(INDEX_FILE, MemoryIndex.parse(index).without(entry.file), if_version=version)
    return MoveResult(was=entry.file, file=file, removed=tx.commit, added=added)


def move_scopes(commit: Commit) -> MoveScopes | None:
    """The scopes of a move, or of one that was taken back; none for any other change."""
    found = _SIDES.fullmatch(commit.reason.partition("\n")[0]) if commit.author == "user" else None
    if found is None:
        return None
    is_back = found["undone"].count("undo ") % 2 == 1
    return MoveScopes(source=found["source"], target=found["target"], is_back=is_back)


def other_side(commit: Commit, here: Location, there: Location) -> Commit | None:
    """The change that moved the same memory on the other side; none where nothing was changed there."""
    moved = _bodies(History(here.history), commit)
    history = History(there.history)
    found = [
        each
        for each in history.log(LOOK_BACK)
        if move_scopes(each) == move_scopes(commit) and moved & _bodies(history, each)
    ]
    # The same memory may have been moved before: what was one command was done in one go.
    return min(found, key=lambda each: abs(each.at - commit.at), default=None)


def _bodies(history: History, commit: Commit) -> set[str]:
    """What the memories say that came or went with a commit."""
    states = (history.head(commit.id).parent, commit.id)
    topics = [file for file in commit.files if file.rpartition("/")[2] != INDEX_FILE]
    found = (history.read(state, file) for state in states if state for file in topics)
    return {MarkdownFile.parse(data).body for data in found if data is not None}
