"""Tie layers 3 and 4 to a session: who writes summaries and notes, what is read again, who is told."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

from nacre.agents.background import Background
from nacre.agents.carrying import listed_again
from nacre.agents.collapsing import join_collapsing
from nacre.agents.compacting import SHRUNK_TAIL_SHARE, Compacting
from nacre.agents.compacting_crew import AUTOMATIC, Compaction, Crew, Wish
from nacre.agents.compacting_disk import FOLDER, Desk
from nacre.agents.compacting_provider import CompactingThere, compacts_there, join_compaction_there
from nacre.agents.forking import Forker
from nacre.agents.hands import Hands
from nacre.agents.hooks import Hooks
from nacre.agents.kept import LogKeeper
from nacre.agents.noting import Noting, join_noting
from nacre.agents.preparing import Preparation
from nacre.agents.restore import Restorer
from nacre.agents.session import Session
from nacre.agents.shelving import shelf_in
from nacre.agents.siding import player
from nacre.errors import SummaryRejected
from nacre.layers.l3_notes.draft import kept_from
from nacre.layers.l4_compact.policy import COMPACTION, CompactSettings, past
from nacre.layers.l4_compact.summarise import Part, before_pivot
from nacre.layers.l4_compact.summarise import summarise as ask_for
from nacre.loop.fork import Fork
from nacre.messages.blocks import Text
from nacre.messages.facts import Facts
from nacre.messages.pairing import Item
from nacre.messages.records import Noted
from nacre.messages.rounds import tail_from
from nacre.messages.summary import Draft, Fragment
from nacre.messages.view import View
from nacre.settings import Settings
from nacre.tools.rules import Rule

HOOK_GRACE_SECONDS = 60.0
"""What a command may take when the session ends right after: as long as it may take at all."""


@dataclass(frozen=True, slots=True)
class Staff:
    """Everybody a session has that a compaction can make use of."""

    hands: Hands
    forker: Forker
    restorer: Restorer
    hooks: Hooks | None = None

    @property
    def background(self) -> Background:
        return self.forker.background

    @property
    def fork(self) -> Fork | None:
        """None without a model: rules do."""
        return self.forker if self.forker.has_model else None


def join_compacting(session: Session, settings: Settings, staff: Staff) -> Compacting:
    """Keep notes of a session and let it be compacted: by itself where that is wanted, by hand always."""
    keeper = session.keeper if isinstance(session.keeper, LogKeeper) else None
    folder = keeper.folder if keeper else None
    desk = Desk(folder=folder, log=keeper.path if keeper else None, shelf=shelf_in(folder))
    if folder is not None and keeper is not None:
        staff.hands.open_to([folder / FOLDER])
        # What a summary points to may be read without a question.
        rule = Rule("allow", "Read", f"//{str(keeper.path.resolve()).lstrip('/')}", "this session's log")
        staff.hands.guard.policy = staff.hands.guard.policy.with_rules([rule])
    writer = player(settings.roles.notes, staff.forker, settings)
    noting = join_noting(session, settings, folder=folder, background=staff.background, fork=writer)
    compacting = Compacting(
        session,
        settings=settings.compaction,
        crew=_crew(session, settings, staff, noting),
        desk=desk,
        is_automatic=settings.switches.compact,
    )
    compacting.yields_to = join_collapsing(session, settings, staff.background, staff.fork)
    session.ladder.append(compacting)
    session.on_heard.append(compacting.prepare)
    return compacting


def _crew(session: Session, settings: Settings, staff: Staff, noting: Noting | None) -> Crew:
    summarise, given = _summariser(session, settings, staff), settings.compaction
    ahead = None
    if summarise is not None and settings.switches.compact_prepare:
        ahead = _preparation(session, summarise, staff.background, given.summary_seconds)
    crew = Crew(
        summarise=summarise,
        preparation=ahead,
        restore=partial(_restored, staff.restorer, given),
        carry=staff.restorer.carry,
        tasks=lambda: str(staff.hands.board) if staff.hands.board.tasks else "",
        after=partial(_settle, session, staff),
    )
    if noting is not None and settings.switches.notes_compact:
        crew = replace(crew, notes=partial(_noted, noting), wait_for_notes=noting.wait)
    if staff.hooks is not None:
        crew = replace(
            crew,
            before=partial(_allowed, session, staff.hooks),
            begun=partial(staff.hooks.session_start, "compact"),
        )
    return crew


def _noted(noting: Noting, view: View) -> Draft | None:
    draft = noting.draft(view)
    if draft is None or draft.covers is None:
        return draft
    return replace(draft, place=kept_from(view, draft.covers, noting.settings))


Summarise: TypeAlias = Callable[[View, Wish, Facts], Awaitable[Draft]]


def _summariser(session: Session, settings: Settings, staff: Staff) -> Summarise | None:
    """Who is asked for summaries: the provider for its own, where that is wanted; then a model."""
    fork, given = player(settings.roles.compact, staff.forker, settings), settings.compaction
    join_compaction_there(session, settings)
    if fork is None:
        return None
    there = None
    if compacts_there(session, settings):
        record = staff.background.record
        there = CompactingThere(session, staff.forker.provider, settings=given, record=record)

    async def summarise(view: View, wish: Wish, facts: Facts) -> Draft:
        most = min(given.tail_tokens, int(view.estimate * SHRUNK_TAIL_SHARE))
        place = wish.span.keeps_from or tail_from(view.items, most)
        if there is not None and place and not wish.span.first:
            with suppress(SummaryRejected):
                return await there(before_pivot(view, place), focus=wish.focus)
        words = [one.text for one in facts.words]
        part = _part(view, wish)
        return await ask_for(view, fork, focus=wish.focus, words=words, settings=given, part=part)

    return summarise


def _part(view: View, wish: Wish) -> Part:
    span = wish.span
    if span.first:
        return Part("from", view.items[span.first].record_id)
    if span.keeps_from is not None and span.keeps_from < len(view.items):
        return Part("up_to", view.items[span.keeps_from].record_id)
    return Part()


def _preparation(
    session: Session, summarise: Summarise, background: Background, seconds: float
) -> Preparation:
    async def make(view: View) -> Draft:
        async with asyncio.timeout(seconds):
            draft = await summarise(view, AUTOMATIC, Facts.of(view.records))
        return draft if draft.covers else replace(draft, covers=view.items[-1].record_id)

    waiting: list[Noted] = []
    """Failures that the log does not know of before the next boundary."""

    def failed(error: Exception) -> None:
        clock, there = session.clock, {note.id for note in session.view.noted(COMPACTION)}
        waiting[:] = [note for note in waiting if note.id not in there]
        then = past(session.view)
        failures = then.failures + len(waiting) + 1
        facts = replace(then, failures=failures).as_json() | {"reason": str(error)}
        waiting.append(Noted(id=clock.new_id(), at=clock.now(), kind=COMPACTION, facts=facts))
        background.record(waiting[-1])

    return Preparation(background, make, failed=failed)


async def _restored(
    restorer: Restorer, settings: CompactSettings, kept: Sequence[Item], tokens: int
) -> Sequence[Fragment]:
    return await restorer.fragments(kept, tokens=tokens, settings=settings)


async def _allowed(session: Session, hooks: Hooks, wish: Wish) -> str | None:
    said = await hooks.pre_compact(wish.trigger, wish.focus)
    if said.blocked is not None:
        session.tell(f"A PreCompact hook does not allow a compaction: {said.blocked}")
        return None
    return said.focus


def _settle(session: Session, staff: Staff, done: Compaction) -> None:
    """What no longer stands in view is unseen, the title stands behind the boundary again, hooks are told."""
    staff.restorer.settle()
    staff.background.record(*listed_again(session.view, session.clock))
    if staff.hooks is not None:
        summary = "\n\n".join(block.text for block in done.record.summary if isinstance(block, Text))
        work = staff.hooks.post_compact(done.trigger, summary)
        staff.background.start("hooks", work, grace=HOOK_GRACE_SECONDS)
