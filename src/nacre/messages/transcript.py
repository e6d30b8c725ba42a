"""The append-only list of records and its view; records are written to disk first (T1)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence

from nacre.messages.records import Compacted, Record, Undone
from nacre.messages.view import View

Write = Callable[[Sequence[Record]], Awaitable[None]]
"""Writes records to durable storage; if it raises, they are not appended."""

Reread = Callable[[], Sequence[Record] | None]
"""Returns the records of the whole conversation, for one that was read from a compaction on; else None."""


async def nowhere(records: Sequence[Record]) -> None:
    """Write nothing, for sessions that live in memory only."""


class Transcript:
    """All records of one session; the only mutable part of a conversation."""

    def __init__(
        self, records: Iterable[Record] = (), *, write: Write = nowhere, reread: Reread | None = None
    ) -> None:
        self._view = View.of(records)
        self._write = write
        self._reread = reread

    @staticmethod
    def apart(view: View, *, write: Write = nowhere) -> Transcript:
        """Return a transcript that continues from a view without folding it again; for forks (F2)."""
        transcript = Transcript(write=write)
        transcript._view = view.apart()
        return transcript

    @property
    def view(self) -> View:
        """The fold over all records."""
        return self._view

    @property
    def records(self) -> Sequence[Record]:
        """All records, oldest first."""
        return self._view.records

    async def append(self, *records: Record) -> None:
        """Append records: written first, then folded, so that nothing in view can be lost."""
        if not records:
            return
        await self._write(records)
        self._view = self._view.after(*records)
        undone = {one.target for one in records if isinstance(one, Undone)}
        if undone and any(isinstance(one, Compacted) and one.id in undone for one in self.records):
            # What the compaction had replaced is in view again.
            whole = self._reread() if self._reread is not None else None
            self._view = self._view if whole is None else View.of(whole)
