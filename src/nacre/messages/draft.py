"""A summary before it is installed, and the span it replaces."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from nacre.messages.blocks import JsonObject

DraftKind: TypeAlias = Literal["full", "notes", "rules"]
"""A model's summary, the session's notes, or facts alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A summary without user quotes, actions and files, which are added from the log."""

    kind: DraftKind
    text: str = ""
    """Empty if facts alone replace the conversation."""
    covers: str | None = None
    """The last record it covers; None: all of the view it was made from."""
    place: int | None = None
    """Index of the item at which the kept tail should begin, if there is room; None: anywhere."""
    metadata: JsonObject = field(default_factory=dict)
    """Metadata for the log: number of tries, dropped quotations, reasons."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fragment:
    """Text that is read again and restored after a compaction (C21)."""

    kind: Literal["opening", "rules", "file", "skill", "plan", "agents", "other"]
    name: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemSpan:
    """The items that a summary replaces, as indexes into the items of the view."""

    first: int = 0
    """First item; items before it stay, and so does their cache."""
    keeps_from: int | None = None
    """First item of the kept tail; None: as much as there is room for."""

    @property
    def is_partial(self) -> bool:
        return self.first > 0 or self.keeps_from is not None


WHOLE = ItemSpan()
"""All items of a view."""
