"""OpenAI's Responses API: requests as lists of items, and replies from its stream events.

Requests are stateless: nothing is stored at the provider, and reasoning goes back as the encrypted items it
came as. What only this API reads is in the extra field `openai` of a block; other adapters leave it out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import replace

from nacre.cache.models import profile
from nacre.errors import StreamBroken
from nacre.messages.blocks import (
    Block,
    Document,
    Image,
    Json,
    JsonObject,
    Message,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from nacre.messages.events import (
    ProviderEvent,
    Reply,
    ReplyStarted,
    TextDelta,
    ThinkingDelta,
    ToolCallEvent,
)
from nacre.messages.tokens import estimate_text
from nacre.messages.usage import Usage
from nacre.messages.wire import canonical, parse_content
from nacre.providers.base import Request, wire_name
from nacre.providers.failures import ProviderRefusal
from nacre.providers.openai_translate import FAILED, NO_OUTPUT, PARAGRAPH, UNSHOWN, block_text
from nacre.providers.parse import OWN, as_count, as_text, parse_arguments
from nacre.providers.thinking import reasoning_effort

SEALED = "reasoning.encrypted_content"
_BUSY_CODES = frozenset({"", "server_error", "vector_store_timeout"})
"""Codes of failures that are worth a retry; all others say that the request is wrong."""


class ResponseRefused(Exception):  # noqa: N818 - translated into an error of nacre by the adapter
    """Raised for a failure that arrives as an event of the stream."""

    def __init__(self, refusal: ProviderRefusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


def build_body(request: Request, input_items: list[JsonObject], *, sealed: bool) -> dict[str, object]:
    """Return the body of a request; `sealed` asks for reasoning that can be sent back."""
    body: dict[str, object] = {"model": wire_name(request.model)}
    if said := PARAGRAPH.join(filter(None, map(block_text, parse_content([*request.system])))):
        body["instructions"] = said
    if tools := translate_tools(request.tools):
        body["tools"] = tools
    body["input"] = input_items
    if request.output_schema is not None:
        closed = request.output_schema.get("additionalProperties") is False
        shape = {"type": "json_schema", "name": "answer", "schema": request.output_schema, "strict": closed}
        body["text"] = {"format": shape}
    body["max_output_tokens"] = request.max_tokens
    if (effort := reasoning_effort(profile(request.model), request.thinking)) is not None:
        body["reasoning"] = {"effort": effort}
    body["store"] = False
    if sealed:
        body["include"] = [SEALED]
    if request.cache_key:
        body["prompt_cache_key"] = request.cache_key
    body["stream"] = True
    return body | request.options


def translate_tools(tools: Iterable[JsonObject]) -> list[JsonObject]:
    """Translate tool definitions; a server tool of another provider has no schema and is left out."""
    return [
        {
            "type": "function",
            "name": tool["name"],
            "description": tool.get("description", ""),
            "parameters": tool["input_schema"],
            # The schemas have optional parameters, which strict mode does not allow.
            "strict": False,
        }
        for tool in tools
        if "input_schema" in tool
    ]


def translate_message(message: JsonObject) -> list[JsonObject]:
    """Translate one message into items; none if nothing of it can be expressed."""
    blocks = parse_content(message.get("content"))
    match message.get("role"):
        case "assistant":
            return _assistant(blocks)
        case "system":
            said = PARAGRAPH.join(filter(None, map(block_text, blocks)))
            return [{"role": "developer", "content": said}] if said else []
        case _:
            return _user(blocks)


def _assistant(blocks: tuple[Block, ...]) -> list[JsonObject]:
    """Return the items of a reply; reasoning that nothing follows is refused, so it is left out."""
    items: list[JsonObject] = []
    for block in blocks:
        own = dict(block.extra).get(OWN) if isinstance(block, Text | Thinking) else None
        facts = own if isinstance(own, dict) else {}
        match block:
            case Thinking() if facts:
                items.append(facts)
            case ToolCall(call_id, name, arguments):
                text = canonical(arguments).decode()
                items.append({"type": "function_call", "call_id": call_id, "name": name, "arguments": text})
            case _ if said := block_text(block):
                items.append({"role": "assistant", "content": said, **facts})
            case _:
                pass
    while items and items[-1].get("type") == "reasoning":
        items.pop()
    return items


def _user(blocks: tuple[Block, ...]) -> list[JsonObject]:
    items: list[JsonObject] = [_output(block) for block in blocks if isinstance(block, ToolResult)]
    parts = [part for block in blocks if (part := _part(block)) is not None]
    if not parts:
        return items
    if all(part["type"] == "input_text" for part in parts):
        return [*items, {"role": "user", "content": PARAGRAPH.join(str(part["text"]) for part in parts)}]
    return [*items, {"role": "user", "content": [*parts]}]


def _output(result: ToolResult) -> JsonObject:
    parts = [part for block in result.content if (part := _part(block)) is not None]
    failed = FAILED if result.is_error else ""
    output: Json = failed + (PARAGRAPH.join(str(part.get("text")) for part in parts) or NO_OUTPUT)
    if any(part["type"] != "input_text" for part in parts):
        head: list[Json] = [{"type": "input_text", "text": failed.strip()}] if failed else []
        output = [*head, *parts]
    return {"type": "function_call_output", "call_id": result.call_id, "output": output}


def _part(block: Block) -> JsonObject | None:
    match block:
        case Image({"type": "base64", "media_type": str(kind), "data": str(data)}):
            return {"type": "input_image", "detail": "auto", "image_url": f"data:{kind};base64,{data}"}
        case Image({"url": str(url)}):
            return {"type": "input_image", "detail": "auto", "image_url": url}
        case Image():
            return {"type": "input_text", "text": UNSHOWN}
        case Document({"type": "base64", "data": str(data)} as source):
            address = f"data:{source.get('media_type', 'application/pdf')};base64,{data}"
            return {"type": "input_file", "filename": "document.pdf", "file_data": address}
        case _:
            said = block_text(block)
            return {"type": "input_text", "text": said} if said else None


class ResponseBuilder:
    """Builds a reply from stream events."""

    def __init__(self, new_id: Callable[[], str]) -> None:
        self._new_id = new_id
        self._blocks: dict[int, Block] = {}
        self._received: list[str] = []
        """Text, reasoning and arguments as they arrive, for an estimate of their tokens."""
        self._usage = Usage()
        self._reasoning_tokens = 0
        self._end: JsonObject | None = None
        self._was_refused = False

    def take(self, event: object) -> list[ProviderEvent]:
        """Return the events for the caller; stream events of unknown types are ignored."""
        match event:
            case {"type": "response.output_text.delta" | "response.refusal.delta", "delta": str(text)}:
                self._received.append(text)
                return [TextDelta(text)] if text else []
            case {
                "type": "response.reasoning_summary_text.delta" | "response.reasoning_text.delta",
                "delta": str(text),
            }:
                self._received.append(text)
                return [ThinkingDelta(text)] if text else []
            case {"type": "response.function_call_arguments.delta", "delta": str(text)}:
                self._received.append(text)
            case {"type": "response.output_item.done", "output_index": int(index), "item": dict(item)}:
                return self._finish_item(index, item)
            case {"type": "response.created"}:
                return [ReplyStarted(self.usage_so_far)]
            case {"type": "response.completed" | "response.incomplete", "response": dict(response)}:
                self._end = response
                self._count(response.get("usage"))
            case {"type": "response.failed", "response": dict(response)}:
                self._count(response.get("usage"))
                raise ResponseRefused(_refusal(response.get("error")))
            case {"type": "error"}:
                raise ResponseRefused(_refusal(event))
            case {"type": str()}:
                pass
            case _:
                raise StreamBroken(f"unreadable stream event: {json.dumps(event)[:200]}")
        return []

    def usage_so_far(self) -> Usage:
        """Return the usage reported so far; without a report, the output is estimated."""
        if self._usage.output:
            return replace(self._usage, approximate=True)
        return replace(self._usage, output=estimate_text("".join(self._received)), approximate=True)

    def finish(self) -> list[ProviderEvent]:
        """Return the reply; `StreamBroken` if the stream did not end in order."""
        if self._end is None:
            raise StreamBroken("the reply ended before it was complete")
        blocks = [self._blocks[index] for index in sorted(self._blocks)]
        while blocks and isinstance(blocks[-1], Thinking):
            # It cannot be sent back without the item that follows it.
            blocks.pop()
        message = Message("assistant", tuple(blocks))
        is_kept = any(isinstance(block, Thinking) for block in blocks)
        discarded = 0 if is_kept else min(self._reasoning_tokens, self._usage.output)
        return [
            Reply(
                message=message,
                usage=replace(self._usage, discarded=discarded),
                stop_reason=self._stop_reason(message),
                id=as_text(self._end.get("id")),
                model=as_text(self._end.get("model")),
            )
        ]

    def _finish_item(self, index: int, item: JsonObject) -> list[ProviderEvent]:
        match item:
            case {"type": "reasoning"}:
                self._keep_reasoning(index, item)
            case {"type": "message", "content": list(content)}:
                phase: JsonObject = {"phase": item["phase"]} if item.get("phase") else {}
                said = "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
                refusals = [part.get("refusal") for part in content if isinstance(part, dict)]
                self._was_refused = self._was_refused or any(refusals)
                text = said + "".join(str(refusal) for refusal in refusals if refusal)
                if text:
                    self._blocks[index] = Text(text, ((OWN, phase),) if phase else ())
            case {"type": "function_call", "name": str(name), "arguments": str(arguments)}:
                call_id = as_text(item.get("call_id")) or f"call_{self._new_id()}"
                call = ToolCall(call_id, name, parse_arguments(arguments))
                self._blocks[index] = call
                return [ToolCallEvent(call)]
        return []

    def _keep_reasoning(self, index: int, item: JsonObject) -> None:
        """Keep a reasoning item that can be sent back: without its encrypted content it is not found."""
        if not isinstance(item.get("encrypted_content"), str):
            return
        summary = item.get("summary")
        parts = summary if isinstance(summary, list) else []
        text = PARAGRAPH.join(str(part.get("text")) for part in parts if isinstance(part, dict))
        own: JsonObject = {key: value for key, value in item.items() if key != "status" and value is not None}
        self._blocks[index] = Thinking(text, None, ((OWN, own),))

    def _count(self, usage: Json) -> None:
        if isinstance(usage, dict):
            self._usage = parse_usage(usage)
            details = usage.get("output_tokens_details")
            shares = details if isinstance(details, dict) else {}
            self._reasoning_tokens = as_count(shares.get("reasoning_tokens"))

    def _stop_reason(self, message: Message) -> str:
        details = self._end.get("incomplete_details") if self._end else None
        reason = details.get("reason") if isinstance(details, dict) else None
        if reason == "max_output_tokens":
            return "max_tokens"
        if reason == "content_filter" or self._was_refused:
            return "refusal"
        return "tool_use" if message.tool_calls else "end_turn"


def _refusal(error: object) -> ProviderRefusal:
    """Return the refusal of an error event, whose status only its code tells."""
    facts = error if isinstance(error, dict) else {}
    code = str(facts.get("code") or "")
    status = 429 if code == "rate_limit_exceeded" else 500 if code in _BUSY_CODES else 400
    message = str(facts.get("message") or code or "the reply failed")
    return ProviderRefusal(status=status, message=message, code=code, headers={})


def parse_usage(usage: JsonObject) -> Usage:
    """Return the usage with disjoint counters; input tokens include cache reads and writes."""
    details = usage.get("input_tokens_details")
    shares: JsonObject = details if isinstance(details, dict) else {}
    read = as_count(shares.get("cached_tokens"))
    written = as_count(shares.get("cache_write_tokens"))
    lifetimes = shares.get("cache_write_tokens_details")
    long = lifetimes.get("ttl_12h_tokens") if isinstance(lifetimes, dict) else 0
    return Usage(
        input=max(0, as_count(usage.get("input_tokens")) - read - written),
        cache_write=written,
        cache_read=read,
        output=as_count(usage.get("output_tokens")),
        cache_write_1h=as_count(long),
    )
