"""Erase a memory for good: out of the directory, out of every commit, and say where it had been (M14b)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from nacre.memory.directory import Memory
from nacre.memory.entry import Change, Entry
from nacre.memory.folder import Folder
from nacre.memory.undo import purge
from nacre.store.history_purge import Scrub


@dataclass(frozen=True, slots=True, kw_only=True)
class Erased:
    """What was erased, where it had been, and where something of it is left."""

    entry: Entry
    commits: int
    files: tuple[str, ...]
    left: tuple[str, ...]
    """Objects of the history and files of the directory that still name it."""


async def erase(memory: Memory, wanted: str, change: Change) -> Erased:
    """Forget an entry, then take its file and its lines out of the whole history."""
    entry, _ = await memory.forget(wanted, change)
    scrub = without_pointers(entry.file)
    purged = await purge(memory.location, [entry.file], scrub=scrub)
    folder = Folder(memory.location.directory)
    naming = [file for file in sorted(folder.scan()) if scrub(data := folder.read(file) or b"") != data]
    return Erased(entry=entry, commits=purged.commits, files=purged.files, left=(*purged.left, *naming))


def without_pointers(file: str) -> Scrub:
    """Leave out the lines of an index that point to a file, and the reasons that name it.

    Other memories' own words stay: a line of theirs that vanished from the history would come back with the
    next edit.
    """
    name = re.escape(file)
    lines = re.compile(
        rf"^[ \t]*[-*+][ \t].*\]\(<?(?:\./)?{name}>?\).*\n?"
        rf"|^(?:undo \w+: )*edited by other means: {name}(?= |$).*\n?",
        re.MULTILINE,
    )

    def scrub(data: bytes) -> bytes:
        text = data.decode(errors="surrogateescape")
        return lines.sub("", text).encode(errors="surrogateescape")

    return scrub
