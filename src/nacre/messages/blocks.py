"""The blocks of a message: typed, frozen, in the provider's vocabulary."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
"""Any JSON value."""
JsonObject: TypeAlias = "dict[str, Json]"
"""A JSON object."""
Extra: TypeAlias = "tuple[tuple[str, Json], ...]"
"""Unknown fields of a block, kept in order and sent back unchanged."""

Role = Literal["user", "assistant", "system"]


@dataclass(frozen=True, slots=True)
class Text:
    """Text."""

    text: str
    extra: Extra = ()


@dataclass(frozen=True, slots=True)
class Thinking:
    """A model's reasoning; some providers bind it to the bytes before it by its signature."""

    text: str
    signature: str | None = None
    extra: Extra = ()


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call; the key order of the input is part of the cached bytes."""

    id: str
    name: str
    input: JsonObject
    extra: Extra = ()


@dataclass(frozen=True, slots=True)
class Image:
    """An image, by bytes or URL, in the provider's form."""

    source: JsonObject
    extra: Extra = ()


@dataclass(frozen=True, slots=True)
class Document:
    """A document, by bytes, text or URL, in the provider's form."""

    source: JsonObject
    extra: Extra = ()


@dataclass(frozen=True, slots=True)
class Opaque:
    """A block passed through unchanged: compaction, redacted thinking, server tools, future kinds."""

    kind: str
    wire: JsonObject


ResultPart: TypeAlias = Text | Image | Document | Opaque


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of a tool call."""

    call_id: str
    content: tuple[ResultPart, ...]
    is_error: bool = False
    extra: Extra = ()

    @property
    def text(self) -> str:
        """The text, without images and documents."""
        return "\n".join(part.text for part in self.content if isinstance(part, Text))


Block: TypeAlias = Text | Thinking | ToolCall | ToolResult | Image | Document | Opaque


@dataclass(frozen=True, slots=True)
class Message:
    """One role's contribution to a conversation."""

    role: Role
    blocks: tuple[Block, ...]

    @property
    def text(self) -> str:
        """The text, without thinking, calls and results."""
        return "\n".join(block.text for block in self.blocks if isinstance(block, Text))

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The tool calls of the message, in order."""
        return tuple(block for block in self.blocks if isinstance(block, ToolCall))


def result_of(call: ToolCall, text: str, *, is_error: bool = False) -> ToolResult:
    """Return a plain-text result of a call."""
    return ToolResult(call.id, (Text(text),) if text else (), is_error)
