"""The memories of a session as rows, and the actions on them; without a screen."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from textual.content import Content

from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.errors import StoreError
from nacre.formatting import human_age, human_count, printable, shorten
from nacre.inspect.memory_origin import change_line, origin_lines
from nacre.inspect.original_words import original_words
from nacre.memory.checks.review import Proposal, accept, reject, waiting
from nacre.memory.files.confirm import unconfirmed_changes
from nacre.memory.files.folder import Folder, version_of
from nacre.memory.files.transaction import pick_up
from nacre.memory.files.undo import newest_in_force, undo
from nacre.memory.format.entry import MemoryChange, read_entry
from nacre.memory.memory import Memory
from nacre.store.history import Commit

MOST_CHANGES = 1_000
"""Changes of one memory that are listed."""
DESCRIPTION_CHARS = 60
"""Columns of a description."""
NAME_CELLS = 24
_WHOSE = {"user": "yours", "team": "team", "agent": "agent"}
"""Scope by the source of its location; all others are the project's."""


@dataclass(frozen=True, slots=True)
class MemoryRow:
    """A memory, a change of it, or a proposal."""

    memory: Memory
    file: str
    line: str
    commit: str = ""
    proposal: Proposal | None = None

    def is_same(self, other: MemoryRow) -> bool:
        """Whether both rows stand for the same thing."""
        return (self.memory.location, self.file, self.commit, self.proposal and self.proposal.id) == (
            other.memory.location,
            other.file,
            other.commit,
            other.proposal and other.proposal.id,
        )


@dataclass(frozen=True, slots=True)
class Shelf:
    """All memories of a session."""

    memories: Sequence[Memory]
    home: Path
    session: str
    clock: Clock = SYSTEM_CLOCK

    async def entries(self) -> list[MemoryRow]:
        """Return every memory, newest first in each directory."""
        rows = []
        for memory in self.memories:
            doubted = await self._doubted(memory)
            for each in (await memory.scan()).entries:
                when = each.modified or each.written
                age = human_age(when, self.clock.now()) if when else "-"
                marks = "(untrusted) " * (each.origin == "untrusted") + "(unconfirmed) " * (
                    each.file in doubted
                )
                about = shorten(f"{marks}{each.description or '-'}", DESCRIPTION_CHARS)
                whose = _WHOSE.get(memory.location.source, "project")
                line = f"{whose:<8}{age:>10}  {_in_cells(each.file)}  {about}"
                rows.append(MemoryRow(memory, each.file, printable(line)))
        return rows

    async def _doubted(self, memory: Memory) -> Collection[str]:
        """Return the unconfirmed files; an unreadable history must not hide the memories."""
        try:
            return (await asyncio.to_thread(unconfirmed_changes, memory.location)).files.keys()
        except StoreError:
            return ()

    async def changes(self, row: MemoryRow) -> list[MemoryRow]:
        """Return the changes of a memory, newest first."""
        await pick_up(row.memory.location)  # what was edited by other means is a change, too
        confirmed = (await asyncio.to_thread(unconfirmed_changes, row.memory.location)).confirmed
        commits = await row.memory.log(limit=MOST_CHANGES, file=row.file)
        return [
            MemoryRow(row.memory, row.file, printable(change_line(one, confirmed)), one.id) for one in commits
        ]

    def proposals(self) -> list[MemoryRow]:
        """Return the proposals that wait for review."""
        return [
            MemoryRow(
                memory,
                one.file,
                printable(f"{one.id}  {one.what:<6}  {one.author:<10}  {one.file}"),
                proposal=one,
            )
            for memory in self.memories
            for one in waiting(memory.location)
        ]

    async def text(self, row: MemoryRow) -> str:
        """Return the file's text."""
        data = await asyncio.to_thread(Folder(row.memory.location.directory).read, row.file)
        return (data or b"").decode(errors="replace")

    async def diff(self, row: MemoryRow) -> str:
        """Return the diff of a change or a proposal."""
        if row.proposal is not None:
            return "\n".join(row.proposal.diff())
        return "\n".join(each.text for each in await row.memory.diff(row.commit) if each.file == row.file)

    async def why(self, row: MemoryRow) -> str:
        """Return the origin of a memory, with the original words if a log still has them."""
        data = Folder(row.memory.location.directory).read(row.file)
        entry = read_entry(row.file, data or b"")
        commits = await row.memory.log(limit=MOST_CHANGES, file=row.file)
        doubted = await asyncio.to_thread(unconfirmed_changes, row.memory.location)
        homes = (row.memory.location.base, self.home)
        words = await asyncio.to_thread(original_words, homes, entry.sources)
        told = [f"  {said.role} said: {said.text}" for said in words]
        return "\n".join([*origin_lines(entry, commits, doubted, is_there=data is not None), *told])

    async def keep(self, row: MemoryRow, before: str, after: str) -> None:
        """Write the edited file; raises if another process changed it meanwhile."""
        await row.memory.put(
            row.file, after.encode(), self._by_hand("edited by hand"), if_version=version_of(before.encode())
        )

    async def forget(self, row: MemoryRow) -> str:
        entry, _ = await row.memory.forget(row.file, self._by_hand("forgotten by hand"))
        return f"forgot {entry.file}; u brings it back"

    async def take_back(self, memory: Memory, commit: str) -> str:
        """Undo a change; later changes stay."""
        change = self._by_hand(f"undo {commit[:10]}")
        await undo(memory.location, commit, change=change, clock=memory.clock, watch=memory.watch)
        return f"took back {commit[:10]}"

    async def newest(self) -> tuple[Memory, str] | None:
        """Return the newest change that is not undone, in any directory."""
        found = [(memory, await asyncio.to_thread(_newest, memory)) for memory in self.memories]
        changes = [(memory, commit) for memory, commit in found if commit is not None]
        if not changes:
            return None
        memory, commit = max(changes, key=lambda one: one[1].at)
        return memory, commit.id

    async def accept(self, row: MemoryRow) -> str:
        assert row.proposal is not None, "only proposals are accepted"
        await accept(row.memory, row.proposal.id)
        return f"saved {row.file}; u in its history takes it back"

    async def reject(self, row: MemoryRow) -> str:
        assert row.proposal is not None, "only proposals are rejected"
        reject(row.memory.location, row.proposal.id)
        return f"rejected what was proposed for {row.file}"

    def size(self, row: MemoryRow, text: str) -> str:
        """Return the heading of a memory."""
        return f"{row.memory.location.directory / row.file} ({human_count(len(text.encode()))} bytes)"

    def _by_hand(self, reason: str) -> MemoryChange:
        return MemoryChange(author="user", reason=reason, session=self.session)


def _in_cells(name: str) -> str:
    """Pad names to equal width: Chinese characters take two columns."""
    return Content(name).truncate(NAME_CELLS, ellipsis=True, pad=True).plain


def _newest(memory: Memory) -> Commit | None:
    with suppress(StoreError):  # nothing was ever changed, or all of it taken back
        return newest_in_force(memory.location)
    return None
