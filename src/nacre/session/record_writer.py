"""One conversation: its transcript, what stands before it, what it costs, and the requests it makes.

Usable on its own by people with a loop of their own: `prepare` gives a request, `record` takes the reply,
`add_results` the answers of the tools (Q4).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from nacre.messages.records import Record


class RecordWriter(Protocol):
    """Where a session's records are kept."""

    @property
    def session_id(self) -> str: ...

    async def write(self, records: Sequence[Record]) -> None: ...

    async def sync(self) -> None:
        """Come back when everything written would survive a power cut."""
        ...

    async def close(self) -> None: ...


class InMemory:
    """Keeps nothing: for people with a store of their own, and for sessions that must leave no trace."""

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id

    async def write(self, records: Sequence[Record]) -> None:
        return None

    async def sync(self) -> None:
        return None

    async def close(self) -> None:
        return None
