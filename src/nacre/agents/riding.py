"""What rides at the tail of a message: changed instructions, memories, a new day; the prefix stays (M25)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from nacre.clock import Clock
from nacre.loop.round import heard
from nacre.messages.blocks import JsonObject, Text, ToolResult
from nacre.messages.records import Noted, Record, Said
from nacre.messages.view import View

RECORD = "record"
"""The fact of a note that names the record whose words it is about."""


INSIDE = "inside"
"""The fact of a note that tells such words apart from the tool's own, when they ride inside its result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Extra:
    """Something added to a message."""

    kind: str
    """What it is, as the note in the log says."""
    text: str = ""
    """For the model; without any only the log is told."""
    facts: JsonObject = field(default_factory=dict)
    notice: str = ""
    """For the person."""


class Rider(Protocol):
    """Somebody who may have something to add to what is about to be recorded."""

    async def beside(self, said: Said, view: View) -> Sequence[Extra]:
        """What goes with a person's words or with tool results, given what the model sees already."""
        ...


def with_extras(
    said: Said, extras: Sequence[Extra], clock: Clock, *, inside_results: bool = False
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
            behind = heard("user", (Text(extra.text),), clock, meta=True)
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


def standing(view: View, kind: str) -> list[Noted]:
    """The notes of a kind whose words the model still sees: a compaction frees the others by itself (R7)."""
    return [note for note in view.noted(kind) if view.has_record(str(note.fact(RECORD)))]


def _inside(said: Said, text: str) -> Said:
    *before, last = said.blocks
    assert isinstance(last, ToolResult), "only results are written into"
    return replace(said, blocks=(*before, replace(last, content=(*last.content, Text(text)))))
