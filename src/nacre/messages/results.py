"""Tool calls and their results as they stand in a view, in order: what layers choose among."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from nacre.messages.blocks import ToolCall, ToolResult
from nacre.messages.pairing import Item


@dataclass(frozen=True, slots=True)
class Answered:
    """One call and what answers it."""

    call: ToolCall
    result: ToolResult
    record_id: str
    """The record the result stands in."""
    item: int
    """The place of that record among the items of the view."""
    tokens: int
    """Estimated tokens of the result."""

    @property
    def id(self) -> str:
        return self.call.id


def answered(items: Iterable[Item]) -> list[Answered]:
    """Every call that has its result, in the order of the results; of two results the first counts."""
    calls: dict[str, ToolCall] = {}
    found: list[Answered] = []
    for place, item in enumerate(items):
        for part in item.parts:
            match part.block:
                case ToolCall() as call if item.role == "assistant":
                    calls.setdefault(call.id, call)
                case ToolResult() as result if result.call_id in calls:
                    found.append(
                        Answered(calls.pop(result.call_id), result, part.record_id, place, part.tokens)
                    )
                case _:
                    pass
    return found
