"""Lets layers shrink the view, cheapest first, until it fits; without layers it guards the window."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from nacre.cache.models import ModelProfile, Thresholds
from nacre.cache.warmth import Warmth
from nacre.errors import ContextOverflow, PromptTooLong
from nacre.messages.blocks import Text, Thinking, ToolCall, ToolResult
from nacre.messages.media import PDF, UNSEEN_TOKENS
from nacre.messages.records import Compacted, Record
from nacre.messages.view import View

LARGE_BASE_SHARE = 0.5
"""Share of the window; tools and system prompt that take more are worth a hint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowState:
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

    def can_shrink(self, view: View, state: WindowState) -> bool: ...

    async def shrink(self, view: View, state: WindowState) -> Sequence[Record]: ...


async def fit(
    view: View,
    layers: Sequence[Shrinks],
    state: WindowState,
    *,
    base: int,
    count: Callable[[View], int],
    least: Callable[[View], int] | None = None,
) -> list[Record]:
    """Let layers shrink the view in order and return their records; `count` returns the size of a view.

    Raises `ContextOverflow` when the view is still too large for the window. `least` returns the least size
    that a view can have, which decides about that where the provider has counted nothing yet.
    """
    records: list[Record] = []
    for layer in layers:
        # Cheapest first: a layer that costs a model call must never run while a free one could be enough.
        if layer.can_shrink(view, state):
            new = await layer.shrink(view, state)
            view = view.after(*new)
            records.extend(new)
            overflow = None if new else state.overflow
            state = replace(state, tokens=count(view), overflow=overflow)
    if state.overflow is None and (least or count)(view) >= state.thresholds.blocking:
        was_compacted = any(isinstance(one, Compacted) for one in records)
        ways = _ways_out(view, base, state.thresholds.blocking, was_compacted=was_compacted)
        raise ContextOverflow(
            f"the conversation holds about {state.tokens:,} tokens and the model's window ends at "
            f"{state.thresholds.blocking:,} ({largest_shares(view, base)}); {_or_list(ways)}"
        )
    return records


def _or_list(ways: Sequence[str]) -> str:
    """Return alternatives as text: `a, b or c`."""
    return " or ".join(filter(None, [", ".join(ways[:-1]), *ways[-1:]]))


def _ways_out(view: View, base: int, limit: int, *, was_compacted: bool) -> list[str]:
    """Return what a person can do about a conversation that does not fit; each of them helps."""
    has_past = any(item.role == "assistant" for item in view.items)
    largest = max((item.tokens for item in view.items if item.role == "user"), default=0)
    ways: list[str] = []
    # A compaction can only shorten a conversation: not the system prompt, the tools or a single message.
    if has_past and not was_compacted and base + largest < limit:
        ways.append("shorten it with /compact")
    if base < limit <= base + largest:
        ways.append("take the largest message back with /rewind and put its text into a file")
    if base > LARGE_BASE_SHARE * limit:
        ways.append("set switches.agents and switches.skills to false, or remove MCP servers")
    if base < limit:
        ways.append("start a new session with /clear")
    return [*ways, "use a model with a larger window"]


def uncounted(view: View, profile: ModelProfile, *, ratio: float = 1.0) -> int:
    """Return how many tokens of `view.count()` the provider of a model does not count.

    They are thinking that it strips, and what the estimate of pictures has more than its rule for them.
    """
    tokens = round(media_since(view, profile) * ratio)
    return tokens + (stripped_thinking(view, ratio=ratio) if profile.strips_old_thinking else 0)


def media_since(view: View, profile: ModelProfile) -> int:
    """Return `media_excess` of what the provider has not counted yet."""
    items = view.items
    first = 0
    if view.anchor is not None:
        first = next((n + 1 for n in reversed(range(len(items))) if items[n].usage is not None), 0)
    return media_excess(view, profile, first=first)


def media_excess(view: View, profile: ModelProfile, *, first: int = 0) -> int:
    """Return by how much the estimate of pictures exceeds what a model counts, in the items from `first` on.

    The view does not know the model, so it assumes an unknown vendor; the result may be negative.
    """
    excess = 0
    for one in view.media(first):
        is_unseen = ("document" if one.kind == PDF else "image") in profile.unseen_media
        excess += one.tokens - (UNSEEN_TOKENS if is_unseen else one.tokens_by(profile.pictures))
    return excess


def stripped_thinking(view: View, *, ratio: float = 1.0) -> int:
    """Return how many tokens of `view.count()` are thinking that is not shown to the model any more.

    For models that remove thinking ahead of the last text of the user. What the provider reported for the
    last reply holds the thinking of its own turn only, with the reply's output; estimates hold all of it.
    """
    if view.anchor is None:
        return round(view.old_thinking * ratio)
    items = view.items
    asked = view.user_texts
    last = next((n for n in reversed(range(len(items))) if items[n].usage is not None), len(items))
    if not asked or last > asked[-1]:
        return 0
    tokens = 0
    for item in items[next((n for n in reversed(asked) if n < last), 0) : last + 1]:
        if thinking := item.thinking_tokens:
            # The text of thinking may be a summary of what was billed and is counted.
            whole = item.usage.output - round((item.tokens - thinking) * ratio) if item.usage else 0
            tokens += max(whole, round(thinking * ratio))
    return tokens


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
