"""What becomes of memories that were found: saved in one commit, or proposed to the person (E6, E7)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TypeAlias

from nacre.layers.l5_extract.policy import Consent
from nacre.memory.checks.review import Proposal, propose
from nacre.memory.copies import ChangedFile
from nacre.memory.files.folder import TEAM_PREFIX, version_of
from nacre.memory.files.scan import manifest_line
from nacre.memory.format.entry import Entry, MemoryChange, read_entry
from nacre.memory.memory import Memory
from nacre.memory.recall.manifest import MAX_MANIFEST_LINES
from nacre.messages.untrusted_text import neutralise

Hidden: TypeAlias = Callable[[Memory], Awaitable[frozenset[str]]]
"""The files of a memory that the model must not be told of (M27)."""
REASON = "drawn from the conversation"
SHORT_COMMIT = 10
"""Of a commit's id, as `nacre memory log` shows it."""
MAX_CHARS = 20_000
"""Of the manifest in a directive, which is paid for at the full price: about 5,000 tokens."""


async def nothing_hidden(memory: Memory) -> frozenset[str]:
    return frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What a run left behind."""

    files: tuple[str, ...] = ()
    """Topics, as the person calls them; the index is none."""
    where: tuple[tuple[Memory, str], ...] = ()
    """The memories that were changed, and the commits that did it."""
    team: int = 0
    """How many of the files are the team's."""
    is_proposed: bool = False

    @property
    def line(self) -> str:
        """For the person: what was saved, and how to take it back."""
        several = f"{len(self.files)} memor{'y' if len(self.files) == 1 else 'ies'}"
        names = ", ".join(self.files)
        if self.is_proposed:
            return f"{several} to review: {names} (nacre memory review)"
        return f"saved {several}: {names} (undo: {'; '.join(self.undo)})"

    @property
    def undo(self) -> list[str]:
        """The commands that take it back."""
        return [
            f"nacre memory undo {'--scope team ' * _is_team(memory)}{commit[:SHORT_COMMIT]}"
            for memory, commit in self.where
        ]


async def kept(changes: Sequence[ChangedFile], *, mode: Consent, session: str) -> Kept:
    """Save them, one commit a memory, or let them wait for the person."""
    left = Kept(
        files=tuple(f"{_prefix(one.memory)}{one.file}" for one in changes),
        team=sum(_is_team(one.memory) for one in changes),
        is_proposed=mode != "auto",
    )
    if mode != "auto":
        for one in changes:
            propose(one.memory.location, _proposal(one, session), clock=one.memory.clock)
        return left
    for memory in dict.fromkeys(one.memory for one in changes):
        files = {one.file: (one.after, version_of(one.before)) for one in changes if one.memory is memory}
        commit = await memory.put_all(files, MemoryChange(author="extract", reason=REASON, session=session))
        if commit:
            left = replace(left, where=(*left.where, (memory, commit)))
    return left


async def manifest_of(memories: Sequence[Memory], hidden: Hidden) -> tuple[str, tuple[str, ...]]:
    """A line for each memory, the newest first, as many as fit, and the names of all that may be told of."""
    lines: list[str] = []
    names: list[str] = []
    for memory in reversed(memories):
        without = await hidden(memory)
        entries = [one for one in (await memory.scan()).entries if _is_told(one, without)]
        names += [one.file for one in entries]
        shown = (replace(one, file=f"{_prefix(memory)}{one.file}") for one in entries)
        lines += [neutralise(manifest_line(one)) for one in islice(shown, MAX_MANIFEST_LINES)]
    room = MAX_CHARS
    for place, line in enumerate(lines[:MAX_MANIFEST_LINES]):
        room -= len(line) + 1
        if room < 0:
            return "\n".join(lines[:place]), tuple(names)
    return "\n".join(lines[:MAX_MANIFEST_LINES]), tuple(names)


def _is_told(entry: Entry, hidden: frozenset[str]) -> bool:
    """What nobody vouches for, or must stay here, is not shown by itself (M16b, M27)."""
    return entry.origin != "untrusted" and entry.file not in hidden


def _proposal(change: ChangedFile, session: str) -> Proposal:
    return Proposal(
        file=change.file,
        before=change.before,
        after=change.after,
        author="extract",
        reason=REASON,
        session=session,
        sources=read_entry(change.file, change.after).sources,
    )


def _is_team(memory: Memory) -> bool:
    return memory.location.source == "team"


def _prefix(memory: Memory) -> str:
    return TEAM_PREFIX if _is_team(memory) else ""
