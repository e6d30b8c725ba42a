"""Replies of the simulated model: from a script, a recorded conversation, or another provider.

A reply source is any `async (body) -> ScriptedReply`; `body` is in Anthropic's format.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from nacre.devtools.sim.faults import Fault
from nacre.messages.blocks import Json, JsonObject
from nacre.messages.events import Reply
from nacre.messages.tokens import estimate_blocks
from nacre.messages.wire import parse_content, render_blocks
from nacre.providers.base import Provider, Request, complete


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedReply:
    """One reply of the simulated model, with its fault if any."""

    content: tuple[JsonObject, ...] = ()
    """Wire blocks; a tool call without an id gets one when it is sent."""
    stop_reason: str | None = None
    """None: `tool_use` if there is a call, else `end_turn`."""
    output_tokens: int | None = None
    """None: estimated from the content."""
    delay: float = 0.0
    """Seconds until the first token, on the simulator's clock."""
    duration: float = 0.0
    """Seconds from the first token to the last."""
    fault: Fault | None = None

    @property
    def tokens(self) -> int:
        if self.output_tokens is not None:
            return self.output_tokens
        return estimate_blocks(parse_content(list(self.content)))

    @property
    def calls_tools(self) -> bool:
        return any(block.get("type") == "tool_use" for block in self.content)

    @property
    def text(self) -> str:
        return "".join(str(block.get("text")) for block in self.content if block.get("type") == "text")


class ReplySource(Protocol):
    """Source of replies when no script item is left."""

    async def __call__(self, body: JsonObject) -> ScriptedReply: ...


DEFAULT_MAX_TOKENS = 8_192
"""Limit for another provider if the request gives none (only OpenAI's may omit it)."""

SYNTHETIC = "<synthetic>"
"""Model name with which a session log records an error as an assistant message."""

EXHAUSTED = ScriptedReply(content=({"type": "text", "text": "The script is exhausted."},))


async def exhausted(body: JsonObject) -> ScriptedReply:
    """The reply source after the script: reports that it is empty."""
    return EXHAUSTED


def replies_from_messages(messages: Iterable[JsonObject]) -> list[ScriptedReply]:
    """Return the assistant's replies of a recorded conversation, in the order in which they began.

    Takes wire messages, bare or inside the `{"message": …}` lines of a session log. Some logs write a line
    per block, with tool results in between: lines of one message id are one reply. Sidechains and error notes
    that no model wrote are left out.
    """
    grouped: dict[str, list[JsonObject]] = {}
    for number, item in enumerate(messages):
        inner = item.get("message")
        message = inner if isinstance(inner, dict) else item
        aside = item.get("isSidechain") is True or item.get("sidechain") is True
        if message.get("role") != "assistant" or aside or message.get("model") == SYNTHETIC:
            continue
        known = message.get("id", message.get("msg"))
        grouped.setdefault(f"line {number}" if known is None else f"id {known}", []).append(message)
    return [_recorded(lines) for lines in grouped.values()]


def _recorded(lines: list[JsonObject]) -> ScriptedReply:
    content = tuple(block for line in lines for block in content_blocks(line.get("content")))
    reasons = [line["stop_reason"] for line in lines if isinstance(line.get("stop_reason"), str)]
    counted = max(_recorded_output(line.get("usage")) for line in lines)
    estimated = ScriptedReply(content=content).tokens
    return ScriptedReply(
        content=content,
        stop_reason=str(reasons[-1]) if reasons else None,
        # A log written while the reply streamed holds the count at its start: accept only higher ones.
        output_tokens=counted if counted >= estimated else None,
    )


def _recorded_output(usage: Json) -> int:
    counters = usage if isinstance(usage, dict) else {}
    output = counters.get("output_tokens", counters.get("output"))
    return output if isinstance(output, int) else 0


def replies_from_provider(provider: Provider) -> ReplySource:
    """Return a source that lets another provider answer, for example the embedded engine."""

    async def source(body: JsonObject) -> ScriptedReply:
        return _from_reply(await complete(provider, _request(body)))

    return source


def _request(body: JsonObject) -> Request:
    output = body.get("output_config")
    shape = output.get("format") if isinstance(output, dict) else None
    schema = shape.get("schema") if isinstance(shape, dict) else None
    limit = body.get("max_tokens")
    thinking = body.get("thinking")
    return Request(
        model=str(body.get("model")),
        messages=[dict(item) for item in _objects(body.get("messages"))],
        system=list(content_blocks(body.get("system"))),
        tools=[dict(item) for item in _objects(body.get("tools"))],
        max_tokens=limit if isinstance(limit, int) else DEFAULT_MAX_TOKENS,
        thinking=thinking if isinstance(thinking, dict) else None,
        output_schema=schema if isinstance(schema, dict) else None,
    )


def _from_reply(reply: Reply) -> ScriptedReply:
    return ScriptedReply(
        content=tuple(block for block in render_blocks(reply.message.blocks) if isinstance(block, dict)),
        stop_reason=reply.stop_reason,
        output_tokens=reply.usage.output or None,
    )


def content_blocks(content: Json) -> tuple[JsonObject, ...]:
    """Return a `content` or `system` as wire blocks; a bare text is one block."""
    if isinstance(content, str):
        return ({"type": "text", "text": content},) if content else ()
    return tuple(_objects(content))


def _objects(value: Json) -> list[JsonObject]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
