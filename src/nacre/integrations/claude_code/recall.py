"""Recall for a prompt in Claude Code: at most five memories, each once per conversation (R1, R7, R12)."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

from nacre.app.memory_locations import memory_places
from nacre.app.recall_once import drift_of
from nacre.clock import SYSTEM_CLOCK
from nacre.errors import NacreError, StoreError
from nacre.integrations.claude_code.input import HookInput, transcript_of
from nacre.integrations.claude_code.state import change_state, state_of
from nacre.memory.files.location import Location
from nacre.memory.recall.base import AttachedMemory, RecallQuery
from nacre.memory.recall.local_index import FILE as INDEX
from nacre.memory.recall.local_index import LocalIndex
from nacre.memory.recall.recall import AlreadySeen, by_rank, recall, render_attachment, skip_reason
from nacre.settings import Settings
from nacre.store import disk

MAX_CHARS = 9_000
"""Maximum of one hook's text: beyond 10,000 the client shows the model a preview and a path instead."""
MAX_COLD = 2_000
"""Memories that may be indexed while the user waits; with more, the prompt gets none."""
VECTORS_SECONDS = 1.0
"""Duration of one step of computing vectors, after which finished ones may be saved."""
TAIL_BYTES = 524_288
"""End of the client's log that is searched for memories the model has read itself."""
_OPENING = "<system-reminder>\n"
_CLOSING = "\n</system-reminder>"


def recalled_for(hook: HookInput, settings: Settings) -> str:
    """Return the memories for a prompt as text for the model, and mark them as attached."""
    there = [place for place in memory_places(settings).in_use if place.directory.is_dir()]
    state = state_of(hook.home, hook.session)
    is_on = settings.memory.is_on and settings.switches.recall
    if skip_reason(hook.prompt, is_on=is_on, attached_bytes=state.attached_bytes, has_files=bool(there)):
        return ""
    already = AlreadySeen(
        paths=frozenset(state.attached) | _read_by_model(hook, there),
        attached_bytes=state.attached_bytes,
        hides_local=True,  # whatever the client is told goes to its provider (M27)
    )
    query = RecallQuery(text=hook.prompt, now=SYSTEM_CLOCK.now())
    drift = drift_of(settings) if settings.switches.drift_check else None
    # Not closed: closing saves changes, for which the user should not wait; the process ends here anyway.
    picks = recall(query, opened(there), already=already, drift=drift).picks
    # The client puts its own reminder around a hook's text.
    text = render_attachment(_claimed(hook, fitting(picks)))
    return text.removeprefix(_OPENING).removesuffix(_CLOSING)


def opened(places: Sequence[Location]) -> list[LocalIndex]:
    """Open the indexes of the memories and bring them up to date."""
    rankers = [LocalIndex(place.directory, place.cache) for place in places]
    for ranker in rankers:
        ranker.refresh()
        ranker.load_vectors()
    return rankers


def warm(settings: Settings) -> None:
    """Prepare the indexes and the vectors for the next hooks."""
    for ranker in opened([one for one in memory_places(settings).in_use if one.directory.is_dir()]):
        while ranker.deepen(seconds=VECTORS_SECONDS):
            pass
        ranker.close()


def is_cold(settings: Settings, *, more_than: int = 0) -> bool:
    """Whether so many memories lack an index that a prompt would have to wait."""
    places = memory_places(settings).in_use
    cold = [one.directory for one in places if not (one.cache / "recall" / INDEX).exists()]
    return any(next(islice(one.rglob("*.md"), more_than, None), None) is not None for one in cold)


def fitting(picks: Sequence[AttachedMemory]) -> list[AttachedMemory]:
    """Return as many of the best memories as the client passes on whole, in the order of the picks (R14)."""
    kept = list[AttachedMemory]()
    for best in sorted(picks, key=by_rank):
        more = [one for one in picks if one in kept or one is best]
        if len(render_attachment(more)) <= MAX_CHARS:
            kept = more
    return kept


def _claimed(hook: HookInput, picks: Sequence[AttachedMemory]) -> list[AttachedMemory]:
    """Return those that no other hook of this session has attached meanwhile."""
    if not picks:
        return []
    sizes = {str(one.ranked.path): one.bytes for one in picks}
    try:
        before = change_state(
            hook.home, hook.session, lambda state: replace(state, attached={**sizes, **state.attached})
        )
    except StoreError:
        return list(picks)  # told twice is better than not at all
    return [one for one in picks if str(one.ranked.path) not in before.attached]


def _read_by_model(hook: HookInput, places: Sequence[Location]) -> frozenset[str]:
    """Return memories that the model opened or wrote itself (R7)."""
    try:
        descriptor = disk.open_regular(transcript_of(hook), os.O_RDONLY)
        with os.fdopen(descriptor, "rb") as source:
            source.seek(max(0, os.fstat(descriptor).st_size - TAIL_BYTES))
            tail = source.read(TAIL_BYTES).decode(errors="replace")
    except (NacreError, OSError):
        return frozenset()
    found: set[str] = set()
    for place in places:
        pattern = rf'"file_path":\s?"({re.escape(str(place.directory))}/[^"\\]+\.md)"'
        found.update(re.findall(pattern, tail))
    return frozenset(found)
