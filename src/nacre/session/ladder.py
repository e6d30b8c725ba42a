"""Lets layers shrink the view, cheapest first, until it fits; without layers it guards the window."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from nacre.cache.models import ModelProfile
from nacre.cache.warmth import Warmth
from nacre.errors import ContextOverflow, PromptTooLong
from nacre.loop.limits import Thresholds
from nacre.messages.blocks import Text, Thinking, ToolCall, ToolResult
from nacre.messages.records import Compacted, Record
from nacre.messages.view import View


@dataclass(frozen=True, slots=True, kw_only=True)
class Pressure:
    """How full the window is, and what a rewrite would cost, as a layer's policy sees it."""

    tokens: int
    thresholds: Thresholds
    profile: ModelProfile
    warmth: Warmth
    starts_turn: bool = True
    """The person just spoke: nothing of this turn was answered yet."""
    overflow: PromptTooLong | None = None
    """The provider's own refusal, when there was one."""

    @property
    def fits(self) -> bool:
        return self.overflow is None and self.tokens < self.thresholds.autocompact


class Shrinks(Protocol):
    """The part of a `Layer` that makes a view smaller."""

    def can_shrink(self, view: View, pressure: Pressure) -> bool: ...

    async def shrink(self, view: View, pressure: Pressure) -> Sequence[Record]: ...


async def fit(
    view: View, layers: Sequence[Shrinks], pressure: Pressure, *, base: int, ratio: float = 1.0
) -> list[Record]:
    """Let layers shrink the view in order; raises `ContextOverflow` when too much is left."""
    records: list[Record] = []
    for layer in layers:
        # Cheapest first: a layer that costs a model call must never run while a free one could be enough.
        if layer.can_shrink(view, pressure):
            new = await layer.shrink(view, pressure)
            view = view.after(*new)
            records.extend(new)
            left = None if new else pressure.overflow
            pressure = replace(pressure, tokens=view.count(base, ratio=ratio), overflow=left)
    if pressure.overflow is None and pressure.tokens >= pressure.thresholds.blocking:
        was_compacted = any(isinstance(one, Compacted) for one in records)
        raise ContextOverflow(_what_fills_it(view, base, pressure, was_compacted=was_compacted))
    return records


def largest(view: View, base: int) -> str:
    """What fills the window most, in words."""
    shares = {"system prompt and tools": base, **_by_kind(view)}
    first = sorted(shares.items(), key=lambda share: -share[1])[:3]
    return ", ".join(f"{name} about {tokens:,}" for name, tokens in first if tokens)


def _what_fills_it(view: View, base: int, pressure: Pressure, *, was_compacted: bool) -> str:
    # A compaction can only shorten a conversation: not the system prompt, the tools or a single message.
    has_past = any(item.role == "assistant" for item in view.items)
    can_compact = has_past and not was_compacted and base < pressure.thresholds.blocking
    return (
        f"the conversation holds about {pressure.tokens:,} tokens and the model's window ends at "
        f"{pressure.thresholds.blocking:,} ({largest(view, base)}); "
        + ("shorten it with /compact, " if can_compact else "")
        + "start a new session with /clear or use a model with a larger window"
    )


def _by_kind(view: View) -> dict[str, int]:
    """Estimated tokens in view by kind, in a fixed order."""
    kinds = {
        "user text": 0,
        "assistant text": 0,
        "thinking": 0,
        "tool calls": 0,
        "tool results": 0,
        "other": 0,
    }
    for item in view.items:
        for part in item.parts:
            match part.block:
                case Text():
                    kinds["assistant text" if item.role == "assistant" else "user text"] += part.tokens
                case Thinking():
                    kinds["thinking"] += part.tokens
                case ToolCall():
                    kinds["tool calls"] += part.tokens
                case ToolResult():
                    kinds["tool results"] += part.tokens
                case _:
                    kinds["other"] += part.tokens
    return kinds
