"""What happened: records, only ever appended, and the view they fold to; on disk first (T1)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence

from nacre.messages.records import Record
from nacre.messages.view import View

Write = Callable[[Sequence[Record]], Awaitable[None]]
"""Puts records where they survive; raising means they did not happen."""


async def nowhere(records: Sequence[Record]) -> None:
    """Keeps nothing: for sessions that live in memory only."""


class Transcript:
    """All records of one session; the one mutable thing a conversation has."""

    def __init__(self, records: Iterable[Record] = (), *, write: Write = nowhere) -> None:
        self._view = View.of(records)
        self._write = write

    @staticmethod
    def apart(view: View, *, write: Write = nowhere) -> Transcript:
        """A transcript of its own that goes on from a view, without folding it again; for forks (F2)."""
        transcript = Transcript(write=write)
        transcript._view = view.apart()
        return transcript

    @property
    def view(self) -> View:
        """What the model sees: the fold over all records."""
        return self._view

    @property
    def records(self) -> Sequence[Record]:
        """All that happened, oldest first."""
        return self._view.records

    async def append(self, *records: Record) -> None:
        """Record what happened: written first, then folded, so that nothing is seen that could be lost."""
        if not records:
            return
        await self._write(records)
        self._view = self._view.after(*records)
