"""The base class of layers, which take part in a session, the attachments that they return, and redaction.

Attachments are text behind a message, so that the prefix stays unchanged (M25).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar, Literal, Protocol

from nacre.clock import Clock
from nacre.loop.round import message_record
from nacre.messages.blocks import JsonObject, Text, ToolResult
from nacre.messages.draft import Draft, Fragment
from nacre.messages.events import Reply
from nacre.messages.pairing import Item
from nacre.messages.records import Noted, Record, Said
from nacre.messages.view import View
from nacre.providers.base import Request
from nacre.session.compaction import Compaction, CompactionRequest
from nacre.session.fit import WindowState
from nacre.tools.base import Tool

if TYPE_CHECKING:
    from nacre.session.session import Session


RECORD = "record"
"""The fact of a note that names the record it is about."""


INSIDE = "inside"
"""The fact of a note with the digest of an attachment that is part of a tool result."""


INSTRUCTIONS = "instructions"
"""The kind of note that says which version of which instructions the model has seen."""
WHOLE = "whole"
"""The fact of such a note that says that earlier ones no longer hold (C21)."""
DAY = "day"
"""The kind of note that says which date the model has seen last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachment:
    """Text that is added behind a message, with a note in the log."""

    kind: str
    """The kind of the note in the log."""
    text: str = ""
    """For the model; without text only the note is written."""
    facts: JsonObject = field(default_factory=dict)
    notice: str = ""
    """For the person."""


def with_attachments(
    message: Said, attachments: Sequence[Attachment], clock: Clock, *, inside_results: bool = False
) -> list[Record]:
    """Return the records of a message and its attachments, each attachment with its note.

    `inside_results` puts them inside the last tool result, for models that drop their thinking, and with it
    the cache, at user text between two tool rounds.
    """
    notes: list[Record] = []
    for one in attachments:
        facts: JsonObject = {**one.facts, RECORD: message.id}
        last = message.blocks[-1] if inside_results else None
        if one.text and isinstance(last, ToolResult):
            extended = replace(last, content=(*last.content, Text(one.text)))
            message = replace(message, blocks=(*message.blocks[:-1], extended))
            facts[INSIDE] = digest(one.text)
        elif one.text:
            attached = message_record("user", (Text(one.text),), clock, meta=True)
            notes.append(attached)
            facts[RECORD] = attached.id
        notes.append(Noted(id=clock.new_id(), at=clock.now(), kind=one.kind, facts=facts))
    return [message, *notes]


def digest(text: str) -> str:
    """Return a short digest of a text, for notes."""
    return hashlib.blake2b(text.encode(errors="replace"), digest_size=8).hexdigest()


def notes_in_view(view: View, kind: str) -> list[Noted]:
    """Return the notes of a kind whose records are in view; a compaction removes the others (R7)."""
    return [note for note in view.noted(kind) if view.has_record(str(note.fact(RECORD)))]


def digests_in(notes: Iterable[Noted], fact: str = "files") -> dict[str, str]:
    """Return the digests in such notes by path or name: the versions that the model has seen."""
    seen: dict[str, str] = {}
    for note in notes:
        value = note.fact(fact)
        items = value.items() if isinstance(value, dict) else ()
        digests = {str(path): digest for path, digest in items if isinstance(digest, str)}
        seen = digests if note.fact(WHOLE) is True else seen | digests
    return seen


Carry = Literal["last", "all", "own", "drop"]
"""What a compaction does with a kind of log note: keep the newest or all, let `carry` decide, or drop it."""


class Redactor(Protocol):
    """Removes text that must not be sent to the provider."""

    async def filter(self, message: Said) -> Said:
        """Return the message as it may be recorded."""
        ...

    async def attachments(self, attached: Sequence[Attachment]) -> Sequence[Attachment]:
        """Return the attachments as they may be recorded."""
        ...


class Layer:
    """Takes part in a session. Subclasses override what they need; every default does nothing."""

    session: Session
    """The session to which the layer was added."""
    log_kinds: ClassVar[Mapping[str, Carry]] = {}
    """The kinds of log notes that this layer writes; no two classes may declare the same one."""
    _declared: ClassVar[dict[str, str]] = {}
    """The name of the class that declares each kind of note."""

    def __init_subclass__(cls) -> None:
        name = f"{cls.__module__}.{cls.__qualname__}"
        for kind in cls.__dict__.get("log_kinds", {}):
            # A class of the same name is the same one, defined again as in a notebook.
            declared_by = Layer._declared.setdefault(kind, name)
            if declared_by != name:
                raise TypeError(f"{name} and {declared_by} both declare the log notes of kind {kind!r}")

    # Called by `Session.add_layers`.

    def open(self, session: Session) -> None:
        """Bind the layer to its session; an override calls `super().open(session)` first."""
        if getattr(self, "session", session) is not session:
            name = type(self).__name__
            raise ValueError(f"this {name} belongs to another session; create a new {name} for each session")
        self.session = session

    # Called by `SessionAgent.stream` and `turn`: a turn of nacre's own loop.

    async def before_turn(self) -> None:
        """Called before a turn begins."""

    async def pending(self) -> Sequence[Attachment]:
        """Wait for results that an answered turn still expects and return them; with none the turn ends."""
        return ()

    async def before_stop(self, answer: str, *, continued: bool) -> Attachment | None:
        """Return a message that makes the turn continue after its last reply, or None.

        `continued` says whether the turn was continued this way before.
        """
        return None

    async def after_turn(self) -> None:
        """Called after a turn that was not cancelled, before the next one can begin."""

    def on_cancel(self) -> None:
        """Called when a turn is cancelled or fails."""

    # Called by `Session.add_user` and `Session.message_records`: a prompt or tool results are recorded.

    async def before_prompt(self, text: str) -> None:
        """Called with a person's prompt before anything is recorded; may raise `HookRefused`."""

    async def filter(self, message: Said, view: View) -> tuple[Said, Sequence[Attachment]]:
        """Return a message as it is to be recorded, with attachments that note what was changed."""
        return message, ()

    async def attach(self, message: Said, view: View) -> Sequence[Attachment]:
        """Return attachments that follow a prompt or tool results."""
        return ()

    # Called by `Session.fit` before every request, then by `Session.request` and `Session.on_reply`.

    async def before_request(self) -> None:
        """Called before a request is built; may append records to the transcript."""

    @property
    def compacts(self) -> bool:
        """Whether `shrink` replaces the older part of a conversation that does not fit."""
        return False

    def can_shrink(self, view: View, state: WindowState) -> bool:
        """Return whether `shrink` would make this view smaller; pure, also called with hypothetical views."""
        return False

    async def shrink(self, view: View, state: WindowState) -> Sequence[Record]:
        """Return records that make the view smaller; none if that is not possible after all."""
        return ()

    def cache_points(self, view: View, messages: Sequence[JsonObject]) -> Sequence[int]:
        """Return after how many messages a cache marker is worthwhile, beside the usual places."""
        return ()

    def finish_request(self, request: Request, view: View) -> Request:
        """Return the request with provider options; the same view must always give the same bytes."""
        return request

    def on_reply(self, reply: Reply) -> None:
        """Called after a reply was recorded and added to the meter; may start background work."""

    # Called by `Session.wrap_tools` before a turn or a fork, and by `ForkRunner` for a fork.

    def wrap_tools(self, tools: Mapping[str, Tool], *, fork: str = "") -> Mapping[str, Tool]:
        """Return the tools with this layer around their calls; `fork` names the purpose of a fork."""
        return tools

    def for_fork(self) -> Layer | None:
        """Return the layer that filters the messages of a fork; None if it takes no part in forks."""
        return None

    # Called by `Compact` and its `Restorer`: a compaction, in this order.

    async def before_compact(self, request: CompactionRequest) -> CompactionRequest | None:
        """Return the request for a compaction, changed or not; None forbids it."""
        return request

    def draft(self, view: View) -> Draft | None:
        """Return a text that can replace the conversation without a model request, if there is one."""
        return None

    async def finish_draft(self) -> None:
        """Wait for a draft that is being written, within the layer's own time limit."""

    async def restart_context(self) -> str:
        """Return text that the model reads when the conversation continues after a summary."""
        return ""

    async def restore(self, kept: Sequence[Item]) -> Sequence[Fragment]:
        """Return what the model must see again after a compaction that keeps these items."""
        return ()

    def carry(self, restored: Sequence[Fragment], summary_id: str) -> Sequence[Noted]:
        """Return the log notes that say which of the restored fragments the model sees in the summary."""
        return ()

    def after_compact(self, done: Compaction) -> None:
        """Called when a compaction is in the transcript."""
