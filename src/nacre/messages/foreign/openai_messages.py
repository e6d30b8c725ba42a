"""Lists of OpenAI chat messages: bare, one object per line, or inside a trajectory object (T7)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable

from nacre.messages.blocks import (
    Block,
    Document,
    Image,
    Json,
    JsonObject,
    Opaque,
    ResultPart,
    Text,
    ToolCall,
    ToolResult,
)
from nacre.messages.foreign.recording import ForeignSession, Recording, messages_of, objects, rest, text_of
from nacre.messages.wire import parse_block, render_block

SYSTEM_ROLES = frozenset({"system", "developer"})
RESULT_ROLES = frozenset({"tool", "function"})
REPEATED_FIELDS = ("thought", "action")
"""Fields in which SWE-agent repeats the content of a reply."""
MALFORMED = "_malformed"
"""Key for arguments that are not a JSON object, kept unchanged."""


def is_openai(value: Json) -> bool:
    """Return whether the value holds messages with roles; check for other providers first."""
    found = messages_of(value)
    known = {"user", "assistant", *SYSTEM_ROLES, *RESULT_ROLES}
    return found is not None and all(text_of(one.get("role")) in known for one in found)


def read(values: Iterable[Json], *, name: str) -> list[ForeignSession]:
    """Return one session per value."""
    return [_session(value, Recording(name, number)) for number, value in enumerate(values)]


def _session(value: Json, recording: Recording) -> ForeignSession:
    if isinstance(value, dict):
        recording.note("recording", rest(value, "messages", "traj"))
    add_messages(messages_of(value) or [], recording)
    return recording.done()


def add_messages(messages: Iterable[JsonObject], recording: Recording) -> None:
    """Add chat messages in order; a result without an id answers the oldest open call."""
    calls = _CallIds()
    for message in messages:
        role = text_of(message.get("role"))
        content = message.get("content")
        if role in SYSTEM_ROLES:
            recording.system_prompt(_joined(content))
        elif role in RESULT_ROLES:
            _add_results(message, calls, recording)
        elif role == "assistant":
            blocks = (*_content(content), *_calls(message, calls, recording))
            extra = rest(message, "role", "content", "tool_calls", "function_call", "model", *REPEATED_FIELDS)
            recording.say("assistant", blocks, source=message, extra=extra)
        else:
            extra = rest(message, "role", "content", "is_demo")
            is_demo = message.get("is_demo") is True
            recording.say("user", _content(content), source=message, meta=is_demo, extra=extra)


class _CallIds:
    """Gives every call its own id and its result the same one, because recordings reuse call ids."""

    def __init__(self) -> None:
        self._open: list[tuple[str, str]] = []
        self._times: Counter[str] = Counter()

    def asked(self, call_id: str) -> str:
        self._times[call_id] += 1
        times = self._times[call_id]
        own = call_id if times == 1 else f"{call_id}_{times}"
        self._open.append((call_id, own))
        return own

    def answered(self, call_id: str | None) -> str | None:
        """Return the call of a result: the oldest open one with this id, else the oldest open one."""
        for place, (name, own) in enumerate(self._open):
            if call_id is None or name == call_id:
                del self._open[place]
                return own
        return call_id


def _content(content: Json) -> tuple[Block, ...]:
    if isinstance(content, str):
        return (Text(content),) if content else ()
    parts = content if isinstance(content, list) else []
    return tuple(_part(part) for part in parts)


def _part(part: Json) -> Block:
    match part:
        case {"type": "image_url", "image_url": {"url": str(url)}}:
            return Image(_image_source(url))
        case {"type": "input_text" | "output_text", "text": str(text)}:
            return Text(text)
        case _:
            return parse_block(part)


def _image_source(url: str) -> JsonObject:
    head, comma, data = url.partition(",")
    if comma and head.startswith("data:") and head.endswith(";base64"):
        media_type = head.removeprefix("data:").removesuffix(";base64")
        return {"type": "base64", "media_type": media_type, "data": data}
    return {"type": "url", "url": url}


def _joined(content: Json) -> str:
    return "\n".join(block.text for block in _content(content) if isinstance(block, Text))


def _calls(message: JsonObject, ids: _CallIds, recording: Recording) -> list[ToolCall]:
    """Return the calls of a reply, in the current and the previous format."""
    listed = objects(message.get("tool_calls"))
    legacy = message.get("function_call")
    if isinstance(legacy, dict):
        listed = [*listed, {"function": legacy}]
    return [
        _call(call, f"call_{len(recording.records)}_{n}", ids, recording) for n, call in enumerate(listed)
    ]


def _call(call: JsonObject, fallback: str, ids: _CallIds, recording: Recording) -> ToolCall:
    function = call.get("function")
    named = function if isinstance(function, dict) else {}
    said = text_of(call.get("id")) or fallback
    own = ids.asked(said)
    if own != said:
        recording.report("repeated_call", said, f"an earlier call has this id; this one is called {own}")
    arguments = named.get("arguments")
    parsed = _arguments(arguments)
    if parsed is None:
        recording.report("malformed_arguments", own, "the arguments are no JSON object; kept as they came")
        parsed = {MALFORMED: arguments}
    return ToolCall(own, text_of(named.get("name")), parsed)


def _arguments(arguments: Json) -> JsonObject | None:
    if arguments is None or arguments == "":
        return {}
    value: Json = arguments
    if isinstance(arguments, str):
        try:
            value = json.loads(arguments)
        except (ValueError, RecursionError):
            return None
    return value if isinstance(value, dict) else None


def _add_results(message: JsonObject, calls: _CallIds, recording: Recording) -> None:
    listed = message.get("tool_call_ids", [message.get("tool_call_id")])
    said = [one for one in listed if isinstance(one, str) and one] if isinstance(listed, list) else []
    ids = [calls.answered(one) for one in said] or [calls.answered(None)]
    parts = tuple(_result_part(part) for part in _content(message.get("content")))
    blocks: list[Block] = []
    for call_id in ids:
        if call_id is None:
            unknown = f"call_{len(recording.records)}_unknown"
            recording.report("result_without_call", unknown, "a tool answered, but no call is open")
        # Several ids with one content: one observation answers all of them, and the first holds it.
        blocks.append(ToolResult(call_id or unknown, () if blocks else parts))
    extra = rest(message, "role", "content", "tool_call_id", "tool_call_ids")
    recording.say("user", tuple(blocks), source=message, extra=extra)


def _result_part(part: Block) -> ResultPart:
    if isinstance(part, Text | Image | Document | Opaque):
        return part
    return Opaque(type(part).__name__, render_block(part))
