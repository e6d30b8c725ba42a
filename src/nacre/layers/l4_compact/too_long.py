"""What to do when even the request for a summary is too long: leave the oldest rounds out of it (C24)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from nacre.errors import PromptTooLong
from nacre.layers.l4_compact.policy import CompactSettings
from nacre.messages.pairing import Item
from nacre.messages.records import Compacted, Replaced
from nacre.messages.rewrite import without_thinking
from nacre.messages.rounds import rounds
from nacre.messages.view import View

MIN_GROUPS = 1
"""Of the rounds, so many are always left: a summary of nothing is of no use."""


@dataclass(frozen=True, slots=True)
class Shortened:
    """A view without its oldest rounds; always made from the whole one."""

    view: View
    dropped: int = 0
    """Rounds that were left out."""


def shorten(
    whole: View, before: Shortened, error: PromptTooLong, *, settings: CompactSettings
) -> Shortened | None:
    """What to try after this error; none where nothing more can be left out.

    It begins again from the whole view, so that what stands in for a lost beginning never piles up. A summary
    that opens the view is the only memory of all before it, and stays.
    """
    items = whole.items
    groups = rounds(items)
    if len(groups) > MIN_GROUPS + 1 and _opens_with_summary(whole):
        groups = groups[1:]
    wanted = _wanted([_tokens(items, group) for group in groups], before.dropped, error, settings)
    dropped = min(wanted, len(groups) - MIN_GROUPS)
    if dropped <= before.dropped:
        return None
    first, kept = items[groups[0][0]], items[groups[dropped][0]]
    cut = Compacted(
        id=f"{first.record_id}-left-out",
        at=whole.records[-1].at,
        summary=(),
        first=first.record_id,
        keeps_from=kept.record_id,
        kind="span",
    )
    shorter = whole.after(cut)
    # Some models refuse thinking whose past changed, and a summary does not need it.
    changes = tuple(without_thinking(shorter.items))
    bare = Replaced(id=f"{first.record_id}-thinking", at=cut.at, changes=changes, reason="thinking")
    return Shortened(shorter.after(bare) if changes else shorter, dropped)


def _wanted(sizes: Sequence[int], dropped: int, error: PromptTooLong, settings: CompactSettings) -> int:
    """How many of the oldest go now, those that went before among them."""
    if error.tokens is None or error.limit is None or error.tokens <= error.limit:
        return dropped + max(1, math.floor(len(sizes) * settings.drop_share))
    gap = error.tokens - error.limit
    for count in range(dropped + 1, len(sizes) + 1):
        if sum(sizes[dropped:count]) >= gap:
            return count
    return len(sizes)


def _tokens(items: Sequence[Item], span: tuple[int, int]) -> int:
    return sum(item.tokens for item in items[span[0] : span[1]])


def _opens_with_summary(view: View) -> bool:
    first = view.items[0].record_id
    return any(isinstance(one, Compacted) and (one.summary_id or one.id) == first for one in view.records)
