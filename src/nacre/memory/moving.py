"""Move a memory to another directory: promote it to what holds everywhere, or bring it back (M7b)."""

from __future__ import annotations

from dataclasses import dataclass

from nacre.errors import StoreError
from nacre.memory.directory import INDEX_FILE, Memory
from nacre.memory.entry import Change, file_name
from nacre.memory.folder import ABSENT, TEAM, Folder, version_of
from nacre.memory.frontmatter import Document
from nacre.memory.pointers import Index
from nacre.memory.team_rules import UNTRUSTED

MOVED = "moved from "
"""How the reason of a move begins: whoever erases a memory looks for it on the other side, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """Where a memory was and is, and the commit on either side."""

    was: str
    file: str
    """Its name there; another one when the old was taken."""
    removed: str
    added: str
    """Empty when the same bytes were there already."""


async def move(
    wanted: str, *, source: Memory, target: Memory, change: Change, is_trusted: bool = False
) -> Moved:
    """Take an entry over byte for byte, then remove it: a crash in between leaves it twice, never nowhere.

    The team gets nothing that nobody vouches for, unless the person does: `is_trusted` takes the mark off.
    """
    entry = await source.find(wanted)
    data = Folder(source.location.directory).read(entry.file)
    if data is None:
        raise StoreError(f"{entry.file} is gone meanwhile; `nacre memory list` shows what is there")
    carried = data
    if target.location.source == TEAM and entry.origin == "untrusted":
        if not is_trusted:
            raise StoreError(f"{entry.file} {UNTRUSTED}; read it, and vouch for it with --trust")
        carried = Document.parse(data).with_fields(origin=None)
    there = Folder(target.location.directory)
    file, present = entry.file, there.read(entry.file)
    if present is not None and present != carried:
        file, present = file_name(entry.title, taken=there.scan()), None
    added = ""
    if present is None:
        # What is private stays private on either side, so a secret that was allowed here is allowed there;
        # the team's memory refuses it all the same.
        added = await target.put(file, carried, change, if_version=ABSENT, allow_secret=True)
    async with source.transact(change) as tx:
        tx.delete(entry.file, if_version=version_of(data))
        index, version = tx.read(INDEX_FILE)
        if index is not None:
            tx.write(INDEX_FILE, Index.parse(index).without(entry.file), if_version=version)
    return Moved(was=entry.file, file=file, removed=tx.commit, added=added)
