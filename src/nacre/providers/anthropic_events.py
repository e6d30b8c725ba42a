"""Puts a reply together from Anthropic's raw stream events, losing nothing of its blocks."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace

from nacre.errors import StreamBroken
from nacre.messages.blocks import Block, Json, JsonObject, Message, ToolCall
from nacre.messages.events import CallReady, ProviderEvent, Reply, ReplyStarted, TextDelta, ThinkingDelta
from nacre.messages.tokens import JSON_BYTES_PER_TOKEN, estimate_blocks, estimate_text
from nacre.messages.usage import Usage
from nacre.messages.wire import parse_block
from nacre.providers.parse import as_count, as_text, parse_arguments


class Assembly:
    """A reply while it is being streamed."""

    def __init__(self) -> None:
        self._head: JsonObject = {}
        self._usage: JsonObject = {}
        self._stop_reason: str | None = None
        self._open: dict[int, _OpenBlock] = {}
        self._done: dict[int, Block] = {}
        self._is_over = False

    def take(self, event: object) -> list[ProviderEvent]:
        """What the reader should learn from this event; an event of a kind not known yet is passed over."""
        match event:
            case {"type": "content_block_delta", "index": int(index), "delta": dict(delta)}:
                return self._opened(index).add(delta)
            case {"type": "content_block_start", "index": int(index), "content_block": dict(block)}:
                return self._start(index, block)
            case {"type": "content_block_stop", "index": int(index)}:
                return self._finish(index)
            case {"type": "message_start", "message": dict(head)}:
                self._head = head
                self._count(head.get("usage"))
                return [ReplyStarted(self.usage_so_far)]
            case {"type": "message_delta", "delta": dict(delta), **rest}:
                reason = delta.get("stop_reason")
                self._stop_reason = reason if isinstance(reason, str) else self._stop_reason
                self._count(rest.get("usage"))
            case {"type": "message_stop"}:
                self._is_over = True
            case {"type": str(kind)} if kind not in _SHAPED:
                pass
            case _:
                raise StreamBroken(f"unreadable stream event: {json.dumps(event)[:200]}")
        return []

    def reply(self) -> Reply:
        """The whole reply; only a stream that said it was over has one."""
        if not self._is_over or self._open or not self._head:
            raise StreamBroken("the reply ended before it was complete")
        return Reply(
            message=Message("assistant", tuple(self._done[index] for index in sorted(self._done))),
            usage=parse_usage(self._usage),
            stop_reason=self._stop_reason,
            id=as_text(self._head.get("id")),
            model=as_text(self._head.get("model")),
        )

    def usage_so_far(self) -> Usage:
        """The usage reported so far; output that was received but not reported yet is estimated."""
        reported = parse_usage(self._usage)
        received = estimate_blocks(self._done.values()) + sum(one.tokens for one in self._open.values())
        output = reported.output if self._stop_reason else max(reported.output, received)
        return replace(reported, output=output, approximate=True)

    def _start(self, index: int, block: JsonObject) -> list[ProviderEvent]:
        if index in self._open or index in self._done:
            raise StreamBroken(f"block {index} of the reply began twice")
        self._open[index] = _OpenBlock(block)
        match block:
            case {"type": "text", "text": str(text)} if text:
                return [TextDelta(text)]
            case {"type": "thinking", "thinking": str(text)} if text:
                return [ThinkingDelta(text)]
            case _:
                return []

    def _finish(self, index: int) -> list[ProviderEvent]:
        block = parse_block(self._opened(index).whole())
        del self._open[index]
        self._done[index] = block
        return [CallReady(block)] if isinstance(block, ToolCall) else []

    def _opened(self, index: int) -> _OpenBlock:
        if index not in self._open:
            raise StreamBroken(f"block {index} of the reply was never begun")
        return self._open[index]

    def _count(self, usage: object) -> None:
        if isinstance(usage, dict):
            self._usage |= {key: value for key, value in usage.items() if value is not None}


def parse_reply(answer: object) -> Reply:
    """A reply that came in one piece."""
    match answer:
        case {"content": list(content), "usage": dict(usage), "model": str(model), "stop_reason": reason}:
            return Reply(
                message=Message("assistant", tuple(parse_block(block) for block in content)),
                usage=parse_usage(usage),
                stop_reason=str(reason),
                model=model,
            )
        case _:
            raise StreamBroken(f"unreadable reply: {json.dumps(answer)[:200]}")


_SHAPED = frozenset(
    {
        "message_start",
        "message_delta",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
    }
)
"""Events whose shape is known: one of these that did not match is damaged, not new."""


@dataclass(slots=True)
class _OpenBlock:
    """A content block whose parts still come in."""

    start: JsonObject
    pieces: dict[str, list[str]] = field(default_factory=dict)
    arguments: list[str] = field(default_factory=list)
    citations: list[Json] = field(default_factory=list)
    values: JsonObject = field(default_factory=dict)

    def add(self, delta: JsonObject) -> list[ProviderEvent]:
        match delta:
            case {"type": "input_json_delta", "partial_json": str(part)}:
                self.arguments.append(part)
            case {"type": "citations_delta", "citation": citation}:
                self.citations.append(citation)
            case {"type": "text_delta", "text": str(text)}:
                self.pieces.setdefault("text", []).append(text)
                return [TextDelta(text)] if text else []
            case {"type": "thinking_delta", "thinking": str(text)}:
                self.pieces.setdefault("thinking", []).append(text)
                return [ThinkingDelta(text)] if text else []
            case _:
                self._add_unknown(delta)
        return []

    @property
    def tokens(self) -> int:
        """About how many tokens of it were received."""
        texts = (piece for name in ("text", "thinking") for piece in self.pieces.get(name, ()))
        arguments = sum(map(len, self.arguments)) // JSON_BYTES_PER_TOKEN
        return estimate_text("".join(texts)) + arguments

    def _add_unknown(self, delta: JsonObject) -> None:
        """Text grows and anything else stands as last said: true of every delta kind so far."""
        for key, value in delta.items():
            if key == "type" or value is None:
                continue
            if isinstance(value, str):
                self.pieces.setdefault(key, []).append(value)
            else:
                self.values[key] = value

    def whole(self) -> JsonObject:
        block = {**self.start, **self.values}
        for key, pieces in self.pieces.items():
            begun = block.get(key)
            block[key] = (begun if isinstance(begun, str) else "") + "".join(pieces)
        if self.citations:
            begun = block.get("citations")
            block["citations"] = [*(begun if isinstance(begun, list) else []), *self.citations]
        if self.arguments:
            block["input"] = parse_arguments("".join(self.arguments))
        return block


def parse_usage(usage: JsonObject) -> Usage:
    """Anthropic's three input counters exclude each other already.

    A request that only compacts reports nothing above: what is billed stands among its iterations (C23b).
    """
    said = _counted(usage)
    steps = usage.get("iterations")
    if said != Usage() or not isinstance(steps, list):
        return said
    return sum((_counted(step) for step in steps if isinstance(step, dict)), said)


def _counted(usage: JsonObject) -> Usage:
    written = usage.get("cache_creation")
    return Usage(
        input=as_count(usage.get("input_tokens")),
        cache_write=as_count(usage.get("cache_creation_input_tokens")),
        cache_read=as_count(usage.get("cache_read_input_tokens")),
        output=as_count(usage.get("output_tokens")),
        cache_write_1h=as_count(written.get("ephemeral_1h_input_tokens")) if isinstance(written, dict) else 0,
    )
