"""Types of recall: the query, ranked and attached memories, what was left out and why (R10)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from nacre.memory.format.entry import Entry

if TYPE_CHECKING:
    from nacre.memory.recall.ranking.order import Rarity, SubjectTerms

MAX_PICKS = 5
"""More memories than this help no message; each costs tokens in every later turn (R5)."""

LeftOutReason: TypeAlias = Literal[
    "already seen", "budget", "below the cut-off", "beyond five", "unverified", "untrusted", "local-only",
    "not chosen", "unreadable",
]  # fmt: skip
"""Why a ranked memory is not attached."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallQuery:
    """The message for which memories are recalled."""

    text: str
    now: datetime
    recent_tools: tuple[str, ...] = ()
    """Names of the tools used in the last few rounds, newest first (R13)."""
    is_search: bool = False
    """A query to memory itself, not a message that may need none."""


@dataclass(frozen=True, slots=True)
class Subject:
    """Tells whether two memories are about one subject, and which of them is newer (R14)."""

    terms: SubjectTerms
    rarity: Rarity


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedMemory:
    """A memory and how well it answers a query."""

    entry: Entry
    """Without its body."""
    directory: Path
    """The memory directory it is in; several scopes are ranked together."""
    score: float
    confidence: float
    """The probability that this memory helps, 0 to 1; compared with the cut-off."""
    parts: Mapping[str, float] = field(default_factory=dict)
    """The parts of the score, for display."""
    superseded_by: str = ""
    """The file of a newer memory that states the same subject in similar words (R14)."""
    subject: Subject | None = None
    """None for a memory that is ranked too low to be attached."""

    @property
    def file(self) -> str:
        return self.entry.file

    @property
    def path(self) -> Path:
        return self.directory / self.entry.file


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """Something in the project that a memory names, and whether it still exists (R12)."""

    kind: Literal["path", "symbol", "flag", "variable", "command"]
    text: str
    exists: bool | None
    """None when the check ran out of time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """The references of a memory and whether they still exist."""

    references: tuple[Reference, ...] = ()

    @property
    def gone(self) -> tuple[Reference, ...]:
        return tuple(one for one in self.references if one.exists is False)

    @property
    def unchecked(self) -> tuple[Reference, ...]:
        """References that were not reached in time."""
        return tuple(one for one in self.references if one.exists is None)

    @property
    def is_broken(self) -> bool:
        """Whether all references are gone: such a memory comes last and is offered to the dream."""
        return bool(self.references) and all(one.exists is False for one in self.references)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachedMemory:
    """A memory that is attached to a message, with the exact text."""

    ranked: RankedMemory
    text: str
    """Header, cautions and shortened body; rendered once, so that its bytes never change (R8)."""
    age_days: int
    bytes: int
    """Of `text`."""
    drift: Drift | None = None


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A ranked memory that is not attached."""

    file: str
    why: LeftOutReason
    score: float = 0.0
    confidence: float = 0.0
    path: Path = Path()

    @classmethod
    def of(cls, ranked: RankedMemory, why: LeftOutReason) -> LeftOut:
        """Return why a ranked memory is left out."""
        return cls(ranked.file, why, ranked.score, ranked.confidence, ranked.path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recalled:
    """The result of recall for one message."""

    query: str
    picks: tuple[AttachedMemory, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    took_ms: float = 0.0
    skipped: str = ""
    """Why no memories were searched (R2); empty if they were."""
    problem: str = ""
    """What failed; the turn continues without it (R6)."""

    @property
    def ranked(self) -> list[RankedMemory | LeftOut]:
        """Every candidate, best first: the attached ones, and the others with the reason."""
        candidates: list[RankedMemory | LeftOut] = [*(one.ranked for one in self.picks), *self.left_out]
        return sorted(candidates, key=lambda one: (-one.confidence, -one.score, one.file))

    @property
    def text(self) -> str:
        """The text of all attached memories; empty when there are none."""
        return "\n\n".join(one.text for one in self.picks)


class MemoryRanker(Protocol):
    """Ranks the memories of one directory; `LocalIndex` is the implementation."""

    def refresh(self) -> None:
        """Read the files that changed on disk."""

    def rank(self, query: RecallQuery, *, limit: int) -> Sequence[RankedMemory]:
        """Return the memories that match a query, best first; untrusted and local-only ones included."""

    def everything(self) -> Sequence[RankedMemory]:
        """Return every memory, unranked."""

    def deepen(self, *, seconds: float) -> int:
        """Compute missing vectors for at most that long; return how many are still missing."""
