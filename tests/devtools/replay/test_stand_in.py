"""The stand-in for a compaction: what it leaves in the window, and when it is not worth one."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from nacre.cache.models import profile, thresholds
from nacre.cache.warmth import Warmth
from nacre.devtools.replay.other_policies import CompactionSettings, PlaceholderCompact
from nacre.messages.records import Compacted, Record
from nacre.messages.view import View
from nacre.session.fit import WindowState
from nacre.testing import FrozenClock
from tests.layers.l2_microcompact.scenes import FREE, START, view_of

LIMITS = thresholds(60_000, max_output=8_000)


async def compacted(
    view: View, settings: CompactionSettings, *, base: int = 0, ratio: float = 1.0, tokens: int | None = None
) -> tuple[Sequence[Record], list[View]]:
    """What it records, and of which views a summary was asked for."""
    asked: list[View] = []
    rung = PlaceholderCompact(
        settings,
        clock=FrozenClock(),
        base_tokens=lambda: round(base * ratio),
        ratio=lambda: ratio,
        asked=asked.append,
    )
    state = WindowState(
        tokens=view.estimate if tokens is None else tokens,
        thresholds=LIMITS,
        profile=profile(FREE),
        warmth=Warmth(now=START),
    )
    return await rung.shrink(view, state), asked


@pytest.mark.parametrize(("base", "ratio"), [(0, 1.0), (20_000, 1.0), (20_000, 1.5)])
async def test_no_more_than_half_of_the_room_is_filled_afterwards(base: int, ratio: float) -> None:
    """C21: of what the system prompt and the tools leave below the threshold; and not much less."""
    view = view_of(60)
    records, _ = await compacted(view, CompactionSettings(tail_tokens=1_000_000), base=base, ratio=ratio)
    assert isinstance(records[-1], Compacted)
    left = view.after(*records).estimate * ratio
    room = LIMITS.autocompact - base * ratio
    a_round = 1_100 * ratio
    assert 0.5 * room - a_round < left <= 0.5 * room + a_round / 10


@pytest.mark.parametrize(("share", "is_done"), [(0.11, True), (0.09, False)])
async def test_a_compaction_that_frees_less_than_a_tenth_of_the_request_is_not_paid_for(
    share: float, is_done: bool
) -> None:
    """C25: the next would come at once."""
    view = view_of(30)
    settings = CompactionSettings(tail_tokens=10_000, summary_tokens=2_000)
    records, _ = await compacted(view, settings)
    freed = view.estimate - view.after(*records).estimate
    again, asked = await compacted(view, settings, tokens=round(freed / share))
    assert (bool(again), bool(asked)) == (is_done, is_done)
