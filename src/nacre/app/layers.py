"""Adds layers to a session as the settings say; the order of the calls is the order of the layers."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType

from nacre.agents.toolset import Toolset
from nacre.agents.types import AgentTypes
from nacre.app.build_toolset import FROM_SERVERS, own_tools
from nacre.app.recall_once import choose_selector, drift_of
from nacre.app.restored_context import forget_hidden
from nacre.app.startup_context import StartupContext
from nacre.clock import Clock
from nacre.context.environment import CurrentDate, git_branch
from nacre.context.instruction_updates import InstructionUpdates
from nacre.context.mcp_instructions import MCP_INSTRUCTIONS, McpInstructions
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
from nacre.memory.files.location import Location
from nacre.memory.files.scan import scan
from nacre.memory.files.transaction import refresh
from nacre.memory.recall.drift.words import WordCache
from nacre.memory.recall.local_index import LocalIndex
from nacre.memory.recall.recall import MAX_VIEW_BYTES
from nacre.providers.choose import ModelChoice, build, choose, is_remote_model
from nacre.session.agent import SessionAgent
from nacre.session.background import Background
from nacre.session.forks import ForkRunner
from nacre.session.log_writer import NullRecordWriter, SessionLogWriter
from nacre.session.session import Session
from nacre.session.spending import Spending
from nacre.settings import Settings
from nacre.store.tool_results import CLEARED, result_folders_named, result_store_in
from nacre.tools.base import Tool
from nacre.tools.tasks import TaskBoard
from nacre.tools.tool_search import SEARCH
from nacre.tools.workspace import Workspace

RECALL_DRIFT_SECONDS = 0.010
"""Of the 20 ms that recall may take; entries that are not reached in time count as unchecked."""


USUAL_BRANCHES = frozenset({"", "main", "master", "trunk", "develop", "dev"})
"""Names of branches that say nothing."""


def add_startup_layers(
    session: Session, startup: StartupContext, toolset: Toolset, *, is_remote: bool
) -> None:
    """Add the date and the instructions, and redaction if requests leave this machine."""
    startup.origin_tracker.attend(session.transcript)
    startup.origin_tracker.notify = session.notify
    session.telemetry.hides_words = not is_remote
    if is_remote:
        session.redactor = startup.local_only
    session.add_layers(CurrentDate(session.clock))
    if startup.instructions is not None:
        session.add_layers(InstructionUpdates(startup.instructions, toolset.workspace, session.view))


def has_outside_context(
    session: Session,
    startup: StartupContext,
    settings: Settings,
    toolset: Toolset,
    *,
    tools: Sequence[Tool],
    types: AgentTypes,
) -> bool:
    """Whether the prompt has text of MCP servers, of the team or of an untrusted project."""
    if any(one.name.startswith(FROM_SERVERS) for one in tools):
        return True
    if startup.team is not None and scan(startup.team.location.directory).entries:
        return True
    if settings.is_trusted:
        return False
    updates = session.layer(InstructionUpdates)
    files = updates.current.all_files if updates else ()
    registry = toolset.bindings.skills
    skills = registry.look().values() if registry else ()
    root = Path(os.path.realpath(settings.project_root))
    home = Path(os.path.realpath(settings.home))
    own = [*(one.folder for one in skills), *(one.origin for one in types.custom if one.origin)]
    real = [Path(os.path.realpath(one)) for one in own]
    if any(one.kind in {"project", "local"} for one in files):
        return True
    if any(one.is_relative_to(root) and not one.is_relative_to(home) for one in real):
        return True
    # The prompt names the branch, and whoever made the repository chose its name.
    return git_branch(settings.cwd) not in USUAL_BRANCHES


def add_result_layers(
    session: Session, toolset: Toolset, settings: Settings, *, tools: Sequence[Tool], folder: Path | None
) -> None:
    """Add offloading and microcompaction, with files in the session's folder."""
    add_offload(session, settings, toolset, tools=tools, folder=folder)
    add_microcompact(session, settings, toolset, tools=tools, folder=folder)


def has_remote_model(choice: ModelChoice | None, settings: Settings) -> bool:
    """Whether requests leave this machine; assumed of a provider that the caller brought."""
    if choice is None:
        return True
    named = settings.fallback_model
    choices = [choice, *([choose(named, settings.environ)] if named else [])]
    return any(is_remote_model(one, settings.environ) for one in choices)


async def add_recall(
    session: Session,
    startup: StartupContext,
    toolset: Toolset,
    settings: Settings,
    stack: AsyncExitStack,
    *,
    choice: ModelChoice | None,
) -> Recall | None:
    """Add recall, if there are memories and it is switched on (R1).

    `choice` is the model that answers, None for a provider that the program brought.
    """
    if not (startup.memories and settings.switches.recall):
        return None
    keeps = bool(startup.session)
    rankers = [
        LocalIndex(
            one.location.directory,
            one.location.cache,
            writes=keeps,
            clock=session.clock,
        )
        for one in startup.memories
    ]
    for ranker in rankers:
        stack.callback(ranker.close)
    copies = [one.location for one in startup.memories if one.location.rows is not None]
    words = WordCache(startup.memories[0].location.cache, settings.project_root)
    checked = drift_of(settings, words, budget_seconds=RECALL_DRIFT_SECONDS)
    options = RecallOptions(
        drift=checked if settings.switches.drift_check else None,
        words=words if keeps else None,
        selector=_selector(session, settings, stack, is_given=choice is None),
        stats=RecallStats(startup.memories, startup.session, session.clock) if keeps else None,
        max_bytes=min(MAX_VIEW_BYTES, session.window) if settings.profile == "small" else MAX_VIEW_BYTES,
        catch_up=partial(_catch_up, copies, session.clock) if copies else None,
    )
    hides_local = has_remote_model(choice, settings)
    recall = Recall(rankers, toolset.workspace, session.clock, options=options, hides_local=hides_local)
    session.add_layers(recall)
    stack.push_async_callback(recall.close)
    await recall.warm()
    return recall


async def _catch_up(copies: Sequence[Location], clock: Clock) -> None:
    for one in copies:
        await refresh(one, clock=clock)


def _selector(
    session: Session, settings: Settings, stack: AsyncExitStack, *, is_given: bool
) -> Selector | None:
    """Return the small model that chooses among candidates, if there is one."""
    choice, _ = choose_selector(settings, is_given=is_given)
    if choice is None:
        return None
    provider = build(choice, settings.environ)
    stack.push_async_callback(provider.close)
    return Selector(
        provider=session.telemetry.aside(provider, PURPOSE),
        model=choice.model,
        seconds=settings.recall.selector_seconds,
        wait_seconds=settings.recall.selector_wait_ms / 1_000,
        on_usage=session.add_usage,
        is_remote=is_remote_model(choice, settings.environ),
    )


def add_offload(
    session: Session, settings: Settings, toolset: Toolset, *, tools: Iterable[Tool], folder: Path | None
) -> None:
    """Add offloading, unless it is switched off; the tools may read the folder without a question.

    An agent without Read could not read the files, so its long results stay in the conversation.
    """
    if not settings.switches.offload:
        return
    tools = tuple(tools)
    can_read = any(one.name == READER for one in tools)
    results = result_store_in(folder if can_read else None, settings.results)
    own = {one.name: one.max_result_chars for one in tools if one.max_result_chars is not None}
    session.add_layers(Offload(results, settings.offload, own=own))
    if results.folder is not None:
        # A process that was killed may have left the beginning of a long result.
        results.sweep()
        toolset.workspace.opens_output = results.open
    named = (str(Path(str(note.fact("path"))).parent) for note in session.view.noted(OFFLOAD))
    toolset.open_to(
        result_folders_named(named, settings.home) | ({results.folder} if results.folder else set())
    )


def add_microcompact(
    session: Session, settings: Settings, toolset: Toolset, *, tools: Iterable[Tool], folder: Path | None
) -> None:
    """Add the clearing of old results, unless it is switched off."""
    usual = settings.microcompact
    if not settings.switches.clear_idle:
        return
    chosen = replace(usual, tools=usual.tools | {one.name for one in tools if one.clearable})
    results = result_store_in(folder)
    # Edits need the text of a file, not the memory of it.
    session.add_layers(Microcompact(results, chosen, on_clear=partial(forget_hidden, toolset.workspace)))
    named = result_folders_named((note.fact("folder") for note in session.view.noted(CLEARED)), settings.home)
    toolset.open_to(named | ({results.folder} if results.folder else set()))


def add_hooks(session: Session, settings: Settings, toolset: Toolset, stack: AsyncExitStack) -> Hooks:
    """Add the person's hooks; bare mode has none. SessionEnd runs when the stack is closed."""
    table = NO_HOOKS if settings.memory.simple else parse_hooks(settings.hooks)
    writer = session.writer if isinstance(session.writer, SessionLogWriter) else None
    root = str(settings.project_root)
    place = HookContext(
        session_id=session.id,
        cwd=settings.cwd,
        transcript=writer.path if writer else None,
        environ={**settings.environ, "NACRE_PROJECT_DIR": root, "CLAUDE_PROJECT_DIR": root},
        results=result_store_in(writer.folder if writer else None),
        mode=lambda: toolset.guard.policy.mode,
    )
    hooks = Hooks(table, place, notify=session.notify)
    for line in table.notices:
        session.notify(line, "warning")
    hooks.source = "resume" if session.view.items else "startup"
    if table.groups or table.notices:
        toolset.open_to({place.results.folder} if place.results.folder else ())
        _attend(session, hooks, stack)
        add_tool_hooks(session, hooks, lambda: toolset.workspace.cwd)
    return hooks


def _attend(session: Session, hooks: Hooks, stack: AsyncExitStack) -> None:
    async def leave(
        kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # An interrupted program does not wait until a slow command has finished.
        is_hurried = kind is not None and not issubclass(kind, Exception)
        await hooks.session_end(hooks.ending, at_most=LEAVE_SECONDS if is_hurried else None)

    if any(map(hooks.waits_at, EVENTS)):
        session.add_layers(HookLayer(session, hooks))
    if hooks.waits_at("SessionEnd"):
        stack.push_async_exit(leave)


async def add_background(agent: SessionAgent, settings: Settings, stack: AsyncExitStack) -> Background:
    """Add the supervisor of background work; closing the stack waits for what is running."""
    session = agent.session
    is_kept = not isinstance(session.writer, NullRecordWriter)
    folder = session.writer.folder if isinstance(session.writer, SessionLogWriter) else None
    spending = Spending(session, settings.spend, home=settings.home if is_kept else None, folder=folder)
    await spending.settle()
    background = Background(session, spending)
    background.quiet_seconds = settings.background.quiet_seconds or 0.0
    background.idle_seconds = settings.background.idle_seconds
    session.add_layers(background)
    stack.push_async_callback(spending.settle)
    stack.push_async_exit(background.leave)
    return background


async def add_background_and_forks(
    agent: SessionAgent,
    toolset: Toolset,
    settings: Settings,
    stack: AsyncExitStack,
    *,
    shared: Sequence[Tool] = (),
) -> ForkRunner:
    """Add forks of an agent's session, which run in the background within a spending limit.

    Forks use the `shared` tools and ToolSearch as they are, because these belong to no workspace.
    """
    background = await add_background(agent, settings, stack)

    def make(workspace: Workspace) -> Sequence[Tool]:
        return [*own_tools(settings, workspace, TaskBoard(toolset.board.tasks)), *shared, *search]

    tools = tuple(agent.tools.values())
    search = [one for one in tools if one.name == SEARCH]
    forks = ForkRunner(
        agent.session, agent.provider, tools, guard=toolset.guard, background=background, make=make
    )
    agent.session.add_layers(forks)
    return forks


def add_tool_instructions(session: Session, toolset: Toolset, *, tools: Sequence[Tool]) -> None:
    """Add the list of skills and the instructions of MCP servers, as far as the agent has their tools.

    What an earlier process attached is in the log; the layers then tell the model that it is gone.
    """
    is_offered = any(one.name == NAME for one in tools)
    skills = toolset.bindings.skills
    if skills is not None and (is_offered or session.view.noted(SKILLS)):
        session.add_layers(Skills(session, skills, is_offered=is_offered))
    names = {one.name for one in tools}
    instructions = {one.server: one.text for one in toolset.server_instructions if one.tools & names}
    if instructions or session.view.noted(MCP_INSTRUCTIONS):
        session.add_layers(McpInstructions(instructions))


async def add_plan(session: Session, toolset: Toolset, folder: Path | None) -> Plan:
    """Add the plan, which the model may read and change without a question."""
    plan = Plan(folder, toolset.workspace)
    if plan.path is not None:
        toolset.allow(plan.path, tools=["Read", "Edit"], why="this session's plan")
    session.add_layers(plan)
    try:
        await plan.inherit()
    except StoreError as error:
        session.notify(f"no plan: {error}")
    return plan
