"""Recall for a single text without a session, and the check of memories against a project."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from nacre.app.memory_locations import memory_places
from nacre.clock import SYSTEM_CLOCK
from nacre.memory.recall.base import Drift, RankedMemory, Recalled, RecallQuery
from nacre.memory.recall.local_index import LocalIndex
from nacre.memory.recall.recall import CheckDrift, recall, skip_reason
from nacre.providers.choose import ModelChoice, address_of, choose, vendor_small_model
from nacre.settings import Settings

if TYPE_CHECKING:
    from nacre.memory.files.location import Location
    from nacre.memory.recall.drift.words import WordCache


VECTORS_SECONDS = 2.0
"""How long a command computes vectors that no session has computed yet; the others are ranked by words."""


async def recall_once(
    settings: Settings, text: str, *, places: Collection[Location] | None = None
) -> Recalled:
    """Return what a message with this text would get at the start of a session, from the local index (R10).

    A single word is searched as well, though a message of it alone would get nothing: this is a query.
    With `places`, those memories are searched instead of the project's.
    """
    import asyncio  # noqa: PLC0415 - a hook imports `drift_of` and must start quickly

    searched = memory_places(settings).in_use if places is None else places
    there = [place for place in searched if place.directory.is_dir()]
    has_files = bool(there) and settings.memory.is_on
    skipped = skip_reason(
        text, is_on=settings.memory.is_on, attached_bytes=0, has_files=has_files, is_question=True
    )
    if skipped:
        return Recalled(query=text, skipped=skipped)
    rankers = [LocalIndex(place.directory, place.cache, writes=place.cache.is_dir()) for place in there]
    query = RecallQuery(text=text, now=SYSTEM_CLOCK.now())
    # What a memory of another project names is not in this tree.
    drift = drift_of(settings) if settings.switches.drift_check and places is None else None

    def looked_up() -> Recalled:
        for ranker in rankers:
            ranker.refresh()
            ranker.deepen(seconds=VECTORS_SECONDS / len(rankers))
        found = recall(query, rankers, drift=drift)
        for ranker in rankers:
            ranker.close()
        return found

    return await asyncio.to_thread(looked_up)


def choose_selector(settings: Settings, *, is_given: bool = False) -> tuple[ModelChoice | None, str]:
    """Return the small model that chooses memories, or None, and the reason in words (R5).

    `auto` is the small model of the vendor whose key is set. With `is_given` the program brought a provider
    of its own, and nothing may be sent elsewhere unless the settings say so.
    """
    wanted = settings.switches.recall_selector
    named = settings.roles.select or settings.small_model
    if wanted is False:
        return None, "switches.recall_selector is false"
    if wanted == "auto" and not named and is_given:
        return None, "the program brought its own provider; set smallModel to let a small model choose"
    choice = choose(named or settings.model, settings.environ)
    reason = "named in the settings" if named else "switches.recall_selector is true"
    if choice.provider_name == "embedded":
        return None, "there is no model"
    if not named:
        key = f"{choice.provider_name.upper()}_API_KEY"
        small = vendor_small_model(choice)
        if wanted == "auto":
            if small is None or not settings.environ.get(key):
                return (
                    None,
                    f"no small model is known beside {choice.model}; set smallModel to let one choose",
                )
            reason = f"{key} is set"
        choice = choose(small, settings.environ) if small else choice
    return choice, reason


def small_model_of(settings: Settings, choice: ModelChoice | None) -> str | None:
    """Return the small model for notes and memories: the named one, else that of the vendor (F7).

    A provider that the program brought (`choice` is None) or another server may not serve it.
    """
    if settings.small_model is not None or choice is None:
        return settings.small_model
    is_vendors = address_of(choice, settings.environ) is None
    return vendor_small_model(choice) if is_vendors else None


def drift_of(
    settings: Settings, words: WordCache | None = None, *, budget_seconds: float | None = None
) -> CheckDrift:
    """Return a function that checks memories against the working tree of the project (R12)."""

    def check(ranked: Sequence[RankedMemory]) -> Sequence[Drift | None]:
        from nacre.memory.recall.drift.check import BUDGET_SECONDS, check_ranked  # noqa: PLC0415 - few need it

        seconds = BUDGET_SECONDS if budget_seconds is None else budget_seconds
        return check_ranked(ranked, settings.project_root, budget_seconds=seconds, words=words)

    return check
