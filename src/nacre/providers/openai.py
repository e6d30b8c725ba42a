"""Adapter for OpenAI's APIs and for compatible servers such as Ollama, vLLM and llama.cpp."""

from __future__ import annotations

import json
import math
import re
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import httpx2

from nacre.cache.models import ApiKind, profile
from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.errors import ConfigError, ProviderError, StreamBroken
from nacre.formatting import how_to_install
from nacre.messages.blocks import Block, Extra, Json, JsonObject, Message, Text, ToolCall
from nacre.messages.events import (
    ProviderEvent,
    Reply,
    ReplyStarted,
    TextDelta,
    ThinkingDelta,
    ToolCallEvent,
)
from nacre.messages.tokens import JSON_BYTES_PER_TOKEN, MAX_RATIO, estimate_blocks, estimate_text
from nacre.messages.usage import Usage
from nacre.providers import failures
from nacre.providers.base import Capabilities, Request, capabilities_of, wire_name
from nacre.providers.openai_responses import (
    ResponseBuilder,
    ResponseRefused,
    build_body,
    translate_message,
)
from nacre.providers.openai_translate import (
    Translator,
    translate_schema,
    translate_signed,
    translate_tools,
)
from nacre.providers.parse import OWN, as_count, as_text, parse_arguments, with_clean_text
from nacre.providers.servers import COMPATIBLE, OPENAI, ServerProfile, server_at
from nacre.providers.thinking import chat_thinking

if TYPE_CHECKING:
    from openai import APIError, AsyncOpenAI, AsyncStream

SILENCE_SECONDS = 300.0
"""A local server may process a long prompt for minutes without sending a byte."""
CONNECT_SECONDS = 15.0
"""A longer wait for a host that is down would only delay the retry."""
NO_KEY = "none"
"""Sent where no key is set: the SDK requires one, local servers ignore it."""
OLD_LIMIT = "max_tokens"
NEW_LIMIT = "max_completion_tokens"
NO_ENDPOINT = frozenset({404, 405, 501})
"""Statuses of a server without the Responses API."""
MIN_ROOM = 256
"""Output tokens; with less room the prompt has to shrink instead."""
_NO_ROOM = re.compile(
    r"too large.*maximum context length is (?P<window>\d+) tokens and your request has (?P<prompt>\d+) input",
    re.IGNORECASE | re.DOTALL,
)
"""vLLM's words for a prompt that fits and an output limit that does not."""
_NAME = "openai"


@dataclass(frozen=True, slots=True, kw_only=True)
class WireForm:
    """How requests for a model are written; a refusal can teach another form."""

    server: ServerProfile
    api: ApiKind = "chat"
    limit_field: str = OLD_LIMIT
    """The name of the output limit in chat completions."""
    cache_key: bool = False
    """Whether chat completions get a `prompt_cache_key`."""
    max_output: int | None = None
    """A lower output limit, for a server whose window has no room for more beside this prompt."""
    sealed: bool = True
    """Whether the model returns encrypted reasoning, in the Responses API."""

    def after(self, refusal: failures.ProviderRefusal) -> WireForm | None:
        """Return the form that a refused request suggests; None if no other form would help."""
        said = refusal.message
        wanted = self
        if self.api == "chat" and "v1/responses" in said:
            wanted = replace(self, api="responses")
        elif self.api == "responses" and refusal.status in NO_ENDPOINT and not refusal.code:
            wanted = replace(self, api="chat")
        elif self.api == "responses" and "ncrypted content is not supported" in said:
            wanted = replace(self, sealed=False)
        elif self.api == "chat" and self.cache_key and _is_unknown("prompt_cache_key", refusal):
            wanted = replace(self, cache_key=False)
        elif self.api == "chat" and _is_unknown(self.limit_field, refusal):
            # The refusal also names the field that the model takes instead.
            wanted = replace(self, limit_field=({OLD_LIMIT, NEW_LIMIT} - {self.limit_field}).pop())
        return None if wanted == self else wanted

    def with_room(self, refusal: failures.ProviderRefusal, wanted: int) -> WireForm | None:
        """Return a form whose output limit fits beside the prompt, if that is what the server refuses."""
        if found := _NO_ROOM.search(refusal.message):
            room = int(found["window"]) - int(found["prompt"])
            if MIN_ROOM <= room < wanted:
                return replace(self, max_output=room)
        return None


def _is_unknown(name: str, refusal: failures.ProviderRefusal) -> bool:
    """Return whether a refusal says that a field does not exist there."""
    said = refusal.message.lower()
    words = ("unsupported", "unknown", "unrecognized", "extra inputs are not permitted")
    return refusal.status == failures.INVALID and name in said and any(word in said for word in words)


class OpenAICompatibleProvider:
    """OpenAI's models, or a compatible server at `base_url`.

    `api` is used for all models; None uses the one in the table of models. `server` says how the server
    differs; None recognises it by its address.
    """

    def __init__(  # noqa: PLR0913 - all are given by name and have a default
        self,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        client: AsyncOpenAI | None = None,
        timeout: float | None = None,
        clock: Clock = SYSTEM_CLOCK,
        api: ApiKind | None = None,
        server: ServerProfile | None = None,
    ) -> None:
        self._api_key = api_key
        self._base_url = base_url
        self._client = client
        self._owns_client = client is None
        self._timeout = timeout or SILENCE_SECONDS
        self._clock = clock
        self._api = api
        self._server = server
        self._translators = {
            "chat": Translator(),
            "signed": Translator(translate_signed),
            "responses": Translator(translate_message),
        }
        self._forms: dict[str, WireForm] = {}
        """What refusals have taught, by model."""

    @property
    def name(self) -> str:
        return _NAME

    def capabilities(self, model: str) -> Capabilities:
        return capabilities_of(model)

    async def stream(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
        """Yield text and reasoning as they arrive, calls when complete, then the reply.

        Reasoning is part of the reply only in the Responses API; chat completions do not accept it back.
        """
        client = self._connect()
        with self._translate_errors(client):
            chunks, builder = await self._open(client, request)
            async with chunks:
                async for chunk in chunks:
                    for event in builder.take(chunk):
                        yield event
        for event in builder.finish():
            yield event

    async def count_tokens(self, request: Request) -> int | None:
        """Return None: chat completions cannot count tokens."""
        return None

    async def close(self) -> None:
        if self._client is not None and self._owns_client:
            await self._client.close()
            self._client = None

    def _connect(self) -> AsyncOpenAI:
        if self._client is not None:
            return self._client
        try:
            from openai import AsyncOpenAI  # noqa: PLC0415  half a second, paid by the first call only
        except ImportError as error:
            raise ConfigError(
                f"OpenAI-compatible models need the openai package: {how_to_install('openai')}"
            ) from error
        self._client = AsyncOpenAI(api_key=self._api_key or NO_KEY, base_url=self._base_url, max_retries=0)
        return self._client

    async def _open(
        self, client: AsyncOpenAI, request: Request
    ) -> tuple[AsyncStream[object], OpenAIReplyBuilder | ResponseBuilder]:
        """Open the stream; a form of the request that the server refuses is replaced by another."""
        from openai import APIStatusError  # noqa: PLC0415  see _connect

        form = self._forms.get(request.model) or self._first_form(client, request.model)
        tried = {form}
        while True:
            try:
                chunks = await self._post(client, request, form)
            except APIStatusError as error:
                refusal = _refusal(error, status=error.status_code, headers={})
                other = form.after(refusal) or form.with_room(refusal, request.max_tokens)
                if other is None or other in tried:
                    raise
                form = other
                tried.add(form)
            else:
                if len(tried) > 1:
                    # The room for a reply depends on the prompt; everything else is true of later ones.
                    self._forms[request.model] = replace(form, max_output=None)
                break
        if form.api == "responses":
            return chunks, ResponseBuilder(self._clock.new_id)
        return chunks, OpenAIReplyBuilder(self._clock.new_id, lambda: _call_ids(request))

    def _first_form(self, client: AsyncOpenAI, model: str) -> WireForm:
        row = profile(model)
        server = self._server_of(client)
        if server is COMPATIBLE and row.provider == _NAME:
            # A proxy or a cloud that serves OpenAI's models with their rules.
            server = OPENAI
        return WireForm(
            server=server,
            api=self._api or row.api,
            limit_field=server.limit_field,
            cache_key=server.takes_cache_key,
            sealed=row.thinking or not row.known,
        )

    def _server_of(self, client: AsyncOpenAI) -> ServerProfile:
        return self._server or server_at(str(client.base_url))

    async def _post(self, client: AsyncOpenAI, request: Request, form: WireForm) -> AsyncStream[object]:
        from openai import AsyncStream  # noqa: PLC0415  see _connect

        path = "/responses" if form.api == "responses" else "/chat/completions"

        async def post(body: object) -> AsyncStream[object]:
            return await client.post(
                path,
                cast_to=object,
                body=body,
                options={
                    # nacre retries itself and reports it; retries of both would multiply.
                    "max_retries": 0,
                    "timeout": httpx2.Timeout(self._timeout, connect=CONNECT_SECONDS),
                },
                stream=True,
                stream_cls=AsyncStream[object],
            )

        if form.api == "responses":
            items = self._translators["responses"].conversation(request.messages)
            return await with_clean_text(post, build_body(request, items, sealed=form.sealed))
        translator = self._translators["signed" if profile(request.model).signs_calls else "chat"]
        messages = translator.messages(request.system, request.messages)
        return await with_clean_text(post, _body(request, messages, form))

    @contextmanager
    def _translate_errors(self, client: AsyncOpenAI) -> Iterator[None]:
        """Translate errors of the SDK into nacre's errors."""
        from openai import OpenAIError  # noqa: PLC0415  see _connect

        try:
            yield
        except ResponseRefused as failed:
            raise self._error_of(failed.refusal, client) from failed
        except (OpenAIError, httpx2.TransportError, ValueError, RecursionError) as error:
            # Those of Python come from events that are not JSON, not UTF-8 or nested too deeply.
            raise self._explain(error, client) from error

    def _error_of(self, refusal: failures.ProviderRefusal, client: AsyncOpenAI) -> ProviderError:
        server = self._server_of(client)
        return failures.error_of(
            refusal, provider=server.label, key_variable=" or ".join(server.key_variables)
        )

    def _explain(self, error: Exception, client: AsyncOpenAI) -> ProviderError:
        from openai import APIError, APIStatusError  # noqa: PLC0415  see _connect

        match error:
            case APIStatusError():
                refusal = _refusal(error, status=error.status_code, headers=dict(error.response.headers))
                return self._error_of(refusal, client)
            case APIError() if error.body is not None:
                # An error in mid-stream: only its code distinguishes a busy server from a refusal.
                status = 400 if str(error.code) in failures.TOO_LONG_CODES else 500
                return self._error_of(_refusal(error, status=status, headers={}), client)
            case _:
                label = self._server_of(client).label
                return failures.lost(error, provider=label, url=str(client.base_url), silence=self._timeout)


def _body(request: Request, messages: list[JsonObject], form: WireForm) -> dict[str, object]:
    body: dict[str, object] = {"model": wire_name(request.model), "messages": messages}
    if tools := translate_tools(request.tools):
        body["tools"] = tools
    if request.output_schema is not None:
        body["response_format"] = translate_schema(request.output_schema)
    body[form.limit_field] = min(request.max_tokens, form.max_output or request.max_tokens)
    body |= chat_thinking(profile(request.model), request.thinking, form.server.thinking_field)
    if form.cache_key and request.cache_key:
        body["prompt_cache_key"] = request.cache_key
    body["stream"] = True
    body["stream_options"] = {"include_usage": True}
    return body | request.options


def _refusal(error: APIError, *, status: int, headers: dict[str, str]) -> failures.ProviderRefusal:
    body = error.body
    if isinstance(body, list) and body and isinstance(body[0], dict):
        # Gemini sends a list with one error.
        body = body[0].get("error")
    facts: JsonObject = body if isinstance(body, dict) else {}
    said = facts.get("message")
    tokens = facts.get("n_prompt_tokens")
    window = facts.get("n_ctx")
    # Some servers repeat the HTTP status as the code.
    codes = (facts.get("code") or error.code, facts.get("type") or error.type, facts.get("status"))
    return failures.ProviderRefusal(
        status=status,
        message=said if isinstance(said, str) else error.message,
        tokens=tokens if isinstance(tokens, int) and tokens > 0 else None,
        limit=window if isinstance(window, int) and window > 0 else None,
        code=next((one for one in codes if isinstance(one, str) and one and not one.isdecimal()), ""),
        headers=headers,
    )


def _call_ids(request: Request) -> set[str]:
    contents = (message["content"] for message in request.messages)
    blocks = (block for content in contents if isinstance(content, list) for block in content)
    return {
        str(block["id"]) for block in blocks if isinstance(block, dict) and block.get("type") == "tool_use"
    }


_STOP_REASONS = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "content_filter": "refusal",
}
_REASONING = ("reasoning_content", "reasoning")
"""Fields for reasoning; there is no standard one."""


class OpenAIReplyBuilder:
    """Builds a reply from stream chunks; `used_ids` returns the call ids of the conversation."""

    def __init__(self, new_id: Callable[[], str], used_ids: Callable[[], set[str]] = set) -> None:
        self._new_id = new_id
        self._text: list[str] = []
        self._calls = _StreamedCalls(used_ids)
        self._usage = Usage()
        self._reasoning_tokens: int | None = None
        """As reported by the server."""
        self._reasoning: list[str] = []
        self._has_started = False
        self._finish: str | None = None
        self._id: str | None = None
        self._model: str | None = None

    def take(self, chunk: object) -> list[ProviderEvent]:
        """Return the events of this chunk."""
        if not isinstance(chunk, dict):
            raise StreamBroken(f"unreadable stream chunk: {json.dumps(chunk)[:200]}")
        started: list[ProviderEvent] = [] if self._has_started else [ReplyStarted(self.usage_so_far)]
        self._has_started = True
        return started + self._take(chunk)

    def usage_so_far(self) -> Usage:
        """Return the usage reported so far; without a report, the output is estimated."""
        if self._usage.output:
            return replace(self._usage, approximate=True)
        texts = ("".join(self._reasoning), "".join(self._text))
        output = sum(map(estimate_text, texts)) + self._calls.tokens
        return replace(self._usage, output=output, approximate=True)

    def _take(self, chunk: JsonObject) -> list[ProviderEvent]:
        self._id = as_text(chunk.get("id")) or self._id
        self._model = as_text(chunk.get("model")) or self._model
        if isinstance(usage := chunk.get("usage"), dict):
            self._usage = parse_usage(usage)
            details = usage.get("completion_tokens_details")
            tokens = details.get("reasoning_tokens") if isinstance(details, dict) else None
            hidden = self._usage.output - as_count(usage.get("completion_tokens"))
            self._reasoning_tokens = as_count(tokens) if tokens is not None else hidden or None
        choices = chunk.get("choices")
        if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
            return []
        self._finish = as_text(choices[0].get("finish_reason")) or self._finish
        # A server that does not stream sends the whole message in place of the delta.
        delta = choices[0].get("delta") or choices[0].get("message")
        return self._add(delta) if isinstance(delta, dict) else []

    def finish(self) -> list[ProviderEvent]:
        """Return the remaining calls and the reply; `StreamBroken` if the stream gave no finish reason."""
        if self._finish is None:
            raise StreamBroken("the reply ended before it was complete")
        ready = [ToolCallEvent(call) for call in self._calls.close(self._new_id)]
        text = "".join(self._text)
        blocks: list[Block] = [Text(text)] if text else []
        message = Message("assistant", (*blocks, *self._calls.ready))
        reply = Reply(
            message=message,
            usage=replace(self._usage, discarded=self._discarded(message)),
            stop_reason=self._stop_reason(),
            id=self._id,
            model=self._model,
        )
        return [*ready, reply]

    def _discarded(self, message: Message) -> int:
        """Return the output tokens of reasoning, as reported or else estimated."""
        output = self._usage.output
        if self._reasoning_tokens or (self._reasoning_tokens == 0 and not self._reasoning):
            return min(self._reasoning_tokens, output)
        kept = estimate_blocks(message.blocks)
        # Without reasoning text, only the excess over the highest estimate counts as reasoning.
        return max(0, output - (kept if self._reasoning else math.ceil(kept * MAX_RATIO)))

    def _add(self, delta: JsonObject) -> list[ProviderEvent]:
        events: list[ProviderEvent] = []
        if thought := next((t for name in _REASONING if (t := _words(delta.get(name)))), ""):
            self._reasoning.append(thought)
            events.append(ThinkingDelta(thought))
        for text in (_words(delta.get("content")), _words(delta.get("refusal"))):
            if text:
                self._text.append(text)
                events.append(TextDelta(text))
        fragments = delta.get("tool_calls")
        for fragment in fragments if isinstance(fragments, list) else []:
            if isinstance(fragment, dict):
                events += [ToolCallEvent(call) for call in self._calls.add(fragment, self._new_id)]
        return events

    def _stop_reason(self) -> str:
        reason = _STOP_REASONS.get(self._finish or "", self._finish or "")
        # Several servers report "stop" although the model called a tool.
        return "tool_use" if self._calls.ready and reason == "end_turn" else reason


@dataclass(slots=True)
class _StreamedCall:
    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)
    extra: JsonObject = field(default_factory=dict)
    """What the server wants back with the call, such as the signature of a thought."""

    @property
    def is_whole(self) -> bool:
        try:
            return isinstance(json.loads("".join(self.arguments)), dict)
        except (ValueError, RecursionError):
            return False


class _StreamedCalls:
    """Collects the tool calls of one reply, however their fragments are numbered."""

    def __init__(self, used_ids: Callable[[], set[str]]) -> None:
        # Some servers restart their ids in every reply; an id must be unique in the conversation.
        # Computed with the first call only, because it walks the whole conversation.
        self._find_used_ids = used_ids
        self._used_ids: set[str] | None = None
        self.ready: list[ToolCall] = []
        self._all: list[_StreamedCall] = []
        self._by_index: dict[int, _StreamedCall] = {}

    @property
    def tokens(self) -> int:
        """The estimated tokens of the calls received so far."""
        sizes = (sum(map(len, call.arguments)) for call in self._all)
        return sum(size // JSON_BYTES_PER_TOKEN for size in sizes)

    def add(self, fragment: JsonObject, new_id: Callable[[], str]) -> list[ToolCall]:
        """Add a fragment and return the earlier calls that are now complete."""
        index = fragment.get("index")
        last = self._all[-1] if self._all else None
        call = self._by_index.get(index) if isinstance(index, int) else last
        function = fragment.get("function")
        said: JsonObject = function if isinstance(function, dict) else {}
        given = as_text(fragment.get("id")) or ""
        name = as_text(said.get("name")) or ""
        done: list[ToolCall] = []
        if call is None or _begins_another(call, given, name):
            done = self._announce(new_id, only_whole=True)
            call = _StreamedCall()
            self._all.append(call)
        if isinstance(index, int):
            self._by_index[index] = call
        call.id = call.id or given
        call.name = call.name or name
        call.arguments.append(_arguments(said.get("arguments")))
        if isinstance(extra := fragment.get("extra_content"), dict):
            call.extra |= extra
        return done

    def close(self, new_id: Callable[[], str]) -> list[ToolCall]:
        return self._announce(new_id, only_whole=False)

    def _announce(self, new_id: Callable[[], str], *, only_whole: bool) -> list[ToolCall]:
        """Return complete calls in order, so that they are always a prefix of the reply's calls."""
        done: list[ToolCall] = []
        for call in self._all[len(self.ready) :]:
            if only_whole and not call.is_whole:
                break
            if self._used_ids is None:
                self._used_ids = self._find_used_ids()
            call_id = call.id if call.id and call.id not in self._used_ids else f"call_{new_id()}"
            self._used_ids.add(call_id)
            own: Extra = ((OWN, {"extra_content": call.extra}),) if call.extra else ()
            done.append(ToolCall(call_id, call.name, parse_arguments("".join(call.arguments)), own))
            self.ready.append(done[-1])
        return done


def _begins_another(call: _StreamedCall, given: str, name: str) -> bool:
    """Return whether a fragment with a known index is a new call: some servers use index 0 for all."""
    if not name or not call.name:
        return False
    if given and call.id and given != call.id:
        return True
    return name != call.name or (call.is_whole and not (given and given == call.id))


def _arguments(value: Json) -> str:
    if isinstance(value, str):
        return value
    # Some servers send an object in place of a string.
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else ""


def parse_usage(usage: JsonObject) -> Usage:
    """Return the usage with disjoint counters; OpenAI's prompt tokens include cache reads and writes.

    Gemini counts thinking in the total only; it is paid for as output.
    """
    details = usage.get("prompt_tokens_details")
    shares: JsonObject = details if isinstance(details, dict) else {}
    read = as_count(shares.get("cached_tokens"))
    written = as_count(shares.get("cache_write_tokens"))
    prompt = as_count(usage.get("prompt_tokens"))
    return Usage(
        input=max(0, prompt - read - written),
        cache_write=written,
        cache_read=read,
        output=max(as_count(usage.get("completion_tokens")), as_count(usage.get("total_tokens")) - prompt),
    )


def _words(value: Json) -> str:
    if isinstance(value, str):
        return value
    parts = [part for part in value if isinstance(part, dict)] if isinstance(value, list) else []
    return "".join(text for part in parts if isinstance(text := part.get("text"), str))
