"""Requests in OpenAI's chat vocabulary: a pure function, so an unchanged prefix keeps its bytes.

Each message is translated on its own. What the vocabulary has no word for (thinking, markers) is left out.
"""

from __future__ import annotations

from collections.abc import Iterable
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
from nacre.messages.wire import canonical, parse_content

PARAGRAPH = "\n\n"
"""Between blocks that become one string; many compatible servers take no lists of text parts."""
FAILED = "[the tool failed] "
"""The vocabulary has no error flag on results, so the text says it."""
NO_OUTPUT = "(no output)"
"""Some servers refuse an empty tool message."""
SEE_BELOW = "(see the picture that follows)"
"""Tool messages hold text only; the picture itself rides in the next user message."""
UNSHOWN = "[an attachment that cannot be shown here]"
"""A form of picture or document that only its own provider can read."""


def translate_messages(system: Iterable[JsonObject], messages: Iterable[JsonObject]) -> list[JsonObject]:
    """One system message, then the conversation."""
    return Translator().messages(system, messages)


class Translator:
    """Translates request after request; a message that was in the last one is not translated again.

    A message that was sent never changes, so that the same object means the same message. Translating a long
    conversation anew takes longer than writing it as JSON.
    """

    def __init__(self) -> None:
        self._last: dict[int, tuple[JsonObject, list[JsonObject]]] = {}
        """By identity; the message itself is held too, so that no other can take over its identity."""

    def messages(self, system: Iterable[JsonObject], messages: Iterable[JsonObject]) -> list[JsonObject]:
        """One system message, then the conversation."""
        said = PARAGRAPH.join(_texts(parse_content([*system])))
        translated: list[JsonObject] = [{"role": "system", "content": said}] if said else []
        now: dict[int, tuple[JsonObject, list[JsonObject]]] = {}
        for message in messages:
            known = self._last.get(id(message)) or (message, translate_message(message))
            now[id(message)] = known
            translated += known[1]
        self._last = now
        return translated


def translate_message(message: JsonObject) -> list[JsonObject]:
    """The messages that stand for one of ours; none when nothing of it can be said."""
    blocks = parse_content(message.get("content"))
    match message.get("role"):
        case "assistant":
            return _assistant(blocks)
        case "system":
            said = PARAGRAPH.join(_texts(blocks))
            return [{"role": "system", "content": said}] if said else []
        case _:
            return _user(blocks)


def translate_tools(tools: Iterable[JsonObject]) -> list[JsonObject]:
    """Tool definitions as functions; a server tool of another provider has no schema and is left out."""
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
    """The answer's format; only a closed schema can be enforced strictly."""
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
    """Results first and in order, as the vocabulary wants them, then everything else as the user's."""
    results = [block for block in blocks if isinstance(block, ToolResult)]
    shown = [part for result in results for part in result.content if isinstance(part, Image)]
    rest = [*shown, *(block for block in blocks if not isinstance(block, ToolResult))]
    messages = [_result(result) for result in results]
    parts = [part for block in rest if (part := _part(block)) is not None]
    if not parts:
        return messages
    if all(part["type"] == "text" for part in parts):
        return [*messages, {"role": "user", "content": PARAGRAPH.join(str(part["text"]) for part in parts)}]
    return [*messages, {"role": "user", "content": [*parts]}]


def _result(result: ToolResult) -> JsonObject:
    said = [SEE_BELOW if isinstance(part, Image) else _said(part) for part in result.content]
    text = PARAGRAPH.join(part for part in said if part) or NO_OUTPUT
    return {
        "role": "tool",
        "tool_call_id": result.call_id,
        "content": (FAILED if result.is_error else "") + text,
    }


def _part(block: Block) -> JsonObject | None:
    match block:
        case Image(source):
            return _picture(source)
        case Document({"type": "base64", "data": str(data)} as source):
            address = f"data:{source.get('media_type', 'application/pdf')};base64,{data}"
            return {"type": "file", "file": {"filename": "document", "file_data": address}}
        case _:
            said = _said(block)
            return {"type": "text", "text": said} if said else None


def _picture(source: JsonObject) -> JsonObject:
    match source:
        case {"type": "base64", "media_type": str(kind), "data": str(data)}:
            address = f"data:{kind};base64,{data}"
        case {"url": str(url)}:
            address = url
        case _:
            return {"type": "text", "text": UNSHOWN}
    return {"type": "image_url", "image_url": {"url": address}}


def _texts(blocks: Iterable[Block]) -> list[str]:
    return [said for block in blocks if (said := _said(block))]


def _said(block: Block) -> str:
    """The words of a block; empty when it has none that another provider should read."""
    match block:
        case Text(text):
            return text
        case Document({"type": "text", "data": str(text)}) | Document({"url": str(text)}):
            return text
        case Document():
            return UNSHOWN
        case Opaque(kind, wire):
            content = wire.get("content")
            return content if kind == "compaction" and isinstance(content, str) else ""
        case Thinking() | ToolCall() | ToolResult() | Image():
            return ""
        case _:
            assert_never(block)
