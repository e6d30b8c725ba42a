"""Adds notes and compaction, layers 3 and 4, to a session as the settings say."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from pathlib import Path

from nacre.agents.toolset import Toolset
from nacre.app.model_for_role import model_for_role
from nacre.app.restored_context import SessionRestorer
from nacre.hooks.points import Hooks
from nacre.layers.l3_notes.layer import Notes
from nacre.layers.l3_notes.notes import NotesFile
from nacre.layers.l3_notes.policy import is_wanted
from nacre.layers.l3_notes.template import NotesForm
from nacre.layers.l4_compact.layer import Compact, Summarise
from nacre.layers.l4_compact.overflow_files import FOLDER, OverflowFiles
from nacre.layers.l4_compact.policy import COMPACTION, compaction_history
from nacre.layers.l4_compact.prefetch_summary import SummaryPrefetch
from nacre.layers.l4_compact.summarise import SummaryPart
from nacre.layers.l4_compact.summarise import summarise as ask_for
from nacre.loop.fork import Fork
from nacre.messages.draft import Draft
from nacre.messages.facts import Facts
from nacre.messages.records import Noted
from nacre.messages.view import View
from nacre.session.background import Background
from nacre.session.compaction import AUTOMATIC, CompactionRequest
from nacre.session.forks import ForkRunner
from nacre.session.session import Session
from nacre.session.session_log import SessionLogWriter
from nacre.settings import Settings
from nacre.store.tool_results import result_store_in
from nacre.tools.rules import PermissionRule


@dataclass(frozen=True, slots=True)
class SessionServices:
    """Parts of a session that other layers are built from."""

    toolset: Toolset
    forks: ForkRunner
    restorer: SessionRestorer
    hooks: Hooks | None = None

    @property
    def background(self) -> Background:
        return self.forks.background

    @property
    def fork(self) -> Fork | None:
        """Runs forks; None without a model."""
        return self.forks if self.forks.has_model else None


def add_notes_and_compact(session: Session, settings: Settings, services: SessionServices) -> Compact:
    """Add notes and compaction: automatic if that is switched on, on request always."""
    log_writer = session.writer if isinstance(session.writer, SessionLogWriter) else None
    folder = log_writer.folder if log_writer else None
    overflow = OverflowFiles(
        folder=folder, log=log_writer.path if log_writer else None, store=result_store_in(folder)
    )
    if folder is not None and log_writer is not None:
        services.toolset.open_to([folder / FOLDER])
        # What a summary points to may be read without a question.
        rule = PermissionRule(
            "allow", "Read", f"//{str(log_writer.path.resolve()).lstrip('/')}", "this session's log"
        )
        services.toolset.guard.policy = services.toolset.guard.policy.with_rules([rule])
    writer = model_for_role(settings.roles.notes, services.forks, settings)
    add_notes(session, settings, folder=folder, background=services.background, fork=writer)
    summarise = _summariser(session, settings, services)
    ahead = None
    if summarise is not None and settings.switches.compact_prepare:
        ahead = _preparation(session, summarise, services.background, settings.compaction.summary_seconds)
    compact = Compact(
        session,
        settings=settings.compaction,
        summarise=summarise,
        preparation=ahead,
        restorer=services.restorer,
        tasks=lambda: str(services.toolset.board) if services.toolset.board.tasks else "",
        overflow=overflow,
        is_automatic=settings.switches.compact,
    )
    session.layers.append(compact)
    return compact


def _summariser(session: Session, settings: Settings, services: SessionServices) -> Summarise | None:
    """Return the function that asks a model for summaries; None without a model."""
    fork = model_for_role(settings.roles.compact, services.forks, settings)
    given = settings.compaction
    if fork is None:
        return None

    async def summarise(view: View, request: CompactionRequest, facts: Facts) -> Draft:
        words = [one.text for one in facts.words]
        part = _part(view, request)
        return await ask_for(view, fork, focus=request.focus, words=words, settings=given, part=part)

    return summarise


def _part(view: View, request: CompactionRequest) -> SummaryPart:
    span = request.span
    if span.first:
        return SummaryPart("from", view.items[span.first].record_id)
    if span.keeps_from is not None and span.keeps_from < len(view.items):
        return SummaryPart("up_to", view.items[span.keeps_from].record_id)
    return SummaryPart()


def _preparation(
    session: Session, summarise: Summarise, background: Background, seconds: float
) -> SummaryPrefetch:
    async def make(view: View) -> Draft:
        async with asyncio.timeout(seconds):
            draft = await summarise(view, AUTOMATIC, Facts.of(view.records))
        return draft if draft.covers else replace(draft, covers=view.items[-1].record_id)

    waiting: list[Noted] = []
    """Failures that the log does not know of before the next boundary."""

    def failed(error: Exception) -> None:
        clock = session.clock
        there = {note.id for note in session.view.noted(COMPACTION)}
        waiting[:] = [note for note in waiting if note.id not in there]
        then = compaction_history(session.view)
        failures = then.failures + len(waiting) + 1
        facts = replace(then, failures=failures).as_json() | {"reason": str(error)}
        waiting.append(Noted(id=clock.new_id(), at=clock.now(), kind=COMPACTION, facts=facts))
        background.record(waiting[-1])

    return SummaryPrefetch(background, make, failed=failed)


def add_notes(
    session: Session,
    settings: Settings,
    *,
    folder: Path | None,
    background: Background,
    fork: Fork | None = None,
) -> Notes | None:
    """Keep notes of a session in its folder, if they are wanted and it has one; without a model no `fork`."""
    wanted = is_wanted(
        switch=settings.switches.notes and not settings.memory.simple,
        compacts=settings.switches.compact,
        settings=settings.notes,
    )
    if folder is None or not wanted:
        return None
    form = NotesForm.of(settings.home)
    for problem in form.problems:
        session.notify(problem)
    can_edit = any(tool["name"] == "Edit" for tool in session.base.tools)
    notes = Notes(
        session,
        NotesFile.of(folder),
        background=background,
        fork=fork if can_edit else None,
        form=form,
        settings=settings.notes,
    )
    notes.gives_drafts = settings.switches.notes_compact
    session.layers.append(notes)
    return notes
