"""One tool: a plain async function with type hints, and what the model is told about it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from nacre.messages.blocks import JsonObject, ToolResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """What the model may call."""

    name: str
    description: str
    input_schema: JsonObject
    call: Callable[[JsonObject], Awaitable[ToolResult | str]]
    """Takes the model's arguments; a `ToolError` or any other exception becomes an error result."""
    read_only: bool = False
    """Changes nothing: may run side by side with others, and while the reply still streams."""

    @property
    def definition(self) -> JsonObject:
        """As it stands in a request."""
        return {"name": self.name, "description": self.description, "input_schema": self.input_schema}
