"""Events of a conversation as display items; pure, so that they can be tested without a screen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from nacre.app.session_text import call_line, result_line
from nacre.formatting import clean, printable
from nacre.messages.blocks import Text, Thinking, ToolCall, ToolResult
from nacre.messages.events import (
    Event,
    Notice,
    StartedOver,
    TextDelta,
    ThinkingDelta,
    ToolCallEvent,
    ToolResultEvent,
    Waiting,
)
from nacre.messages.records import Said
from nacre.providers.embedded.conversation import as_shown

MAX_DETAIL_LINES = 200
"""Lines of an opened call or result; the whole text is in the log or on disk."""
MAX_DETAIL_CHARS = 20_000
"""The same limit in characters."""

Level: TypeAlias = Literal["info", "warning", "error", "bold", "plain"]


@dataclass(frozen=True, slots=True)
class UserText:
    """A message of the user."""

    text: str


@dataclass(frozen=True, slots=True)
class ReplyText:
    """More text of the model's reply or thinking."""

    text: str
    is_thinking: bool = False


@dataclass(frozen=True, slots=True)
class Called:
    """A tool call on one line, and its details."""

    id: str
    line: str
    detail: str


@dataclass(frozen=True, slots=True)
class Resulted:
    """The result of a call."""

    id: str
    line: str
    detail: str
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class NoticeLine:
    """A notice beside the conversation."""

    text: str
    level: Level = "info"


@dataclass(frozen=True, slots=True)
class Void:
    """Discard what was streamed of this reply."""

    reason: str


Piece: TypeAlias = UserText | ReplyText | Called | Resulted | NoticeLine | Void


def piece_of(event: Event) -> Piece | None:
    """Return the display item of an event; None if it shows nothing."""
    match event:
        case TextDelta(text):
            return ReplyText(clean(text))
        case ThinkingDelta(text):
            return ReplyText(clean(text), is_thinking=True)
        case ToolCallEvent(call):
            return _called(call)
        case ToolResultEvent(_, result):
            return _resulted(result)
        case Waiting(seconds, reason):
            return NoticeLine(printable(f"… {reason}; trying again in {seconds:.0f} s"), "warning")
        case StartedOver(reason):
            return Void(printable(reason))
        case Notice(text, level):
            return NoticeLine(printable(text), level)
        case _:
            return None


def pieces_of(record: Said) -> Iterator[Piece]:
    """Return the display items of a message of a resumed session."""
    for block in record.blocks:
        match block:
            case Text(text) if text.strip() and not record.meta:
                yield UserText(clean(text)) if record.role == "user" else ReplyText(clean(text))
            case Thinking(text) if text.strip():
                yield ReplyText(clean(text), is_thinking=True)
            case ToolCall():
                yield _called(block)
            case ToolResult():
                shown, kept, _ = as_shown(block.text, {})
                yield _resulted(replace(block, content=(Text(shown),)) if kept else block)
            case _:
                pass


def _called(call: ToolCall) -> Called:
    detail = "\n".join(
        f"{name}: {value if isinstance(value, str) else repr(value)}" for name, value in call.input.items()
    )
    return Called(call.id, printable(call_line(call)), _cut(detail))


def _resulted(result: ToolResult) -> Resulted:
    return Resulted(
        result.call_id, printable(result_line(result)), _cut(result.text), is_error=result.is_error
    )


def _cut(text: str) -> str:
    shown = clean(text[:MAX_DETAIL_CHARS]).strip("\n").splitlines()[:MAX_DETAIL_LINES]
    left = len(text.strip("\n").splitlines()) - len(shown)
    more = [f"… {left:,} more lines"] if left > 0 else ["…"] if len(text) > MAX_DETAIL_CHARS else []
    return "\n".join([*(line.expandtabs(4) for line in shown), *more])
