"""A chat-completions request in Anthropic's vocabulary, for reply sources that speak only that."""

from __future__ import annotations

import json

from nacre.messages.blocks import Json, JsonObject


def in_blocks(body: JsonObject) -> JsonObject:
    """The same request as a Messages body: what a reply source needs, and no more."""
    messages = _objects(body.get("messages"))
    limit = body.get("max_completion_tokens", body.get("max_tokens"))
    translated: JsonObject = {
        "model": body.get("model"),
        "system": [block for item in messages if _is_system(item) for block in _texts(item.get("content"))],
        "messages": [_message(item) for item in messages if not _is_system(item)],
        "tools": [_tool(tool) for tool in _objects(body.get("tools"))],
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
    """The first tool call without its answer, or answer without its call."""
    open_calls: list[str] = []
    for item in _objects(body.get("messages")):
        if item.get("role") == "tool":
            call_id = str(item.get("tool_call_id"))
            if call_id not in open_calls:
                return "messages with role 'tool' must be a response to a preceding message with 'tool_calls'"
            open_calls.remove(call_id)
        elif open_calls:
            break
        else:
            open_calls = [str(call.get("id")) for call in _objects(item.get("tool_calls"))]
    if open_calls:
        missing = ", ".join(open_calls)
        return (
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each"
            f" 'tool_call_id'. The following tool_call_ids did not have response messages: {missing}"
        )
    return None


def _is_system(item: JsonObject) -> bool:
    return item.get("role") in {"system", "developer"}


def _message(item: JsonObject) -> JsonObject:
    content: list[Json] = []
    if item.get("role") == "tool":
        answer: JsonObject = {"type": "tool_result", "tool_use_id": item.get("tool_call_id")}
        return {"role": "user", "content": [{**answer, "content": _texts(item.get("content"))}]}
    content.extend(_texts(item.get("content")))
    content.extend(_call(call) for call in _objects(item.get("tool_calls")))
    return {"role": item.get("role"), "content": content}


def _texts(content: Json) -> list[Json]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return [
        {"type": "text", "text": part["text"]}
        if isinstance(part.get("text"), str)
        else {"type": "text", "text": f"[{part.get('type')}]"}
        for part in _objects(content)
    ]


def _call(call: JsonObject) -> JsonObject:
    function = call.get("function")
    fields = function if isinstance(function, dict) else {}
    try:
        arguments: Json = json.loads(str(fields.get("arguments")))
    except ValueError:
        arguments = {}
    return {
        "type": "tool_use",
        "id": call.get("id"),
        "name": fields.get("name"),
        "input": arguments if isinstance(arguments, dict) else {},
    }


def _tool(tool: JsonObject) -> JsonObject:
    function = tool.get("function")
    fields = function if isinstance(function, dict) else {}
    return {
        "name": fields.get("name"),
        "description": fields.get("description", ""),
        "input_schema": fields.get("parameters", {"type": "object"}),
    }


def _objects(value: Json) -> list[JsonObject]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
