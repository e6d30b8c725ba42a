"""Attachments: text that layers add behind a message, so that the prefix stays unchanged (M25)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from nacre.clock import Clock
from nacre.loop.round import message_record
from nacre.messages.blocks import JsonObject, Text, ToolResult
from nacre.messages.records import Noted, Record, Said
from nacre.messages.view import View

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
