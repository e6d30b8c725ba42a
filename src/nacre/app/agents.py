"""Adds agents and mail to a session, and opens its child agents.

A child has its own session, with the permissions and spending limits of its parent. It shares neither the
parent's read files nor its working directory, and the parent gets nothing of it but its report. A teammate in
its own process is opened by `nacre.app.teammate`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from nacre import prompts
from nacre.agents.activity import PURPOSE, ActivityModel, ActivityWatcher
from nacre.agents.mail_room import MailRoom, socket_path
from nacre.agents.registry import AgentRegistry, AgentState, own_process, read_states
from nacre.agents.run import ChildAgent, ChildSpec, ParentAgent
from nacre.agents.team import Team, TeamContext
from nacre.agents.teams import Teams
from nacre.agents.tools import AGENT, AgentRequest
from nacre.agents.toolset import ToolBindings, Toolset
from nacre.agents.types import INHERIT, SMALL, AgentType, agent_types
from nacre.app.build_toolset import (
    FROM_SERVERS,
    keep_loaded,
    own_tools,
    skill_places,
    with_deferred,
    with_memory,
)
from nacre.app.layers import add_result_layers, add_startup_layers, add_tool_instructions
from nacre.app.memory_locations import memory_paths
from nacre.app.model_layers import SessionServices, add_notes_and_compact
from nacre.app.restored_context import build_restorer
from nacre.app.startup_context import StartupContext, instructions_context
from nacre.clock import Clock
from nacre.context.environment import environment
from nacre.context.skill_list import SkillRegistry
from nacre.errors import ConfigError, MailError, SessionNotFound, ToolError, TranscriptError
from nacre.layers.l7_mail.letter import MAIN, Letter
from nacre.layers.l7_mail.send_message import NAME as SEND
from nacre.memory.agent_memory import AgentMemory, AgentMemorySpec, agent_memory
from nacre.messages.blocks import JsonObject
from nacre.messages.jsonl_encode import Envelope
from nacre.messages.records import Noted, Record
from nacre.messages.usage import Usage
from nacre.process import is_alive
from nacre.providers.base import Provider
from nacre.providers.choose import ModelChoice, build, choose, is_remote_model, small_model
from nacre.session.agent import SessionAgent
from nacre.session.background import Background
from nacre.session.forks import ForkRunner
from nacre.session.log_writer import (
    MAX_RESUME_BYTES,
    OpenedLog,
    SessionLogWriter,
    agent_log_path,
    close_open_calls,
    marked,
)
from nacre.session.meter import SIDE_QUERY
from nacre.session.session import Base, Session
from nacre.settings import Settings
from nacre.store.session_log import SessionLog
from nacre.tools.base import Tool
from nacre.tools.rules import PermissionRule
from nacre.tools.tasks import TaskBoard
from nacre.tools.tool_search import SEARCH
from nacre.tools.workspace import Workspace

UNFINISHED = "It did not finish: the program ended while it was running. It can be continued."
FRAME = prompts.load(__package__, "agent_frame")
NAMED = prompts.load(__package__, "agent_name")
REMINDER = "<system-reminder>\n{{ text }}\n</system-reminder>"
MEMORY = "memory"
"""Origin of the rules that allow access to a memory to its owner."""


def add_team(
    agent: SessionAgent,
    settings: Settings,
    services: SessionServices,
    startup: StartupContext,
    *,
    folder: Path | None,
    is_remote: bool,
) -> Team | None:
    """Add agents to a session if its model can start some; those of an earlier process do not run.

    `folder` is the session's, `is_remote` as in `load_startup_context`.
    """
    if AGENT not in agent.tools:
        return None
    session = agent.session
    types = agent_types(settings)
    for line in (*types.notices, *types.unknown_tools(agent.tools)):
        session.notify(line)
    registry = AgentRegistry(folder=folder)
    if folder is not None:
        recover(registry, read_states(folder))
    parent = ParentAgent(
        agent=agent,
        toolset=services.toolset,
        settings=settings,
        forker=services.forks,
        folder=folder,
        origins=startup.origin_tracker,
        open_child=open_child,
        check_process_child=check_process_child,
        is_remote=is_remote,
    )
    progress = activity_watcher(session, settings, services.background)
    team = Team(parent, TeamContext(registry=registry, types=types, hooks=services.hooks, progress=progress))
    team.join()
    return team


def recover(registry: AgentRegistry, states: Iterable[AgentState]) -> None:
    """Register the agents of an earlier process; running ones count as not finished."""
    own = own_process()[0]
    for state in states:
        registry.states[state.name] = state
        is_elsewhere = state.pattern == "teammate" and state.pid != own
        if is_elsewhere and is_alive(state.pid, state.process_start):
            continue
        if state.is_running:
            # In the background: a call that waited for it was answered as interrupted.
            registry.put(replace(state, status="stopped", background=True, result=UNFINISHED, doing=""))
        elif state.status == "idle":
            registry.put(replace(state, status="stopped"))


async def add_mail(
    agent: SessionAgent,
    services: SessionServices,
    settings: Settings,
    stack: AsyncExitStack,
    *,
    team: Team | None,
    folder: Path | None,
) -> MailRoom | None:
    """Add mail to a session; called last, so that letters are attached last.

    An interactive session with a log also listens on a socket, except in bare mode. A letter is in the inbox
    before its sender gets the confirmation. If no socket can be created, the user gets a notice, and
    everything else continues.
    """
    if not settings.switches.agents:
        return None
    session = agent.session
    teams = Teams(session, settings, keeps=folder is not None)
    room = MailRoom(agent, services.toolset, services.background, teams, folder=folder, team=team)
    room.join()
    stack.push_async_callback(room.close)

    async def accept(letter: Letter) -> None:
        await asyncio.to_thread(room.inbox(MAIN).put, letter)

    if settings.is_interactive and folder is not None and not settings.memory.simple:
        from nacre.layers.l7_mail.uds import serve  # noqa: PLC0415 - only chats listen

        path = socket_path(settings.home, session.id)
        try:
            await stack.enter_async_context(serve(path, accept))
            room.answer_at(f"uds:{path}")
        except MailError as error:
            session.notify(f"other sessions cannot write to this one: {error}")
    await teams.lead_again()
    await room.mailing.catch_up()
    return room


def activity_watcher(session: Session, settings: Settings, background: Background) -> ActivityWatcher:
    """Return the activity watcher of a session, with a model if one is named, else by rule."""
    seconds = settings.agents.progress_seconds
    by_rule = ActivityWatcher(seconds, None)
    named = settings.roles.summary or settings.small_model
    if named is None:
        return by_rule
    try:
        choice = choose(named, settings.environ)
    except ConfigError as error:
        session.notify(f"{error}; until then the activity of agents is described by rule")
        return by_rule
    is_remote = is_remote_model(choice, settings.environ)
    if choice.provider_name == "embedded" or (session.telemetry.hides_words and is_remote):
        return by_rule
    provider = build(choice, settings.environ)
    background.resources.push_async_callback(provider.close)

    def pay(usage: Usage, model: str) -> None:
        session.add_usage(usage, model, purpose=PURPOSE)
        priced = session.pricing_model(model)
        facts: JsonObject = {"purpose": PURPOSE, "model": priced, "usage": usage.as_json()}
        note = Noted(id=session.clock.new_id(), at=session.clock.now(), kind=SIDE_QUERY, facts=facts)
        background.record(note)

    model = ActivityModel(
        provider=session.telemetry.aside(provider, PURPOSE),
        model=choice.model,
        pay=pay,
        allows=background.allows,
        is_remote=is_remote,
    )
    return ActivityWatcher(seconds, model)


@dataclass(frozen=True, slots=True)
class ChosenModel:
    """The provider and model of a child."""

    provider: Provider
    model: str
    is_remote: bool
    notice: str = ""


async def open_child(spec: ChildSpec, parent: ParentAgent, stack: AsyncExitStack) -> ChildAgent:
    """Open a child with its own session, on disk if the parent's is; closed with the stack."""
    chosen = choose_child_model(spec, parent, stack)
    settings = parent.settings
    if spec.tree is not None:
        settings = replace(settings, cwd=spec.tree.cwd, project_root=spec.tree.path)
    log = await _open_log(spec, parent, settings, stack)
    startup = instructions_context(settings, session=spec.id if log else "")
    startup.origin_tracker.above = parent.origins
    clock = parent.session.clock
    memory = await _open_memory(spec, settings, stack, startup, clock=clock)
    toolset = _toolset(spec, parent, settings, stack)
    # Agents write messages all the time, so that SendMessage stays.
    offered = keep_loaded(_tools(spec.type, toolset, startup, memory), frozenset({SEND}))
    tools = with_deferred(offered, chosen.model, settings, toolset.guard)
    records = log.records if log else spec.records
    session = Session(
        _base(spec, chosen.model, tools, settings, startup=startup, memory=memory, clock=clock),
        await startup.local_only.over(records) if chosen.is_remote else records,
        writer=log.writer if log else None,
        settings=parent.session.settings,
        clock=clock,
    )
    session.is_one_shot = True
    add_startup_layers(session, startup, toolset, is_remote=chosen.is_remote)
    folder = log.writer.folder if log else None
    add_result_layers(session, toolset, settings, tools=tools, folder=folder)
    toolset.belong_to(session, folder)
    if spec.tree is None:
        # Its changes are part of the parent's work, which a user can rewind as a whole.
        toolset.workspace.before_change = parent.toolset.workspace.before_change
    limits = parent.agent.limits
    limits = replace(limits, max_rounds=spec.type.max_turns or limits.max_rounds)
    agent = SessionAgent(session, chosen.provider, tools, limits=limits)
    background = Background(session, above=parent.background)
    background.agent_name = spec.name
    forks = _add_forks(agent, toolset, settings, background, stack)
    stack.push_async_callback(agent.cancel)
    restorer = build_restorer(session, startup, toolset, settings, is_remote=chosen.is_remote)
    add_tool_instructions(session, toolset, tools=tools)
    services = SessionServices(toolset, forks, restorer, small_model=settings.small_model)
    add_notes_and_compact(session, settings, services)
    notices = (chosen.notice, memory.notice if memory else "")
    return ChildAgent(
        agent=agent,
        toolset=toolset,
        forker=forks,
        settings=settings,
        origins=startup.origin_tracker,
        is_remote=chosen.is_remote,
        notices=tuple(line for line in notices if line),
    )


def _add_forks(
    agent: SessionAgent,
    toolset: Toolset,
    settings: Settings,
    background: Background,
    stack: AsyncExitStack,
) -> ForkRunner:
    """Add the background and the forks of a child."""

    def make(workspace: Workspace) -> Sequence[Tool]:
        return [*own_tools(settings, workspace, TaskBoard(toolset.board.tasks)), *search]

    tools = tuple(agent.tools.values())
    search = [one for one in tools if one.name == SEARCH]
    forks = ForkRunner(
        agent.session, agent.provider, tools, guard=toolset.guard, background=background, make=make
    )
    agent.session.add_layers(background, forks)
    stack.push_async_exit(background.leave)
    return forks


def choose_child_model(spec: ChildSpec, parent: ParentAgent, stack: AsyncExitStack) -> ChosenModel:
    """Return the parent's provider for the same model, else a new one.

    If the model of its type is unavailable, there is a notice; a requested one is refused.
    """
    same = ChosenModel(parent.agent.provider, parent.session.base.model, parent.is_remote)
    named = spec.model or spec.type.model
    environ = parent.settings.environ
    if named in {"", INHERIT}:
        return same
    try:
        choice = _choice(named, parent)
    except ConfigError as error:
        if spec.model:
            raise ToolError(str(error)) from error
        return replace(same, notice=f"{spec.name} uses {same.model}: {error}")
    if choice.model == parent.session.base.model:
        return same
    provider = build(choice, environ)
    stack.push_async_callback(provider.close)
    return ChosenModel(provider, choice.model, is_remote_model(choice, environ))


def check_process_child(kind: AgentType, order: AgentRequest, parent: ParentAgent) -> None:
    """Raise `ToolError` for options that a teammate in its own process does not support."""
    if order.isolation or kind.isolation:
        raise ToolError(
            "A teammate with a process of its own has no worktree: leave isolation or team_name out."
        )
    if kind.memory is not None and parent.settings.memory.is_on:
        raise ToolError(
            f"A teammate with a process of its own is not given what {kind.name} agents know for themselves: "
            "leave team_name out."
        )
    usual = own_tools(parent.settings, Workspace(parent.settings.cwd), TaskBoard())
    known = {one.name for one in (*usual, *parent.toolset.tools)}
    more = sorted(name for name in known - parent.agent.tools.keys() if kind.may_call(name))
    if more:
        raise ToolError(
            f"A teammate with a process of its own would have tools that you lack ({', '.join(more)}): "
            "leave team_name out."
        )
    named = order.model or kind.model
    if named not in {"", INHERIT}:
        try:
            _choice(named, parent)
        except ConfigError as error:
            raise ToolError(str(error)) from error


def _choice(named: str, parent: ParentAgent) -> ModelChoice:
    settings = parent.settings
    if named == SMALL:
        named = settings.small_model or small_model(choose(settings.model, settings.environ))
    choice = choose(named, settings.environ)
    if not parent.is_remote and is_remote_model(choice, settings.environ):
        raise ConfigError(f"{named} is not asked: the conversation is with a model on this machine")
    return choice


async def _open_log(
    spec: ChildSpec, parent: ParentAgent, settings: Settings, stack: AsyncExitStack
) -> OpenedLog | None:
    writer = parent.session.writer
    if parent.folder is None or not isinstance(writer, SessionLogWriter):
        return None
    envelope = replace(writer.envelope, cwd=str(settings.cwd))
    path = agent_log_path(parent.folder, spec.id)
    clock = parent.session.clock
    opened = await open_child_log(path, envelope, agent=spec.id, home=settings.home, clock=clock)
    stack.push_async_callback(opened.writer.close)
    return opened


async def _open_memory(
    spec: ChildSpec, settings: Settings, stack: AsyncExitStack, startup: StartupContext, *, clock: Clock
) -> AgentMemory | None:
    """Open the memory of an agent type; None if memory is off (M26)."""
    scope = spec.type.memory
    if scope is None or not settings.memory.is_on:
        return None
    session = startup.session
    kind = AgentMemorySpec(type=spec.type.name, scope=scope, session=session, may_write=bool(session))
    try:
        opening = agent_memory(
            kind,
            memory_paths(settings),
            clock=clock,
            extra_guidelines=settings.memory.extra_guidelines or "",
            origins=startup.origin_tracker,
        )
        return await stack.enter_async_context(opening)
    except ConfigError as error:
        raise ToolError(str(error)) from error


def _toolset(spec: ChildSpec, parent: ParentAgent, settings: Settings, stack: AsyncExitStack) -> Toolset:
    """Build the tools of a child in its own workspace.

    The policy is the parent's without access to its memory, and with the worktree as project.
    """
    from nacre.tools.checkout_guard import deny_other_checkouts  # noqa: PLC0415 - only a child needs it

    workspace = Workspace(settings.cwd)
    workspace.owned = dict(parent.toolset.workspace.owned)
    workspace.unsaved = parent.toolset.workspace.unsaved
    stack.push_async_callback(workspace.close)
    policy = parent.toolset.guard.policy
    policy = replace(policy, rules=tuple(rule for rule in policy.rules if rule.origin != MEMORY))
    if spec.tree is not None:
        twins = (policy.root, *policy.twins)
        policy = replace(policy, root=spec.tree.path.resolve(), twins=twins, in_worktree=True)
    guard = parent.toolset.guard.for_workspace(workspace, who=spec.name, policy=policy)
    guard.waiting = spec.pulse.held
    skills = SkillRegistry(skill_places(settings)) if settings.switches.skills else None
    board = TaskBoard()
    bindings = ToolBindings(skills=skills)
    built = own_tools(settings, workspace, board, bindings)
    theirs = parent.agent.tools
    tools = deny_other_checkouts(guard.wrap(one for one in built if one.name in theirs), workspace, policy)
    # Tools of MCP servers already have the parent's guard; a caller's own tools have none.
    tools += [one for one in theirs.values() if one.name.startswith(FROM_SERVERS) or not one.guarded]
    return Toolset(
        workspace,
        guard,
        board,
        tools,
        bindings=bindings,
        server_instructions=parent.toolset.server_instructions,
    )


def _tools(
    kind: AgentType, toolset: Toolset, startup: StartupContext, memory: AgentMemory | None
) -> list[Tool]:
    """Return the tools that its type allows, with memory tools if it has a memory (M26)."""
    always = {SEND} if memory is None else {SEND, "Read", *(one.name for one in memory.tools)}
    usual = [one for one in toolset.tools if kind.may_call(one.name) or one.name in always - kind.disallowed]
    if memory is None:
        return usual
    if any(not one.read_only for one in memory.tools):
        owned = replace(startup, memory=memory.memory, tools=list(memory.tools))
        brought = with_memory(toolset, owned)[len(toolset.tools) :]
    else:
        pattern = f"//{str(memory.memory.location.directory).lstrip('/')}/**"
        toolset.guard.policy = toolset.guard.policy.with_rules(
            [PermissionRule("allow", "Read", pattern, MEMORY)]
        )
        brought = toolset.guard.wrap(memory.tools)
    return [one for one in (*usual, *brought) if one.name not in kind.disallowed]


def _base(  # noqa: PLR0913 - the parts of the prompt
    spec: ChildSpec,
    model: str,
    tools: Sequence[Tool],
    settings: Settings,
    *,
    startup: StartupContext,
    memory: AgentMemory | None,
    clock: Clock,
) -> Base:
    """Return the base; the system prompt is the same for all agents of a type, so that they share a cache."""
    from nacre.agents.worktree import worktree_prompt  # noqa: PLC0415 - few agents have a worktree

    system = (spec.type.prompt, FRAME, memory.system if memory else "")
    where = environment(settings.cwd, clock.now().astimezone())
    name = prompts.render(NAMED, name=spec.name, type=spec.type.name, owner=spec.owner)
    tree = prompts.render(REMINDER, text=worktree_prompt(spec.tree)) if spec.tree else ""
    opening = "\n".join(part for part in (startup.context, where, tree, name) if part)
    return Base(model, "\n\n".join(part for part in system if part), tools, opening=opening)


class ChildLogWriter(SessionLogWriter):
    """Writes a child's records to its log, each marked with the id of the agent."""

    def __init__(self, log: SessionLog, envelope: Envelope, *, agent: str, parent: str | None = None) -> None:
        super().__init__(log, envelope, parent=parent)
        self._agent = agent

    def _as_written(self, record: Record) -> Record:
        return marked(record, self._agent)


async def open_child_log(
    path: Path, envelope: Envelope, *, agent: str, home: Path, clock: Clock
) -> OpenedLog:
    """Create or resume the log of a child; unfinished calls are answered (T8)."""
    try:
        log = SessionLog.open(path, home=home)
    except SessionNotFound:
        log = SessionLog.create_at(path, home=home)
    try:
        return await close_open_calls(_load(log, envelope, agent), clock)
    except BaseException:
        log.close()
        raise


def _load(log: SessionLog, envelope: Envelope, agent: str) -> OpenedLog:
    where = log.resume_offset()
    if where.bytes_to_read > MAX_RESUME_BYTES:
        raise TranscriptError(f"the log of agent {agent} is too long to go on with; start another agent")
    from nacre.messages.jsonl import decode  # noqa: PLC0415 - a new agent reads no log

    loaded = decode(log.read(where.offset), session_id=envelope.session_id, subagent=True)
    writer = ChildLogWriter(log, envelope, agent=agent, parent=loaded.leaf)
    return OpenedLog(writer, loaded.records, loaded.problems, [])
