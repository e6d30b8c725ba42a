"""Opens a child agent: its own session, with the permissions and spending limits of its parent.

It shares neither the parent's read files nor its working directory, and the parent gets nothing of it but its
report.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from nacre import prompts
from nacre.agents.child_spec import ChildAgent, ChildSpec, ParentAgent
from nacre.agents.tools import AgentRequest
from nacre.agents.toolset import ToolBindings, Toolset, toolset_of
from nacre.agents.types import INHERIT, SMALL, AgentType
from nacre.agents.worktree import Worktree, worktree_prompt
from nacre.app.compaction import SessionServices, add_notes_and_compact
from nacre.app.layers import add_result_layers, add_skills, add_startup_layers
from nacre.app.memory_locations import memory_paths
from nacre.app.restored_context import build_restorer
from nacre.app.startup_context import StartupContext, instructions_context
from nacre.app.toolset import own_tools, skill_places, with_memory
from nacre.clock import Clock
from nacre.context.environment import environment
from nacre.context.skill_list import SkillRegistry
from nacre.errors import ConfigError, SessionNotFound, ToolError, TranscriptError
from nacre.layers.l7_mail.send_message import NAME as SEND
from nacre.memory.agent_memory import AgentMemory, AgentMemorySpec, agent_memory
from nacre.messages.jsonl import Envelope, decode
from nacre.messages.records import Record
from nacre.providers.base import Provider
from nacre.providers.choose import ModelChoice, build, choose, leaves_machine, small_model
from nacre.session.agent import SessionAgent
from nacre.session.background import Background
from nacre.session.forks import ForkRunner
from nacre.session.session import Base, Session
from nacre.session.session_log import (
    MAX_RESUME_BYTES,
    OpenedLog,
    SessionLogWriter,
    agent_log_path,
    close_open_calls,
    marked,
)
from nacre.settings import Settings
from nacre.store.session_log import SessionLog
from nacre.tools.base import Tool
from nacre.tools.checkout_guard import deny_other_checkouts
from nacre.tools.policy import PermissionPolicy
from nacre.tools.rules import PermissionRule
from nacre.tools.tasks import TaskBoard
from nacre.tools.workspace import Workspace

FRAME = prompts.load(__package__, "agent_frame")


NAMED = prompts.load(__package__, "agent_name")


REMINDER = "<system-reminder>\n{{ text }}\n</system-reminder>"


FROM_SERVERS = "mcp__"


MEMORY = "memory"
"""Origin of the rules that allow access to a memory to its owner."""


@dataclass(frozen=True, slots=True)
class ChosenModel:
    """The provider and model of a child."""

    provider: Provider
    model: str
    leaves: bool
    notice: str = ""


@dataclass(frozen=True, slots=True)
class _ChildSetup:
    """What is prepared before the session of a child."""

    spec: ChildSpec
    chosen: ChosenModel
    settings: Settings
    opened: OpenedLog | None
    known: StartupContext
    memory: AgentMemory | None
    toolset: Toolset
    tools: list[Tool]


async def open_child(spec: ChildSpec, parent: ParentAgent, stack: AsyncExitStack) -> ChildAgent:
    """Open a child with its own session, on disk if the parent's is; closed with the stack."""
    setup = await _setup(spec, parent, stack)
    chosen = setup.chosen
    settings = setup.settings
    toolset = setup.toolset
    tools = setup.tools
    session = await _session(setup, parent)
    rounds = spec.type.max_turns or parent.agent.limits.max_rounds
    agent = SessionAgent(
        session, chosen.provider, tools, limits=replace(parent.agent.limits, max_rounds=rounds)
    )
    background = _supervised(agent, parent, stack)
    forker = _forker(agent, toolset, settings, background)
    session.layers.append(forker)
    stack.push_async_callback(agent.cancel)
    restorer = build_restorer(session, setup.known, toolset, settings, leaves=chosen.leaves)
    add_skills(session, toolset, tools=tools)
    add_notes_and_compact(session, settings, SessionServices(toolset, forker, restorer))
    notices = (chosen.notice, setup.memory.notice if setup.memory else "")
    return ChildAgent(
        agent=agent,
        toolset=toolset,
        forker=forker,
        settings=settings,
        origins=setup.known.origin_tracker,
        leaves=chosen.leaves,
        notices=tuple(line for line in notices if line),
    )


async def _setup(spec: ChildSpec, parent: ParentAgent, stack: AsyncExitStack) -> _ChildSetup:
    chosen = choose_child_model(spec, parent, stack)
    settings = _settings_at(spec.tree, parent.settings)
    opened = await _opened(spec, parent, settings, stack)
    known = instructions_context(settings, session=spec.id if opened else "")
    known.origin_tracker.above = parent.origins
    memory = await _memory(spec, settings, stack, known, clock=parent.session.clock)
    toolset = _toolset(spec, parent, settings, stack)
    tools = _tools(spec.type, toolset, known, memory)
    return _ChildSetup(spec, chosen, settings, opened, known, memory, toolset, tools)


async def _session(setup: _ChildSetup, parent: ParentAgent) -> Session:
    """Create the session of a child with its first layers."""
    opened = setup.opened
    toolset = setup.toolset
    known = setup.known
    records = opened.records if opened else setup.spec.records
    session = Session(
        _base(setup, parent.session.clock),
        await known.local_only.over(records) if setup.chosen.leaves else records,
        writer=opened.writer if opened else None,
        settings=parent.session.settings,
        clock=parent.session.clock,
    )
    session.is_one_shot = True
    add_startup_layers(session, known, toolset, leaves=setup.chosen.leaves)
    folder = opened.writer.folder if opened else None
    add_result_layers(session, toolset, setup.settings, tools=setup.tools, folder=folder)
    toolset.belong_to(session, folder)
    if setup.spec.tree is None:
        # Its changes are part of the parent's work, which a user can rewind as a whole.
        toolset.workspace.before_change = parent.toolset.workspace.before_change
    return session


def choose_child_model(spec: ChildSpec, parent: ParentAgent, stack: AsyncExitStack) -> ChosenModel:
    """Return the parent's provider for the same model, else a new one.

    If the model of its type is unavailable, there is a notice; a requested one is refused.
    """
    same = ChosenModel(parent.agent.provider, parent.session.base.model, parent.leaves)
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
    return ChosenModel(provider, choice.model, leaves_machine(choice, environ))


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
    if not parent.leaves and leaves_machine(choice, settings.environ):
        raise ConfigError(f"{named} is not asked: the conversation is with a model on this machine")
    return choice


def _settings_at(tree: Worktree | None, settings: Settings) -> Settings:
    """Return the parent's settings, with the directories of the worktree if there is one."""
    return settings if tree is None else replace(settings, cwd=tree.cwd, project_root=tree.path)


async def _opened(
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


async def _memory(
    spec: ChildSpec, settings: Settings, stack: AsyncExitStack, known: StartupContext, *, clock: Clock
) -> AgentMemory | None:
    """Open the memory of an agent type; None if memory is off (M26)."""
    scope = spec.type.memory
    if scope is None or not settings.memory.is_on:
        return None
    keeps = bool(known.session)
    kind = AgentMemorySpec(type=spec.type.name, scope=scope, session=known.session, may_write=keeps)
    try:
        opening = agent_memory(
            kind,
            memory_paths(settings),
            clock=clock,
            extra_guidelines=settings.memory.extra_guidelines or "",
            origin_of=known.origin_tracker.origin_of,
        )
        return await stack.enter_async_context(opening)
    except ConfigError as error:
        raise ToolError(str(error)) from error


def _toolset(spec: ChildSpec, parent: ParentAgent, settings: Settings, stack: AsyncExitStack) -> Toolset:
    """Build the tools of a child in its own workspace, with the permissions of the parent."""
    workspace = Workspace(settings.cwd)
    workspace.owned = dict(parent.toolset.workspace.owned)
    stack.push_async_callback(workspace.close)
    policy = _policy(parent.toolset.guard.policy, spec.tree)
    guard = parent.toolset.guard.for_workspace(workspace, who=spec.name, policy=policy)
    guard.waiting = spec.pulse.held
    skills = SkillRegistry(skill_places(settings)) if settings.switches.skills else None
    board = TaskBoard()
    desks = ToolBindings(skills=skills)
    built = own_tools(settings, workspace, board, desks)
    theirs = parent.agent.tools
    tools = deny_other_checkouts(guard.wrap(one for one in built if one.name in theirs), workspace, policy)
    # Tools of MCP servers already have the parent's guard; a caller's own tools have none.
    lent = [one for one in theirs.values() if one.name.startswith(FROM_SERVERS) or not one.guarded]
    return toolset_of(workspace, guard, board, desks, [*tools, *lent])


def _policy(policy: PermissionPolicy, tree: Worktree | None) -> PermissionPolicy:
    """Return the parent's policy without access to its memory, with the worktree as project."""
    rules = tuple(rule for rule in policy.rules if rule.origin != MEMORY)
    if tree is None:
        return replace(policy, rules=rules)
    twins = (policy.root, *policy.twins)
    return replace(policy, rules=rules, root=tree.path.resolve(), twins=twins, in_worktree=True)


def _tools(
    kind: AgentType, toolset: Toolset, known: StartupContext, memory: AgentMemory | None
) -> list[Tool]:
    """Return the tools that its type allows, with memory tools if it has a memory (M26)."""
    always = {SEND} if memory is None else {SEND, "Read", *(one.name for one in memory.tools)}
    usual = [one for one in toolset.tools if kind.may_call(one.name) or one.name in always - kind.disallowed]
    if memory is None:
        return usual
    if any(not one.read_only for one in memory.tools):
        owned = replace(known, memory=memory.memory, tools=list(memory.tools))
        brought = with_memory(toolset, owned)[len(toolset.tools) :]
    else:
        pattern = f"//{str(memory.memory.location.directory).lstrip('/')}/**"
        toolset.guard.policy = toolset.guard.policy.with_rules(
            [PermissionRule("allow", "Read", pattern, MEMORY)]
        )
        brought = toolset.guard.wrap(memory.tools)
    return [one for one in (*usual, *brought) if one.name not in kind.disallowed]


def _base(setup: _ChildSetup, clock: Clock) -> Base:
    """Return the base; the system prompt is the same for all agents of a type, so that they share a cache."""
    spec = setup.spec
    memory = setup.memory
    known = setup.known
    system = (spec.type.prompt, FRAME, memory.system if memory else "")
    where = environment(setup.settings.cwd, clock.now().astimezone())
    name = prompts.render(NAMED, name=spec.name, type=spec.type.name, owner=spec.owner)
    tree = prompts.render(REMINDER, text=worktree_prompt(spec.tree)) if spec.tree else ""
    opening = "\n".join(part for part in (known.context, where, tree, name) if part)
    model = setup.chosen.model
    words = "\n\n".join(part for part in system if part)
    return Base(model, words, setup.tools, opening=opening)


def _supervised(agent: SessionAgent, parent: ParentAgent, stack: AsyncExitStack) -> Background:
    """Return the background of a child, under the spending limits of the parent."""
    background = Background(agent.session, above=parent.background)
    agent.session.layers.append(background)
    stack.push_async_exit(background.leave)
    return background


def _forker(agent: SessionAgent, toolset: Toolset, settings: Settings, background: Background) -> ForkRunner:
    def make(workspace: Workspace) -> Sequence[Tool]:
        return own_tools(settings, workspace, TaskBoard(toolset.board.tasks))

    tools = tuple(agent.tools.values())
    return ForkRunner(
        agent.session, agent.provider, tools, guard=toolset.guard, background=background, make=make
    )


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
    loaded = decode(log.read(where.offset), session_id=envelope.session_id, subagent=True)
    writer = ChildLogWriter(log, envelope, agent=agent, parent=loaded.leaf)
    return OpenedLog(writer, loaded.records, loaded.problems, [])
