"""One memory: what it says, what kind it is, and who said it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["user", "feedback", "project", "reference"]
"""The closed taxonomy (M12); an entry of no known kind is untyped."""
KINDS: tuple[Kind, ...] = ("user", "feedback", "project", "reference")

Origin: TypeAlias = Literal["user", "agent", "untrusted"]
"""Who said it (M16b): the person, an agent, or something that nobody vouches for."""

Author: TypeAlias = Literal["user", "agent", "extract", "dream", "team", "import", "unconfirmed"]
"""Who wrote a change into the history (M15)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One topic file as it was read."""

    file: str
    """Its path in the memory directory, with forward slashes."""
    name: str = ""
    description: str = ""
    """One specific line: it is what recall goes by."""
    kind: Kind | None = None
    body: str = ""
    created: datetime | None = None
    modified: datetime | None = None
    """What the frontmatter says; the file's own time is `written`."""
    written: datetime | None = None
    origin: Origin = "user"
    pinned: bool = False
    local_only: bool = False
    """Never leaves this machine (M27)."""
    verified: datetime | None = None
    sources: tuple[str, ...] = ()
    """The session and the messages the fact came from."""
    bytes: int = 0
    indexed: bool = False
    """Whether the index points to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A memory to be saved: a new one, or the next state of one that is there."""

    body: str
    kind: Kind | None = None
    name: str = ""
    """A title; worked out from the body when empty."""
    description: str = ""
    """Worked out from the body when empty."""
    file: str = ""
    """The topic to update; empty looks for one on the same subject, else makes a new one."""
    origin: Origin = "user"
    pinned: bool | None = None
    local_only: bool | None = None
    sources: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Who changes memory, and why; stands in the history (M15)."""

    author: Author
    reason: str
    session: str = ""
