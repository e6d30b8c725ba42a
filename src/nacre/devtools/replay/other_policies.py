"""Compaction as others do it, in a replay: a text of fixed size stands for the summary, which nobody writes.

What a real summary would say cannot be known here, so the stand-in says nothing at all: retention counts
only what a policy kept by itself, and no policy gains from a good guess.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nacre.clock import Clock
from nacre.messages.blocks import Text
from nacre.messages.records import Compacted, Record
from nacre.messages.rewrite import drop_thinking
from nacre.messages.rounds import tail_from
from nacre.messages.tokens import BYTES_PER_TOKEN
from nacre.messages.view import View
from nacre.session.ladder import Pressure
from nacre.session.layer import Layer

LEFT_OUT = "[Earlier messages were left out.]"
"""Stands for rounds that were dropped without a summary."""
TRUNCATE = "truncate"
"""The trigger of a compaction without a summary."""
SUMMARY_TOKENS = 2_000
"""What a summary takes."""
LEAST_SHARE = 0.1
"""Of a request: a compaction that frees less is not asked for, because the next would come at once (C25)."""
WORD = "and so on "
"""What a stand-in is made of: nothing in it counts as an identifier."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionSettings:
    """How a conversation that is too long is cut down."""

    summary_tokens: int = SUMMARY_TOKENS
    """What a summary takes; 0 leaves the old rounds out without one."""
    tail_tokens: int = 20_000
    """The newest rounds that stay word for word, as far as there is room."""
    room_share: float = 0.5
    """Of the room, so much may be filled after it (C21)."""


class StandIn(Layer):
    """Compacts: the newest rounds stay, a text of fixed size stands for the rest."""

    def __init__(
        self,
        settings: CompactionSettings,
        *,
        clock: Clock,
        base_tokens: int,
        ratio: Callable[[], float],
        asked: Callable[[View], None],
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._base_tokens = base_tokens
        self._ratio = ratio
        self._asked = asked
        """Told the view of which a summary is asked for."""

    @property
    def trigger(self) -> str:
        """How the record of it says that it came about."""
        return "auto" if self._settings.summary_tokens else TRUNCATE

    def can_shrink(self, view: View, pressure: Pressure) -> bool:
        return not pressure.fits and len(view.items) > 1

    async def shrink(self, view: View, pressure: Pressure) -> Sequence[Record]:
        settings = self._settings
        place = tail_from(view.items, self._tail(pressure))
        kept = view.items[place:]
        freed = sum(item.tokens for item in view.items[:place]) * self._ratio() - settings.summary_tokens
        if freed < LEAST_SHARE * pressure.tokens:
            return ()
        if settings.summary_tokens:
            self._asked(view)
        text = filler(settings.summary_tokens, ratio=self._ratio()) if settings.summary_tokens else LEFT_OUT
        compacted = Compacted(
            id=self._clock.new_id(),
            at=self._clock.now(),
            summary=(Text(text),),
            keeps_from=kept[0].record_id if kept else None,
            trigger=self.trigger,
            pre_tokens=pressure.tokens,
        )
        # Thinking that is bound to the bytes before it cannot stay behind other bytes (C12b).
        dropped = drop_thinking(kept, self._clock) if pressure.profile.binds_thinking else ()
        return [*dropped, compacted]

    def _tail(self, pressure: Pressure) -> int:
        """In estimated tokens: all that is left together fills no more than its share of the room."""
        settings = self._settings
        ratio = self._ratio()
        room = pressure.thresholds.autocompact - self._base_tokens * ratio
        room = room * settings.room_share - settings.summary_tokens
        return max(0, round(min(settings.tail_tokens, room) / ratio))


def filler(tokens: int, *, ratio: float = 1.0) -> str:
    """Words of so many real tokens in which nothing is said."""
    size = round(tokens / ratio * BYTES_PER_TOKEN)
    return (WORD * (size // len(WORD) + 1))[:size]
