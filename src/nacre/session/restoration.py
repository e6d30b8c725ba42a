"""What the model must see again after a compaction, collected from the layers of a session (C21)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

from nacre import prompts
from nacre.clock import Clock
from nacre.errors import NacreError
from nacre.loop.fork import FORK
from nacre.messages.blocks import JsonObject, ToolResult
from nacre.messages.draft import Fragment
from nacre.messages.facts import FACTS
from nacre.messages.pairing import Item
from nacre.messages.records import Noted, Said
from nacre.messages.results import PIN, pinned
from nacre.messages.tokens import estimate_text
from nacre.messages.view import View
from nacre.session.base_change import BASE
from nacre.session.cache_ttl import LIFETIME
from nacre.session.layer import DAY, INSIDE, INSTRUCTIONS, RECORD, WHOLE, Carry, Layer, digests_in
from nacre.session.meter import METER, SIDE_QUERY, Meter
from nacre.session.session import OPENING, OUTPUT_LIMIT, Session
from nacre.tools.shown_lines import ShownLines
from nacre.tools.workspace import Version

RESTORED_OTHER = prompts.load(__package__, "restored_other")
SOURCE_TOKENS = 5_000
"""Limit for one skill, plan or list of agents; its beginning says what it is for (C21)."""
SOURCES_TOKENS = 25_000
"""Limit for all of them together (C21)."""
LEAST_TOKENS = 200
"""A smaller part of a text would say no more than what it is."""
CUT = "[Cut here for want of room; the whole of it is on disk.]"

_ORDER = {"plan": 0, "agents": 1, "skill": 2}
"""Which kinds come first when not all fragments fit."""
_CLOSING = re.compile(r"</[a-z-]+>\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """The fragments of the last compaction, and the items that it kept."""

    fragments: tuple[Fragment, ...] = ()
    kept: Sequence[Item] = ()
    files: tuple[Path, ...] = ()
    """Most recently read first."""
    whole: Mapping[Path, Version] = field(default_factory=lambda: MappingProxyType({}))
    """Files whose complete text was restored, with their version."""
    digests: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Digests of the restored instructions by path."""
    day: str = ""
    """The date in the restored opening; empty if there is none."""
    seen: frozenset[Path] = frozenset()
    """Files that the workspace counted as seen then, without those that the kept items show."""
    visible: Mapping[Path, ShownLines] = field(default_factory=lambda: MappingProxyType({}))
    """Files of which the kept items show only some lines, and which."""
    shown: Callable[[Path], str] = str

    @property
    def notice(self) -> str:
        """One line for the person; empty if no file was restored."""
        names = ", ".join(self.shown(path) for path in self.files)
        return f"restored {len(self.files)} file{'s' * (len(self.files) != 1)}: {names}" if names else ""

    @property
    def facts(self) -> JsonObject:
        """The facts for the log."""
        return {
            "kinds": [one.kind for one in self.fragments],
            "files": [str(path) for path in self.files],
            "tokens": sum(estimate_text(one.text) for one in self.fragments),
        }


class Restorer:
    """Collects from the layers of a session what the model must see again after a compaction."""

    def __init__(self, session: Session) -> None:
        self.last = Restored()
        self._session = session

    async def fragments(self, kept: Sequence[Item], tokens: int) -> list[Fragment]:
        """Return what is restored beside the kept items, within this many tokens."""
        self.last = Restored(fragments=tuple(await self._from_layers(kept, tokens)), kept=kept)
        return list(self.last.fragments)

    def carry(self, view: View, summary_id: str, own: Sequence[Noted] = ()) -> tuple[Noted, ...]:
        """Return the notes for the compaction record; `own` are those the caller adds."""
        restored = self.last.fragments
        layers = (note for one in self._session.layers for note in one.carry(restored, summary_id))
        notes = (*self._notes(summary_id), *layers, *own)
        return carried(
            view, summary_id=summary_id, clock=self._session.clock, more=notes, kept=self.last.kept
        )

    def settle(self) -> None:
        """Called when the compaction with the last fragments is in the transcript."""

    def _notes(self, summary_id: str) -> Sequence[Noted]:
        return ()

    async def _from_layers(self, kept: Sequence[Item], tokens: int) -> list[Fragment]:
        """Return what layers restore: framed, the plan first, within the limits for each and for all."""
        brought: list[Fragment] = []
        for layer in self._session.layers:
            try:
                brought += await layer.restore(kept)
            except (NacreError, OSError):
                continue  # a plan that cannot be read must not stop the session
        ordered = sorted(brought, key=lambda one: _ORDER.get(one.kind, len(_ORDER)))
        framed = (
            replace(
                one, text=cut(prompts.render(RESTORED_OTHER, name=one.name, text=one.text), SOURCE_TOKENS)
            )
            for one in ordered
        )
        return within(framed, min(tokens, SOURCES_TOKENS))


def within(fragments: Iterable[Fragment], tokens: int) -> list[Fragment]:
    """Return as many fragments as fit, in this order; the last one is cut."""
    found: list[Fragment] = []
    for one in fragments:
        if not one.text or tokens < min(LEAST_TOKENS, estimate_text(one.text)):
            continue
        found.append(replace(one, text=cut(one.text, tokens)))
        tokens -= estimate_text(found[-1].text)
    return found


def cut(text: str, tokens: int) -> str:
    """Return the beginning of a text in whole lines, with a note that it was cut."""
    if estimate_text(text) <= tokens:
        return text
    closing = _CLOSING.search(text)
    end = "\n".join([CUT, *([closing[0]] if closing else [])])
    room = tokens - estimate_text(end) - 1
    lines = list[str]()
    for line in text.splitlines():
        room -= estimate_text(line) + 1
        if room < 0:
            break
        lines.append(line)
    return "\n".join([*lines, end])


SESSION_KINDS: Mapping[str, Carry] = {
    OPENING: "own",  # else the next message would begin with the opening again; it names the summary
    METER: "own",  # else the session would seem to have cost nothing before
    FACTS: "own",  # user quotes and actions that the summary shows are known from it alone
    PIN: "own",  # of the results that stay
    INSTRUCTIONS: "own",  # else what the restored opening shows would be told again
    DAY: "own",  # the restored opening names today's date
    BASE: "last",  # else a session resumed after it would not know that its tools changed
    OUTPUT_LIMIT: "last",  # else the next long reply would be paid for twice again
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
    """Return what a compaction does with each kind of note of the session and of every class of layer.

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
    """Return the notes for `Compacted.carries`, each with a new id.

    `view` must hold everything before the compaction in the log, or the meter loses its cost. A kind in
    `more` replaces what would be carried of that kind. `kept` are the items that stay.
    """
    given = {note.kind for note in more}
    opening = view.last_noted(OPENING)
    # A compaction of a span may keep the opening; the notes about it hold then.
    stays_open = opening is not None and any(item.record_id == opening.fact(RECORD) for item in kept)
    kept_calls = {
        part.block.call_id for item in kept for part in item.parts if isinstance(part.block, ToolResult)
    }
    found: dict[str, Sequence[JsonObject]] = {
        OPENING: [{RECORD: summary_id}] if opening and not stays_open else [],
        PIN: [{"call": call, "on": True, "by": "kept"} for call in sorted(pinned(view) & kept_calls)],
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
    seen = [] if stays_open else _seen_notes(view, kept, more, summary_id=summary_id, clock=clock)
    return (*ours, *others, *seen)


def _by_rule(view: View) -> dict[str, list[JsonObject]]:
    """Return the facts that are carried unchanged; a kind that no layer declares is carried as "last"."""
    rules = carry_rules()
    kinds = dict.fromkeys(one.kind for one in view.records if isinstance(one, Noted))
    found: dict[str, list[JsonObject]] = {}
    for kind in kinds:
        rule = "drop" if kind.startswith(FOREIGN_KINDS) else rules.get(kind, "last")
        notes = view.noted(kind)
        if rule == "last" and notes:
            found[kind] = [notes[-1].facts]
        elif rule == "all":
            # Of equal notes the newest counts, because readers rely on the order of notes.
            newest = {json.dumps(note.facts, sort_keys=True): note.facts for note in reversed(notes)}
            found[kind] = list(reversed(newest.values()))
    return found


def _seen_notes(
    view: View, kept: Sequence[Item], more: Sequence[Noted], *, summary_id: str, clock: Clock
) -> list[Noted]:
    """Return notes of the instructions and the date that the model sees after the compaction.

    Text in kept items comes after the summary and therefore counts more.
    """
    kept_ids = {item.record_id for item in kept}
    attached = {one.id for one in view.records if isinstance(one, Said) and one.meta} & kept_ids
    later = [
        note
        for kind in (INSTRUCTIONS, DAY)
        for note in view.noted(kind)
        if note.fact(RECORD) in attached or (note.fact(INSIDE) and note.fact(RECORD) in kept_ids)
    ]
    seen = digests_in(note for note in more if note.kind == INSTRUCTIONS)
    seen |= digests_in(note for note in later if note.kind == INSTRUCTIONS)
    days = [note.fact("date") for notes in (more, later) for note in notes if note.kind == DAY]
    days = days or [note.fact("date") for note in view.noted(DAY)[-1:]]
    facts: dict[str, JsonObject] = {}
    if seen or view.last_noted(INSTRUCTIONS):
        facts[INSTRUCTIONS] = {"files": {**seen}, WHOLE: True, RECORD: summary_id}
    if days:
        facts[DAY] = {"date": days[-1], RECORD: summary_id}
    return [Noted(id=clock.new_id(), at=clock.now(), kind=kind, facts=one) for kind, one in facts.items()]


LISTED = tuple(
    f"foreign/{name}"
    for name in (
        "custom-title", "ai-title", "tag", "agent-name", "agent-color", "agent-setting", "mode",
        "worktree-state", "pr-link", "last-prompt",
    )
)  # fmt: skip
"""Notes that session lists show; other programs look for them only at the end of a log."""


def listed_again(view: View, clock: Clock) -> tuple[Noted, ...]:
    """Return title, tags and similar notes to append after a compaction, unchanged."""
    last = (view.last_noted(kind) for kind in LISTED)
    return tuple(replace(note, id=clock.new_id(), at=clock.now()) for note in last if note)
