"""What recall speaks of: a query, ranked memories, picks, what was left out and why (R10)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

from nacre.memory.format.entry import Entry
from nacre.memory.recall.ranking.ranker import Rarity, SubjectTerms

MAX_PICKS = 5
"""So many memories help with one message; more only cost tokens in every turn that follows (R5)."""

LeftOutReason: TypeAlias = Literal[
    "already seen", "budget", "below the cut-off", "beyond five", "untrusted", "local-only", "not chosen"
]
"""Why a memory that was considered is not attached."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallQuery:
    """What a person wants to know now."""

    text: str
    now: datetime
    recent_tools: tuple[str, ...] = ()
    """Names of the tools used in the last few rounds, newest first (R13)."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What tells whether two memories speak of one thing, and which of the two is newer (R14)."""

    placed: SubjectTerms
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
    """From 0 to 1: how likely it is that this memory helps; the cut-off stands on it."""
    parts: Mapping[str, float] = field(default_factory=dict)
    """What the score is made of, for people."""
    superseded_by: str = ""
    """The file of a newer memory on the same subject in alike words, whether they agree or not (R14)."""
    subject: Subject | None = None
    """What it says about what was asked; none for one that is too far down to matter."""

    @property
    def path(self) -> Path:
        return self.directory / self.entry.file


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """Something in the project that a memory names, and whether it is still there (R12)."""

    kind: Literal["path", "symbol", "flag", "command"]
    text: str
    exists: bool | None
    """None when there was no time to look."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """How far a memory's references still hold."""

    references: tuple[Reference, ...] = ()

    @property
    def gone(self) -> tuple[Reference, ...]:
        return tuple(one for one in self.references if one.exists is False)

    @property
    def unchecked(self) -> tuple[Reference, ...]:
        """There was no time to look for these."""
        return tuple(one for one in self.references if one.exists is None)

    @property
    def is_broken(self) -> bool:
        """Everything it names is gone: it is ranked down and offered to the dream."""
        return bool(self.references) and all(one.exists is False for one in self.references)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachedMemory:
    """A memory that is attached, with the exact words that go into the message."""

    ranked: RankedMemory
    text: str
    """Header, cautions and body, cut to size; computed once, so that its bytes never change later (R8)."""
    age_days: int
    bytes: int
    """Of `text`."""
    drift: Drift | None = None


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A memory that was considered and is not attached."""

    file: str
    why: LeftOutReason
    score: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Recalled:
    """What recall chose for one message."""

    query: str
    picks: tuple[AttachedMemory, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    took_ms: float = 0.0
    skipped: str = ""
    """Why nothing was looked for at all (R2), if nothing was."""
    problem: str = ""
    """What went wrong on the way; the turn goes on without it (R6)."""

    @property
    def text(self) -> str:
        """The words of all picks, to put beside the message; empty when nothing surely helps."""
        return "\n\n".join(one.text for one in self.picks)


class MemoryRanker(Protocol):
    """Whatever ranks the memories of one directory: the local index, or a test's own."""

    def refresh(self) -> None:
        """Notice what changed on disk; only files whose stamp changed are read again."""
        ...

    def rank(self, query: RecallQuery, *, limit: int) -> Sequence[RankedMemory]:
        """The memories that have to do with a query, best first; untrusted and local-only ones included."""
        ...

    def everything(self) -> Sequence[RankedMemory]:
        """Every memory, unranked."""
        ...

    def deepen(self, *, seconds: float) -> int:
        """Spend so long on what no message waits for; how many memories are left to be looked at."""
        ...
