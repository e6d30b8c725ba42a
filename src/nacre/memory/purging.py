"""Erase a memory for good: out of the directory, out of every commit, and say where it had been (M14b)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from nacre.memory.directory import Memory
from nacre.memory.entry import Change
from nacre.memory.folder import Folder
from nacre.memory.moving import MOVED
from nacre.memory.pointers import Index
from nacre.memory.undo import purge
from nacre.store.history_purge import Scrub

ALL_CHANGES = 1_000_000
"""More changes than any history has: a memory that was moved once is to be found however long ago it was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Erased:
    """What was erased, where it had been, and where something of it is left."""

    file: str
    commits: int
    files: tuple[str, ...]
    left: tuple[str, ...]
    """Objects of the history and files of the directory that still name it."""


async def erase(memory: Memory, file: str, change: Change, *, others: Sequence[Memory] = ()) -> Erased:
    """Forget a file if it is there, then take it and its lines out of the whole history.

    `others` are the memories it may have been moved from or to: where that is on record, their history loses
    it too.
    """
    if Folder(memory.location.directory).read(file) is not None:
        await memory.forget(file, change)
    concerned = [memory, *[other for other in others if await _had(other, file)]]
    found = [await _purged(one, file) for one in concerned]
    return Erased(
        file=file,
        commits=sum(one.commits for one in found),
        files=tuple(sorted({name for one in found for name in one.files})),
        left=tuple(name for one in found for name in one.left),
    )


async def _purged(memory: Memory, file: str) -> Erased:
    scrub = without_pointers(file)
    purged = await purge(memory.location, [file], scrub=scrub)
    folder = Folder(memory.location.directory)
    naming = [name for name in sorted(folder.scan()) if scrub(data := folder.read(name) or b"") != data]
    return Erased(file=file, commits=purged.commits, files=purged.files, left=(*purged.left, *naming))


async def _had(other: Memory, file: str) -> bool:
    """Whether this very memory went through another directory; one that merely has its name did not."""
    if Folder(other.location.directory).read(file) is not None:
        return False
    return any(one.reason.startswith(MOVED) for one in await other.log(limit=ALL_CHANGES, file=file))


def without_pointers(file: str) -> Scrub:
    """Leave out the lines of an index that point to a file, and the reasons that name it.

    Other memories' own words stay: a line of theirs that vanished from the history would come back with the
    next edit.
    """
    reasons = re.compile(
        rf"^(?:undo \w+: )*edited by other means: {re.escape(file)}(?= |$).*\n?", re.MULTILINE
    )

    def scrub(data: bytes) -> bytes:
        text = Index.parse(data).without(file).decode(errors="surrogateescape")
        return reasons.sub("", text).encode(errors="surrogateescape")

    return scrub
