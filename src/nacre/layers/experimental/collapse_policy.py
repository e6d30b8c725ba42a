"""When and what is collapsed: finished pieces of work between a person's messages (C30); pure.

A span holds whole rounds and no word of a person. It is older than the kept tail, so that it is finished.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from nacre.messages.blocks import ToolCall, ToolResult
from nacre.messages.pairing import Item
from nacre.messages.records import Said
from nacre.messages.rounds import cuts, rounds, tail_from
from nacre.messages.view import View


@dataclass(frozen=True, slots=True, kw_only=True)
class CollapseSettings:
    """How finished work is collapsed, as shares of the effective window where not said otherwise."""

    stage_from: float = 0.7
    """Summaries are begun this full: early enough to be ready, late enough not to pay for short sessions."""
    commit_from: float = 0.9
    """From here on they take the place of what they are about."""
    wait_from: float = 0.95
    """Here the next request waits for a summary that is under way."""
    down_to: float = 0.7
    """So much is committed at once: every commit makes the provider read the conversation anew."""
    min_gain: float = 0.05
    """Below `wait_from`, less than this is not worth that."""
    tail_tokens: int = 20_000
    """The newest rounds, which stay as they are."""
    tail_share: float = 0.25
    """The same for small windows."""
    span_tokens: int = 8_000
    """A longer turn is summarised in parts of about this: short enough to be told without loss."""
    span_share: float = 0.1
    """The same for small windows."""
    min_tokens: int = 300
    """A shorter span would hardly get smaller, and cost a request."""
    rule_share: float = 0.25
    """Of a span, for what rules tell about it."""
    summary_tokens: int = 4_000
    """Output of one request for a summary."""
    wait_seconds: float = 15.0
    """How long a request waits; then rules stand in."""
    max_failures: int = 3
    """Failed summaries in a row; then rules do the rest of the session."""

    def tail(self, effective: int) -> int:
        return min(self.tail_tokens, round(effective * self.tail_share))

    def span(self, effective: int) -> int:
        return min(self.span_tokens, round(effective * self.span_share))


DEFAULT = CollapseSettings()
Urgency: TypeAlias = Literal["none", "commit", "wait", "all"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedSpan:
    """A span of the view, by its records."""

    first: str
    keeps_from: str
    """The record behind it."""
    records: tuple[str, ...]
    """Those in it that hold something, in order: if these still stand there, a summary still fits."""
    tokens: int


def urgency(
    tokens: int, effective: int, *, is_refused: bool, settings: CollapseSettings = DEFAULT
) -> Urgency:
    """How pressing it is: a provider's refusal wants everything that can be had."""
    if is_refused:
        return "all"
    if tokens >= settings.wait_from * effective:
        return "wait"
    return "commit" if tokens >= settings.commit_from * effective else "none"


def finished_spans(
    view: View,
    effective: int,
    *,
    held: frozenset[str] = frozenset(),
    taken: frozenset[str] = frozenset(),
    to_the_last: bool = False,
    settings: CollapseSettings = DEFAULT,
) -> list[FinishedSpan]:
    """What can be collapsed, oldest first.

    `held` are calls whose results must stay, `taken` records that belong to another span. The part of a turn
    that may still grow is left, unless `to_the_last`.
    """
    items = view.items
    if not items:
        return []
    bounds = _Bounds(view, held, taken)
    end = min(tail_from(items, settings.tail(effective)), rounds(items)[-1][0])
    found: list[FinishedSpan] = []
    start = stop = 0
    for first, last in rounds(items):
        piece = bounds.piece(first, last)
        if first >= end or (piece is not None and piece > end):
            break
        if stop > start and (first != stop or piece is None):
            found += _span(items, start, stop, settings.min_tokens)
            start = stop = 0
        if piece is None:
            continue
        start = start if stop > start else first
        stop = piece
        if bounds.is_end(piece) or _tokens(items[start:stop]) >= settings.span(effective):
            found += _span(items, start, stop, settings.min_tokens)
            start = stop = 0
    if to_the_last and stop > start:
        found += _span(items, start, stop, settings.min_tokens)
    return found


def place_of(view: View, span: FinishedSpan, held: frozenset[str] = frozenset()) -> tuple[int, int] | None:
    """Where a span stands now; none if it no longer stands there as it did."""
    ids = [item.record_id for item in view.items]
    if not (view.has_record(span.first) and view.has_record(span.keeps_from)):
        return None
    start = ids.index(span.first)
    stop = ids.index(span.keeps_from)
    inside = view.items[start:stop]
    is_same = tuple(item.record_id for item in inside if item.parts) == span.records
    return (start, stop) if is_same and not any(_calls(item) & held for item in inside) else None


class _Bounds:
    """What no span may hold."""

    def __init__(self, view: View, held: frozenset[str], taken: frozenset[str]) -> None:
        self.items = view.items
        self.cuts = set(cuts(view.items))
        self.held = held
        self.taken = taken
        said = [one for one in view.records if isinstance(one, Said)]
        self.work = {one.id for one in said if not _is_by_person(one)}
        """What a program or the model said; what nobody said is a summary."""
        self.repeated = {name for name, n in Counter(item.record_id for item in self.items).items() if n > 1}
        self.ends = {one.id for one in said} - self.repeated
        """What a span may end at: never a summary, for if that were undone, nothing would end the span."""

    def piece(self, first: int, last: int) -> int | None:
        """Where the part of a round that can be collapsed ends; none if there is none."""
        items = self.items
        if items[first].role != "assistant":
            return None
        end = next((place for place in range(first, last) if not self._may_go(items[place])), last)
        if end == first or end not in self.cuts or any(_calls(one) & self.held for one in items[first:last]):
            return None
        return end if end < len(items) and items[end].record_id in self.ends else None

    def is_end(self, place: int) -> bool:
        """Whether the work before it is finished for good: something that stays comes next."""
        return not self._may_go(self.items[place])

    def _may_go(self, item: Item) -> bool:
        name = item.record_id
        is_known = name in self.work and name not in self.repeated and name not in self.taken
        return is_known and item.role != "system"


def _span(items: Sequence[Item], start: int, stop: int, least: int) -> list[FinishedSpan]:
    inside = items[start:stop]
    if _tokens(inside) < least:
        return []
    records = tuple(item.record_id for item in inside if item.parts)
    first = items[start].record_id
    behind = items[stop].record_id
    return [FinishedSpan(first=first, keeps_from=behind, records=records, tokens=_tokens(inside))]


def _tokens(items: Sequence[Item]) -> int:
    return sum(item.tokens for item in items)


def _is_by_person(said: Said) -> bool:
    is_spoken = any(not isinstance(block, ToolResult) for block in said.blocks)
    return said.role == "user" and not said.meta and is_spoken


def _calls(item: Item) -> frozenset[str]:
    blocks = (part.block for part in item.parts)
    return frozenset(
        block.id if isinstance(block, ToolCall) else block.call_id
        for block in blocks
        if isinstance(block, ToolCall | ToolResult)
    )
