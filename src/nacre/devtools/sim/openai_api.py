"""Chat completions: request checks, billing, and replies, whole or streamed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from nacre.cache import models as rules
from nacre.cache.models import ModelProfile
from nacre.devtools.cache_models import openai_rules
from nacre.devtools.cache_models.anthropic_render import Count, objects
from nacre.devtools.cache_models.anthropic_state import ApiRefusal, Cache, Call, RequestOutcome
from nacre.devtools.cache_models.openai_rules import OpenAISwitches
from nacre.devtools.sim.dialect import Accepted, RequestRefused, frame, invalid_request, pieces
from nacre.devtools.sim.faults import Fault
from nacre.messages.blocks import Json, JsonObject
from nacre.messages.tokens import estimate_blocks
from nacre.messages.wire import canonical, parse_content

TEXT_PIECE = 24
"""Characters of text per streamed chunk: several chunks even for a short sentence."""
JSON_PIECE = 12
"""Characters of a tool call's arguments per chunk: they are always split at odd positions."""
SERVER_ERROR = 500
"""From this status on, the provider is at fault."""
DONE = b"data: [DONE]\n\n"

_FINISH = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
}
OPENAI_FAULTS: dict[str, ApiRefusal] = {
    "prompt_too_long": ApiRefusal(
        400,
        "context_length_exceeded",
        "This model's maximum context length is 200000 tokens."
        " However, your messages resulted in 210000 tokens.",
    ),
    "too_large": ApiRefusal(413, "request_too_large", "Request body is too large"),
    "rate_limit": ApiRefusal(429, "rate_limit_exceeded", "Rate limit reached; try again later"),
    "overloaded": ApiRefusal(
        503, "server_error", "The engine is currently overloaded, please try again later"
    ),
    "server_error": ApiRefusal(500, "server_error", "The server had an error while answering"),
    "auth": ApiRefusal(401, "invalid_api_key", "Incorrect API key provided"),
}


class ChatApi:
    """OpenAI's API dialect, also used by compatible servers."""

    id_prefix = "chatcmpl-"

    def __init__(self, switches: OpenAISwitches, count: Count) -> None:
        self._switches = switches
        self._count = count
        self._cache = Cache()

    def expand(self, body: JsonObject) -> JsonObject:
        return body

    def check(self, body: JsonObject, headers: Mapping[str, str]) -> None:
        if not isinstance(body.get("model"), str) or not body["model"]:
            raise invalid_request("you must provide a model parameter")
        profile = rules.profile(str(body["model"]))
        if not profile.chat_completions:
            said = "This model is only supported in v1/responses and not in v1/chat/completions."
            raise RequestRefused(ApiRefusal(404, "invalid_request_error", said))
        if "max_tokens" in body and profile.known and profile.provider == "openai" and profile.thinking:
            said = (
                "Unsupported parameter: 'max_tokens' is not supported with this model."
                " Use 'max_completion_tokens' instead."
            )
            raise RequestRefused(ApiRefusal(400, "unsupported_parameter", said))
        check_effort(body.get("reasoning_effort"), "reasoning_effort", profile)
        messages = body.get("messages")
        if not isinstance(messages, list) or not messages:
            raise invalid_request("'messages' must be a non-empty list")
        for index, message in enumerate(messages):
            role = message.get("role") if isinstance(message, dict) else None
            if role not in {"system", "developer", "user", "assistant", "tool"}:
                raise invalid_request(f"messages[{index}].role: {role!r} is not one of the known roles")
        if fault := unpaired(body):
            raise invalid_request(fault)

    def bill(self, call: Call) -> RequestOutcome:
        profile = rules.profile(str(call.body.get("model")))
        return openai_rules.simulate(
            self._cache, call, profile=profile, switches=self._switches, count=self._count
        )

    def remember(self, outcome: RequestOutcome) -> None:
        self._cache = outcome.cache

    def in_blocks(self, body: JsonObject) -> JsonObject:
        return in_blocks(body)

    def whole(self, accepted: Accepted) -> JsonObject:
        reason = _finish_reason(accepted)
        choice: JsonObject = {
            "index": 0,
            "message": _message(accepted),
            "logprobs": None,
            "finish_reason": reason,
        }
        return {**_envelope(accepted, "chat.completion"), "choices": [choice], "usage": _usage(accepted)}

    def frames(self, accepted: Accepted) -> Iterator[bytes]:
        envelope = _envelope(accepted, "chat.completion.chunk")
        for delta in _deltas(_message(accepted)):
            yield frame({**envelope, "choices": [_choice(delta, None)]})
        yield frame({**envelope, "choices": [_choice({}, _finish_reason(accepted))]})
        options = accepted.body.get("stream_options")
        if isinstance(options, dict) and options.get("include_usage") is True:
            yield frame({**envelope, "choices": [], "usage": _usage(accepted)})
        yield DONE

    def refusal(self, fault: Fault) -> ApiRefusal:
        return OPENAI_FAULTS[fault.kind]

    def error(self, refusal: ApiRefusal) -> JsonObject:
        return openai_error(refusal)

    def failed(self, refusal: ApiRefusal) -> bytes:
        return frame(self.error(refusal), "error")


def check_effort(effort: Json, name: str, profile: ModelProfile) -> None:
    """Refuse an effort that the model does not take."""
    if effort is None or not profile.known:
        return
    if not profile.efforts:
        said = f"Unsupported parameter: '{name}' is not supported with this model."
        raise RequestRefused(ApiRefusal(400, "unsupported_parameter", said))
    if effort not in profile.efforts.split():
        taken = ", ".join(f"'{one}'" for one in profile.efforts.split())
        said = (
            f"Unsupported value: '{effort}' is not supported with the '{profile.model}' model."
            f" Supported values are: {taken}."
        )
        raise RequestRefused(ApiRefusal(400, "unsupported_value", said))


def openai_error(refusal: ApiRefusal) -> JsonObject:
    """Return a refusal as OpenAI's APIs send it."""
    broad = "server_error" if refusal.status >= SERVER_ERROR else "invalid_request_error"
    return {"error": {"message": refusal.message, "type": broad, "param": None, "code": refusal.type}}


def _envelope(accepted: Accepted, kind: str) -> JsonObject:
    model = accepted.body.get("model")
    return {"id": accepted.id, "object": kind, "created": accepted.created, "model": model}


def _usage(accepted: Accepted) -> JsonObject:
    usage = openai_rules.api_usage(accepted.outcome, chat=True)
    return {**usage, "completion_tokens_details": {"reasoning_tokens": reasoning_tokens(accepted)}}


def reasoning_tokens(accepted: Accepted) -> int:
    """Return the tokens of reasoning: in a reply with reasoning, the output beyond its text and calls."""
    content = accepted.reply.content
    if not any(block.get("type") == "thinking" for block in content):
        return 0
    kept = [block for block in content if block.get("type") != "thinking"]
    return max(0, accepted.outcome.usage.output - estimate_blocks(parse_content([*kept])))


def _finish_reason(accepted: Accepted) -> str:
    return _FINISH.get(accepted.reply.stop_reason or "", "stop")


def _message(accepted: Accepted) -> JsonObject:
    content = accepted.reply.content
    calls: list[Json] = [
        {
            "id": block.get("id"),
            "type": "function",
            "function": {"name": block.get("name"), "arguments": canonical(block.get("input")).decode()},
        }
        for block in content
        if block.get("type") == "tool_use"
    ]
    thinking = "".join(str(block.get("thinking")) for block in content if block.get("type") == "thinking")
    message: JsonObject = {"role": "assistant", "content": accepted.reply.text or None, "refusal": None}
    # Not a field of OpenAI's own API; compatible servers put a model's reasoning there.
    reasoning: JsonObject = {"reasoning_content": thinking} if thinking else {}
    return {**message, **reasoning, **({"tool_calls": calls} if calls else {})}


def _deltas(message: JsonObject) -> Iterator[JsonObject]:
    yield {"role": "assistant", "content": None if message["content"] is None else ""}
    for name in ("reasoning_content", "content"):
        for piece in pieces(str(message.get(name) or ""), TEXT_PIECE):
            yield {name: piece}
    calls = message.get("tool_calls", [])
    for index, call in enumerate(calls if isinstance(calls, list) else []):
        match call:
            case {"id": call_id, "function": {"name": called, "arguments": str(arguments)}}:
                head: JsonObject = {"name": called, "arguments": ""}
                yield {"tool_calls": [{"index": index, "id": call_id, "type": "function", "function": head}]}
                for piece in pieces(arguments, JSON_PIECE):
                    yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


def _choice(delta: JsonObject, finish_reason: str | None) -> JsonObject:
    return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}


def in_blocks(body: JsonObject) -> JsonObject:
    """Return the request as a Messages body, as far as a reply source needs it."""
    messages = objects(body.get("messages"))
    limit = body.get("max_completion_tokens", body.get("max_tokens"))
    translated: JsonObject = {
        "model": body.get("model"),
        "system": [
            block for item in messages if _is_system(item) for block in text_blocks(item.get("content"))
        ],
        "messages": [_in_blocks(item) for item in messages if not _is_system(item)],
        "tools": [_tool(tool) for tool in objects(body.get("tools"))],
    }
    if limit is not None:
        translated["max_tokens"] = limit
    match body:
        case {"response_format": {"type": "json_schema", "json_schema": {"schema": dict(schema)}}}:
            translated["output_config"] = {"format": {"type": "json_schema", "schema": schema}}
        case {"response_format": {"type": "json_object"}}:
            translated["output_config"] = {"format": {"type": "json_schema", "schema": {"type": "object"}}}
    return translated


def unpaired(body: JsonObject) -> str | None:
    """Return the first tool call without its result, or result without its call."""
    open_calls: list[str] = []
    for item in objects(body.get("messages")):
        if item.get("role") == "tool":
            call_id = str(item.get("tool_call_id"))
            if call_id not in open_calls:
                return "messages with role 'tool' must be a response to a preceding message with 'tool_calls'"
            open_calls.remove(call_id)
        elif open_calls:
            break
        else:
            open_calls = [str(call.get("id")) for call in objects(item.get("tool_calls"))]
    if open_calls:
        missing = ", ".join(open_calls)
        return (
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each"
            f" 'tool_call_id'. The following tool_call_ids did not have response messages: {missing}"
        )
    return None


def _is_system(item: JsonObject) -> bool:
    return item.get("role") in {"system", "developer"}


def _in_blocks(item: JsonObject) -> JsonObject:
    texts = text_blocks(item.get("content"))
    if item.get("role") == "tool":
        answer: JsonObject = {
            "type": "tool_result",
            "tool_use_id": item.get("tool_call_id"),
            "content": texts,
        }
        return {"role": "user", "content": [answer]}
    return {"role": item.get("role"), "content": [*texts, *map(_call, objects(item.get("tool_calls")))]}


def text_blocks(content: Json) -> list[Json]:
    """Return the text of a message as wire blocks; other parts are named."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    texts = (
        part["text"] if isinstance(part.get("text"), str) else f"[{part.get('type')}]"
        for part in objects(content)
    )
    return [{"type": "text", "text": text} for text in texts]


def _call(call: JsonObject) -> JsonObject:
    function = call.get("function")
    fields = function if isinstance(function, dict) else {}
    return {
        "type": "tool_use",
        "id": call.get("id"),
        "name": fields.get("name"),
        "input": parse_call_arguments(fields.get("arguments")),
    }


def parse_call_arguments(text: Json) -> JsonObject:
    """Return the arguments of a call; empty if they are not a JSON object."""
    try:
        arguments: Json = json.loads(str(text))
    except (ValueError, RecursionError):
        return {}
    return arguments if isinstance(arguments, dict) else {}


def _tool(tool: JsonObject) -> JsonObject:
    function = tool.get("function")
    fields = function if isinstance(function, dict) else {}
    return {
        "name": fields.get("name"),
        "description": fields.get("description", ""),
        "input_schema": fields.get("parameters", {"type": "object"}),
    }
