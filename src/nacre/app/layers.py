"""Adds the first layers of a session, in the order in which the model reads what they attach."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType

from nacre.agents.toolset import Toolset
from nacre.app.recall_once import drift_of
from nacre.app.startup_context import StartupContext
from nacre.app.toolset import own_tools
from nacre.context.environment import CurrentDate
from nacre.context.instruction_updates import InstructionUpdates
from nacre.context.plan import Plan
from nacre.context.recall import PURPOSE, Recall, RecallOptions, RecallStats, Selector
from nacre.context.skill_list import NAME, SKILLS, Skills
from nacre.errors import StoreError
from nacre.hooks.layer import EVENTS, HookLayer
from nacre.hooks.points import HookContext, Hooks
from nacre.hooks.table import LEAVE_SECONDS, NO_HOOKS, parse_hooks
from nacre.hooks.tool_layer import add_tool_hooks
from nacre.layers.l1_offload.layer import Offload
from nacre.layers.l1_offload.offload import OFFLOAD
from nacre.layers.l1_offload.references import READER
from nacre.layers.l2_microcompact.layer import Microcompact
from nacre.memory.recall.drift.words import WordCache
from nacre.memory.recall.local_index import LocalIndex
from nacre.memory.recall.semantic.meaning import meaning
from nacre.providers.choose import build, choose, leaves_machine, small_model
from nacre.session.agent import SessionAgent
from nacre.session.background import Background
from nacre.session.cache_warming import KeepWarm, Sleep
from nacre.session.forks import ForkRunner
from nacre.session.session import Session
from nacre.session.session_log import NullRecordWriter, SessionLogWriter
from nacre.session.spending import Spending
from nacre.settings import Settings
from nacre.store.tool_results import CLEARED, result_folders_named, result_store_in
from nacre.tools.base import Tool
from nacre.tools.tasks import TaskBoard
from nacre.tools.workspace import Workspace

RECALL_DRIFT_SECONDS = 0.010
"""Of the 20 ms that recall may take of a turn: of what is not reached in it is said that nobody checked."""


def join(session: Session, known: StartupContext, hands: Toolset, *, leaves: bool) -> None:
    """Tie everything that was opened for a session to it; `leaves` as in `recollect`."""
    known.witness.attend(session.transcript)
    session.telemetry.hides_words = not leaves
    if leaves:
        session.redactor = known.stays
    session.layers.append(CurrentDate(session.clock))
    if known.instructions is not None:
        session.layers.append(InstructionUpdates(known.instructions, hands.workspace, session.view))


def join_layers(
    session: Session, hands: Toolset, settings: Settings, *, tools: Sequence[Tool], folder: Path | None
) -> None:
    """Let the layers that are switched on make the view smaller, cheapest first, with files in `folder`."""
    join_offloading(session, settings, hands, tools=tools, folder=folder)
    join_clearing(session, settings, hands, tools=tools, folder=folder)


async def join_recall(
    session: Session,
    known: StartupContext,
    hands: Toolset,
    settings: Settings,
    stack: AsyncExitStack,
    *,
    leaves: bool,
) -> Recall | None:
    """Let recall add memories to the messages of a session, if there are any and it is switched on (R1)."""
    if not (known.memories and settings.switches.recall):
        return None
    keeps = bool(known.session)
    rankers = [
        LocalIndex(
            one.location.directory,
            one.location.cache,
            writes=keeps,
            meaning=meaning(one.location.cache, writes=keeps),
            clock=session.clock,
        )
        for one in known.memories
    ]
    for ranker in rankers:
        stack.callback(ranker.close)
    words = WordCache(known.memories[0].location.cache, settings.project_root)
    checked = drift_of(settings, words, budget_seconds=RECALL_DRIFT_SECONDS)
    aid = RecallOptions(
        drift=checked if settings.switches.drift_check else None,
        words=words if keeps else None,
        selector=_selector(session, settings, stack),
        counting=RecallStats(known.memories, known.session, session.clock) if keeps else None,
    )
    recaller = Recall(rankers, hands.workspace, session.clock, aid=aid, hides_local=leaves)
    session.layers.append(recaller)
    stack.push_async_callback(recaller.close)
    await recaller.warm()
    return recaller


def _selector(session: Session, settings: Settings, stack: AsyncExitStack) -> Selector | None:
    """The small model that chooses, where one is named, or where the person wants it and there is one."""
    wanted = settings.switches.recall_selector
    named = settings.roles.select or settings.small_model
    if wanted is False or (wanted == "auto" and named is None):
        return None
    choice = choose(named or small_model(choose(settings.model, settings.environ)), settings.environ)
    if choice.provider_name == "embedded":
        return None
    provider = build(choice, settings.environ)
    stack.push_async_callback(provider.close)
    return Selector(
        provider=session.telemetry.aside(provider, PURPOSE),
        model=choice.model,
        pay=session.add_usage,
        leaves=leaves_machine(choice, settings.environ),
    )


def join_offloading(
    session: Session, settings: Settings, hands: Toolset, *, tools: Iterable[Tool], folder: Path | None
) -> None:
    """Let large results of a session go to its folder and be read there, unless that is switched off.

    An agent without Read could not get at them again: there, long results stay in the conversation.
    """
    if not settings.switches.offload:
        return
    tools = tuple(tools)
    can_read = any(one.name == READER for one in tools)
    shelf = result_store_in(folder if can_read else None)
    own = {one.name: one.max_result_chars for one in tools if one.max_result_chars is not None}
    session.layers.append(Offload(shelf, settings.offload, own=own))
    named = (str(Path(str(note.fact("path"))).parent) for note in session.view.noted(OFFLOAD))
    hands.open_to(result_folders_named(named, settings.home) | ({shelf.folder} if shelf.folder else set()))


def join_clearing(
    session: Session, settings: Settings, hands: Toolset, *, tools: Iterable[Tool], folder: Path | None
) -> None:
    """Let old results of a session be cleared, as far as that is switched on; `folder` is the session's."""
    usual = settings.microcompact
    if not settings.switches.clear_idle:
        return
    chosen = replace(usual, tools=usual.tools | {one.name for one in tools if one.clearable})
    shelf = result_store_in(folder)
    session.layers.append(Microcompact(session, shelf, chosen))
    named = result_folders_named((note.fact("folder") for note in session.view.noted(CLEARED)), settings.home)
    hands.open_to(named | ({shelf.folder} if shelf.folder else set()))


def join_hooks(session: Session, settings: Settings, hands: Toolset, stack: AsyncExitStack) -> Hooks:
    """Let the person's commands take part in a session; in bare mode there are none.

    They are told of its end when the stack is left, behind whatever joins it later.
    """
    table = NO_HOOKS if settings.memory.simple else parse_hooks(settings.hooks)
    writer = session.writer if isinstance(session.writer, SessionLogWriter) else None
    root = str(settings.project_root)
    place = HookContext(
        session_id=session.id,
        cwd=settings.cwd,
        transcript=writer.path if writer else None,
        environ={**settings.environ, "NACRE_PROJECT_DIR": root, "CLAUDE_PROJECT_DIR": root},
        shelf=result_store_in(writer.folder if writer else None),
        mode=lambda: hands.guard.policy.mode,
    )
    hooks = Hooks(table, place, notify=session.notify)
    for line in table.notices:
        session.notify(line, "warning")
    hooks.source = "resume" if session.view.items else "startup"
    if table.groups or table.notices:
        hands.open_to({place.shelf.folder} if place.shelf.folder else ())
        _attend(session, hooks, stack)
        add_tool_hooks(session, hooks, lambda: hands.workspace.cwd)
    return hooks


def _attend(session: Session, hooks: Hooks, stack: AsyncExitStack) -> None:
    async def leave(
        kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Who is stopped, or stops a second time, must not wait for as long as a command would like.
        is_hurried = kind is not None and not issubclass(kind, Exception)
        await hooks.session_end(hooks.ending, at_most=LEAVE_SECONDS if is_hurried else None)

    if any(map(hooks.waits_at, EVENTS)):
        session.layers.append(HookLayer(session, hooks))
    if hooks.waits_at("SessionEnd"):
        stack.push_async_exit(leave)


async def supervised(agent: SessionAgent, settings: Settings, stack: AsyncExitStack) -> Background:
    """A supervisor for an agent's session: it records at its boundaries and is drained with the stack."""
    session = agent.session
    is_kept = not isinstance(session.writer, NullRecordWriter)
    spending = Spending(session, settings.spend, home=settings.home if is_kept else None)
    await spending.settle()
    background = Background(session, spending)
    session.layers.append(background)
    stack.push_async_callback(spending.settle)
    stack.push_async_exit(background.leave)
    return background


async def join_forks(
    agent: SessionAgent,
    hands: Toolset,
    settings: Settings,
    stack: AsyncExitStack,
    *,
    shared: Sequence[Tool] = (),
) -> ForkRunner:
    """Let work go on beside an agent's turns: forks of it, under one supervisor, within what it may cost.

    `shared` are tools that forks use as they are, because they belong to no workspace. Leaving the stack
    waits for the work that goes on.
    """
    background = await supervised(agent, settings, stack)

    def make(workspace: Workspace) -> Sequence[Tool]:
        return [*own_tools(settings, workspace, TaskBoard(hands.board.tasks)), *shared]

    tools = tuple(agent.tools.values())
    forker = ForkRunner(
        agent.session, agent.provider, tools, guard=hands.guard, background=background, make=make
    )
    agent.session.layers.append(forker)
    return forker


def join_skills(session: Session, hands: Toolset, *, tools: Sequence[Tool]) -> None:
    """Tell a session of its skills, where it has the tool for them, or was told of some before."""
    is_offered = any(one.name == NAME for one in tools)
    if hands.skills is None or not (is_offered or session.view.noted(SKILLS)):
        return
    session.layers.append(Skills(session, hands.skills, is_offered=is_offered))


async def join_planning(session: Session, hands: Toolset, folder: Path | None) -> Plan:
    """Let a session have a plan, which the model may read and change without a question."""
    planning = Plan(session, folder, hands.workspace)
    if planning.path is not None:
        hands.allow(planning.path, tools=["Read", "Edit"], why="this session's plan")
    try:
        await planning.inherit()
    except StoreError as error:
        session.notify(f"no plan: {error}")
    session.layers.append(planning)
    return planning


@asynccontextmanager
async def kept_warm(
    agent: SessionAgent, settings: Settings, *, sleep: Sleep = asyncio.sleep
) -> AsyncIterator[KeepWarm | None]:
    """Between the requests of this agent, refresh the cache where that pays; not where it is switched off."""
    if settings.switches.keep_warm is False:
        yield None
        return
    warmer = KeepWarm(agent.session, agent.provider, settings=settings.keep_warm, sleep=sleep)
    session = agent.session
    session.keep_warm = warmer.settings
    session.layers.append(warmer)
    try:
        yield warmer
    finally:
        session.layers.remove(warmer)
        await warmer.rest()
