"""OpenAI's Responses API: request checks, billing, and replies, whole or streamed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from hashlib import blake2b

from nacre.cache import models as rules
from nacre.cache.models import ModelProfile
from nacre.devtools.cache_models import openai_rules
from nacre.devtools.cache_models.anthropic_render import Count, objects
from nacre.devtools.cache_models.anthropic_state import ApiRefusal, Cache, Call, RequestOutcome
from nacre.devtools.cache_models.openai_rules import SEAL, OpenAISwitches
from nacre.devtools.sim.dialect import Accepted, RequestRefused, frame, invalid_request, pieces
from nacre.devtools.sim.faults import Fault
from nacre.devtools.sim.openai_api import (
    JSON_PIECE,
    OPENAI_FAULTS,
    TEXT_PIECE,
    check_effort,
    openai_error,
    parse_call_arguments,
    reasoning_tokens,
    text_blocks,
)
from nacre.messages.blocks import Json, JsonObject
from nacre.messages.wire import canonical

_CHAT_ONLY = {"max_tokens": "max_output_tokens", "max_completion_tokens": "max_output_tokens"} | {
    "messages": "input",
    "response_format": "text.format",
    "reasoning_effort": "reasoning.effort",
}
"""Parameters of chat completions, which this API refuses, and their names here."""
_INCOMPLETE = {
    "max_tokens": "max_output_tokens",
    "model_context_window_exceeded": "max_output_tokens",
    "content_filter": "content_filter",
}
STORED = 1_000
"""Responses kept for `previous_response_id`."""


class ResponsesApi:
    """OpenAI's newer API dialect."""

    id_prefix = "resp_"

    def __init__(self, switches: OpenAISwitches, count: Count) -> None:
        self._switches = switches
        self._count = count
        self._cache = Cache()
        self._stored: dict[str, list[JsonObject]] = {}
        """The items of the conversation up to a response, by the response's id."""

    def expand(self, body: JsonObject) -> JsonObject:
        return body

    def check(self, body: JsonObject, headers: Mapping[str, str]) -> None:
        model = body.get("model")
        if not isinstance(model, str) or not model:
            raise invalid_request("Missing required parameter: 'model'.")
        for name, moved in _CHAT_ONLY.items():
            if name in body:
                said = f"Unsupported parameter: '{name}'. In the Responses API, it is '{moved}'."
                raise _unsupported(said)
        items = self._items(body)
        if not items:
            raise invalid_request("Missing required parameter: 'input'.")
        profile = rules.profile(model)
        reasoning = body.get("reasoning")
        check_effort(
            reasoning.get("effort") if isinstance(reasoning, dict) else None, "reasoning.effort", profile
        )
        for fault in _item_faults(items, is_stored=body.get("store") is not False):
            raise fault

    def bill(self, call: Call) -> RequestOutcome:
        profile = rules.profile(str(call.body.get("model")))
        body: JsonObject = {**call.body, "input": [*_shown(self._items(call.body), call.body, profile)]}
        return openai_rules.simulate(
            self._cache,
            replace(call, body=body),
            profile=profile,
            switches=self._switches,
            count=self._count,
        )

    def remember(self, outcome: RequestOutcome) -> None:
        self._cache = outcome.cache

    def in_blocks(self, body: JsonObject) -> JsonObject:
        return in_blocks({**body, "input": [*self._items(body)]})

    def whole(self, accepted: Accepted) -> JsonObject:
        output = list(_output(accepted))
        if accepted.body.get("store") is not False:
            self._stored[accepted.id] = [*self._items(accepted.body), *output]
            while len(self._stored) > STORED:
                del self._stored[next(iter(self._stored))]
        reason = _INCOMPLETE.get(accepted.reply.stop_reason or "")
        usage = openai_rules.api_usage(accepted.outcome)
        details: JsonObject = {"reasoning_tokens": reasoning_tokens(accepted)}
        return {
            **_envelope(accepted),
            "status": "incomplete" if reason else "completed",
            "incomplete_details": {"reason": reason} if reason else None,
            "output": [*output],
            "usage": {**usage, "output_tokens_details": details},
        }

    def frames(self, accepted: Accepted) -> Iterator[bytes]:
        for number, event in enumerate(_events(self.whole(accepted), _envelope(accepted))):
            yield frame({**event, "sequence_number": number}, str(event["type"]))

    def refusal(self, fault: Fault) -> ApiRefusal:
        return OPENAI_FAULTS[fault.kind]

    def error(self, refusal: ApiRefusal) -> JsonObject:
        return openai_error(refusal)

    def failed(self, refusal: ApiRefusal) -> bytes:
        response: JsonObject = {
            "object": "response",
            "status": "failed",
            "error": {"code": refusal.type, "message": refusal.message},
            "output": [],
        }
        return frame({"type": "response.failed", "response": response}, "response.failed")

    def _items(self, body: JsonObject) -> list[JsonObject]:
        """Return the conversation of a request, with what `previous_response_id` stands for."""
        previous = body.get("previous_response_id")
        before: list[JsonObject] = []
        if isinstance(previous, str):
            if previous not in self._stored:
                said = f"Previous response with id '{previous}' not found."
                raise RequestRefused(ApiRefusal(400, "previous_response_not_found", said))
            before = self._stored[previous]
        said_now: Json = body.get("input")
        if isinstance(said_now, str):
            return [*before, {"role": "user", "content": said_now}] if said_now else before
        return [*before, *objects(said_now)]


def _unsupported(message: str) -> RequestRefused:
    return RequestRefused(ApiRefusal(400, "unsupported_parameter", message))


def _item_faults(items: list[JsonObject], *, is_stored: bool) -> Iterator[RequestRefused]:
    """Yield what is wrong with the items: calls and outputs, reasoning and its pair, sealed content."""
    open_calls: list[str] = []
    for index, item in enumerate(items):
        kind = item.get("type", "message")
        after = items[index + 1].get("type", "message") if index + 1 < len(items) else None
        if kind == "function_call":
            open_calls.append(str(item.get("call_id")))
        elif kind == "function_call_output":
            if item.get("call_id") not in open_calls:
                called = item.get("call_id")
                yield invalid_request(f"No tool call found for function call output with call_id {called}.")
            else:
                open_calls.remove(str(item.get("call_id")))
        elif kind == "reasoning":
            yield from _reasoning_faults(item, after, items[index + 1 :], is_stored=is_stored)
        elif open_calls and item.get("role") == "user":
            break
    if open_calls:
        yield invalid_request(f"No tool output found for function call {open_calls[0]}.")


def _reasoning_faults(
    item: JsonObject, after: Json, rest: list[JsonObject], *, is_stored: bool
) -> Iterator[RequestRefused]:
    name = item.get("id")
    sealed = item.get("encrypted_content")
    is_followed = after in {"function_call", "reasoning"} or (
        after == "message" and rest[0].get("role") == "assistant"
    )
    if not is_followed:
        yield invalid_request(
            f"Item '{name}' of type 'reasoning' was provided without its required following item."
        )
    if not isinstance(sealed, str) and not is_stored:
        yield RequestRefused(
            ApiRefusal(
                404,
                "invalid_request_error",
                f"Item with id '{name}' not found. Items are not persisted when `store` is set to false. Try"
                " again with `store` set to true, or remove this item from your input.",
            )
        )
    if isinstance(sealed, str) and not is_sealed(sealed):
        yield RequestRefused(
            ApiRefusal(
                400,
                "invalid_encrypted_content",
                f"The encrypted content for item {name} could not be verified."
                " Reason: Encrypted content could not be decrypted or parsed.",
            )
        )


def seal(tokens: int, text: str) -> str:
    """Return the encrypted content of a reasoning item of so many tokens."""
    head = f"{SEAL}{tokens}.{blake2b(text.encode(), digest_size=24).hexdigest()}"
    return f"{head}.{blake2b(head.encode(), digest_size=4).hexdigest()}"


def is_sealed(sealed: str) -> bool:
    """Return whether a simulator wrote this encrypted content, and nothing changed it."""
    head, _, check = sealed.rpartition(".")
    return sealed.startswith(SEAL) and check == blake2b(head.encode(), digest_size=4).hexdigest()


def _shown(items: list[JsonObject], body: JsonObject, profile: ModelProfile) -> Iterator[JsonObject]:
    """Yield the items that the model sees: some models see no reasoning of earlier turns."""
    asked = body.get("reasoning")
    context = asked.get("context") if isinstance(asked, dict) else None
    is_current_only = context == "current_turn" or (context in {None, "auto"} and profile.strips_old_thinking)
    last_user = max((i for i, item in enumerate(items) if item.get("role") == "user"), default=-1)
    for index, item in enumerate(items):
        if item.get("type") == "reasoning" and is_current_only and index < last_user:
            continue
        yield item


def _envelope(accepted: Accepted) -> JsonObject:
    body = accepted.body
    reasoning = body.get("reasoning")
    asked = reasoning if isinstance(reasoning, dict) else {}
    return {
        "id": accepted.id,
        "object": "response",
        "created_at": accepted.created,
        "status": "in_progress",
        "error": None,
        "incomplete_details": None,
        "instructions": body.get("instructions"),
        "max_output_tokens": body.get("max_output_tokens"),
        "model": body.get("model"),
        "output": [],
        "parallel_tool_calls": body.get("parallel_tool_calls", True),
        "previous_response_id": body.get("previous_response_id"),
        "prompt_cache_key": body.get("prompt_cache_key"),
        "reasoning": {"effort": asked.get("effort"), "summary": asked.get("summary")},
        "store": body.get("store", True),
        "temperature": 1.0,
        "text": body.get("text") or {"format": {"type": "text"}},
        "tool_choice": body.get("tool_choice", "auto"),
        "tools": body.get("tools", []),
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": None,
        "metadata": {},
    }


def _output(accepted: Accepted) -> Iterator[JsonObject]:
    reasoning = accepted.body.get("reasoning")
    wants_summary = isinstance(reasoning, dict) and reasoning.get("summary") is not None
    thoughts = [block for block in accepted.reply.content if block.get("type") == "thinking"]
    tokens = reasoning_tokens(accepted)
    suffix = accepted.id.removeprefix("resp_")
    for index, block in enumerate(accepted.reply.content):
        name = f"{suffix}_{index}"
        match block:
            case {"type": "thinking", "thinking": str(text)}:
                # All reasoning of the reply counts in its first item.
                share = tokens if block is thoughts[0] else 0
                yield {
                    "id": f"rs_{name}",
                    "type": "reasoning",
                    "summary": [{"type": "summary_text", "text": text}] if wants_summary else [],
                    "encrypted_content": seal(share, name + text),
                }
            case {"type": "text", "text": str(text)}:
                part: JsonObject = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
                if accepted.reply.stop_reason == "refusal":
                    part = {"type": "refusal", "refusal": text}
                yield {
                    "id": f"msg_{name}",
                    "type": "message",
                    "status": "completed",
                    "role": "assistant",
                    "content": [part],
                }
            case {"type": "tool_use"}:
                yield {
                    "id": f"fc_{name}",
                    "type": "function_call",
                    "status": "completed",
                    "call_id": block.get("id"),
                    "name": block.get("name"),
                    "arguments": canonical(block.get("input")).decode(),
                }


def _events(response: JsonObject, opened: JsonObject) -> Iterator[JsonObject]:
    yield {"type": "response.created", "response": opened}
    yield {"type": "response.in_progress", "response": opened}
    for index, item in enumerate(objects(response["output"])):
        yield {"type": "response.output_item.added", "output_index": index, "item": _begun(item)}
        where: JsonObject = {"item_id": item["id"], "output_index": index}
        for event in _item_events(item):
            yield {**event, **where}
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    yield {"type": f"response.{response['status']}", "response": response}


def _begun(item: JsonObject) -> JsonObject:
    """Return an item as it is announced, before its first delta."""
    match item.get("type"):
        case "reasoning":
            # What is sent here is not complete in the real API either.
            return {**item, "summary": [], "encrypted_content": str(item["encrypted_content"])[:8]}
        case "message":
            return {**item, "status": "in_progress", "content": []}
        case _:
            return {**item, "status": "in_progress", "arguments": ""}


def _item_events(item: JsonObject) -> Iterator[JsonObject]:
    if item["type"] == "function_call":
        arguments = str(item["arguments"])
        for piece in pieces(arguments, JSON_PIECE):
            yield {"type": "response.function_call_arguments.delta", "delta": piece}
        yield {
            "type": "response.function_call_arguments.done",
            "name": item["name"],
            "arguments": arguments,
        }
        return
    for index, part in enumerate(objects(item["summary" if item["type"] == "reasoning" else "content"])):
        match part:
            case {"type": "summary_text", "text": str(text)}:
                yield from _part_events(
                    ("reasoning_summary_part", "reasoning_summary_text"),
                    part,
                    text,
                    {"summary_index": index},
                )
            case {"type": "output_text", "text": str(text)}:
                place: JsonObject = {"content_index": index, "logprobs": []}
                yield from _part_events(("content_part", "output_text"), part, text, place)
            case {"type": "refusal", "refusal": str(text)}:
                yield from _part_events(("content_part", "refusal"), part, text, {"content_index": index})


def _part_events(
    names: tuple[str, str], part: JsonObject, text: str, place: JsonObject
) -> Iterator[JsonObject]:
    holder, kind = names
    field = "refusal" if kind == "refusal" else "text"
    yield {"type": f"response.{holder}.added", "part": {**part, field: ""}, **place}
    for piece in pieces(text, TEXT_PIECE):
        yield {"type": f"response.{kind}.delta", "delta": piece, **place}
    yield {"type": f"response.{kind}.done", field: text, **place}
    yield {"type": f"response.{holder}.done", "part": part, **place}


def in_blocks(body: JsonObject) -> JsonObject:
    """Return the request as a Messages body, as far as a reply source needs it."""
    items = objects(body.get("input"))
    instructions = body.get("instructions")
    system: list[Json] = text_blocks(instructions)
    messages: list[Json] = []
    for item in items:
        if item.get("role") in {"system", "developer"} and not messages:
            system += text_blocks(item.get("content"))
        elif (message := _as_message(item)) is not None:
            messages.append(message)
    translated: JsonObject = {
        "model": body.get("model"),
        "system": system,
        "messages": messages,
        "tools": [
            {
                "name": tool.get("name"),
                "description": tool.get("description", ""),
                "input_schema": tool.get("parameters", {"type": "object"}),
            }
            for tool in objects(body.get("tools"))
        ],
    }
    if body.get("max_output_tokens") is not None:
        translated["max_tokens"] = body["max_output_tokens"]
    match body:
        case {"text": {"format": {"type": "json_schema", "schema": dict(schema)}}}:
            translated["output_config"] = {"format": {"type": "json_schema", "schema": schema}}
    return translated


def _as_message(item: JsonObject) -> JsonObject | None:
    match item:
        case {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments}:
            call: JsonObject = {"type": "tool_use", "id": call_id, "name": name}
            return {"role": "assistant", "content": [{**call, "input": parse_call_arguments(arguments)}]}
        case {"type": "function_call_output", "call_id": call_id, "output": output}:
            result: JsonObject = {"type": "tool_result", "tool_use_id": call_id}
            return {"role": "user", "content": [{**result, "content": text_blocks(output)}]}
        case {"role": str(role), "content": content}:
            return {"role": role, "content": text_blocks(content)}
        case _:
            return None
