"""The act: every original goes to disk, one sentence and its path stand in its place (C9, C12b)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nacre.cache.warmth import Warmth
from nacre.clock import Clock
from nacre.errors import StoreError
from nacre.layers.l2_microcompact.choice import targets
from nacre.layers.l2_microcompact.policy import Decision
from nacre.messages.blocks import JsonObject, Text, ToolResult
from nacre.messages.cut_notes import cut_of
from nacre.messages.records import Change, Noted, Record, Replaced, ResultOf
from nacre.messages.results import Answered, answered
from nacre.messages.rewrite import without_thinking
from nacre.messages.tokens import estimate_text
from nacre.messages.view import View
from nacre.messages.wire import canonical, render_block
from nacre.store.tool_results import CLEARED, KEPT, KEPT_CUT, ToolResultStore

GONE = "[This old result was cleared to save room and could not be kept; make the call again if you need it.]"


USUAL_NAME = "toolu_0123456789abcdefghijklmn.txt"
"""As long as the file names of the providers' own ids are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a clear did."""

    records: tuple[Record, ...] = ()
    cleared: int = 0
    tokens: int = 0
    """What it freed, by estimate."""
    lost: int = 0
    """Results of which the disk took no copy."""


def pointer_tokens(shelf: ToolResultStore) -> int:
    """About what stays of a cleared result: the sentence, with a path in it."""
    if shelf.folder is None:
        return estimate_text(GONE)
    return estimate_text(KEPT.format(path=shelf.folder / USUAL_NAME))


async def microcompact(
    view: View, decision: Decision, *, shelf: ToolResultStore, clock: Clock, warmth: Warmth | None = None
) -> Outcome:
    """Clear what was decided on; the originals are on disk before anything says so."""
    wanted = set(decision.calls)
    old = [one for one in answered(view.items) if one.id in wanted]
    if not old:
        return Outcome()
    references = targets(view)
    paths = await asyncio.to_thread(_put_away, old, shelf, references)
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
        "folder": str(shelf.folder) if shelf.folder else None,
        "keeps_from": decision.keeps_from,
        "idle_seconds": warmth.idle_seconds if warmth else None,
    }
    note = Noted(id=clock.new_id(), at=clock.now(), kind=CLEARED, facts=facts)
    lost = sum(path is None for path in paths.values())
    return Outcome(records=(replaced, note), cleared=len(old), tokens=freed, lost=lost)


def _put_away(
    old: Sequence[Answered], shelf: ToolResultStore, references: dict[str, str]
) -> dict[str, Path | None]:
    """Where each original is; one that only points to another is where that one is."""
    paths: dict[str, Path | None] = {}
    for one in sorted(old, key=lambda each: each.id in references):
        target = references.get(one.id)
        paths[one.id] = paths[target] if target in paths else _kept(one.result, shelf)
    return paths


def _kept(result: ToolResult, shelf: ToolResultStore) -> Path | None:
    is_plain = all(isinstance(part, Text) for part in result.content)
    # Pictures and what else is no text are kept as the JSON they were sent as: nothing of them is lost.
    text = result.text if is_plain else canonical([render_block(part) for part in result.content]).decode()
    try:
        return shelf.keep(result.call_id, text, structured=not is_plain).path
    except StoreError:
        return None


def _cleared(result: ToolResult, path: Path | None, *, is_cut: bool) -> Change:
    words = (KEPT_CUT if is_cut else KEPT).format(path=path) if path else GONE
    standing = ToolResult(result.call_id, (Text(words),), result.is_error, result.extra)
    return Change(ResultOf(result.call_id), (standing,))
