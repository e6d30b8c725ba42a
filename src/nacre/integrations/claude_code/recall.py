"""Recall for a prompt in Claude Code: at most five memories, each once in a conversation (R1, R7, R12)."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

from nacre.app.memory_locations import memory_places
from nacre.app.recall_once import drift_of
from nacre.clock import SYSTEM_CLOCK
from nacre.errors import NacreError, StoreError
from nacre.integrations.claude_code.input import HookInput, transcript_of
from nacre.integrations.claude_code.state import HookState, change_state, state_of
from nacre.memory.files.location import Location
from nacre.memory.recall.base import AttachedMemory, RecallQuery
from nacre.memory.recall.local_index import FILE as INDEX
from nacre.memory.recall.local_index import LocalIndex
from nacre.memory.recall.recall import AlreadySeen, attachment, recall, skip_reason
from nacre.settings import Settings
from nacre.store import disk

MAX_CHARS = 9_000
"""Of all that one hook adds: beyond 10,000 the client shows the model a preview and a path instead."""
MAX_COLD = 2_000
"""Memories that are indexed while a person waits, a second or two; for more the prompt goes without."""
TAIL_BYTES = 524_288
"""Of the client's log, looked through for memories that the model has read itself: the last few rounds."""
_OPENING = "<system-reminder>\n"
_CLOSING = "\n</system-reminder>"


def recalled_for(told: HookInput, settings: Settings) -> str:
    """The memories that help with a prompt, as the model reads them; they count as attached from now on."""
    there = [place for place in memory_places(settings).in_use if place.directory.is_dir()]
    state = state_of(told.home, told.session)
    is_on = settings.memory.is_on and settings.switches.recall
    if skip_reason(told.prompt, is_on=is_on, attached_bytes=state.attached_bytes, has_files=bool(there)):
        return ""
    already = AlreadySeen(
        paths=frozenset(state.attached) | _read_by_model(told, there),
        attached_bytes=state.attached_bytes,
        hides_local=True,  # whatever the client is told goes to its provider (M27)
    )
    query = RecallQuery(text=told.prompt, now=SYSTEM_CLOCK.now())
    drift = drift_of(settings) if settings.switches.drift_check else None
    # Left open: closing saves what changed, for which nobody should wait; the process ends here anyway.
    picks = recall(query, opened(there), already=already, drift=drift).picks
    return _worded(_claimed(told, _fitting(picks)))


def opened(places: Sequence[Location]) -> list[LocalIndex]:
    """The indexes of some memories, up to date."""
    rankers = [LocalIndex(place.directory, place.cache) for place in places]
    for ranker in rankers:
        ranker.refresh()
    return rankers


def warm(settings: Settings) -> None:
    """Make the indexes ready for the hooks to come, which must be quick."""
    for ranker in opened([one for one in memory_places(settings).in_use if one.directory.is_dir()]):
        ranker.close()


def is_cold(settings: Settings, *, more_than: int = 0) -> bool:
    """Whether so many memories have no index yet, for which a prompt would wait."""
    places = memory_places(settings).in_use
    cold = [one.directory for one in places if not (one.cache / "recall" / INDEX).exists()]
    return any(next(islice(one.rglob("*.md"), more_than, None), None) is not None for one in cold)


def _fitting(picks: Sequence[AttachedMemory]) -> list[AttachedMemory]:
    """As many as the client passes on whole."""
    room = MAX_CHARS - len(attachment(picks[:1]))
    kept = list[AttachedMemory](picks[:1])
    for one in picks[1:]:
        room -= len(one.text) + 2
        if room < 0:
            break
        kept.append(one)
    return kept


def _claimed(told: HookInput, picks: Sequence[AttachedMemory]) -> list[AttachedMemory]:
    """Those that no other hook of this session has attached meanwhile."""
    if not picks:
        return []
    sizes = {str(one.ranked.path): one.bytes for one in picks}

    def with_these(state: HookState) -> HookState:
        return replace(state, attached={**sizes, **state.attached})

    try:
        before = change_state(told.home, told.session, with_these)
    except StoreError:
        return list(picks)  # told twice is better than not at all
    return [one for one in picks if str(one.ranked.path) not in before.attached]


def _worded(picks: Sequence[AttachedMemory]) -> str:
    # The client puts a reminder of its own around what a hook adds.
    return attachment(picks).removeprefix(_OPENING).removesuffix(_CLOSING)


def _read_by_model(told: HookInput, places: Sequence[Location]) -> frozenset[str]:
    """Memories that stand in the conversation because the model opened or wrote them (R7)."""
    try:
        tail = _tail(transcript_of(told))
    except (NacreError, OSError):
        return frozenset()
    found: set[str] = set()
    for place in places:
        pattern = rf'"file_path":\s?"({re.escape(str(place.directory))}/[^"\\]+\.md)"'
        found.update(re.findall(pattern, tail))
    return frozenset(found)


def _tail(path: Path) -> str:
    descriptor = disk.open_regular(path, os.O_RDONLY)
    with os.fdopen(descriptor, "rb") as source:
        source.seek(max(0, os.fstat(descriptor).st_size - TAIL_BYTES))
        return source.read(TAIL_BYTES).decode(errors="replace")
