"""Adapter for Anthropic's Messages API through its SDK; requests are sent unchanged, byte for byte."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import httpx2

from nacre.errors import AuthError, ConfigError, ProviderError, StreamBroken
from nacre.formatting import how_to_install
from nacre.messages.blocks import Block, Json, JsonObject, Message, ToolCall
from nacre.messages.events import (
    ProviderEvent,
    Reply,
    ReplyStarted,
    TextDelta,
    ThinkingDelta,
    ToolCallEvent,
)
from nacre.messages.tokens import JSON_BYTES_PER_TOKEN, estimate_blocks, estimate_text
from nacre.messages.usage import Usage
from nacre.messages.wire import parse_block
from nacre.providers import failures
from nacre.providers.base import Capabilities, Request, capabilities_of, wire_name
from nacre.providers.parse import as_count, as_text, parse_arguments, with_clean_text, without_own

if TYPE_CHECKING:
    from anthropic import APIStatusError, AsyncAnthropic, AsyncStream
    from anthropic._types import RequestOptions

SILENCE_SECONDS = 120.0
"""A stream sends pings every few seconds; two minutes without a byte mean that it is dead."""
CONNECT_SECONDS = 15.0
"""A longer wait for a host that is down would only delay the retry."""
KEY_VARIABLE = "ANTHROPIC_API_KEY"
_NAME = "anthropic"
_MESSAGES = "/v1/messages"
_COUNTED = frozenset({"tool_choice", "cache_control", "context_management"})
"""Options that change the size of a prompt; a token count accepts no others."""
_STATUS_OF = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""The status for the type of an error inside a stream, which has HTTP status 200."""


class AnthropicProvider:
    """Anthropic's models."""

    def __init__(
        self,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        client: AsyncAnthropic | None = None,
        timeout: float | None = None,
    ) -> None:
        self._api_key = api_key
        self._base_url = base_url
        self._client = client
        self._owns_client = client is None
        self._timeout = timeout or SILENCE_SECONDS

    @property
    def name(self) -> str:
        return _NAME

    def capabilities(self, model: str) -> Capabilities:
        return capabilities_of(model)

    async def stream(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
        """Yield text and thinking as they arrive, calls when complete, then the whole reply."""
        client = self._connect()
        if not request.generates:
            # As a stream, a request without output is refused; its answer arrives at once and is empty.
            with self._translate_errors(client):
                yield parse_reply(await self._post(client, _MESSAGES, request, request.body()))
            return
        builder = AnthropicReplyBuilder()
        with self._translate_errors(client):
            async with await self._open(client, request) as events:
                async for event in events:
                    for part in builder.take(event):
                        yield part
        yield builder.reply()

    async def count_tokens(self, request: Request) -> int | None:
        """Return the provider's token count; None if a compatible server has no such endpoint."""
        client = self._connect()
        from anthropic import NotFoundError  # noqa: PLC0415  imported by the first call, not at start

        try:
            with self._translate_errors(client, passing=NotFoundError):
                counted = {key: value for key, value in request.options.items() if key in _COUNTED}
                body = {**request.prompt(), **counted}
                answer = await self._post(client, f"{_MESSAGES}/count_tokens", request, body)
        except NotFoundError:
            return None
        tokens = answer.get("input_tokens") if isinstance(answer, dict) else None
        return tokens if isinstance(tokens, int) else None

    async def close(self) -> None:
        if self._client is not None and self._owns_client:
            await self._client.close()
            self._client = None

    def _connect(self) -> AsyncAnthropic:
        if self._client is not None:
            return self._client
        try:
            from anthropic import AsyncAnthropic, CredentialsError  # noqa: PLC0415  half a second, paid by the first call only
        except ImportError as error:
            raise ConfigError(
                f"Claude models need the anthropic package: {how_to_install('anthropic')}"
            ) from error
        try:
            self._client = AsyncAnthropic(api_key=self._api_key, base_url=self._base_url, max_retries=0)
        except CredentialsError as error:
            raise _no_key() from error
        return self._client

    async def _open(self, client: AsyncAnthropic, request: Request) -> AsyncStream[object]:
        """Open the stream of events as JSON: typed models would reorder keys and change unknown blocks."""
        from anthropic import AsyncStream  # noqa: PLC0415  see _connect

        body: dict[str, object] = {**_own_body(request.body(), request.model), "stream": True}

        async def post(body: object) -> AsyncStream[object]:
            return await client.post(
                _MESSAGES,
                cast_to=object,
                body=body,
                options=self._options(request),
                stream=True,
                stream_cls=AsyncStream[object],
            )

        return await with_clean_text(post, body)

    async def _post(self, client: AsyncAnthropic, path: str, request: Request, body: JsonObject) -> object:
        async def post(body: object) -> object:
            return await client.post(path, cast_to=object, body=body, options=self._options(request))

        return await with_clean_text(post, {**_own_body(body, request.model)})

    def _options(self, request: Request) -> RequestOptions:
        options: RequestOptions = {
            # nacre retries itself and reports it; retries of both would multiply.
            "max_retries": 0,
            # Per read: any byte, also of a ping, restarts it.
            "timeout": httpx2.Timeout(self._timeout, connect=CONNECT_SECONDS),
        }
        if request.betas:
            options["headers"] = {"anthropic-beta": ",".join(request.betas)}
            options["params"] = {"beta": "true"}
        return options

    @contextmanager
    def _translate_errors(
        self, client: AsyncAnthropic, *, passing: type[Exception] | tuple[()] = ()
    ) -> Iterator[None]:
        """Translate errors of the SDK into nacre's errors."""
        from anthropic import AnthropicError  # noqa: PLC0415  see _connect

        try:
            yield
        except passing:
            raise
        except (AnthropicError, httpx2.TransportError, ValueError, RecursionError) as error:
            # Those of Python come from events that are not JSON, not UTF-8 or nested too deeply.
            raise self._explain(error, url=str(client.base_url)) from error
        except TypeError as error:
            # The SDK raises this when it finds no key.
            if "authentication" not in str(error):
                raise
            raise _no_key() from error

    def _explain(self, error: Exception, *, url: str) -> ProviderError:
        from anthropic import APIStatusError, CredentialsError  # noqa: PLC0415  see _connect

        match error:
            case APIStatusError():
                return failures.error_of(_refusal(error), provider=_NAME, key_variable=KEY_VARIABLE)
            case CredentialsError():
                return _no_key()
            case _:
                return failures.lost(error, provider=_NAME, url=url, silence=self._timeout)


def _own_body(body: JsonObject, model: str) -> JsonObject:
    """Return the body without what another provider's model left in the conversation."""
    messages = body["messages"]
    kept = (
        without_own([one for one in messages if isinstance(one, dict)]) if isinstance(messages, list) else []
    )
    return {**body, "model": wire_name(model), "messages": [*kept]}


def _refusal(error: APIStatusError) -> failures.ProviderRefusal:
    kind = str(error.type or "")  # a server may send any JSON in the fields of an error
    return failures.ProviderRefusal(
        status=error.status_code if error.status_code >= 400 else _STATUS_OF.get(kind, 500),
        message=str(error.api_message or error.message),
        code=kind,
        headers=error.response.headers,
    )


def _no_key() -> AuthError:
    return AuthError(f"no key for Anthropic: set {KEY_VARIABLE}")


class AnthropicReplyBuilder:
    """Builds a reply from stream events."""

    def __init__(self) -> None:
        self._head: JsonObject = {}
        self._usage: JsonObject = {}
        self._stop_reason: str | None = None
        self._open: dict[int, _OpenBlock] = {}
        self._done: dict[int, Block] = {}
        self._is_over = False

    def take(self, event: object) -> list[ProviderEvent]:
        """Return the events for the caller; stream events of unknown types are ignored."""
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
        """Return the whole reply; `StreamBroken` if the stream has not ended in order."""
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
        """Return the usage reported so far; received output that is not reported yet is estimated."""
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
        return [ToolCallEvent(block)] if isinstance(block, ToolCall) else []

    def _opened(self, index: int) -> _OpenBlock:
        if index not in self._open:
            raise StreamBroken(f"block {index} of the reply was never begun")
        return self._open[index]

    def _count(self, usage: object) -> None:
        if isinstance(usage, dict):
            self._usage |= {key: value for key, value in usage.items() if value is not None}


def parse_reply(answer: object) -> Reply:
    """Parse a reply that was not streamed."""
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
    "message_start message_delta content_block_start content_block_delta content_block_stop".split()
)
"""Known event types: one that does not match its pattern is damaged, not new."""


@dataclass(slots=True)
class _OpenBlock:
    """A content block that is not complete yet."""

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
                # An unknown delta type: text is appended, the last of other values counts.
                for key, value in delta.items():
                    if isinstance(value, str) and key != "type":
                        self.pieces.setdefault(key, []).append(value)
                    elif key != "type" and value is not None:
                        self.values[key] = value
        return []

    @property
    def tokens(self) -> int:
        """The estimated tokens received so far."""
        texts = (piece for name in ("text", "thinking") for piece in self.pieces.get(name, ()))
        arguments = sum(map(len, self.arguments)) // JSON_BYTES_PER_TOKEN
        return estimate_text("".join(texts)) + arguments

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
    """Return the usage; Anthropic's three input counters are already disjoint.

    A request that only compacts reports its usage in `iterations` (C23b).
    """
    total = _counted(usage)
    steps = usage.get("iterations")
    if total != Usage() or not isinstance(steps, list):
        return total
    return sum((_counted(step) for step in steps if isinstance(step, dict)), total)


def _counted(usage: JsonObject) -> Usage:
    written = usage.get("cache_creation")
    return Usage(
        input=as_count(usage.get("input_tokens")),
        cache_write=as_count(usage.get("cache_creation_input_tokens")),
        cache_read=as_count(usage.get("cache_read_input_tokens")),
        output=as_count(usage.get("output_tokens")),
        cache_write_1h=as_count(written.get("ephemeral_1h_input_tokens")) if isinstance(written, dict) else 0,
    )
