"""What a compaction is asked to do, and what it did."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from nacre.formatting import counted
from nacre.messages.draft import WHOLE, DraftKind, ItemSpan
from nacre.messages.records import Compacted, Record

Trigger = Literal["auto", "manual"]
HOW: dict[DraftKind, str] = {
    "full": "with a summary",
    "notes": "from the session's notes",
    "rules": "by rule",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionRequest:
    """What a compaction is asked to do."""

    trigger: Trigger = "auto"
    focus: str = ""
    """What the summary should focus on."""
    span: ItemSpan = WHOLE
    by_rule: bool = False
    """Without a model request."""
    on_progress: Callable[[str], None] | None = None
    """Called with a line for each step."""


AUTOMATIC = CompactionRequest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction:
    """What a compaction did."""

    record: Compacted
    records: tuple[Record, ...]
    """All records of the compaction in order, including `record`."""
    kind: DraftKind
    trigger: Trigger
    before: int
    after: int
    kept_messages: int
    """Messages at the end that stay as they are."""
    words_kept: int
    words_left: int
    kept_before: int = 0
    """Messages ahead of the compacted span."""
    files: tuple[str, ...] = ()
    """Files that were read again from disk."""
    dropped: int = 0
    """Quotations removed from the summary because the user never said them."""
    seconds: float = 0.0

    @property
    def line(self) -> str:
        """The result as one line for the person."""
        more = f" ({self.words_left:,} more in a file)" if self.words_left else ""
        parts = [
            f"Compacted {HOW[self.kind]}: about {self.before:,} tokens became {self.after:,}",
            f"the last {counted(self.kept_messages, 'message')} kept" if self.kept_messages else "",
            f"{counted(self.words_kept, 'message')} of yours word for word{more}" if self.words_kept else "",
            f"{counted(len(self.files), 'file')} read again" if self.files else "",
            f"{counted(self.dropped, 'invented quotation')} removed" if self.dropped else "",
        ]
        return f"{'; '.join(filter(None, parts))}."
