"""Files of a compaction: results too large for the tail, and facts without room in the summary."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from nacre.clock import Clock
from nacre.errors import StoreError
from nacre.messages.blocks import Text, ToolResult
from nacre.messages.facts import Action, Facts, UserQuote
from nacre.messages.pairing import Item
from nacre.messages.records import Change, Record, Replaced, ResultOf
from nacre.messages.results import AnsweredCall, answered_calls, cut_of
from nacre.messages.rounds import rounds
from nacre.messages.view import View
from nacre.store.tool_results import ToolResultStore, pointer

if TYPE_CHECKING:
    from nacre.layers.l4_compact.install import OverflowPaths

FOLDER = "session-memory"
"""Folder for notes and overflow files beside the session's log."""
WORDS_FILE = "user-messages.md"
ACTIONS_FILE = "what-was-done.md"
PREVIEW_BYTES = 2_000
"""Bytes of the preview of a result that is moved to disk."""
LEAST_TOKENS = 1_000
"""Smaller results stay inline."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OverflowFiles:
    """Writes the overflow files of a session; without a folder nothing is written."""

    folder: Path | None = None
    """The session's folder."""
    log: Path | None = None
    store: ToolResultStore = field(default_factory=lambda: ToolResultStore(None))

    @property
    def where(self) -> OverflowPaths:
        from nacre.layers.l4_compact.install import NOWHERE, OverflowPaths  # noqa: PLC0415 - imported by a compaction

        if self.folder is None:
            return NOWHERE
        memory = self.folder / FOLDER
        return OverflowPaths(
            words=str(memory / WORDS_FILE), actions=str(memory / ACTIONS_FILE), log=str(self.log or "")
        )

    async def keep_left(self, facts: Facts, shown: Facts, kept: Sequence[Item]) -> bool:
        """Write the facts that neither summary nor tail show; return whether they are on disk."""
        there = {one.record_id for one in shown.words} | {one.id for one in shown.actions}
        left = facts.without(kept)
        words = [one for one in left.words if one.record_id not in there]
        actions = [one for one in left.actions if one.id not in there]
        if self.folder is None:
            return not (words or actions)
        try:
            await asyncio.to_thread(_written, self.folder / FOLDER, words, actions)
        except OSError:
            return False
        return True

    async def shrink(self, view: View, tokens: int, clock: Clock) -> list[Record]:
        """Move the largest results of the last round to disk until the round fits `tokens`."""
        chosen = _too_large(view.items, tokens)
        if not chosen or self.store.folder is None:
            return []
        changes = await asyncio.to_thread(_moved, chosen, self.store)
        return (
            [Replaced(id=clock.new_id(), at=clock.now(), changes=changes, reason="offload")]
            if changes
            else []
        )


def _too_large(items: Sequence[Item], tokens: int) -> list[AnsweredCall]:
    spans = rounds(items)
    if not spans:
        return []
    start = spans[-1][0]
    over = sum(item.tokens for item in items[start:]) - tokens
    found = sorted((one for one in answered_calls(items) if one.item >= start), key=lambda one: -one.tokens)
    chosen = []
    for one in found:
        if over <= 0 or one.tokens < LEAST_TOKENS:
            break
        chosen.append(one)
        over -= one.tokens
    return chosen


def _moved(results: Iterable[AnsweredCall], store: ToolResultStore) -> tuple[Change, ...]:
    changes = []
    for one in results:
        texts = [part.text for part in one.result.content if isinstance(part, Text)]
        if len(texts) != len(one.result.content) or not texts:
            continue  # a picture has no preview
        text = one.result.text
        try:
            kept = store.whole_of(one.result) or store.keep(one.id, text)
        except StoreError:
            continue
        cut = cut_of(one.call.name, one.result)
        words = pointer(one.call.name, text, kept, preview_bytes=PREVIEW_BYTES, cut=cut)
        stands = ToolResult(one.id, (Text(words),), one.result.is_error, one.result.extra)
        changes.append(Change(ResultOf(one.id), (stands,)))
    return tuple(changes)


def _written(folder: Path, words: Sequence[UserQuote], actions: Sequence[Action]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    said = [f"### {one.at:%Y-%m-%d %H:%M} {one.record_id}\n\n{one.text}\n\n" for one in words]
    _append(folder / WORDS_FILE, said)
    done = [f"- {one.line}{f' ({one.outcome})' * bool(one.outcome)} [{one.id}]\n" for one in actions]
    _append(folder / ACTIONS_FILE, done)


def _append(path: Path, parts: Sequence[str]) -> None:
    """Append each part once; a rejected draft may have written some already."""
    if not parts:
        return
    there = path.read_text(encoding="utf-8", errors="surrogatepass") if path.exists() else ""
    with path.open("a", encoding="utf-8", errors="surrogatepass") as file:
        file.writelines(part for part in parts if part not in there)
