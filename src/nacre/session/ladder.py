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
    """The first request of a turn: nothing of it was answered yet."""
    overflow: PromptTooLong | None = None
    """The provider's refusal of this view, if there was one."""

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
    """Let layers shrink the view in order and return their records.

    Raises `ContextOverflow` when the view is still too large for the window.
    """
    records: list[Record] = []
    for layer in layers:
        # Cheapest first: a layer that costs a model call must never run while a free one could be enough.
        if layer.can_shrink(view, pressure):
            new = await layer.shrink(view, pressure)
            view = view.after(*new)
            records.extend(new)
            overflow = None if new else pressure.overflow
            pressure = replace(pressure, tokens=view.count(base, ratio=ratio), overflow=overflow)
    if pressure.overflow is None and pressure.tokens >= pressure.thresholds.blocking:
        # A compaction can only shorten a conversation: not the system prompt, the tools or a single message.
        has_past = any(item.role == "assistant" for item in view.items)
        was_compacted = any(isinstance(one, Compacted) for one in records)
        can_compact = has_past and not was_compacted and base < pressure.thresholds.blocking
        raise ContextOverflow(
            f"the conversation holds about {pressure.tokens:,} tokens and the model's window ends at "
            f"{pressure.thresholds.blocking:,} ({largest_shares(view, base)}); "
            + ("shorten it with /compact, " if can_compact else "")
            + "start a new session with /clear or use a model with a larger window"
        )
    return records


def largest_shares(view: View, base: int) -> str:
    """Return the three kinds of content that fill the window most, as text."""
    shares = {
        "system prompt and tools": base,
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
                    kind = "assistant text" if item.role == "assistant" else "user text"
                case Thinking():
                    kind = "thinking"
                case ToolCall():
                    kind = "tool calls"
                case ToolResult():
                    kind = "tool results"
                case _:
                    kind = "other"
            shares[kind] += part.tokens
    largest = sorted(shares.items(), key=lambda share: -share[1])[:3]
    return ", ".join(f"{name} about {tokens:,}" for name, tokens in largest if tokens)
