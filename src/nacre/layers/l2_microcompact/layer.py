"""Layer 2: clears old tool results when the cache is cold or the request does not fit (C9, C12).

Every original goes to disk; a sentence with its path replaces it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
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
from nacre.messages.blocks import Document, Image, JsonObject, Text, ToolResult
from nacre.messages.media import media_bytes
from nacre.messages.records import Change, Noted, Record, Replaced, ResultOf, Said
from nacre.messages.results import AnsweredCall, answered_calls, cut_of
from nacre.messages.rewrite import unbound_thinking
from nacre.messages.tokens import estimate_text
from nacre.messages.view import View
from nacre.messages.wire import canonical, render_block
from nacre.session.fit import WindowState
from nacre.session.layer import Layer
from nacre.session.session import Session
from nacre.store.tool_results import (
    CLEARED,
    KEPT,
    KEPT_CUT,
    KEPT_MEDIA,
    ToolResultStore,
    as_result_store,
    result_store_in,
)

GONE = "[This old result was cleared to save room and could not be kept; make the call again if you need it.]"


NAMES_SHARE = 0.1
"""Share of a cleared result that its line of names may have at most."""
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
    view: View,
    decision: ClearDecision,
    *,
    store: ToolResultStore,
    clock: Clock,
    warmth: Warmth | None = None,
    names_tokens: int = 0,
) -> ClearResult:
    """Clear the chosen results; the originals are on disk before the records are returned."""
    wanted = set(decision.calls)
    old = [one for one in answered_calls(view.items) if one.id in wanted]
    if not old:
        return ClearResult()
    references = duplicate_targets(view)
    paths = await asyncio.to_thread(_write_originals, old, store, references)
    media = {paths[one.id] for one in old if _shown_file(one) is not None}
    whole = {one.id: store.whole_of(one.result) for one in old}
    cut = {
        one.id
        for one in old
        if cut_of(one.call.name, one.result) is not None or ((file := whole[one.id]) and file.missing)
    }
    # What does not fit must get as small as was decided, so names stay only where the cache was cold.
    names = _names_left(view, old, names_tokens if decision.reason == "idle" else 0)
    changes = []
    for one in old:
        sentence = KEPT if cut.isdisjoint({one.id, references.get(one.id, "")}) else KEPT_CUT
        path = paths[one.id]
        sentence = KEPT_MEDIA if path in media else sentence
        pointer = sentence.format(path=path) if path else GONE
        content = Text("\n".join(filter(None, [pointer, names.get(one.id)])))
        cleared = ToolResult(one.id, (content,), one.result.is_error, one.result.extra)
        changes.append(Change(ResultOf(one.id), (cleared,)))
    if decision.drops_thinking:
        alone = Replaced(id=clock.new_id(), at=clock.now(), changes=tuple(changes), reason=CLEARED)
        changes += unbound_thinking(view.after(alone).items, view.items)
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


def _names_left(view: View, old: Sequence[AnsweredCall], tokens: int) -> dict[str, str]:
    """Return a line of at most `tokens` for each result: names that no message, call or newer line has."""
    if not tokens:
        return {}
    from nacre.messages.names import line_of_names, names_in, names_of  # noqa: PLC0415 - imported by a clear

    parts = (part for item in view.items for part in item.parts if not isinstance(part.block, ToolResult))
    known = {name for part in parts for name in names_of(part.block)}
    lines: dict[str, str] = {}
    for one in reversed(old):
        room = min(tokens, int(one.tokens * NAMES_SHARE))
        lines[one.id] = line_of_names(one.result.text, room, known)
        known.update(names_in(lines[one.id]))
    return lines


def _write_originals(
    old: Sequence[AnsweredCall], store: ToolResultStore, references: dict[str, str]
) -> dict[str, Path | None]:
    """Write the originals to disk and return their paths; a reference has the path of its target."""
    paths: dict[str, Path | None] = {}
    for one in sorted(old, key=lambda each: each.id in references):
        target = references.get(one.id)
        if target in paths:
            paths[one.id] = paths[target]
            continue
        if (whole := store.whole_of(one.result)) is not None:
            paths[one.id] = Path(whole.path)
            continue
        parts = one.result.content
        file = _shown_file(one)
        is_plain = all(isinstance(part, Text) for part in parts)
        # Images of other tools or at an address, and other content, are stored as the JSON that was sent.
        text = one.result.text if is_plain else canonical([render_block(part) for part in parts]).decode()
        try:
            if file is not None:
                paths[one.id] = store.keep_media(one.id, file).path
            else:
                paths[one.id] = store.keep(one.id, text, structured=not is_plain).path
        except StoreError:
            paths[one.id] = None
    return paths


def _shown_file(one: AnsweredCall) -> Image | Document | None:
    """Return the picture or document that a Read shows, if the block holds its file."""
    media = [part for part in one.result.content if isinstance(part, Image | Document)]
    is_file = one.call.name == "Read" and len(media) == 1 and media_bytes(media[0])
    return media[0] if is_file else None


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
        results: ToolResultStore | str | os.PathLike[str] | None = None,
        settings: MicrocompactSettings = NACRE,
        *,
        on_clear: Callable[[View, View], None] | None = None,
    ) -> None:
        """Keep the originals in a store or a directory; by default in the session's folder, if it has one.

        `on_clear` is called with the view before and after a clear.
        """
        self.settings = settings
        self._on_clear = on_clear
        self._results = results
        self._marked: _Marked | None = None

    def open(self, session: Session) -> None:
        super().open(session)
        results = self._results
        self._store = result_store_in(session.folder) if results is None else as_result_store(results)
        self._pointer_tokens = pointer_tokens(self._store)

    def can_shrink(self, view: View, state: WindowState) -> bool:
        return self._decision(view, state) is not None

    def cache_points(self, view: View, messages: Sequence[JsonObject]) -> Sequence[int]:
        """Return the index of the message with the oldest result that the last clear kept (C31c)."""
        if self._marked is None or self._marked.epoch != len(view.epochs):
            # Sent messages do not move within an epoch, so this is computed once.
            old, new = (
                next((n for n, one in enumerate(messages) if call and _holds_result(one, call)), None)
                for call in kept_from(view)
            )
            self._marked = _Marked(len(view.epochs), new, old)
        marked = self._marked
        # The first request after a clear can still read the prefix marked by the clear before.
        places = (marked.new, marked.old) if _is_fresh(view) else (marked.new,)
        return [place for place in places if place is not None]

    async def shrink(self, view: View, state: WindowState) -> Sequence[Record]:
        """Return the records of a clear."""
        decision = self._decision(view, state)
        if decision is None:
            return ()
        done = await microcompact(
            view,
            decision,
            store=self._store,
            clock=self.session.clock,
            warmth=state.warmth,
            names_tokens=self.settings.names_tokens,
        )
        if done.cleared:
            if self._on_clear is not None:
                self._on_clear(view, view.after(*done.records))
            self.session.notify(_notice(decision, done, state.warmth.idle_seconds, self._store.folder))
        return done.records

    def _decision(self, view: View, state: WindowState) -> ClearDecision | None:
        compacts = any(layer.compacts for layer in self.session.layers)
        moment = ClearInputs(
            warmth=state.warmth,
            profile=state.profile,
            tokens=state.tokens,
            starts_turn=state.starts_turn,
            fits=state.fits or compacts,
            too_many=max(0, state.tokens - state.thresholds.autocompact),
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


def _holds_result(message: JsonObject, call: str) -> bool:
    content = message["content"]
    return isinstance(content, list) and any(
        isinstance(block, dict) and block.get("tool_use_id") == call for block in content
    )


def _notice(decision: ClearDecision, done: ClearResult, idle_seconds: float, folder: Path | None) -> str:
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
