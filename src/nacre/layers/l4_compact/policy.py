"""When and how far a conversation is compacted: settings and pure decisions (C17b, C20 to C28)."""

from __future__ import annotations

from dataclasses import dataclass

from nacre.layers.l4_compact.settings import CompactSettings as CompactSettings
from nacre.messages.blocks import Json, JsonObject
from nacre.messages.records import Compacted, Said
from nacre.messages.view import View, live_records

COMPACTION = "compaction"
"""The kind of note that counts what became of compactions: failures, refills, reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionHistory:
    """What became of earlier compactions, as far as the log tells."""

    failures: int = 0
    """Summaries that failed in a row."""
    refills: int = 0
    """How often in a row the view was full again within a few turns."""
    turns: int | None = None
    """Turns since the last compaction; none before the first."""

    def has_broken(self, settings: CompactSettings) -> bool:
        """Whether no further summary is asked for by itself (C25)."""
        return self.failures >= settings.max_failures

    def thrashes(self, settings: CompactSettings) -> bool:
        """Whether compactions come so fast that asking a model for them is money burnt (C25)."""
        return self.refills >= settings.thrash_turns

    def is_barred(self, settings: CompactSettings) -> bool:
        """Whether a model is not asked by itself any more, for one reason or the other."""
        return self.has_broken(settings) or self.thrashes(settings)

    def compacted_now(
        self, settings: CompactSettings, *, by_model: bool, is_auto: bool = True
    ) -> CompactionHistory:
        """What there will be to say once the view was compacted again."""
        is_quick = self.turns is not None and self.turns <= settings.thrash_turns
        refills = self.refills + 1 if is_quick else 0
        # A person may ask for it at any time: that says nothing about how fast the view fills up.
        return CompactionHistory(
            failures=0 if by_model else self.failures,
            refills=refills if is_auto else self.refills,
            turns=0,
        )

    def as_json(self) -> JsonObject:
        return {"failures": self.failures, "refills": self.refills}


def compaction_history(view: View) -> CompactionHistory:
    """Read off the newest note, which every compaction carries along."""
    note = view.last_noted(COMPACTION)
    failures = _count(note.fact("failures")) if note else 0
    refills = _count(note.fact("refills")) if note else 0
    turns = 0
    for record in reversed(live_records(view.records)):
        if isinstance(record, Compacted) and record.kind != "span":
            return CompactionHistory(failures=failures, refills=refills, turns=turns)
        is_persons = isinstance(record, Said) and record.role == "user" and not record.meta
        turns += is_persons and isinstance(record, Said) and bool(record.message.text.strip())
    return CompactionHistory(failures=failures, refills=refills)


def room(*, threshold: int, base: int, ratio: float, settings: CompactSettings) -> int:
    """How many estimated tokens may stand after a compaction (C21)."""
    return max(0, int((threshold - base * ratio) * settings.room_share / ratio))


def _count(value: Json) -> int:
    return value if isinstance(value, int) else 0
