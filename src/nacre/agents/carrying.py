"""Bookkeeping that outlives a compaction: who resumes behind it knows what a live session knows (C21).

Resuming reads from the first kept record on (T9), so that every note before it is gone unless the compaction
carries it. The table says of every kind of note whether it does, and why.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from nacre.agents.announcing import INSTRUCTIONS, WHOLE, told_in
from nacre.agents.dating import DAY
from nacre.agents.hands import TASKS
from nacre.agents.meter import METER, SIDE_QUERY, Meter
from nacre.agents.noting import NOTES
from nacre.agents.offloading import GONE, MOVED
from nacre.agents.recalled import RECALLED
from nacre.agents.rewind import KIND as BEFORE_A_CHANGE
from nacre.agents.riding import INSIDE, RECORD
from nacre.agents.session import OPENING
from nacre.agents.skill_tool import SKILL, invoked
from nacre.cache.lifetime import LIFETIME
from nacre.clock import Clock
from nacre.layers.l1_offload.offload import DUPLICATE, OFFLOAD, REREAD
from nacre.layers.l2_microcompact.declarative import DECLARED
from nacre.layers.l2_microcompact.microcompact import CLEAR
from nacre.layers.l2_microcompact.pins import PIN, pinned
from nacre.layers.l2_microcompact.server_edits import EDIT
from nacre.layers.l4_compact.collapse import STAGED
from nacre.layers.l4_compact.policy import COMPACTION
from nacre.layers.l4_compact.snip import NUMBERED, WAITS
from nacre.loop.fork import FORK
from nacre.messages.blocks import JsonObject, ToolResult
from nacre.messages.facts import FACTS
from nacre.messages.pairing import Item
from nacre.messages.records import Noted, Said
from nacre.messages.view import View


@dataclass(frozen=True, slots=True)
class Fate:
    """What becomes of a kind of note at a compaction."""

    is_carried: bool
    why: str


_ALREADY_THERE = "written behind the result it is about: where that is kept, so is the note"

FATES: Mapping[str, Fate] = {
    OPENING: Fate(True, "else the next message would begin with the opening again; it names the summary"),
    INSTRUCTIONS: Fate(True, "else what the restored opening shows would be told again"),
    DAY: Fate(True, "the restored opening names today's date"),
    TASKS: Fate(True, "the task list lives in its last note alone"),
    LIFETIME: Fate(True, "what is cached goes on with the lifetime that was chosen"),
    DECLARED: Fate(True, "what the provider was told must be said again in every request"),
    PIN: Fate(True, "of results that stay; of the others nobody will ask"),
    NOTES: Fate(True, "the next update of the notes goes on from there"),
    COMPACTION: Fate(True, "failures and refills in a row are counted over compactions (C25)"),
    "extract_cursor": Fate(True, "else all that is kept would be looked at for memories again (E2)"),
    NUMBERED: Fate(True, "so that no number is given twice (C29)"),
    SKILL: Fate(True, "what was loaded is brought back by every later compaction, too"),
    "skills": Fate(True, "where the list came back with the summary: else it is told again"),
    "plan": Fate(True, "where the plan came back with the summary: else it is shown again"),
    METER: Fate(True, "else the session would seem to have cost nothing before"),
    FACTS: Fate(True, "words and deeds that the summary shows are known from it alone"),
    "leads": Fate(True, "else a session that goes on would not lead its teams again (A6)"),
    "extraction": Fate(False, "for people and statistics, who read the whole log"),
    SIDE_QUERY: Fate(False, "its price is part of the carried meter"),
    EDIT: Fate(False, "an edit holds for the bytes it was sent with, and those are gone"),
    RECALLED: Fate(False, "what is no longer in view may be attached again (R7)"),
    OFFLOAD: Fate(False, _ALREADY_THERE),
    DUPLICATE: Fate(False, _ALREADY_THERE),
    REREAD: Fate(False, _ALREADY_THERE),
    CLEAR: Fate(False, _ALREADY_THERE),
    GONE: Fate(False, _ALREADY_THERE),
    WAITS: Fate(False, "written behind the messages it names: where those are kept, so is the note"),
    "snip": Fate(False, "what it took out stays out by a record of its own"),
    STAGED: Fate(False, "written behind its span: where that is kept, so is the note"),
    FORK: Fate(False, "written on a fork's own records alone"),
    "reported": Fate(True, "else a teammate would tell its lead again what it has told it"),
    "mail": Fate(True, "else a letter whose inbox was not settled yet would be shown again (A5)"),
    "agent": Fate(False, "the agents' own files say it as well, before anything is compacted"),
    "agent_types": Fate(False, "the list is told again where the model no longer sees it"),
    "hook": Fate(False, "the person's commands are asked again, and say it anew (C18)"),
    MOVED: Fate(False, "its words are gone with it, so that it may have to be told again"),
    "offload_refused": Fate(False, "for people; it was told when it happened"),
    BEFORE_A_CHANGE: Fate(False, "goes with the message that led to the change, to which one can go back"),
}
"""Every kind that is written anywhere; kinds of other programs' lines begin as in `FOREIGN`."""

FOREIGN = ("foreign/", "attachment/", "system/")
"""Lines of another program, kept where they stand; those of `LISTED` are written again."""
LISTED = tuple(
    f"foreign/{name}"
    for name in (
        "custom-title", "ai-title", "tag", "agent-name", "agent-color", "agent-setting", "mode",
        "worktree-state", "pr-link", "last-prompt",
    )
)  # fmt: skip
"""What lists of sessions show: readers of another program look for it at the end of a log only."""
_LAST = (
    TASKS,
    LIFETIME,
    DECLARED,
    NOTES,
    COMPACTION,
    NUMBERED,
    "extract_cursor",
    "mail",
    "reported",
    "leads",
)
"""Kinds of which the newest note says all."""


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
        SKILL: list(invoked(view).values()),
        **{kind: [note.facts] for kind in _LAST if (note := view.last_noted(kind))},
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


def listed_again(view: View, clock: Clock) -> tuple[Noted, ...]:
    """Title, tags and the like, to be appended behind a compaction; they go into the log as they came."""
    last = (view.last_noted(kind) for kind in LISTED)
    return tuple(replace(note, id=clock.new_id(), at=clock.now()) for note in last if note)


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
