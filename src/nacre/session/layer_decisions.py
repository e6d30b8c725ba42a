"""What layers decided, read from the records of a session; the events and metrics of telemetry."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from nacre.messages.records import Compacted, Noted, Record
from nacre.messages.tokens import BYTES_PER_TOKEN
from nacre.messages.usage import Usage

AttributeValue: TypeAlias = "str | int | float | bool | list[str]"
UNSAID = "unsaid"
_ONE_WORD = re.compile(r"[a-z][a-z0-9_-]{0,31}")
"""The form of a reason; longer texts might quote content."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerDecision:
    """What a layer did, according to a record."""

    layer: str
    reason: str
    tokens: int
    memory: MemoryRun | None = None
    """Set for extraction and dreams."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRun:
    """What a run of extraction or of a dream did to memory."""

    written: int
    saved: int
    proposed: int
    refused: Mapping[str, int]
    """Refusals by reason."""
    denied_writes: int
    turns: int
    seconds: float

    @property
    def facts(self) -> dict[str, AttributeValue]:
        """The attributes of its event."""
        return {
            "nacre.memory.files_written": self.written,
            "nacre.memory.files_saved": self.saved,
            "nacre.memory.files_proposed": self.proposed,
            "nacre.memory.refused": sum(self.refused.values()),
            "nacre.memory.refusal_reasons": sorted(self.refused),
            "nacre.memory.denied_writes": self.denied_writes,
            "nacre.memory.turns": self.turns,
            "nacre.memory.duration": self.seconds,
        }


def decisions(records: Sequence[Record]) -> list[LayerDecision]:
    """Return the decisions of layers in records."""
    found = (_decision(record) for record in records)
    return [one for one in found if one is not None]


def _decision(record: Record) -> LayerDecision | None:
    match record:
        case Noted(kind="offload"):
            reason = _word(record.fact("reason") or "size")
            return LayerDecision(layer="offload", reason=reason, tokens=kept_out(record))
        case Noted(kind="duplicate" | "reread"):
            return LayerDecision(layer="offload", reason=record.kind, tokens=kept_out(record))
        case Noted(kind="clear"):
            return LayerDecision(layer="clear", reason=_word(record.fact("reason")), tokens=kept_out(record))
        case Noted(kind="side_query") if record.fact("purpose") == "keep_warm":
            prefix = Usage.of_json(record.fact("usage")).prompt
            return LayerDecision(layer="keep_warm", reason="refresh", tokens=prefix)
        case Noted(kind="notes"):
            covered = record.fact("tokens")
            tokens = covered if type(covered) is int else 0
            return LayerDecision(layer="notes", reason=_word(record.fact("by")), tokens=tokens)
        case Noted(kind="recalled"):
            size = record.fact("bytes")
            tokens = size // BYTES_PER_TOKEN if isinstance(size, int) else 0
            return LayerDecision(layer="recall", reason="attached", tokens=tokens)
        case Noted(kind="extraction" | "dream"):
            return _memory_decision(record)
        case Compacted():
            freed = (record.pre_tokens or 0) - (record.post_tokens or 0)
            return LayerDecision(layer="compact", reason=_word(record.trigger), tokens=max(0, freed))
        case _:
            return None


def _memory_decision(note: Noted) -> LayerDecision:
    """Return what a run of extraction or of a dream did, with counts only: names of files are content."""
    files = note.fact("files")
    refused = note.fact("refused")
    run = MemoryRun(
        written=len(files) if isinstance(files, list) else 0,
        saved=_number(note, "saved"),
        proposed=_number(note, "proposed"),
        refused={_word(why): number for why, number in refused.items() if type(number) is int}
        if isinstance(refused, dict)
        else {},
        denied_writes=_number(note, "denied_writes"),
        turns=_number(note, "rounds"),
        seconds=seconds if isinstance(seconds := note.fact("seconds"), int | float) else 0.0,
    )
    if note.kind == "dream":
        reason = _word(str(note.fact("status")).replace(" ", "_"))
        return LayerDecision(layer="dream", reason=reason, tokens=_number(note, "tokens"), memory=run)
    reason = "saved" if run.saved else "proposed" if run.proposed else "nothing"
    reason = next((one for one in ("failed", "skipped") if note.fact(one)), reason)
    tokens = Usage.of_json(note.fact("usage")).total
    return LayerDecision(layer="extract", reason=reason, tokens=tokens, memory=run)


def _number(note: Noted, name: str) -> int:
    value = note.fact(name)
    return value if type(value) is int and value > 0 else 0


def _word(reason: object) -> str:
    return reason if isinstance(reason, str) and _ONE_WORD.fullmatch(reason) else UNSAID


def kept_out(note: Noted) -> int:
    """Return how many tokens a layer removed from later requests, according to its note."""
    exact = note.fact("tokens_kept_out")
    tokens = note.fact("tokens") if exact is None else exact
    return tokens if type(tokens) is int and tokens > 0 else 0
