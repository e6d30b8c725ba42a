"""All that can happen to a conversation: five record kinds, frozen, in the order they happened.

A layer never edits a message; it returns records. The transcript appends them and the view is their fold.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, TypeAlias

from nacre.messages.blocks import Block, Json, JsonObject, Message, Role
from nacre.messages.usage import Usage

Aside = Literal["sidechain", "abandoned", "display"]
"""Why something said never reaches the model: another agent's, a branch left behind, or for people only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyFacts:
    """What the provider said about the reply a record belongs to."""

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
    """Not a person's words: injected by nacre or another program."""
    aside: Aside | None = None
    extra: JsonObject = field(default_factory=dict)
    """Envelope fields nacre does not know, kept for whoever wrote them."""

    @property
    def message(self) -> Message:
        """What was said, as a message."""
        return Message(self.role, self.blocks)


@dataclass(frozen=True, slots=True)
class ResultOf:
    """The address of a tool result: the call it answers."""

    call_id: str


@dataclass(frozen=True, slots=True)
class BlockOf:
    """The address of a block: the record that said it and its place there."""

    record_id: str
    index: int


Address: TypeAlias = ResultOf | BlockOf


@dataclass(frozen=True, slots=True)
class Change:
    """What stands at an address from now on; nothing at all means the block is gone."""

    at: Address
    stands: tuple[Block, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Replaced:
    """Addressed blocks stand differently from now on."""

    id: str
    at: datetime
    changes: tuple[Change, ...]
    reason: str
    """One word for the announcement: offload, clear, snip, thinking, edit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compacted:
    """Blocks stand for a span of the conversation."""

    id: str
    at: datetime
    summary: tuple[Block, ...]
    first: str | None = None
    """The first record of the span; none means the start of the view."""
    keeps_from: str | None = None
    """The first record after the span that stays as it is; none means the span runs to the end."""
    summary_id: str = ""
    """The id under which the summary stands in the view."""
    trigger: str = "auto"
    kind: Literal["full", "partial", "notes", "span", "provider"] = "full"
    pre_tokens: int | None = None
    post_tokens: int | None = None
    carries: tuple[Noted, ...] = ()
    """Bookkeeping that must outlive the span: whoever reads from here on finds it (C21)."""
    extra: JsonObject = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Undone:
    """An earlier record no longer counts."""

    id: str
    at: datetime
    target: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Noted:
    """Bookkeeping that moves no byte of any request."""

    id: str
    at: datetime
    kind: str
    facts: JsonObject = field(default_factory=dict)

    def fact(self, name: str) -> Json:
        """One of the facts; none if it was not noted."""
        return self.facts.get(name)


Record: TypeAlias = Said | Replaced | Compacted | Undone | Noted


@dataclass(frozen=True, slots=True)
class LogProblem:
    """Something odd in a log, and where; it never stops a session from loading."""

    kind: str
    where: str
    """A line number, record id or call id."""
    message: str
