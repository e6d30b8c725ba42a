"""The Messages API: request checks, billing, and replies, whole or streamed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from nacre.cache import models as rules
from nacre.devtools.cache_models import anthropic_rules
from nacre.devtools.cache_models.anthropic_render import Count
from nacre.devtools.cache_models.anthropic_state import (
    AnthropicSwitches,
    ApiRefusal,
    Cache,
    Call,
    RequestOutcome,
)
from nacre.devtools.sim.dialect import Accepted, RequestRefused, frame, pieces
from nacre.devtools.sim.faults import Fault
from nacre.messages.blocks import Json, JsonObject
from nacre.messages.wire import canonical

TEXT_PIECE = 24
"""Characters of text per streamed delta: several deltas even for a short sentence."""
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

    def __init__(self, switches: AnthropicSwitches, count: Count) -> None:
        self._switches = switches
        self._count = count
        self._cache = Cache()

    def check(self, body: JsonObject, headers: Mapping[str, str]) -> None:
        self._check(body, headers, counting=False)

    def _check(self, body: JsonObject, headers: Mapping[str, str], *, counting: bool) -> None:
        if not headers.get("anthropic-version"):
            raise _invalid("anthropic-version: header is required")
        model = body.get("model")
        if not isinstance(model, str) or not model:
            raise _invalid("model: Field required")
        if rules.profile(model).provider != "anthropic":
            raise RequestRefused(ApiRefusal(404, "not_found_error", f"model: {model}"))
        if fault := first_fault(body, counting=counting):
            raise _invalid(fault)

    def bill(self, call: Call) -> RequestOutcome:
        profile = rules.profile(str(call.body.get("model")))
        return anthropic_rules.simulate(
            self._cache, call, profile=profile, switches=self._switches, count=self._count
        )

    def remember(self, outcome: RequestOutcome) -> None:
        self._cache = outcome.cache

    def count_tokens(self, body: JsonObject, headers: Mapping[str, str], call: Call) -> JsonObject:
        """Return the size of a prompt; not billed, and the cache does not change."""
        self._check(body, headers, counting=True)
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
            "usage": anthropic_rules.api_usage(outcome),
        }
        if "diagnostics" in accepted.body:
            message["diagnostics"] = outcome.diagnostics
        if "context_management" in accepted.body:
            message["context_management"] = {"applied_edits": list(outcome.applied_edits)}
        if outcome.dropped:
            message["input_transformations"] = list(outcome.dropped)
        return message

    def frames(self, accepted: Accepted) -> Iterator[bytes]:
        for event in _events(self.whole(accepted)):
            yield frame(event, str(event["type"]))

    def refusal(self, fault: Fault) -> ApiRefusal:
        return _FAULTS[fault.kind]

    def error(self, refusal: ApiRefusal) -> JsonObject:
        return {"type": "error", "error": {"type": refusal.type, "message": refusal.message}}


def _invalid(message: str) -> RequestRefused:
    return RequestRefused(ApiRefusal(400, "invalid_request_error", message))


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
            for piece in _json_pieces(block):
                yield {"type": "input_json_delta", "partial_json": piece}
        case {"type": "compaction"}:
            yield {"type": "compaction_delta", "content": block.get("content")}


def _json_pieces(block: JsonObject) -> Iterator[str]:
    arguments: Json = block.get("input")
    # An empty input is streamed as nothing, as the provider does; clients read that as an empty object.
    return pieces(canonical(arguments).decode() if arguments else "", JSON_PIECE)


KNOWN_FIELDS = frozenset(
    {
        "cache_control",
        "compaction",
        "container",
        "context_management",
        "diagnostics",
        "fallback_credit_token",
        "fallbacks",
        "inference_geo",
        "max_tokens",
        "mcp_servers",
        "messages",
        "metadata",
        "model",
        "output_config",
        "output_format",
        "service_tier",
        "speed",
        "stop_sequences",
        "stream",
        "system",
        "temperature",
        "thinking",
        "thread",
        "tool_choice",
        "tools",
        "top_k",
        "top_p",
        "user_profile_id",
        "workspace_id",
    }
)
"""Top-level fields of the API, stable and beta; any other is refused there and here."""
_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_NEEDED = {
    "text": (("text", str),),
    "tool_use": (("id", str), ("name", str), ("input", dict)),
    "tool_result": (("tool_use_id", str),),
    "thinking": (("thinking", str), ("signature", str)),
}


def first_fault(body: JsonObject, *, counting: bool = False) -> str | None:
    """Return the first error of the body, worded so that a developer can fix it, or None."""
    return next(_faults(body, counting), None)


def _faults(body: JsonObject, counting: bool) -> Iterator[str]:
    for name in body:
        if name not in KNOWN_FIELDS:
            yield f"{name}: Extra inputs are not permitted"
    if not counting:
        yield from _limit_faults(body.get("max_tokens"))
    messages = body.get("messages")
    for index, message in enumerate(messages if isinstance(messages, list) else []):
        is_last = isinstance(messages, list) and index == len(messages) - 1
        yield from _message_faults(_object(message), f"messages.{index}", is_last=is_last)
    if isinstance(messages, list) and messages and not _opens(messages[0]):
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


def _message_faults(message: JsonObject, where: str, *, is_last: bool) -> Iterator[str]:
    content = message.get("content")
    if content in ("", []) and not (is_last and message.get("role") == "assistant"):
        yield f"{where}: all messages must have non-empty content except for the last one of the assistant"
    for place, block in enumerate(content if isinstance(content, list) else []):
        yield from _block_faults(_object(block), f"{where}.content.{place}")


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


def _opens(message: Json) -> bool:
    """Whether a conversation starts with the user, or with the summary that replaces its beginning."""
    match message:
        case {"role": "user"} | {"content": [{"type": "compaction"}, *_]}:
            return True
        case _:
            return False


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
        if not isinstance(name, str) or not _TOOL_NAME.fullmatch(name):
            yield f"tools.{index}.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'"
        elif name in seen:
            yield f"tools: Tool names must be unique: {name}"
        elif tool.get("type", "custom") == "custom" and not _is_object_schema(tool.get("input_schema")):
            yield f"tools.{index}.input_schema.type: Input should be 'object'"
        seen.add(str(name))


def _is_object_schema(schema: Json) -> bool:
    return _object(schema).get("type") == "object"


def _object(value: Json) -> JsonObject:
    return value if isinstance(value, dict) else {}
