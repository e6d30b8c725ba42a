"""Translate requests into OpenAI's chat format: a pure function, so an unchanged prefix keeps its bytes.

Each message is translated separately. What the format does not have (thinking, cache markers) is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import assert_never

from nacre.messages.blocks import (
    Block,
    Document,
    Image,
    Json,
    JsonObject,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from nacre.messages.tool_references import reference_text
from nacre.messages.wire import canonical, parse_content
from nacre.providers.parse import OWN

PARAGRAPH = "\n\n"
"""Between blocks that become one string; many compatible servers accept no lists of text parts."""
FAILED = "[the tool failed] "
"""Prefix of failed results, for which the format has no flag."""
NO_OUTPUT = "(no output)"
"""Some servers refuse an empty tool message."""
SEE_BELOW = "(see the picture that follows)"
SEE_FILE_BELOW = "(see the file that follows)"
"""Tool messages hold text only; pictures and documents are in the next user message."""
UNSIGNED = "skip_thought_signature_validator"
"""Stands for the signature of a call that another model made."""
UNSHOWN = "[an attachment that cannot be shown here]"
"""Stands for an image or document that only its own provider can read."""


def translate_messages(system: Iterable[JsonObject], messages: Iterable[JsonObject]) -> list[JsonObject]:
    """Return one system message, then the conversation."""
    return Translator().messages(system, messages)


class Translator:
    """Translates requests and reuses the translations of the previous one.

    A sent message never changes, so the same object is the same message. Translating a long conversation
    again takes longer than encoding it as JSON.
    """

    def __init__(self, translate: Callable[[JsonObject], list[JsonObject]] | None = None) -> None:
        self._translate = translate or translate_message
        self._last: dict[int, tuple[JsonObject, list[JsonObject]]] = {}
        """By `id`; the message itself is referenced too, so that its `id` is not reused."""

    def messages(self, system: Iterable[JsonObject], messages: Iterable[JsonObject]) -> list[JsonObject]:
        """Return one system message, then the conversation."""
        said = PARAGRAPH.join(_texts(parse_content([*system])))
        translated: list[JsonObject] = [{"role": "system", "content": said}] if said else []
        return translated + self.conversation(messages)

    def conversation(self, messages: Iterable[JsonObject]) -> list[JsonObject]:
        """Return the conversation without a system message."""
        translated: list[JsonObject] = []
        now: dict[int, tuple[JsonObject, list[JsonObject]]] = {}
        for message in messages:
            pair = self._last.get(id(message)) or (message, self._translate(message))
            now[id(message)] = pair
            translated += pair[1]
        self._last = now
        return translated


def translate_message(message: JsonObject) -> list[JsonObject]:
    """Translate one message into OpenAI messages; none if nothing of it can be expressed."""
    blocks = parse_content(message.get("content"))
    match message.get("role"):
        case "assistant":
            return _assistant(blocks)
        case "system":
            said = PARAGRAPH.join(_texts(blocks))
            return [{"role": "system", "content": said}] if said else []
        case _:
            return _user(blocks)


def translate_signed(message: JsonObject) -> list[JsonObject]:
    """Translate a message for a model that wants the signature of its thought back with each tool call.

    A reply of another model has none; the placeholder that Google documents takes its place.
    """
    translated = translate_message(message)
    calls = [block for block in parse_content(message.get("content")) if isinstance(block, ToolCall)]
    for one in translated:
        sent = one.get("tool_calls")
        wires = sent if isinstance(sent, list) else []
        for index, (call, wire) in enumerate(zip(calls, wires, strict=False)):
            own = dict(call.extra).get(OWN)
            extra = own.get("extra_content") if isinstance(own, dict) else None
            if isinstance(wire, dict) and (extra or index == 0):
                wire["extra_content"] = extra or {"google": {"thought_signature": UNSIGNED}}
    return translated


def translate_tools(tools: Iterable[JsonObject]) -> list[JsonObject]:
    """Translate tool definitions; a server tool of another provider has no schema and is left out."""
    return [
        {
            "type": "function",
            "function": {
                "name": tool["name"],
                "description": tool.get("description", ""),
                "parameters": tool["input_schema"],
            },
        }
        for tool in tools
        if "input_schema" in tool
    ]


def translate_schema(schema: JsonObject) -> JsonObject:
    """Return the response format; only a closed schema can be enforced strictly."""
    closed = schema.get("additionalProperties") is False
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema, "strict": closed}}


def _assistant(blocks: tuple[Block, ...]) -> list[JsonObject]:
    said = PARAGRAPH.join(_texts(blocks))
    calls: list[Json] = [
        {
            "id": block.id,
            "type": "function",
            "function": {"name": block.name, "arguments": canonical(block.input).decode()},
        }
        for block in blocks
        if isinstance(block, ToolCall)
    ]
    if calls:
        return [{"role": "assistant", "content": said or None, "tool_calls": calls}]
    return [{"role": "assistant", "content": said}] if said else []


def _user(blocks: tuple[Block, ...]) -> list[JsonObject]:
    """Return the tool results first, as the format requires, then the rest as a user message."""
    results = [block for block in blocks if isinstance(block, ToolResult)]
    shown = [part for result in results for part in result.content if _is_file(part)]
    rest = [*shown, *(block for block in blocks if not isinstance(block, ToolResult))]
    messages = [_result(result) for result in results]
    parts = [part for block in rest if (part := _part(block)) is not None]
    if not parts:
        return messages
    if all(part["type"] == "text" for part in parts):
        return [*messages, {"role": "user", "content": PARAGRAPH.join(str(part["text"]) for part in parts)}]
    return [*messages, {"role": "user", "content": [*parts]}]


def _result(result: ToolResult) -> JsonObject:
    said = [
        (SEE_BELOW if isinstance(part, Image) else SEE_FILE_BELOW) if _is_file(part) else block_text(part)
        for part in result.content
    ]
    text = PARAGRAPH.join(part for part in said if part) or NO_OUTPUT
    return {
        "role": "tool",
        "tool_call_id": result.call_id,
        "content": (FAILED if result.is_error else "") + text,
    }


def _is_file(part: Block) -> bool:
    """Whether a part of a result goes into the user message after it."""
    return isinstance(part, Image) or (isinstance(part, Document) and part.source.get("type") == "base64")


def _part(block: Block) -> JsonObject | None:
    match block:
        case Image({"type": "base64", "media_type": str(kind), "data": str(data)}):
            return {"type": "image_url", "image_url": {"url": f"data:{kind};base64,{data}"}}
        case Image({"url": str(url)}):
            return {"type": "image_url", "image_url": {"url": url}}
        case Image():
            return {"type": "text", "text": UNSHOWN}
        case Document({"type": "base64", "data": str(data)} as source):
            address = f"data:{source.get('media_type', 'application/pdf')};base64,{data}"
            return {"type": "file", "file": {"filename": "document.pdf", "file_data": address}}
        case _:
            said = block_text(block)
            return {"type": "text", "text": said} if said else None


def _texts(blocks: Iterable[Block]) -> list[str]:
    return [text for block in blocks if (text := block_text(block))]


def block_text(block: Block) -> str:
    """Return the text of a block; empty if it has none for another provider."""
    match block:
        case Text(text):
            return text
        case Document({"type": "text", "data": str(text)}) | Document({"url": str(text)}):
            return text
        case Document():
            return UNSHOWN
        case Opaque("tool_reference", wire):
            return reference_text(wire)
        case Opaque(kind, wire):
            content = wire.get("content")
            return content if kind == "compaction" and isinstance(content, str) else ""
        case Thinking() | ToolCall() | ToolResult() | Image():
            return ""
        case _:
            assert_never(block)
