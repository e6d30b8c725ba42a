"""Events of a conversation as display items; pure, so that they can be tested without a screen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from nacre.app.call_text import call_diff, call_line, result_line
from nacre.formatting import clean, counted, printable
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
from nacre.tui.pieces import Called, NoticeLine, Piece, ReplyText, Resulted, UserText, Void

MAX_DETAIL_LINES = 200
"""Lines of an opened call or result; the whole text is in the log or on disk."""
MAX_DETAIL_CHARS = 20_000
"""The same limit in characters."""


def piece_of(event: Event) -> Piece | None:
    """Return the display item of an event; None if it shows nothing."""
    match event:
        case TextDelta(text):
            return ReplyText(clean(text))
        case ThinkingDelta(text):
            return ReplyText(clean(text), is_thinking=True)
        case ToolCallEvent(call):
            return _called(call)
        case ToolResultEvent(call, result):
            return _resulted(result, call.name)
        case Waiting(seconds, reason):
            return NoticeLine(printable(f"… {reason}; trying again in {seconds:.0f} s"), "waiting")
        case StartedOver(reason):
            return Void(printable(reason))
        case Notice(text, level):
            return NoticeLine(printable(text), level)
        case _:
            return None


def pieces_of(record: Said, tools: Mapping[str, str]) -> Iterator[Piece]:
    """Return the display items of a message of a resumed session; `tools` names the tool of each call."""
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
                whole = replace(block, content=(Text(shown),)) if kept else block
                yield _resulted(whole, tools.get(block.call_id, ""))
            case _:
                pass


def _called(call: ToolCall) -> Called:
    detail = "\n".join(
        f"{name}: {value if isinstance(value, str) else repr(value)}" for name, value in call.input.items()
    )
    diff = tuple(printable(line) for line in call_diff(call)[:MAX_DETAIL_LINES])
    path = str(call.input.get("file_path", "")) if diff else ""
    return Called(call.id, printable(call_line(call)), _cut(detail), call.name, path, diff)


def _resulted(result: ToolResult, tool: str = "") -> Resulted:
    line = "\n".join(printable(each) for each in result_line(result, tool).splitlines())
    return Resulted(result.call_id, line, _cut(result.text), is_error=result.is_error)


def _cut(text: str) -> str:
    shown = clean(text[:MAX_DETAIL_CHARS]).strip("\n").splitlines()[:MAX_DETAIL_LINES]
    left = len(text.strip("\n").splitlines()) - len(shown)
    more = [f"… {counted(left, 'more line')}"] if left > 0 else ["…"] if len(text) > MAX_DETAIL_CHARS else []
    return "\n".join([*(line.expandtabs(4) for line in shown), *more])
