"""Messages of requests to the three APIs as blocks: Anthropic's, Chat Completions and Responses."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from nacre.messages.blocks import Block, JsonObject, Role
from nacre.messages.foreign.formats import Recording, read_openai
from nacre.messages.records import Said
from nacre.messages.wire import parse_content


def request_messages(api: str, messages: Sequence[JsonObject]) -> Iterator[tuple[Role, tuple[Block, ...]]]:
    """Yield role and blocks of each message or item; `api` is `messages`, `chat` or `responses`."""
    if api == "messages":
        for one in messages:
            yield "assistant" if one.get("role") == "assistant" else "user", parse_content(one.get("content"))
        return
    chat = [_as_chat(one) for one in messages] if api == "responses" else list(messages)
    recording = Recording("request")
    read_openai({"messages": [*chat]}, recording)
    for record in recording.records:
        if isinstance(record, Said):
            yield record.role, record.blocks


def _as_chat(item: JsonObject) -> JsonObject:
    """Return an item of the Responses API as a chat message."""
    match item:
        case {"type": "function_call", "call_id": str(call), "name": str(name), "arguments": str(arguments)}:
            function: JsonObject = {"name": name, "arguments": arguments}
            return {
                "role": "assistant",
                "tool_calls": [{"id": call, "type": "function", "function": function}],
            }
        case {"type": "function_call_output", "call_id": str(call), "output": output}:
            return {"role": "tool", "tool_call_id": call, "content": output}
        case {"type": str(kind), "call_id": str(call)} if kind.endswith("_output"):
            return {"role": "tool", "tool_call_id": call, "content": item.get("output")}
        case {"type": str(kind), "call_id": str(call)} if kind.endswith("_call"):
            given = json.dumps({"input": item.get("input", item.get("action"))})
            named: JsonObject = {"name": item.get("name", kind), "arguments": given}
            return {
                "role": "assistant",
                "tool_calls": [{"id": call, "type": "function", "function": named}],
            }
        case {"role": role, "content": content}:
            return {"role": role, "content": content}
        case _:
            return {"role": "assistant", "content": ""}
