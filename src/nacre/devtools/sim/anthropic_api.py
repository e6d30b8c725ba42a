"""The Messages API: request checks, billing, and replies, whole or streamed."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches

from nacre.cache import models as rules
from nacre.devtools.cache_models import anthropic_rules
from nacre.devtools.cache_models.anthropic_lookup import api_usage
from nacre.devtools.cache_models.anthropic_render import Count, added_tool, blocks_of, objects, references
from nacre.devtools.cache_models.anthropic_state import (
    AnthropicSwitches,
    ApiRefusal,
    Cache,
    Call,
    RequestOutcome,
)
from nacre.devtools.sim.dialect import Accepted, RequestRefused, frame, invalid_request, pieces
from nacre.devtools.sim.faults import Fault
from nacre.messages.blocks import Json, JsonObject
from nacre.messages.media import PDF, media_type
from nacre.messages.wire import canonical

TEXT_PIECE = 24
"""Characters of text per streamed delta: several deltas even for a short sentence."""
THREADS_BETA = "message-threads-2026-08-12"
THREADS = 1_000
"""Conversations that are held for clients that send only what is new."""
JSON_PIECE = 12
"""Characters of a tool call's input per delta: it is always split at odd positions."""

_FAULTS: dict[str, ApiRefusal] = {
    "prompt_too_long": ApiRefusal(
        400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"
    ),
    "too_large": ApiRefusal(413, "request_too_large", "Request exceeds the maximum size"),
    "rate_limit": ApiRefusal(
        429, "rate_limit_error", "This request would exceed your rate limit; try again later"
    ),
    "overloaded": ApiRefusal(529, "overloaded_error", "Overloaded"),
    "server_error": ApiRefusal(500, "api_error", "Internal server error"),
    "auth": ApiRefusal(401, "authentication_error", "invalid x-api-key"),
}


class MessagesApi:
    """Anthropic's API dialect."""

    id_prefix = "msg_"

    def __init__(
        self, switches: AnthropicSwitches, count: Count, *, chance: Callable[[], float] | None = None
    ) -> None:
        self._switches = switches
        self._count = count
        self._cache = Cache()
        self._chance = chance
        self._threads: dict[str, JsonObject] = {}
        """The conversation up to a reply, by the reply's id."""

    def expand(self, body: JsonObject) -> JsonObject:
        match body.get("thread"):
            case {"type": "continue", "previous_message_id": str(previous)}:
                held = self._threads.get(previous)
                if held is None:
                    said = f"thread: no thread ends with {previous}"
                    details: JsonObject = {"error_code": "thread_not_found"}
                    raise RequestRefused(ApiRefusal(404, "not_found_error", said, details))
                messages = [*objects(held["messages"]), *objects(body.get("messages"))]
                return {**held, **body, "messages": [*messages]}
            case _:
                return body

    def check(self, body: JsonObject, headers: Mapping[str, str], *, counting: bool = False) -> None:
        if not headers.get("anthropic-version"):
            raise invalid_request("anthropic-version: header is required")
        model = body.get("model")
        if not isinstance(model, str) or not model:
            raise invalid_request("model: Field required")
        if "thread" in body and THREADS_BETA not in headers.get("anthropic-beta", ""):
            raise invalid_request("thread: Extra inputs are not permitted")
        if rules.profile(model).provider != "anthropic":
            raise RequestRefused(ApiRefusal(404, "not_found_error", f"model: {model}"))
        for fault in _faults(body, counting=counting):
            raise invalid_request(fault)

    def bill(self, call: Call) -> RequestOutcome:
        for name in _unknown_calls(call):
            said = f"the script calls {name}, which the model cannot know: it is deferred and was not loaded"
            raise RequestRefused(ApiRefusal(500, "api_error", said))
        profile = rules.profile(str(call.body.get("model")))
        return anthropic_rules.simulate(
            self._cache,
            call,
            profile=profile,
            switches=self._switches,
            count=self._count,
            chance=self._chance,
        )

    def remember(self, outcome: RequestOutcome) -> None:
        self._cache = outcome.cache

    def count_tokens(self, body: JsonObject, headers: Mapping[str, str], call: Call) -> JsonObject:
        """Return the size of a prompt; not billed, and the cache does not change."""
        self.check(body, headers, counting=True)
        outcome = self.bill(call)
        if outcome.refusal is not None and not outcome.prompt_tokens:
            raise RequestRefused(outcome.refusal)
        edited: JsonObject = {"context_management": {"original_input_tokens": outcome.original_tokens}}
        return {"input_tokens": outcome.prompt_tokens, **(edited if "context_management" in body else {})}

    def in_blocks(self, body: JsonObject) -> JsonObject:
        return body

    def whole(self, accepted: Accepted) -> JsonObject:
        outcome = accepted.outcome
        message: JsonObject = {
            "id": accepted.id,
            "type": "message",
            "role": "assistant",
            "model": accepted.body.get("model"),
            "content": list(accepted.reply.content),
            "stop_reason": accepted.reply.stop_reason,
            "stop_sequence": None,
            "usage": api_usage(outcome),
        }
        if "diagnostics" in accepted.body:
            message["diagnostics"] = outcome.diagnostics
        if "context_management" in accepted.body:
            message["context_management"] = {"applied_edits": list(outcome.applied_edits)}
        if accepted.body.get("thread") is not None:
            said: JsonObject = {"role": "assistant", "content": [*accepted.reply.content]}
            kept: JsonObject = {
                key: accepted.body[key] for key in ("system", "tools") if key in accepted.body
            }
            messages = [*objects(accepted.body.get("messages")), said]
            self._threads[accepted.id] = {**kept, "messages": [*messages]}
            while len(self._threads) > THREADS:
                del self._threads[next(iter(self._threads))]
        if outcome.dropped:
            message["input_transformations"] = list(outcome.dropped)
        return message

    def frames(self, accepted: Accepted) -> Iterator[bytes]:
        for event in _events(self.whole(accepted)):
            yield frame(event, str(event["type"]))

    def refusal(self, fault: Fault) -> ApiRefusal:
        return _FAULTS[fault.kind]

    def error(self, refusal: ApiRefusal) -> JsonObject:
        details: JsonObject = {"details": refusal.details} if refusal.details else {}
        return {"type": "error", "error": {"type": refusal.type, "message": refusal.message, **details}}

    def failed(self, refusal: ApiRefusal) -> bytes:
        return frame(self.error(refusal), "error")


def _unknown_calls(call: Call) -> list[str]:
    """Return the deferred tools that a reply calls although no message of the request refers to them."""
    tools = objects(call.body.get("tools"))
    hidden = {tool.get("name") for tool in tools if tool.get("defer_loading") is True}
    messages = objects(call.body.get("messages"))
    hidden -= {added_tool(block) for one in messages for block in blocks_of(one.get("content"))}
    hidden -= {*references(call.body)}
    called = [block.get("name") for block in call.reply if block.get("type") == "tool_use"]
    return [str(name) for name in called if name in hidden]


def _events(message: JsonObject) -> Iterator[JsonObject]:
    usage = message["usage"]
    assert isinstance(usage, dict)
    content = message["content"]
    assert isinstance(content, list)
    opening = {key: value for key, value in message.items() if key != "context_management"}
    # The output is not known yet when a stream opens; the provider reports it with its first token.
    opening |= {"content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 1}}
    yield {"type": "message_start", "message": opening}
    yield {"type": "ping"}
    for index, block in enumerate(content):
        assert isinstance(block, dict)
        yield {"type": "content_block_start", "index": index, "content_block": _empty(block)}
        for delta in _deltas(block):
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    edits: JsonObject = (
        {"context_management": message["context_management"]} if "context_management" in message else {}
    )
    yield {
        "type": "message_delta",
        "delta": {"stop_reason": message["stop_reason"], "stop_sequence": None},
        "usage": usage,
        **edits,
    }
    yield {"type": "message_stop"}


def _empty(block: JsonObject) -> JsonObject:
    """Return the block before its first delta; kinds without deltas are complete."""
    match block.get("type"):
        case "text":
            return {**block, "text": ""}
        case "thinking":
            return {**block, "thinking": "", "signature": ""}
        case "tool_use":
            return {**block, "input": {}}
        case "compaction":
            return {**block, "content": None}
        case _:
            return block


def _deltas(block: JsonObject) -> Iterator[JsonObject]:
    match block:
        case {"type": "text", "text": str(text)}:
            for piece in pieces(text, TEXT_PIECE):
                yield {"type": "text_delta", "text": piece}
        case {"type": "thinking", "thinking": str(text)}:
            for piece in pieces(text, TEXT_PIECE):
                yield {"type": "thinking_delta", "thinking": piece}
            yield {"type": "signature_delta", "signature": block.get("signature")}
        case {"type": "tool_use"}:
            yield {"type": "input_json_delta", "partial_json": ""}
            # An empty input is streamed as nothing, as the provider does; clients read it as an empty object.
            arguments = canonical(block["input"]).decode() if block.get("input") else ""
            for piece in pieces(arguments, JSON_PIECE):
                yield {"type": "input_json_delta", "partial_json": piece}
        case {"type": "compaction"}:
            yield {"type": "compaction_delta", "content": block.get("content")}


KNOWN_FIELDS = frozenset(
    "cache_control compaction container context_management diagnostics fallback_credit_token fallbacks"
    " inference_geo max_tokens mcp_servers messages metadata model output_config output_format service_tier"
    " speed stop_sequences stream system temperature thinking thread tool_choice tools top_k top_p"
    " user_profile_id workspace_id".split()
)
"""Top-level fields of the API, stable and beta. The API grows, so that others are taken, too, except one that
resembles a known one: that is a typing error, which the API refuses."""
RESEMBLES = 0.8
"""From this similarity on, a name is taken for a mistyped one."""
MAX_IMAGE_BASE64 = 5 * 1024 * 1024
"""Characters of one picture."""
_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_NEEDED = {
    "text": (("text", str),),
    "tool_use": (("id", str), ("name", str), ("input", dict)),
    "tool_result": (("tool_use_id", str),),
    "thinking": (("thinking", str), ("signature", str)),
}


def _faults(body: JsonObject, *, counting: bool) -> Iterator[str]:
    """Yield the errors of the body, worded so that a developer can fix them."""
    for name in body:
        if name not in KNOWN_FIELDS and get_close_matches(name, KNOWN_FIELDS, n=1, cutoff=RESEMBLES):
            yield f"{name}: Extra inputs are not permitted"
    if not counting:
        yield from _limit_faults(body.get("max_tokens"))
    messages = body.get("messages")
    messages = messages if isinstance(messages, list) else []
    for index, item in enumerate(messages):
        message = _object(item)
        content = message.get("content")
        may_be_empty = index == len(messages) - 1 and message.get("role") == "assistant"
        if content in ("", []) and not may_be_empty:
            yield (
                f"messages.{index}: all messages must have non-empty content"
                " except for the last one of the assistant"
            )
        for place, block in enumerate(content if isinstance(content, list) else []):
            yield from _block_faults(_object(block), f"messages.{index}.content.{place}")
    match messages:
        # A conversation starts with the user, or with the summary that replaces its beginning.
        case [] | [{"role": "user"} | {"content": [{"type": "compaction"}, *_]}, *_]:
            pass
        case _:
            yield 'messages: first message must use the "user" role'
    yield from _system_faults(body.get("system"))
    yield from _tool_faults(body.get("tools", []))


def _limit_faults(limit: Json) -> Iterator[str]:
    if limit is None:
        yield "max_tokens: Field required"
    elif isinstance(limit, bool) or not isinstance(limit, int):
        yield "max_tokens: Input should be a valid integer"
    elif limit < 0:
        yield "max_tokens: Input should be greater than or equal to 0"


def _block_faults(block: JsonObject, where: str) -> Iterator[str]:
    kind = block.get("type")
    if not isinstance(kind, str):
        yield f"{where}.type: Field required"
        return
    for name, wanted in _NEEDED.get(kind, ()):
        if name not in block:
            yield f"{where}.{kind}.{name}: Field required"
        elif not isinstance(block[name], wanted):
            shape = "a valid dictionary" if wanted is dict else "a valid string"
            yield f"{where}.{kind}.{name}: Input should be {shape}"
    if kind == "text" and not block.get("text"):
        yield f"{where}: text content blocks must be non-empty"
    if kind in {"image", "document"}:
        yield from _media_faults(_object(block.get("source")), f"{where}.{kind}.source")
    inner = block.get("content")
    for place, part in enumerate(inner if kind == "tool_result" and isinstance(inner, list) else []):
        yield from _block_faults(_object(part), f"{where}.tool_result.content.{place}")


def _media_faults(source: JsonObject, where: str) -> Iterator[str]:
    """Yield what the API refuses about a picture or a document in base64: label, size, bytes."""
    if source.get("type") != "base64":
        return
    data = str(source.get("data") or "")
    try:
        kind = media_type(base64.b64decode(data, validate=True))
    except ValueError:
        yield f"{where}.base64: invalid base64 data"
        return
    if kind != source.get("media_type"):
        yield f"{where}.base64.media_type: the bytes do not look like {source.get('media_type')}"
    elif kind != PDF and len(data) > MAX_IMAGE_BASE64:
        yield f"{where}.base64: image exceeds 5 MB maximum: {len(data)} bytes > {MAX_IMAGE_BASE64} bytes"


def _system_faults(system: Json) -> Iterator[str]:
    if system is not None and not isinstance(system, str | list):
        yield "system: Input should be a text or a list of text blocks"
    for index, block in enumerate(system if isinstance(system, list) else []):
        if _object(block).get("type") != "text":
            yield f"system.{index}: Input should be a text block"
        yield from _block_faults(_object(block), f"system.{index}")


def _tool_faults(tools: Json) -> Iterator[str]:
    if not isinstance(tools, list):
        yield "tools: Input should be a valid list"
        return
    seen: set[str] = set()
    for index, item in enumerate(tools):
        tool = _object(item)
        name = tool.get("name")
        schema = _object(tool.get("input_schema"))
        if not isinstance(name, str) or not _TOOL_NAME.fullmatch(name):
            yield f"tools.{index}.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'"
        elif name in seen:
            yield f"tools: Tool names must be unique: {name}"
        elif tool.get("type", "custom") == "custom" and schema.get("type") != "object":
            yield f"tools.{index}.input_schema.type: Input should be 'object'"
        seen.add(str(name))


def _object(value: Json) -> JsonObject:
    return value if isinstance(value, dict) else {}
