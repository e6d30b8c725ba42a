"""What is to stand for a part of a conversation before it is installed: layers make it, agents install it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from nacre.messages.blocks import JsonObject

DraftKind: TypeAlias = Literal["full", "notes", "rules"]
"""A model's summary, the session's notes, or facts alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A summary as it was made: without a person's words, deeds and files, which are added from the log."""

    kind: DraftKind
    text: str = ""
    """Empty where facts alone stand for the conversation."""
    covers: str | None = None
    """The last record it knows of; none: all of the view it was made from."""
    place: int | None = None
    """Where among the items of its view the kept tail should begin, if there is room; none: anywhere."""
    told: JsonObject = field(default_factory=dict)
    """For the log: how often it was asked for, what was dropped from it, and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fragment:
    """Something a compaction gets back, re-read now and rendered (C21)."""

    kind: Literal["opening", "rules", "file", "skill", "plan", "agents", "other"]
    name: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemSpan:
    """Which items a summary shall stand for, as places among the items of the view."""

    first: int = 0
    """Where it begins; what stands before stays, and so does the cache of it."""
    keeps_from: int | None = None
    """Where the kept tail begins; none: wherever the room ends."""

    @property
    def is_partial(self) -> bool:
        return self.first > 0 or self.keeps_from is not None


WHOLE = ItemSpan()
"""All items of a view."""
