"""What a message is made of: typed, frozen blocks in the provider's own vocabulary."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
"""Anything that JSON can say."""
JsonObject: TypeAlias = "dict[str, Json]"
"""A JSON object."""
Extra: TypeAlias = "tuple[tuple[str, Json], ...]"
"""Fields of a block that nacre does not know, kept in order and sent back as they came."""

Role = Literal["user", "assistant", "system"]


@dataclass(frozen=True, slots=True)
class Text:
    """Words."""

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
    """A model asks for a tool; the key order of the input is part of the cached bytes."""

    id: str
    name: str
    input: JsonObject
    extra: Extra = ()


@dataclass(frozen=True, slots=True)
class Image:
    """A picture, by bytes or address, as the provider takes it."""

    source: JsonObject
    extra: Extra = ()


@dataclass(frozen=True, slots=True)
class Document:
    """A document, by bytes, text or address, as the provider takes it."""

    source: JsonObject
    extra: Extra = ()


@dataclass(frozen=True, slots=True)
class Opaque:
    """A block passed through untouched: compaction, redacted thinking, server tools, what comes next."""

    kind: str
    wire: JsonObject


ResultPart: TypeAlias = Text | Image | Document | Opaque


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool answered."""

    call_id: str
    content: tuple[ResultPart, ...]
    is_error: bool = False
    extra: Extra = ()

    @property
    def text(self) -> str:
        """Its words; images and documents are left out."""
        return "\n".join(part.text for part in self.content if isinstance(part, Text))


Block: TypeAlias = Text | Thinking | ToolCall | ToolResult | Image | Document | Opaque


@dataclass(frozen=True, slots=True)
class Message:
    """One role's contribution to a conversation."""

    role: Role
    blocks: tuple[Block, ...]

    @property
    def text(self) -> str:
        """Its words, without thinking, calls and results."""
        return "\n".join(block.text for block in self.blocks if isinstance(block, Text))

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The calls in it, in order."""
        return tuple(block for block in self.blocks if isinstance(block, ToolCall))


def result_of(call: ToolCall, text: str, *, is_error: bool = False) -> ToolResult:
    """A plain-text answer to a call."""
    return ToolResult(call.id, (Text(text),) if text else (), is_error)
