"""Where an agent's letters wait: what a file on disk and a tray in memory have in common (A3, A5)."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self

from nacre.layers.l7_mail.letter import Letter


@dataclass(frozen=True, slots=True)
class Place:
    """Up to where an inbox was read; it holds for the same generation of the inbox only."""

    generation: str = ""
    offset: int = 0
    mark: str = ""
    """Stands for the bytes before it, so that a box that was cut and has grown again is not mistaken."""


NOWHERE = Place()
"""Before anything was read."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """What was found behind the cursor."""

    letters: tuple[Letter, ...]
    """In order; those of one sender as they were sent."""
    place: Place
    """To `settle` once the letters stand in the receiver's transcript."""
    aside: int = 0
    """How many unreadable lines this look has set aside."""
    more: bool = False
    """There was more than is taken at once: settle and look again."""


class Bell(Protocol):
    """Rings when something may have come; one waits at it at a time."""

    async def rung(self, seconds: float | None = None) -> bool:
        """Wait until there may be something new; false when the time is over or the bell closed."""
        ...

    def close(self) -> None:
        """Take it down; a second call does nothing."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Inbox(Protocol):
    """One agent's letters. Take a bell, look, wait at the bell: then nothing that comes is missed."""

    def put(self, letter: Letter) -> None:
        """Add a letter; when this returns, it is as safe as the inbox can keep it, and the bell has rung."""
        ...

    def waiting(self, known: Container[str] = ()) -> Waiting:
        """What came since the cursor, without letters whose ids are known."""
        ...

    def settle(self, place: Place) -> None:
        """Move the cursor to a place that `waiting` gave, never backwards."""
        ...

    def bell(self) -> Bell:
        """A new bell at this inbox."""
        ...
