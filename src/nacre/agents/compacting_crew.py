"""What a compaction is asked to be like, who helps with it, and what is said of it afterwards."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from nacre.agents.preparing import Preparation
from nacre.layers.l4_compact.install import WHOLE, Span
from nacre.messages.facts import Facts
from nacre.messages.pairing import Item
from nacre.messages.records import Compacted, Noted, Record
from nacre.messages.summary import Draft, DraftKind, Fragment
from nacre.messages.view import View

Trigger = Literal["auto", "manual"]
HOW: dict[DraftKind, str] = {
    "full": "with a summary",
    "notes": "from the session's notes",
    "rules": "by rule",
    "provider": "by the provider",
}


def _silently(_: str) -> None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a compaction is asked to be like."""

    trigger: Trigger = "auto"
    focus: str = ""
    """What the summary should dwell on."""
    span: Span = WHOLE
    by_rule: bool = False
    """Without asking any model."""
    on_progress: Callable[[str], None] = _silently


AUTOMATIC = Wish()


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction:
    """What was done, for people and for the log."""

    record: Compacted
    records: tuple[Record, ...]
    """All of it, in order; the record above among them."""
    kind: DraftKind
    trigger: Trigger
    before: int
    after: int
    kept_messages: int
    """At the end."""
    words_kept: int
    words_left: int
    kept_before: int = 0
    """Messages that stand before the part it is about."""
    files: tuple[str, ...] = ()
    """Read again from disk."""
    dropped: int = 0
    """Quotations that the user never said, taken out of the summary."""
    seconds: float = 0.0

    @property
    def line(self) -> str:
        """One line for the person."""
        more = f" ({self.words_left:,} more in a file)" if self.words_left else ""
        parts = [
            f"Compacted {HOW[self.kind]}: about {self.before:,} tokens became {self.after:,}",
            f"the last {counted(self.kept_messages, 'message')} kept" if self.kept_messages else "",
            f"{counted(self.words_kept, 'message')} of yours word for word{more}" if self.words_kept else "",
            f"{counted(len(self.files), 'file')} read again" if self.files else "",
            f"{counted(self.dropped, 'quotation')} that nobody said taken out" if self.dropped else "",
        ]
        return f"{'; '.join(filter(None, parts))}."


def counted(number: int, noun: str) -> str:
    """`1 message`, `2 messages`."""
    return f"{number:,} {noun}" + "s" * (number != 1)


async def _nothing_restored(kept: Sequence[Item], tokens: int) -> Sequence[Fragment]:
    return ()


def _no_more(view: View, summary_id: str, own: Sequence[Noted]) -> Sequence[Noted]:
    return own


def _no_notes(view: View) -> Draft | None:
    return None


async def _at_once() -> None:
    return None


async def _nobody_minds(wish: Wish) -> str | None:
    return wish.focus


async def _no_words() -> str:
    return ""


def _untold(compaction: Compaction) -> None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Crew:
    """Who helps with a compaction; without anybody it is done by rule."""

    summarise: Callable[[View, Wish, Facts], Awaitable[Draft]] | None = None
    """Asks a model; raises a `NacreError` when nothing usable came of it."""
    preparation: Preparation | None = None
    notes: Callable[[View], Draft | None] = _no_notes
    """The session's notes as a draft, when a model has written any."""
    wait_for_notes: Callable[[], Awaitable[None]] = _at_once
    restore: Callable[[Sequence[Item], int], Awaitable[Sequence[Fragment]]] = _nothing_restored
    """What is read again, given what stays and how many tokens there are for it (C21)."""
    carry: Callable[[View, str, Sequence[Noted]], Sequence[Noted]] = _no_more
    """The bookkeeping that must outlive it, given the summary's id and what is there already."""
    tasks: Callable[[], str] = str
    """The task list as text; empty when there is none."""
    before: Callable[[Wish], Awaitable[str | None]] = _nobody_minds
    """A person's own commands: the focus from now on, or none when they forbid it (C18)."""
    begun: Callable[[], Awaitable[str]] = _no_words
    """The same, when the conversation begins anew: what they add to it."""
    after: Callable[[Compaction], None] = _untold
    """Told when it is done; whoever has more to do about it does it beside the conversation."""
