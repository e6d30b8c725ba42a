"""What a compaction gets back, read again now: opening, rules, files, and what others bring (C21).

Nothing changes while it is read. `settle`, once the compaction is in the log, makes the workspace forget what
the model no longer sees; `carry` gives the notes that say what it was told again.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TypeAlias

from nacre import prompts
from nacre.agents.announcing import INSTRUCTIONS, WHOLE, Announcer
from nacre.agents.carrying import carried
from nacre.agents.compacting_crew import Crew
from nacre.agents.dating import DAY
from nacre.agents.hands import Hands
from nacre.agents.knowing import Known, context_of
from nacre.agents.restored_files import FileReader, visible_in
from nacre.agents.riding import RECORD
from nacre.agents.session import OPENING, Session
from nacre.agents.workplace import environment
from nacre.errors import NacreError, StoreError
from nacre.layers.l4_compact.policy import CompactSettings
from nacre.memory.instructions import Instructions, digests
from nacre.memory.opening import render_again, render_context
from nacre.messages.blocks import JsonObject
from nacre.messages.pairing import Item
from nacre.messages.records import Noted
from nacre.messages.summary import Fragment
from nacre.messages.tokens import estimate_text
from nacre.messages.view import View
from nacre.settings import Settings
from nacre.tools.workspace import Version

RESTORED_OPENING = prompts.load(__package__, "restored_opening")
RESTORED_OTHER = prompts.load(__package__, "restored_other")
SOURCE_TOKENS = 5_000
"""Of one skill, plan or list of agents: the head of it says what it is for (C21)."""
SOURCES_TOKENS = 25_000
"""Of all of them together (C21)."""
LEAST_TOKENS = 200
"""Less room than this holds no more than the words that say what something is."""
CUT = "[Cut here for want of room; the whole of it is on disk.]"

Source: TypeAlias = Callable[[], Awaitable[Sequence[Fragment]]]
"""Brings what only it knows of, the newest first."""
Carrier: TypeAlias = Callable[[Sequence[Fragment], str], Sequence[Noted]]
"""What the log says from now on, given what came back and the record that holds it."""
_ORDER = {"plan": 0, "agents": 1, "skill": 2}
"""What counts more when there is not room for all that sources bring."""
_CLOSING = re.compile(r"</[a-z-]+>\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """What was read again the last time, and for which kept items."""

    fragments: tuple[Fragment, ...] = ()
    kept: Sequence[Item] = ()
    files: tuple[Path, ...] = ()
    """In the order they were read lately, newest first."""
    whole: Mapping[Path, Version] = field(default_factory=lambda: MappingProxyType({}))
    """Those that stand there to the last line and to the letter, in which version."""
    told: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Which instructions, by path, in which version."""
    day: str = ""
    """The date that the opening names; empty when there is none."""
    seen: frozenset[Path] = frozenset()
    """What the workspace took for seen then."""
    shown: Callable[[Path], str] = str

    @property
    def notice(self) -> str:
        """One line for the person; empty when no file came back."""
        names = ", ".join(self.shown(path) for path in self.files)
        return f"restored {len(self.files)} file{'s' * (len(self.files) != 1)}: {names}" if names else ""

    @property
    def facts(self) -> JsonObject:
        """For the log."""
        return {
            "kinds": [one.kind for one in self.fragments],
            "files": [str(path) for path in self.files],
            "tokens": sum(estimate_text(one.text) for one in self.fragments),
        }


class Restorer:
    """Reads again what a compaction would take away; owned by one session."""

    def __init__(
        self,
        session: Session,
        hands: Hands,
        known: Known,
        settings: Settings,
        *,
        announcer: Announcer | None = None,
        leaves: bool = True,
    ) -> None:
        self.sources: list[Source] = []
        """Skills, plans, running agents: whoever has something of that kind adds itself."""
        self.carriers: list[Carrier] = []
        """Those of them that must know later that it came back."""
        self.keeping: Sequence[Item] = ()
        """What stays in view by itself, for sources that ask."""
        self.last = Restored()
        self._session = session
        self._workspace = hands.workspace
        self._known = known
        self._settings = settings
        self._announcer = announcer
        self._leaves = leaves
        self._files = FileReader(hands, known, settings, leaves=leaves)

    async def fragments(
        self, kept: Sequence[Item], *, tokens: int, settings: CompactSettings
    ) -> list[Fragment]:
        """All that comes back beside these items, within so many tokens; files are the first to be cut."""
        self.keeping = kept
        instructions = await self._instructions()
        seen = self._workspace.recently_seen()
        day = self._session.clock.now().astimezone().date().isoformat()
        opening = [] if self._stands_open(kept) else [await self._opening(instructions, tokens)]
        rules = [_rules(instructions)] if instructions else []
        first = _within([*opening, *rules], tokens)
        room = tokens - _tokens(first)
        others = await _brought(self.sources, room)
        room -= _tokens(others)
        told = instructions.all_files if instructions else ()
        visible = visible_in(kept, self._workspace)
        wanted = [path for path in seen if path not in visible]
        files = await self._files.read(
            wanted, tokens=room, settings=settings, without={one.real for one in told}
        )
        self.last = Restored(
            fragments=(*first, *others, *(one.fragment for one in files)),
            kept=kept,
            files=tuple(one.path for one in files),
            whole={one.path: one.version for one in files if one.version is not None},
            told=digests(told) if opening else {},
            day=day if opening else "",
            seen=frozenset(seen) - visible,
            shown=self._workspace.shown,
        )
        return list(self.last.fragments)

    def carry(self, view: View, summary_id: str, more: Sequence[Noted] = ()) -> tuple[Noted, ...]:
        """The bookkeeping for the record that holds the last fragments; `more` comes on top of it."""
        told = (note for carrier in self.carriers for note in carrier(self.last.fragments, summary_id))
        notes = (*self._notes(summary_id), *told, *more)
        return carried(
            view, summary_id=summary_id, clock=self._session.clock, more=notes, kept=self.last.kept
        )

    def settle(self) -> None:
        """The compaction with the last fragments is in the log: only what stands there counts as seen."""
        last = self.last
        self._workspace.forget(last.seen)
        if last.day and self._announcer is not None:
            self._announcer.restored()
        for path in reversed(last.files):
            if (version := last.whole.get(path)) is not None:
                self._workspace.saw(path, version)

    def _notes(self, summary_id: str) -> list[Noted]:
        """What the log says of the opening from now on."""
        clock, last = self._session.clock, self.last
        if not last.day:
            return []
        record: JsonObject = {RECORD: summary_id}
        told: JsonObject = {"files": {**last.told}, WHOLE: True}
        facts: dict[str, JsonObject] = {OPENING: record, DAY: {"date": last.day, **record}}
        if self._announcer is not None:
            facts[INSTRUCTIONS] = told | record
        return [
            Noted(id=clock.new_id(), at=clock.now(), kind=kind, facts=what) for kind, what in facts.items()
        ]

    async def _instructions(self) -> Instructions | None:
        if self._announcer is None:
            return self._known.instructions
        return await self._announcer.again(self._session.view)

    def _stands_open(self, kept: Sequence[Item]) -> bool:
        """Whether what was said ahead of the conversation stays in view by itself."""
        note = self._session.view.last_noted(OPENING)
        return note is not None and any(item.record_id == note.fact(RECORD) for item in kept)

    async def _opening(self, instructions: Instructions | None, tokens: int) -> Fragment:
        # What came in later stands by itself, behind: it may be cut before anything of this is.
        begun = replace(instructions, later=()) if instructions else None
        known = replace(self._known, instructions=begun)
        try:
            context = await context_of(known, self._settings, leaves=self._leaves)
        except (StoreError, OSError):
            context = render_context(begun)  # memory that cannot be read now is no reason not to go on
        now = self._session.clock.now().astimezone()
        where = await asyncio.to_thread(environment, self._workspace.cwd, now)
        room = tokens - estimate_text(RESTORED_OPENING) - estimate_text(where) - 1
        text = "\n".join(part for part in (RESTORED_OPENING, _cut(context, room), where) if part)
        return Fragment(kind="opening", name="opening", text=text)


def restoring(*sources: Source, carriers: Sequence[Carrier] = ()) -> Crew:
    """For a loop of one's own: what these bring comes back, `Compacting(session, crew=restoring(plan))`.

    `carriers` are told what did, and the log keeps what they say of it.
    """
    last: list[Fragment] = []

    async def restore(kept: Sequence[Item], tokens: int) -> Sequence[Fragment]:
        last[:] = await _brought(sources, tokens)
        return tuple(last)

    def carry(view: View, summary_id: str, own: Sequence[Noted]) -> Sequence[Noted]:
        return [*own, *(note for carrier in carriers for note in carrier(last, summary_id))]

    return Crew(restore=restore, carry=carry)


def join_restoring(
    session: Session, known: Known, hands: Hands, settings: Settings, *, leaves: bool
) -> Restorer:
    """The restorer of a session whose riders have joined; `leaves` as in `recollect`."""
    announcer = next((one for one in session.riders if isinstance(one, Announcer)), None)
    return Restorer(session, hands, known, settings, announcer=announcer, leaves=leaves)


async def _brought(sources: Iterable[Source], tokens: int) -> list[Fragment]:
    """What sources have, framed, each within its bound, the plan first; together within so many tokens."""
    brought: list[Fragment] = []
    for source in sources:
        try:
            brought += await source()
        except (NacreError, OSError):
            continue  # a plan that cannot be read now must not keep a session from going on
    ordered = sorted(brought, key=lambda one: _ORDER.get(one.kind, len(_ORDER)))
    framed = (
        replace(one, text=_cut(prompts.render(RESTORED_OTHER, name=one.name, text=one.text), SOURCE_TOKENS))
        for one in ordered
    )
    return _within(framed, min(tokens, SOURCES_TOKENS))


def _rules(instructions: Instructions) -> Fragment:
    return Fragment(kind="rules", name="rules", text=render_again(instructions.later))


def _within(fragments: Iterable[Fragment], tokens: int) -> list[Fragment]:
    """As many as there is room for, in this order; the last one that fits in part is cut."""
    found: list[Fragment] = []
    for one in fragments:
        if not one.text or tokens < min(LEAST_TOKENS, estimate_text(one.text)):
            continue
        found.append(replace(one, text=_cut(one.text, tokens)))
        tokens -= estimate_text(found[-1].text)
    return found


def _cut(text: str, tokens: int) -> str:
    """The head of it, in whole lines, with a word that there is more."""
    if estimate_text(text) <= tokens:
        return text
    closing = _CLOSING.search(text)
    end = "\n".join([CUT, *([closing[0]] if closing else [])])
    room, lines = tokens - estimate_text(end) - 1, list[str]()
    for line in text.splitlines():
        room -= estimate_text(line) + 1
        if room < 0:
            break
        lines.append(line)
    return "\n".join([*lines, end])


def _tokens(fragments: Iterable[Fragment]) -> int:
    return sum(estimate_text(one.text) for one in fragments)
