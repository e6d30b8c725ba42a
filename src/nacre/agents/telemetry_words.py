"""A conversation's words for OpenTelemetry: only where the environment asks for them by name."""

from __future__ import annotations

import json
import os

from nacre.agents.spans import Fact
from nacre.messages.blocks import Json, JsonObject, Text, ToolResult
from nacre.messages.events import Reply
from nacre.messages.wire import render_block
from nacre.providers.base import Request

VARIABLE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""Read from the process's own environment: no settings file can switch it on."""
YES = frozenset({"true", "1", "span_only", "span_and_event"})


def is_asked_for() -> bool:
    """Whether the person wants the words of prompts, replies and tools in their spans."""
    return os.environ.get(VARIABLE, "").strip().lower() in YES


def message_facts(request: Request) -> dict[str, Fact]:
    """What was asked."""
    messages: list[Json] = [
        {"role": message["role"], "parts": _parts(message["content"])} for message in request.messages
    ]
    return {
        "gen_ai.system_instructions": _written(_parts([*request.system])),
        "gen_ai.input.messages": _written(messages),
    }


def reply_facts(reply: Reply) -> dict[str, Fact]:
    """What was answered."""
    blocks: list[Json] = [render_block(block) for block in reply.message.blocks]
    said: JsonObject = {
        "role": "assistant",
        "parts": _parts(blocks),
        "finish_reason": reply.stop_reason or "",
    }
    return {"gen_ai.output.messages": _written([said])}


def tool_facts(arguments: JsonObject, answer: ToolResult | str) -> dict[str, Fact]:
    """What a tool was called with and what it said."""
    text = answer if isinstance(answer, str) else _text(answer)
    return {"gen_ai.tool.call.arguments": _written(arguments), "gen_ai.tool.call.result": text}


def _text(answer: ToolResult) -> str:
    return "\n".join(part.text for part in answer.content if isinstance(part, Text))


def _parts(content: Json) -> list[Json]:
    if not isinstance(content, list):
        return [{"type": "text", "content": content}]
    return [_part(block) for block in content if isinstance(block, dict)]


def _part(block: JsonObject) -> Json:
    match block:
        case {"type": "text", "text": text}:
            return {"type": "text", "content": text}
        case {"type": "thinking", "thinking": text}:
            return {"type": "reasoning", "content": text}
        case {"type": "tool_use", "id": call, "name": name, "input": arguments}:
            return {"type": "tool_call", "id": call, "name": name, "arguments": arguments}
        case {"type": "tool_result", "tool_use_id": call}:
            return {"type": "tool_call_response", "id": call, "response": _parts(block.get("content") or [])}
        case _:
            return {"type": str(block.get("type"))}


def _written(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False)
