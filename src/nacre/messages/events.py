"""Events that a turn streams while it runs; front ends render them and decide nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from nacre.messages.blocks import Message, ToolCall, ToolResult
from nacre.messages.usage import Usage


@dataclass(frozen=True, slots=True)
class ReplyStarted:
    """The provider has accepted the request, which is billed from here on; not an event of a turn."""

    usage_so_far: Callable[[], Usage]
    """Return the usage of the reply up to the moment of the call; a prompt of 0 means that it is not known
    yet."""


@dataclass(frozen=True, slots=True)
class TextDelta:
    """More text of the reply being streamed."""

    text: str


@dataclass(frozen=True, slots=True)
class ThinkingDelta:
    """More of the model's reasoning."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolCallEvent:
    """The model has finished writing one tool call; more may follow in the same reply."""

    call: ToolCall


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A whole answer of a provider; always the last event of a provider's stream."""

    message: Message
    usage: Usage
    stop_reason: str | None = "end_turn"
    id: str | None = None
    model: str | None = None


@dataclass(frozen=True, slots=True)
class ToolResultEvent:
    """A tool call was answered."""

    call: ToolCall
    result: ToolResult


@dataclass(frozen=True, slots=True)
class Waiting:
    """The provider asked for a later retry; the next try starts after so many seconds."""

    seconds: float
    reason: str


@dataclass(frozen=True, slots=True)
class StartedOver:
    """What was streamed of this reply is void: the attempt failed and the next one begins."""

    reason: str
    usage: Usage | None = None
    """Usage of the void attempt, as far as it is known."""


NoticeLevel = Literal["info", "warning"]


@dataclass(frozen=True, slots=True)
class Notice:
    """One line for the user: something was removed, saved, recalled, or failed."""

    text: str
    level: NoticeLevel = "info"


Outcome: TypeAlias = Literal["answered", "refused", "empty", "turn_limit"]
"""How a turn ended: with an answer, a refusal, a reply without text, or at the limit of model calls."""
REFUSAL = "refusal"
"""The `stop_reason` of a reply that declines to answer."""


@dataclass(frozen=True, slots=True)
class TurnDone:
    """The turn is over; one that failed or was cancelled raises instead."""

    outcome: Outcome
    rounds: int
    usage: Usage
    cost_usd: float | None
    """None if the price of a model that was asked is not known."""


ProviderEvent: TypeAlias = (
    ReplyStarted | TextDelta | ThinkingDelta | ToolCallEvent | Waiting | StartedOver | Reply
)
"""Events of a provider's stream."""
Event: TypeAlias = ProviderEvent | ToolResultEvent | Notice | TurnDone
"""Events of a turn."""
