"""Layer 2: clears old tool results when the cache is cold or the request does not fit (C9, C12).

Every original goes to disk; a sentence with its path replaces it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nacre.cache.warmth import Warmth
from nacre.clock import Clock
from nacre.errors import StoreError
from nacre.layers.l2_microcompact.policy import (
    NACRE,
    ClearDecision,
    ClearInputs,
    MicrocompactSettings,
    due,
    duplicate_targets,
    kept_from,
)
from nacre.messages.blocks import JsonObject, Text, ToolResult
from nacre.messages.records import Change, Noted, Record, Replaced, ResultOf, Said
from nacre.messages.results import AnsweredCall, answered_calls, cut_of
from nacre.messages.rewrite import without_thinking
from nacre.messages.tokens import estimate_text
from nacre.messages.view import View
from nacre.messages.wire import canonical, render_block
from nacre.session.ladder import Pressure
from nacre.session.layer import Layer
from nacre.session.session import Session
from nacre.store.tool_results import CLEARED, KEPT, KEPT_CUT, ToolResultStore, as_result_store

GONE = "[This old result was cleared to save room and could not be kept; make the call again if you need it.]"


USUAL_NAME = "toolu_0123456789abcdefghijklmn.txt"
"""A file name as long as those made from the providers' ids."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClearResult:
    """The records and figures of a clear."""

    records: tuple[Record, ...] = ()
    cleared: int = 0
    tokens: int = 0
    """Estimated tokens freed."""
    lost: int = 0
    """Results that could not be written to disk."""


def pointer_tokens(store: ToolResultStore) -> int:
    """Return the estimated tokens of the sentence that replaces a cleared result."""
    if store.folder is None:
        return estimate_text(GONE)
    return estimate_text(KEPT.format(path=store.folder / USUAL_NAME))


async def microcompact(
    view: View, decision: ClearDecision, *, store: ToolResultStore, clock: Clock, warmth: Warmth | None = None
) -> ClearResult:
    """Clear the chosen results; the originals are on disk before the records are returned."""
    wanted = set(decision.calls)
    old = [one for one in answered_calls(view.items) if one.id in wanted]
    if not old:
        return ClearResult()
    references = duplicate_targets(view)
    paths = await asyncio.to_thread(_put_away, old, store, references)
    cut = {one.id for one in old if cut_of(one.call.name, one.result) is not None}
    changes = [
        _cleared(one.result, paths[one.id], is_cut=not cut.isdisjoint({one.id, references.get(one.id, "")}))
        for one in old
    ]
    if decision.drops_thinking:
        changes += without_thinking(view.items)
    replaced = Replaced(id=clock.new_id(), at=clock.now(), changes=tuple(changes), reason=CLEARED)
    freed = view.estimate - view.after(replaced).estimate
    facts: JsonObject = {
        "reason": decision.reason,
        "calls": [one.id for one in old],
        "tokens": freed,
        "lost": [one.id for one in old if paths[one.id] is None],
        "folder": str(store.folder) if store.folder else None,
        "keeps_from": decision.keeps_from,
        "idle_seconds": warmth.idle_seconds if warmth else None,
    }
    note = Noted(id=clock.new_id(), at=clock.now(), kind=CLEARED, facts=facts)
    lost = sum(path is None for path in paths.values())
    return ClearResult(records=(replaced, note), cleared=len(old), tokens=freed, lost=lost)


def _put_away(
    old: Sequence[AnsweredCall], store: ToolResultStore, references: dict[str, str]
) -> dict[str, Path | None]:
    """Write the originals to disk and return their paths; a reference has the path of its target."""
    paths: dict[str, Path | None] = {}
    for one in sorted(old, key=lambda each: each.id in references):
        target = references.get(one.id)
        paths[one.id] = paths[target] if target in paths else _kept(one.result, store)
    return paths


def _kept(result: ToolResult, store: ToolResultStore) -> Path | None:
    is_plain = all(isinstance(part, Text) for part in result.content)
    # Images and other content are stored as the JSON that was sent.
    text = result.text if is_plain else canonical([render_block(part) for part in result.content]).decode()
    try:
        return store.keep(result.call_id, text, structured=not is_plain).path
    except StoreError:
        return None


def _cleared(result: ToolResult, path: Path | None, *, is_cut: bool) -> Change:
    words = (KEPT_CUT if is_cut else KEPT).format(path=path) if path else GONE
    standing = ToolResult(result.call_id, (Text(words),), result.is_error, result.extra)
    return Change(ResultOf(result.call_id), (standing,))


MINUTE = 60.0
HOUR = 3_600.0
DAY = 86_400.0


@dataclass(frozen=True, slots=True)
class _Marked:
    """Message indexes of the markers of the last two clears in an epoch."""

    epoch: int
    new: int | None
    old: int | None


class Microcompact(Layer):
    """Layer 2: clears old tool results."""

    log_kinds = {CLEARED: "drop"}

    def __init__(
        self,
        session: Session,
        results: ToolResultStore | str | os.PathLike[str],
        settings: MicrocompactSettings = NACRE,
    ) -> None:
        self.settings = settings
        self._session = session
        self._store = as_result_store(results)
        self._pointer_tokens = pointer_tokens(self._store)
        self._marked: _Marked | None = None

    def can_shrink(self, view: View, pressure: Pressure) -> bool:
        return self._decision(view, pressure) is not None

    def cache_points(self, view: View, messages: Sequence[JsonObject]) -> Sequence[int]:
        """Return the index of the message with the oldest result that the last clear kept (C31c)."""
        if self._marked is None or self._marked.epoch != len(view.epochs):
            # Sent messages do not move within an epoch, so this is computed once.
            old, new = (_place_of(call, messages) for call in kept_from(view))
            self._marked = _Marked(len(view.epochs), new, old)
        marked = self._marked
        # The first request after a clear can still read the prefix marked by the clear before.
        places = (marked.new, marked.old) if _is_fresh(view) else (marked.new,)
        return [place for place in places if place is not None]

    async def shrink(self, view: View, pressure: Pressure) -> Sequence[Record]:
        """Return the records of a clear."""
        decision = self._decision(view, pressure)
        if decision is None:
            return ()
        done = await microcompact(
            view, decision, store=self._store, clock=self._session.clock, warmth=pressure.warmth
        )
        if done.cleared:
            self._session.notify(_told(decision, done, pressure.warmth.idle_seconds, self._store.folder))
        return done.records

    def _decision(self, view: View, pressure: Pressure) -> ClearDecision | None:
        moment = ClearInputs(
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
    """Return whether there was no reply since the last clear."""
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


def _told(decision: ClearDecision, done: ClearResult, idle_seconds: float, folder: Path | None) -> str:
    """Return the notice for the user: the results cleared, the reason, the folder."""
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
