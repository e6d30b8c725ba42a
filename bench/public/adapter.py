"""What a memory program does in the benchmark; an adapter for another program is a subclass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import ClassVar

from bench.replay.peer import Library, Peer, Room
from nacre.devtools.replay.schema import Maker

SHOWN = 5
"""Memories that a search may return: what fits into a message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedMemory:
    """A memory to save as it is."""

    text: str
    title: str = ""
    summary: str = ""
    kind: str = "project"
    """`user`, `feedback`, `project` or `reference`."""
    modified: datetime

    @property
    def whole(self) -> str:
        """Title, summary and text, for programs that keep one text."""
        return "\n".join(filter(None, (self.title, self.summary, self.text)))


@dataclass(frozen=True, slots=True)
class Hit:
    """A memory that would be attached to a message."""

    id: str
    """What `save` returned."""
    text: str
    has_warning: bool = False
    """Whether the program says with it that what it names is gone."""


@dataclass(frozen=True, slots=True)
class Turn:
    """A message of a conversation."""

    role: str
    """`user` or `assistant`."""
    text: str
    at: datetime


class Adapter:
    """Base class: a task is skipped for a program that does not override its methods.

    `recall` and `staleness` need `save` and `search`, `writers` needs `write`, `extraction` needs `chat` and
    `contents`, `sessions` needs `library` or `policy`. Each task makes a new adapter with an empty `folder`.
    """

    name: ClassVar[str]
    package: ClassVar[str] = ""
    """Its distribution, for the version in the results."""
    how: ClassVar[str] = ""
    """How the program was run: options, what replaced a model."""
    library: ClassVar[Callable[[Room], Library] | None] = None
    """How it keeps a conversation small; see `bench/replay/peer.py`."""

    def __init__(self, folder: Path, *, project: Path | None = None) -> None:
        """`project` is the working tree that memories are about."""
        self.folder = folder
        self.project = project
        self.now = datetime(2026, 11, 16, 10, tzinfo=UTC)
        """The time at which messages come; tasks change it."""

    @classmethod
    def policy(cls) -> Maker | None:
        """Return what keeps a conversation small in the task `sessions`."""
        return Peer(cls.name, cls.library) if cls.library else None

    @classmethod
    def version(cls) -> str:
        return f"{cls.package} {version(cls.package)}" if cls.package else "part of the benchmark"

    def save(self, memory: SavedMemory) -> str:
        """Save a memory and return its id; empty if the program refuses it."""
        raise NotImplementedError

    def search(self, message: str) -> list[Hit]:
        """Return what the program would attach to a message of the user, best first, at most `SHOWN`."""
        raise NotImplementedError

    def write(self, statement: str, said: Sequence[Turn]) -> bool:
        """Return whether a statement that a model wrote after these messages becomes a memory."""
        raise NotImplementedError

    def chat(self, turn: Turn) -> None:
        """Take a message of a conversation; the program keeps what it finds worth keeping."""
        raise NotImplementedError

    def contents(self) -> list[tuple[str, str]]:
        """Return the kind and the text of every memory; the kind is empty if there are none."""
        raise NotImplementedError

    def close(self) -> None:
        """End processes and connections."""


def overrides(adapter: type[Adapter], *methods: str) -> bool:
    """Return whether a program has all of these methods."""
    return all(getattr(adapter, name) is not getattr(Adapter, name) for name in methods)


def attached(store: Adapter, message: str) -> list[Hit]:
    """Return what the program would attach to a message; more than `SHOWN` cannot be compared."""
    found = store.search(message)
    if len(found) > SHOWN:
        raise ValueError(
            f"`search` of {store.name} returned {len(found)} memories; at most {SHOWN} may be attached"
        )
    return found
