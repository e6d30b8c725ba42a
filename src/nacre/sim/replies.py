"""What the simulated model says: from a script, a recorded conversation, or another provider.

A reply source is any `async (body) -> ScriptedReply`; `body` is in Anthropic's vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from nacre.messages.blocks import Json, JsonObject
from nacre.messages.events import Reply
from nacre.messages.tokens import estimate_blocks
from nacre.messages.wire import parse_content, render_blocks
from nacre.providers.base import Provider, Request, complete
from nacre.sim.faults import Fault


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedReply:
    """One answer of the simulated model, and how it goes wrong if it does."""

    content: tuple[JsonObject, ...] = ()
    """Wire blocks; a tool call without an id is given one when it is sent."""
    stop_reason: str | None = None
    """None: `tool_use` when there is a call, else `end_turn`."""
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
    """Where replies come from when no script item is left."""

    async def __call__(self, body: JsonObject) -> ScriptedReply: ...


DEFAULT_MAX_TOKENS = 8_192
"""What another provider is allowed when the request gives no limit (only OpenAI's may leave it out)."""

EXHAUSTED = ScriptedReply(content=({"type": "text", "text": "The script is exhausted."},))


async def exhausted(body: JsonObject) -> ScriptedReply:
    """The source behind an empty script: says so."""
    return EXHAUSTED


def replies_from_messages(messages: Iterable[JsonObject]) -> list[ScriptedReply]:
    """The assistant's messages of a recorded conversation, in order.

    Takes wire messages, bare or inside a `{"message": …}` line of a session log. Neighbouring lines with one
    message id are parts of one reply, as some logs write a line per block.
    """
    replies: list[ScriptedReply] = []
    last_id: Json = None
    for item in messages:
        inner = item.get("message")
        message = inner if isinstance(inner, dict) else item
        if message.get("role") != "assistant":
            last_id = None
            continue
        reply = _recorded(message)
        message_id = message.get("id")
        if message_id is not None and message_id == last_id and replies:
            first = replies.pop()
            reply = ScriptedReply(
                content=(*first.content, *reply.content),
                stop_reason=reply.stop_reason or first.stop_reason,
                output_tokens=max(first.output_tokens or 0, reply.output_tokens or 0) or None,
            )
        replies.append(reply)
        last_id = message_id
    return replies


def _recorded(message: JsonObject) -> ScriptedReply:
    usage = message.get("usage")
    output = usage.get("output_tokens") if isinstance(usage, dict) else None
    stop_reason = message.get("stop_reason")
    return ScriptedReply(
        content=content_blocks(message.get("content")),
        stop_reason=stop_reason if isinstance(stop_reason, str) else None,
        output_tokens=output if isinstance(output, int) else None,
    )


def replies_from_provider(provider: Provider) -> ReplySource:
    """Let another provider answer, for example the embedded engine."""

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
    """A `content` or `system` as wire blocks; a bare text is one of them."""
    if isinstance(content, str):
        return ({"type": "text", "text": content},) if content else ()
    return tuple(_objects(content))


def _objects(value: Json) -> list[JsonObject]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
