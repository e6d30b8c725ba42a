"""Adds the layers that a model can work for: notes, compaction, extraction and consolidation (layers 3 to 6).

The model is a fork of the session, or another one from the settings; without a model, they work by rule (F7).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from nacre.agents.toolset import Toolset
from nacre.app.restored_context import SessionRestorer
from nacre.app.startup_context import StartupContext
from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.errors import AuthError, InvalidRequest, NacreError
from nacre.hooks.points import Hooks
from nacre.layers.l3_notes.layer import Notes
from nacre.layers.l3_notes.notes import NotesFile
from nacre.layers.l3_notes.policy import is_wanted
from nacre.layers.l3_notes.template import NotesForm
from nacre.layers.l4_compact.layer import Compact, Summarise
from nacre.layers.l4_compact.overflow_files import FOLDER, OverflowFiles
from nacre.layers.l4_compact.policy import COMPACTION, compaction_history
from nacre.layers.l5_extract.policy import ExtractEnvironment, is_enabled
from nacre.layers.l6_dream.layer import Dream, DreamTarget, dream_model
from nacre.layers.l6_dream.state import recover
from nacre.loop.fork import PARTICIPANT, Fork, ForkResult, ForkTask
from nacre.memory.memory import Memory
from nacre.messages.draft import Draft
from nacre.messages.facts import Facts
from nacre.messages.records import Noted
from nacre.messages.view import View
from nacre.providers.base import Provider
from nacre.providers.choose import (
    build,
    choose,
    is_remote_model,
)
from nacre.session.agent import SessionAgent
from nacre.session.background import Background
from nacre.session.compaction import AUTOMATIC, CompactionRequest
from nacre.session.forks import ForkRunner, is_cheaper_aside
from nacre.session.log_writer import SessionLogWriter
from nacre.session.session import Session
from nacre.settings import Settings
from nacre.store.tool_results import result_store_in
from nacre.tools.rules import PermissionRule

if TYPE_CHECKING:
    from nacre.layers.l4_compact.prefetch_summary import SummaryPrefetch
    from nacre.layers.l5_extract.layer import Extract
    from nacre.layers.l6_dream.with_model import DreamModel


@dataclass(frozen=True, slots=True)
class Side:
    """Another model, called like a fork."""

    forks: ForkRunner
    provider: Provider
    model: str

    async def __call__(self, task: ForkTask) -> ForkResult:
        return await self.forks.side(task, self.provider, self.model)


@dataclass(slots=True)
class CheaperModel:
    """Runs each task as a fork of the session or on a small model, whichever costs less (F7)."""

    side: Side
    is_refused: bool = False
    """The provider does not serve the small model, or not with this key."""

    async def __call__(self, task: ForkTask) -> ForkResult:
        participant = PARTICIPANT.get()
        return await (participant.run(task, self._run) if participant is not None else self._run(task))

    async def _run(self, task: ForkTask) -> ForkResult:
        forks = self.side.forks
        if not self.is_refused and is_cheaper_aside(forks.session, task, self.side.model):
            try:
                return await self.side(task)
            except (AuthError, InvalidRequest) as error:
                self.is_refused = True
                main = forks.session.base.model
                forks.session.notify(
                    f"{self.side.model} cannot write notes and memories ({error}); {main} writes them in "
                    "this session, at a higher cost. Set smallModel to another model."
                )
        return await forks(task)


def writer_for_role(
    named: str | None, forks: ForkRunner, settings: Settings, *, small_model: str | None = None
) -> Fork | None:
    """Return what writes notes or memories: the model of the role; without one, the cheaper of two."""
    own = model_for_role(named, forks, settings)
    if named is None and small_model is not None and own is forks:
        small = model_for_role(small_model, forks, settings)
        if isinstance(small, Side):
            return CheaperModel(small)
    return own


def model_for_role(named: str | None, forks: ForkRunner, settings: Settings) -> Fork | None:
    """Return what runs the tasks of a role; None if only rules are available.

    If the session's model is on this machine, no model elsewhere is asked.
    """
    session = forks.session
    if named is None:
        return forks if forks.has_model else None
    choice = choose(named, settings.environ)
    if choice.model == session.base.model:
        return forks if forks.has_model else None
    if choice.provider_name == "embedded":
        return None
    if session.telemetry.hides_words and is_remote_model(choice, settings.environ):
        session.notify(
            f"{named} is not asked: the conversation is with a model on this machine and stays here"
        )
        return forks if forks.has_model else None
    provider = build(choice, settings.environ)
    forks.background.resources.push_async_callback(provider.close)
    return Side(forks, provider, choice.model)


@dataclass(frozen=True, slots=True)
class SessionServices:
    """Parts of a session that other layers are built from."""

    toolset: Toolset
    forks: ForkRunner
    restorer: SessionRestorer
    hooks: Hooks | None = None
    small_model: str | None = None
    """The model that writes notes where it costs less than a fork."""

    @property
    def background(self) -> Background:
        return self.forks.background


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
    writer = writer_for_role(settings.roles.notes, services.forks, settings, small_model=services.small_model)
    add_notes(session, settings, folder=folder, background=services.background, fork=writer)
    summarise = _summariser(settings, services)
    prefetch = None
    if summarise is not None and settings.switches.compact_prepare:
        prefetch = _prefetch(session, summarise, services.background, lambda: compact.summary_seconds)
    compact = Compact(
        settings=settings.compaction,
        summarise=summarise,
        preparation=prefetch,
        restorer=services.restorer,
        tasks=lambda: str(services.toolset.board) if services.toolset.board.tasks else "",
        overflow=overflow,
        is_automatic=settings.switches.compact,
    )
    session.add_layers(compact)
    return compact


def _summariser(settings: Settings, services: SessionServices) -> Summarise | None:
    """Return the function that asks a model for summaries; None without a model."""
    fork = model_for_role(settings.roles.compact, services.forks, settings)
    given = settings.compaction
    if fork is None:
        return None

    async def summarise(view: View, request: CompactionRequest, facts: Facts) -> Draft:
        # Imported here, because most sessions need no summary.
        from nacre.layers.l4_compact.summarise import SummaryPart  # noqa: PLC0415
        from nacre.layers.l4_compact.summarise import summarise as ask_for  # noqa: PLC0415

        words = [one.text for one in facts.words]
        span = request.span
        part = SummaryPart()
        if span.first:
            part = SummaryPart("from", view.items[span.first].record_id)
        elif span.keeps_from is not None and span.keeps_from < len(view.items):
            part = SummaryPart("up_to", view.items[span.keeps_from].record_id)
        return await ask_for(view, fork, focus=request.focus, words=words, settings=given, part=part)

    return summarise


def _prefetch(
    session: Session, summarise: Summarise, background: Background, seconds: Callable[[], float]
) -> SummaryPrefetch:
    from nacre.layers.l4_compact.prefetch_summary import SummaryPrefetch  # noqa: PLC0415 - only with a model

    async def make(view: View) -> Draft:
        async with asyncio.timeout(seconds()):
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
        facts = replace(then, failures=failures).as_json() | {"reason": _reason(error, seconds())}
        waiting.append(Noted(id=clock.new_id(), at=clock.now(), kind=COMPACTION, facts=facts))
        background.record(waiting[-1])

    return SummaryPrefetch(background, make, failed=failed)


def _reason(error: Exception, seconds: float) -> str:
    """Return why a summary failed; a `TimeoutError` has no text of its own."""
    return f"no summary within {seconds:.0f} s" if isinstance(error, TimeoutError) else str(error)


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
        NotesFile.of(folder),
        background=background,
        fork=fork if can_edit else None,
        form=form,
        settings=replace(settings.notes, least_room=settings.compaction.summary_room),
    )
    notes.gives_drafts = settings.switches.notes_compact
    session.add_layers(notes)
    return notes


def add_extract(
    agent: SessionAgent,
    startup: StartupContext,
    settings: Settings,
    services: SessionServices,
    *,
    is_remote: bool,
) -> Extract | None:
    """Add extraction to a session if it is enabled; `is_remote` whether its model is on another machine."""
    forks = services.forks
    memory = startup.memory
    given = settings.memory
    environment = ExtractEnvironment(
        switch=settings.switches.extract is not False,
        is_kept=bool(startup.session),
        is_bare=given.simple,
        is_remote=given.remote,
        is_interactive=settings.is_interactive,
        is_daily=given.mode == "daily",
    )
    if memory is None or not is_enabled(environment, settings.extract):
        return None
    # A single prompt extracts nothing and starts without these.
    from nacre.layers.l5_extract.extract import nothing_hidden  # noqa: PLC0415
    from nacre.layers.l5_extract.layer import Extract, ExtractConfig  # noqa: PLC0415

    async def hidden(one: Memory) -> frozenset[str]:
        return await startup.local_only.files_of(one.location)

    can_write = {"Edit", "Write"} <= agent.tools.keys()
    writer = writer_for_role(settings.roles.extract, forks, settings, small_model=services.small_model)
    config = ExtractConfig(
        memories=[one for one in (startup.team, memory) if one is not None],
        others=[startup.users] if startup.users else [],
        fork=writer if can_write else None,
        origins=startup.origin_tracker,
        hidden=hidden if is_remote else nothing_hidden,
        grounds=settings.switches.grounding,
    )
    layer = Extract(forks.background, config, settings.extract)
    agent.session.add_layers(layer)
    return layer


async def add_dream(
    agent: SessionAgent,
    startup: StartupContext,
    toolset: Toolset,
    settings: Settings,
    forks: ForkRunner,
    stack: AsyncExitStack,
) -> Dream | None:
    """Add consolidation to a session that has a memory and a log, unless it is switched off."""
    session = agent.session
    memory = startup.memory
    if memory is None or not startup.session or settings.switches.dream is False:
        return None
    target = dream_target(settings, memory, session=startup.session, clock=session.clock)
    # Done once here, so that each turn costs one stat. A session starts even if this cannot be written.
    with contextlib.suppress(NacreError, OSError):
        await asyncio.to_thread(recover, memory.location, clock=session.clock)
    # A single prompt does not wait for a model at its end; consolidation by rule takes a moment.
    model = model_for_dream(target, settings, forks, toolset) if settings.is_interactive else None
    layer = Dream(target, forks.background, model, notify=session.notify)
    session.add_layers(layer)
    stack.callback(layer.keep_counts)
    return layer


def dream_target(
    settings: Settings, memory: Memory, *, session: str = "", clock: Clock = SYSTEM_CLOCK
) -> DreamTarget:
    """Return a memory as the target of a dream, with what the settings say about it."""
    return DreamTarget(
        memory=memory,
        home=settings.home,
        root=settings.project_root,
        settings=settings.dream,
        checks_drift=settings.switches.drift_check,
        has_index=settings.memory.index,
        is_daily=settings.memory.mode == "daily",
        is_remote=settings.memory.remote,
        session=session,
        clock=clock,
    )


def model_for_dream(
    target: DreamTarget, settings: Settings, forks: ForkRunner, toolset: Toolset
) -> DreamModel | None:
    """Return the model for a dream; None if only rules are available (F7)."""
    fork = model_for_role(settings.roles.dream, forks, settings)
    base = forks.session.base
    if fork is None or not any(tool["name"] == "Write" for tool in base.tools):
        return None
    return dream_model(target, fork, settings.roles.dream or base.model, toolset.workspace)
