"""What rides at the tail of a message: changed instructions, memories, a new day; the prefix stays (M25)."""

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
"""The fact of a note that names the record whose words it is about."""


INSIDE = "inside"
"""The fact of a note that tells such words apart from the tool's own, when they ride inside its result."""


INSTRUCTIONS = "instructions"
"""The kind of note that says which instructions the model was told, in which version."""
WHOLE = "whole"
"""The fact of such a note that says that nothing told before it is seen any more (C21)."""
DAY = "day"
"""The kind of note that says which date the model was told last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachment:
    """Something added to a message."""

    kind: str
    """What it is, as the note in the log says."""
    text: str = ""
    """For the model; without any only the log is told."""
    facts: JsonObject = field(default_factory=dict)
    notice: str = ""
    """For the person."""


def with_attachments(
    said: Said, extras: Sequence[Attachment], clock: Clock, *, inside_results: bool = False
) -> list[Record]:
    """The record with everything that rides behind it, each with a note for the log.

    On models that lose their thinking, and with it the cache, at a person's words between two tool rounds,
    it rides inside the last result.
    """
    records: list[Record] = [said]
    inside = inside_results and isinstance(said.blocks[-1], ToolResult)
    for extra in extras:
        place = said.id
        if extra.text and inside:
            records[0] = said = _inside(said, extra.text)
        elif extra.text:
            behind = message_record("user", (Text(extra.text),), clock, meta=True)
            records.append(behind)
            place = behind.id
        facts: JsonObject = {**extra.facts, RECORD: place}
        if extra.text and inside:
            facts[INSIDE] = digest(extra.text)
        records.append(Noted(id=clock.new_id(), at=clock.now(), kind=extra.kind, facts=facts))
    return records


def digest(text: str) -> str:
    """What stands for a text in a note."""
    return hashlib.blake2b(text.encode(errors="replace"), digest_size=8).hexdigest()


def notes_in_view(view: View, kind: str) -> list[Noted]:
    """The notes of a kind whose words the model still sees: a compaction frees the others by itself (R7)."""
    return [note for note in view.noted(kind) if view.has_record(str(note.fact(RECORD)))]


def _inside(said: Said, text: str) -> Said:
    *before, last = said.blocks
    assert isinstance(last, ToolResult), "only results are written into"
    return replace(said, blocks=(*before, replace(last, content=(*last.content, Text(text)))))


def digests_in(notes: Iterable[Noted], fact: str = "files") -> dict[str, str]:
    """Digests, by path or name, of what such notes say was told."""
    told: dict[str, str] = {}
    for note in notes:
        now = _as_told(note.fact(fact))
        told = now if note.fact(WHOLE) is True else told | now
    return told


def _as_told(written: object) -> dict[str, str]:
    if not isinstance(written, dict):
        return {}
    return {str(path): digest for path, digest in written.items() if isinstance(digest, str)}
