"""The five kinds of records of a conversation, frozen, in the order they happened.

A layer never edits a message; it returns records. The transcript appends them and the view is their fold.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, TypeAlias

from nacre.messages.blocks import Block, Json, JsonObject, Message, Role
from nacre.messages.usage import Usage

Aside = Literal["sidechain", "abandoned", "display"]
"""Why a message is not sent to the model: another agent's, an abandoned branch, or for people only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyFacts:
    """Metadata of the reply that a record belongs to."""

    id: str | None = None
    """The provider's message id; records that share it are one reply."""
    model: str | None = None
    stop_reason: str | None = None
    usage: Usage | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """A message, or a part of one, with its exact blocks."""

    id: str
    at: datetime
    role: Role
    blocks: tuple[Block, ...]
    reply: ReplyFacts | None = None
    """Set on assistant records."""
    meta: bool = False
    """Not written by a person: injected by nacre or another program."""
    aside: Aside | None = None
    extra: JsonObject = field(default_factory=dict)
    """Unknown envelope fields, kept unchanged."""

    @property
    def message(self) -> Message:
        """Return the record as a message."""
        return Message(self.role, self.blocks)


@dataclass(frozen=True, slots=True)
class ResultOf:
    """Address of a tool result: the id of its call."""

    call_id: str


@dataclass(frozen=True, slots=True)
class BlockOf:
    """Address of a block: its record and its index there."""

    record_id: str
    index: int


Address: TypeAlias = ResultOf | BlockOf


@dataclass(frozen=True, slots=True)
class Change:
    """New content of an address; empty removes the block."""

    at: Address
    stands: tuple[Block, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Replaced:
    """Replaces the content of addressed blocks."""

    id: str
    at: datetime
    changes: tuple[Change, ...]
    reason: str
    """One word: offload, clear, snip, thinking, edit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compacted:
    """Replaces a span of the conversation by a summary."""

    id: str
    at: datetime
    summary: tuple[Block, ...]
    first: str | None = None
    """First record of the span; None: the start of the view."""
    keeps_from: str | None = None
    """First record after the span; None: the span runs to the end."""
    summary_id: str = ""
    """Id of the summary in the view."""
    trigger: str = "auto"
    kind: Literal["full", "partial", "notes", "span", "provider"] = "full"
    pre_tokens: int | None = None
    post_tokens: int | None = None
    carries: tuple[Noted, ...] = ()
    """Notes of the span that are needed later, so that a session can be read from here on (C21)."""
    extra: JsonObject = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Undone:
    """Cancels an earlier record."""

    id: str
    at: datetime
    target: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Noted:
    """Bookkeeping that changes no byte of a request."""

    id: str
    at: datetime
    kind: str
    facts: JsonObject = field(default_factory=dict)

    def fact(self, name: str) -> Json:
        """Return one of the facts; None if it is missing."""
        return self.facts.get(name)


Record: TypeAlias = Said | Replaced | Compacted | Undone | Noted


@dataclass(frozen=True, slots=True)
class LogProblem:
    """An irregularity in a log and its location; it never stops a session from loading."""

    kind: str
    where: str
    """A line number, record id or call id."""
    message: str
