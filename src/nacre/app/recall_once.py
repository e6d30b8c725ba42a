"""Recall for a single text without a session, and the check of memories against a project."""

from __future__ import annotations

from functools import partial

from nacre.app.memory_locations import memory_places
from nacre.clock import SYSTEM_CLOCK
from nacre.memory.recall.base import Recalled, RecallQuery
from nacre.memory.recall.drift.check import BUDGET_SECONDS, check_ranked
from nacre.memory.recall.drift.words import WordCache
from nacre.memory.recall.local_index import LocalIndex
from nacre.memory.recall.recall import CheckDrift, recall, skip_reason
from nacre.settings import Settings


async def recall_once(settings: Settings, text: str) -> Recalled:
    """Return what a message with this text would get at the start of a session, from the local index (R10).

    A single word is searched as well, though a message of it alone would get nothing: this is a query.
    """
    import asyncio  # noqa: PLC0415 - a hook imports `drift_of` and must start quickly

    there = [place for place in memory_places(settings).in_use if place.directory.is_dir()]
    has_files = bool(there) and settings.memory.is_on
    skipped = skip_reason(
        text, is_on=settings.memory.is_on, attached_bytes=0, has_files=has_files, is_question=True
    )
    if skipped:
        return Recalled(query=text, skipped=skipped)
    rankers = [LocalIndex(place.directory, place.cache, writes=place.cache.is_dir()) for place in there]
    query = RecallQuery(text=text, now=SYSTEM_CLOCK.now())
    drift = drift_of(settings) if settings.switches.drift_check else None

    def looked_up() -> Recalled:
        for ranker in rankers:
            ranker.refresh()
        found = recall(query, rankers, drift=drift)
        for ranker in rankers:
            ranker.close()
        return found

    return await asyncio.to_thread(looked_up)


def drift_of(
    settings: Settings, words: WordCache | None = None, *, budget_seconds: float = BUDGET_SECONDS
) -> CheckDrift:
    """Return a function that checks memories against the working tree of the project (R12)."""
    return partial(check_ranked, root=settings.project_root, budget_seconds=budget_seconds, words=words)
