"""Which log notes a compaction keeps: a session resumed behind it must know what a live session knows (C21).

Resuming reads from the first kept record on (T9), so that every note before it is gone unless the record of
the compaction carries it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

from nacre.agents.layer import Carry, Layer
from nacre.agents.meter import METER, SIDE_QUERY, Meter
from nacre.agents.riding import DAY, INSIDE, INSTRUCTIONS, RECORD, WHOLE, told_in
from nacre.agents.session import OPENING
from nacre.cache.lifetime import LIFETIME
from nacre.clock import Clock
from nacre.loop.fork import FORK
from nacre.messages.blocks import JsonObject, ToolResult
from nacre.messages.facts import FACTS
from nacre.messages.pairing import Item
from nacre.messages.pins import PIN, pinned
from nacre.messages.records import Noted, Said
from nacre.messages.view import View

SESSION_KINDS: Mapping[str, Carry] = {
    OPENING: "own",  # else the next message would begin with the opening again; it names the summary
    METER: "own",  # else the session would seem to have cost nothing before
    FACTS: "own",  # user quotes and actions that the summary shows are known from it alone
    PIN: "own",  # of the results that stay
    INSTRUCTIONS: "own",  # else what the restored opening shows would be told again
    DAY: "own",  # the restored opening names today's date
    LIFETIME: "last",  # what is cached continues with the TTL that was chosen
    SIDE_QUERY: "drop",  # its price is part of the carried meter
    FORK: "drop",  # written on a fork's own records alone
    "tasks": "last",  # the task list is kept in its last note alone
    "checkpoint": "drop",  # goes with the message that led to the change
}
"""The kinds of log notes that belong to no layer."""
FOREIGN_KINDS = ("foreign/", "attachment/", "system/")
"""Lines of another program, kept where they are."""


def carry_rules() -> dict[str, Carry]:
    """What a compaction does with each kind of note: of the session, and of every known class of layer.

    Layers that are switched off count too, so that a session can be resumed with them switched on.
    """
    rules = dict(SESSION_KINDS)
    classes = [Layer]
    while classes:
        one = classes.pop()
        rules.update(one.log_kinds)
        classes += one.__subclasses__()
    return rules


def carried(
    view: View,
    *,
    summary_id: str,
    clock: Clock,
    facts: JsonObject | None = None,
    more: Sequence[Noted] = (),
    kept: Sequence[Item] = (),
) -> tuple[Noted, ...]:
    """The notes for `Compacted.carries`, each with a new id.

    `view` must hold everything that comes before the compaction in the log, or what that cost is lost to the
    meter. A kind in `more` stands for what would be carried of it. `kept` are the items that stay.
    """
    given = {note.kind for note in more}
    opening = view.last_noted(OPENING)
    # A span may leave the opening standing: then all that the log says of it goes on to be true.
    stays_open = opening is not None and any(item.record_id == opening.fact(RECORD) for item in kept)
    found: dict[str, Sequence[JsonObject]] = {
        OPENING: [{RECORD: summary_id}] if opening and not stays_open else [],
        PIN: [{"call": call, "on": True, "by": "kept"} for call in sorted(_pins(view, kept))],
        METER: [Meter.of(view.records).as_json()],
        FACTS: [facts] if facts else [],
        **_by_rule(view),
    }
    ours = [
        Noted(id=clock.new_id(), at=clock.now(), kind=kind, facts={**one})
        for kind, several in found.items()
        if kind not in given
        for one in several
    ]
    others = [replace(note, id=clock.new_id()) for note in more if note.kind not in {INSTRUCTIONS, DAY}]
    told = [] if stays_open else _told(view, kept, more, summary_id=summary_id, clock=clock)
    return (*ours, *others, *told)


def _by_rule(view: View) -> dict[str, list[JsonObject]]:
    """The facts that are carried as they are; a kind that no layer declares is carried like "last"."""
    rules = carry_rules()
    kinds = dict.fromkeys(one.kind for one in view.records if isinstance(one, Noted))
    found: dict[str, list[JsonObject]] = {}
    for kind in kinds:
        rule = "drop" if kind.startswith(FOREIGN_KINDS) else rules.get(kind, "last")
        notes = view.noted(kind)
        if rule == "last" and notes:
            found[kind] = [notes[-1].facts]
        elif rule == "all":
            # Of equal ones the newest counts: readers take the order of notes for the order of events.
            newest = {json.dumps(note.facts, sort_keys=True): note.facts for note in reversed(notes)}
            found[kind] = list(reversed(newest.values()))
    return found


def _pins(view: View, kept: Sequence[Item]) -> frozenset[str]:
    results = {
        part.block.call_id for item in kept for part in item.parts if isinstance(part.block, ToolResult)
    }
    return pinned(view) & results


def _told(
    view: View, kept: Sequence[Item], more: Sequence[Noted], *, summary_id: str, clock: Clock
) -> list[Noted]:
    """Instructions and date as the model knows them: what stands further down is what it goes by."""
    below = _worded_in(view, kept)
    told = told_in(note for note in more if note.kind == INSTRUCTIONS)
    told |= told_in(note for note in below if note.kind == INSTRUCTIONS)
    days = [note.fact("date") for notes in (more, below) for note in notes if note.kind == DAY]
    days = days or [note.fact("date") for note in view.noted(DAY)[-1:]]
    facts: dict[str, JsonObject] = {}
    if told or view.last_noted(INSTRUCTIONS):
        facts[INSTRUCTIONS] = {"files": {**told}, WHOLE: True, RECORD: summary_id}
    if days:
        facts[DAY] = {"date": days[-1], RECORD: summary_id}
    return [Noted(id=clock.new_id(), at=clock.now(), kind=kind, facts=one) for kind, one in facts.items()]


def _worded_in(view: View, kept: Sequence[Item]) -> list[Noted]:
    """The notes about words that ride with the kept items; one without any words says nothing about them."""
    staying = {item.record_id for item in kept}
    ours = {one.id for one in view.records if isinstance(one, Said) and one.meta} & staying
    return [
        note
        for kind in (INSTRUCTIONS, DAY)
        for note in view.noted(kind)
        if note.fact(RECORD) in ours or (note.fact(INSIDE) and note.fact(RECORD) in staying)
    ]
