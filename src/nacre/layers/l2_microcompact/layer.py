"""Layer 2: old results go when the cache is cold or nothing fits; the person is told (C9, C12)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nacre.layers.l2_microcompact.microcompact import Outcome, microcompact, pointer_tokens
from nacre.layers.l2_microcompact.policy import (
    NACRE,
    Decision,
    MicrocompactSettings,
    Moment,
    due,
    kept_from,
)
from nacre.messages.blocks import JsonObject
from nacre.messages.records import Noted, Record, Said
from nacre.messages.view import View
from nacre.session.ladder import Pressure
from nacre.session.layer import Layer
from nacre.session.session import Session
from nacre.store.tool_results import CLEARED, ToolResultStore

MINUTE = 60.0
HOUR = 3_600.0
DAY = 86_400.0


@dataclass(frozen=True, slots=True)
class _Marked:
    """Where the markers of the last two clears go in an epoch."""

    epoch: int
    new: int | None
    old: int | None


class Microcompact(Layer):
    """Layer 2: clears old tool results."""

    log_kinds = {CLEARED: "drop"}

    def __init__(
        self, session: Session, shelf: ToolResultStore, settings: MicrocompactSettings = NACRE
    ) -> None:
        self.settings = settings
        self._session = session
        self._shelf = shelf
        self._pointer_tokens = pointer_tokens(shelf)
        self._marked: _Marked | None = None

    def can_shrink(self, view: View, pressure: Pressure) -> bool:
        return self._decision(view, pressure) is not None

    def cache_points(self, view: View, messages: Sequence[JsonObject]) -> Sequence[int]:
        """How many messages stand before the oldest result the last clear kept: for a marker there (C31c)."""
        if self._marked is None or self._marked.epoch != len(view.epochs):
            # Inside an epoch nothing that was sent moves, so that one look is enough.
            old, new = (_place_of(call, messages) for call in kept_from(view))
            self._marked = _Marked(len(view.epochs), new, old)
        marked = self._marked
        # What the clear before had marked can be read once more, if the first request after this one asks.
        places = (marked.new, marked.old) if _is_fresh(view) else (marked.new,)
        return [place for place in places if place is not None]

    async def shrink(self, view: View, pressure: Pressure) -> Sequence[Record]:
        """The records of a clear; the originals are on disk by then."""
        decision = self._decision(view, pressure)
        if decision is None:
            return ()
        done = await microcompact(
            view, decision, shelf=self._shelf, clock=self._session.clock, warmth=pressure.warmth
        )
        if done.cleared:
            self._session.notify(_told(decision, done, pressure.warmth.idle_seconds, self._shelf.folder))
        return done.records

    def _decision(self, view: View, pressure: Pressure) -> Decision | None:
        moment = Moment(
            warmth=pressure.warmth,
            profile=pressure.profile,
            tokens=pressure.tokens,
            starts_turn=pressure.starts_turn,
            fits=pressure.fits,
            too_many=max(0, pressure.tokens - pressure.thresholds.autocompact),
            pointer_tokens=self._pointer_tokens,
        )
        return due(view, moment, self.settings)


def _is_fresh(view: View) -> bool:
    """Whether nothing was answered since the last clear."""
    for record in reversed(view.records):
        if isinstance(record, Noted) and record.kind == CLEARED:
            return True
        if isinstance(record, Said) and record.role == "assistant":
            return False
    return False


def _place_of(call_id: str | None, messages: Sequence[JsonObject]) -> int | None:
    for place, message in enumerate(messages if call_id else ()):
        content = message["content"]
        if isinstance(content, list) and any(
            isinstance(block, dict) and block.get("tool_use_id") == call_id for block in content
        ):
            return place
    return None


def _told(decision: Decision, done: Outcome, idle_seconds: float, folder: Path | None) -> str:
    """What went, why, and where the originals are."""
    results = f"{done.cleared} old tool result" + "s" * (done.cleared != 1)
    why = f"after a pause of {_span(idle_seconds)}" if decision.reason == "idle" else "to make room"
    where = f"originals in {folder}" if done.lost < done.cleared else "the originals could not be kept"
    lost = f" ({done.lost} could not be kept)" if 0 < done.lost < done.cleared else ""
    return f"Cleared {results} (about {done.tokens:,} tokens) {why}; {where}{lost}."


def _span(seconds: float) -> str:
    for unit, name in ((DAY, "days"), (HOUR, "h"), (MINUTE, "min")):
        if seconds >= (2 * unit if unit == DAY else unit):
            return f"{seconds / unit:.0f} {name}"
    return f"{seconds:.0f} s"
