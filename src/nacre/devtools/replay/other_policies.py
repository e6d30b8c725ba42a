"""Compaction of other programs in a replay: a text of fixed size replaces the summary, which is not written.

The content of a real summary is unknown here, so the placeholder is empty of facts: retention counts only
what a policy kept by itself, and no policy gains from a good guess.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nacre.clock import Clock
from nacre.devtools.replay.recorded_files import restored_files
from nacre.layers.l4_compact.policy import CompactSettings
from nacre.messages.blocks import Text
from nacre.messages.pairing import Item
from nacre.messages.records import Compacted, Record
from nacre.messages.rewrite import drop_thinking
from nacre.messages.rounds import tail_from
from nacre.messages.tokens import BYTES_PER_TOKEN
from nacre.messages.view import View
from nacre.session.fit import WindowState
from nacre.session.layer import Layer

LEFT_OUT = "[Earlier messages were left out.]"
"""Replaces rounds that were dropped without a summary."""
TRUNCATE_TRIGGER = "truncate"
"""The trigger of a compaction without a summary."""
SUMMARY_TOKENS = 2_000
"""Tokens of a summary."""
LEAST_SHARE = 0.1
"""Share of a request: a compaction that frees less is not run, because the next would follow at once (C25).
"""
WORD = "and so on "
"""The word a placeholder consists of: nothing in it counts as an identifier."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionSettings:
    """How a conversation that is too long is compacted."""

    summary_tokens: int = SUMMARY_TOKENS
    """Tokens of a summary; 0 drops the old rounds without one."""
    tail_tokens: int = 20_000
    """Tokens of the newest rounds that stay verbatim, if there is room."""
    room_share: float = 0.5
    """Share of the room that may be filled afterwards (C21)."""
    restores_files: bool = False
    """Whether files that were used lately are read again, within nacre's limits: five of 5,000 tokens."""


class PlaceholderCompact(Layer):
    """Compacts: the newest rounds stay, a text of fixed size replaces the rest."""

    def __init__(
        self,
        settings: CompactionSettings,
        *,
        clock: Clock,
        base_tokens: Callable[[], int],
        ratio: Callable[[], float],
        asked: Callable[[View], None],
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._base_tokens = base_tokens
        self._ratio = ratio
        self._asked = asked
        """Called with the view of which a summary is requested."""

    @property
    def trigger(self) -> str:
        """The trigger named in the record."""
        return "auto" if self._settings.summary_tokens else TRUNCATE_TRIGGER

    def can_shrink(self, view: View, state: WindowState) -> bool:
        return not state.fits and len(view.items) > 1

    async def shrink(self, view: View, state: WindowState) -> Sequence[Record]:
        settings = self._settings
        place = tail_from(view.items, self._tail(state))
        kept = view.items[place:]
        freed = sum(item.tokens for item in view.items[:place]) * self._ratio() - settings.summary_tokens
        if freed < LEAST_SHARE * state.tokens:
            return ()
        if settings.summary_tokens:
            self._asked(view)
        text = filler(settings.summary_tokens, ratio=self._ratio()) if settings.summary_tokens else LEFT_OUT
        compacted = Compacted(
            id=self._clock.new_id(),
            at=self._clock.now(),
            summary=(Text(text), *self._files(view, kept, state)),
            keeps_from=kept[0].record_id if kept else None,
            trigger=self.trigger,
            pre_tokens=state.tokens,
        )
        # Thinking that is bound to the bytes before it cannot follow other bytes (C12b).
        dropped = drop_thinking(kept, self._clock) if state.profile.binds_thinking else ()
        return [*dropped, compacted]

    def _files(self, view: View, kept: Sequence[Item], state: WindowState) -> Sequence[Text]:
        """Return the files that are read again, where there is room beside the tail."""
        if not self._settings.restores_files:
            return ()
        room = (state.thresholds.autocompact - self._base_tokens()) * self._settings.room_share
        tokens = round(room / self._ratio()) - sum(item.tokens for item in kept)
        found = restored_files(view.records, kept, tokens=tokens, settings=CompactSettings())
        return [Text(one.text) for one in found]

    def _tail(self, state: WindowState) -> int:
        """Return estimated tokens of the tail; the result fills no more than its share of the room."""
        settings = self._settings
        ratio = self._ratio()
        room: float = state.thresholds.autocompact - self._base_tokens()
        room = room * settings.room_share - settings.summary_tokens
        return max(0, round(min(settings.tail_tokens, room) / ratio))


def filler(tokens: int, *, ratio: float = 1.0) -> str:
    """Return meaningless words of so many real tokens."""
    size = round(tokens / ratio * BYTES_PER_TOKEN)
    return (WORD * (size // len(WORD) + 1))[:size]
