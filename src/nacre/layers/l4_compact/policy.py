"""Pure decisions of layer 4: when a model is asked, how much room there is (C17b, C20 to C28)."""

from __future__ import annotations

from dataclasses import dataclass

from nacre.layers.l4_compact.settings import CompactSettings as CompactSettings
from nacre.messages.blocks import Json, JsonObject
from nacre.messages.records import Compacted, Said
from nacre.messages.view import View, live_records

COMPACTION = "compaction"
"""Kind of the log note with the compaction history: failures, refills, reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionHistory:
    """The outcome of earlier compactions, from the log."""

    failures: int = 0
    """Failed summaries in a row."""
    refills: int = 0
    """How often in a row the view was full again within a few turns."""
    vain: str = ""
    """The last reply in view when a paid summary did not help; empty after one that did."""
    turns: int | None = None
    """Turns since the last compaction; None before the first."""

    def has_broken(self, settings: CompactSettings) -> bool:
        """Return whether the breaker is open (C25)."""
        return self.failures >= settings.max_failures

    def thrashes(self, settings: CompactSettings) -> bool:
        """Return whether the window fills up right after every compaction (C25)."""
        return self.refills >= settings.thrash_turns

    def is_barred(self, settings: CompactSettings, view: View) -> bool:
        """Return whether no model is asked automatically, at all or not again for the same view."""
        is_vain = bool(self.vain) and self.vain == last_reply_id(view)
        return is_vain or self.has_broken(settings) or self.thrashes(settings)

    def compacted_now(
        self, settings: CompactSettings, *, by_model: bool, is_auto: bool = True
    ) -> CompactionHistory:
        """Return the history after another compaction."""
        is_quick = self.turns is not None and self.turns <= settings.thrash_turns
        refills = self.refills + 1 if is_quick else 0
        # A compaction on request says nothing about how fast the view fills up.
        return CompactionHistory(
            failures=0 if by_model else self.failures,
            refills=refills if is_auto else self.refills,
            turns=0,
        )

    def as_json(self) -> JsonObject:
        counts: JsonObject = {"failures": self.failures, "refills": self.refills}
        return {**counts, "vain": self.vain} if self.vain else counts


def compaction_history(view: View) -> CompactionHistory:
    """Return the history from the newest note, which every compaction carries."""
    note = view.last_noted(COMPACTION)
    failures = _count(note.fact("failures")) if note else 0
    refills = _count(note.fact("refills")) if note else 0
    vain = str(note.fact("vain") or "") if note else ""
    turns = 0
    for record in reversed(live_records(view.records)):
        if isinstance(record, Compacted) and record.kind != "span":
            return CompactionHistory(failures=failures, refills=refills, vain=vain, turns=turns)
        is_persons = isinstance(record, Said) and record.role == "user" and not record.meta
        turns += is_persons and isinstance(record, Said) and bool(record.message.text.strip())
    return CompactionHistory(failures=failures, refills=refills, vain=vain)


def last_reply_id(view: View) -> str:
    """Return the record of the newest reply in view; empty without one."""
    return next((item.record_id for item in reversed(view.items) if item.role == "assistant"), "")


def room(*, threshold: int, base: int, ratio: float, settings: CompactSettings) -> int:
    """Return how many estimated tokens may remain after a compaction (C21).

    `base` is the real size of system prompt and tools, `ratio` the real tokens per estimated token of text.
    """
    tokens = min((threshold - base) * settings.room_share, settings.room_tokens)
    return max(0, int(tokens / ratio))


def _count(value: Json) -> int:
    return value if isinstance(value, int) else 0
