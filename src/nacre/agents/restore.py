"""What a compaction gets back, read again now: opening, rules, files, and what others bring (C21).

Nothing changes while it is read. `settle`, once the compaction is in the log, makes the workspace forget what
the model no longer sees; `carry` gives the notes that say what it was told again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import replace

from nacre import prompts
from nacre.agents.announcing import Announcer
from nacre.agents.hands import Hands
from nacre.agents.knowing import Known, context_of
from nacre.agents.restoration import Restored, Restorer, cut, within
from nacre.agents.restored_files import FileReader, visible_in
from nacre.agents.riding import DAY, INSTRUCTIONS, RECORD, WHOLE
from nacre.agents.session import OPENING, Session
from nacre.agents.workplace import environment
from nacre.errors import StoreError
from nacre.memory.instructions import Instructions, digests
from nacre.memory.opening import render_again, render_context
from nacre.messages.blocks import JsonObject
from nacre.messages.pairing import Item
from nacre.messages.records import Noted
from nacre.messages.summary import Fragment
from nacre.messages.tokens import estimate_text
from nacre.settings import Settings

RESTORED_OPENING = prompts.load(__package__, "restored_opening")


class SessionRestorer(Restorer):
    """Reads the opening, the rules and recently read files again as well; owned by one session."""

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
        super().__init__(session)
        self._workspace = hands.workspace
        self._known = known
        self._settings = settings
        self._announcer = announcer
        self._leaves = leaves
        self._files = FileReader(hands, known, settings, leaves=leaves)

    async def fragments(self, kept: Sequence[Item], tokens: int) -> list[Fragment]:
        """All that comes back beside these items, within so many tokens; files are the first to be cut."""
        instructions = await self._instructions()
        seen = self._workspace.recently_seen()
        day = self._session.clock.now().astimezone().date().isoformat()
        opening = [] if self._stands_open(kept) else [await self._opening(instructions, tokens)]
        rules = [_rules(instructions)] if instructions else []
        first = within([*opening, *rules], tokens)
        room = tokens - _tokens(first)
        others = await self._from_layers(kept, room)
        room -= _tokens(others)
        told = instructions.all_files if instructions else ()
        visible = visible_in(kept, self._workspace)
        wanted = [path for path in seen if path not in visible]
        files = await self._files.read(
            wanted, tokens=room, settings=self._settings.compaction, without={one.real for one in told}
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
        text = "\n".join(part for part in (RESTORED_OPENING, cut(context, room), where) if part)
        return Fragment(kind="opening", name="opening", text=text)


def join_restoring(
    session: Session, known: Known, hands: Hands, settings: Settings, *, leaves: bool
) -> SessionRestorer:
    """The restorer of a session whose layers have joined; `leaves` as in `recollect`."""
    announcer = session.layer(Announcer)
    return SessionRestorer(session, hands, known, settings, announcer=announcer, leaves=leaves)


def _rules(instructions: Instructions) -> Fragment:
    return Fragment(kind="rules", name="rules", text=render_again(instructions.later))


def _tokens(fragments: Iterable[Fragment]) -> int:
    return sum(estimate_text(one.text) for one in fragments)
