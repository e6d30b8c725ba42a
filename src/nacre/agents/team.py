"""Starts, limits, stops and resumes the agents of one owner, and returns their reports.

Each agent with the Agent tool has a team; all teams of a session share one registry.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import blake2b

from nacre import prompts
from nacre.agents.activity import ActivityWatcher
from nacre.agents.registry import OVER, AgentRegistry, AgentState, IdleTimeout, Pattern, own_process
from nacre.agents.run import AgentRunner, ChildAgent, ParentAgent, RunningAgent, last_fork_result
from nacre.agents.tools import AGENT as TOOL
from nacre.agents.tools import AgentRequest
from nacre.agents.types import DESCRIPTION_CHARS, FORK, INHERIT, AgentType, AgentTypes
from nacre.errors import ToolError
from nacre.hooks.layer import add_child_hooks
from nacre.hooks.points import Hooks
from nacre.layers.l7_mail.letter import MAIN, brief
from nacre.loop.fork import refuse_nested
from nacre.memory.format.entry import clipped, one_line
from nacre.messages.blocks import JsonObject
from nacre.messages.draft import Fragment
from nacre.messages.pairing import Item
from nacre.messages.records import Noted, Said
from nacre.messages.untrusted_text import neutralise
from nacre.messages.usage import Usage
from nacre.messages.view import View
from nacre.session.background import AGENT_PURPOSE
from nacre.session.layer import Attachment, Layer, notes_in_view
from nacre.session.meter import SIDE_QUERY

AGENT = "agent"
"""Kind of the note that the result of an agent's run was reported: id, run, status."""
AGENT_TYPES = "agent_types"
"""Kind of the note that the model got the list of agent types: names."""
DONE = prompts.load(__package__, "agent_done")
TYPES = prompts.load(__package__, "agent_types")
SHOWN_CHARS = 200
"""Maximum length of a description in a line."""
ENDED = {
    "completed": "is done",
    "idle": "is done for now and waits",
    "failed": "has failed",
    "stopped": "did not finish",
    "stalled": "was stopped because it hung",
}
STARTED = "{name} works in the background now. Its report comes by itself in a later message."
REPORT = "{report}\n\n[{name}: {calls:,} tool calls, {tokens:,} tokens, {seconds:,.0f} s]"
STOP_SECONDS = 10.0
"""Timeout for a stopped agent to end its tools."""
KEPT_OPEN = 10
"""Number of ended agents kept open: an agent that is resumed is usually a recent one."""
GRACE_SECONDS = 5.0
"""How long agents may continue when the session ends: enough to finish a reply."""
DESCRIBED_CHARS = 80
"""Maximum length of a prompt used as a description."""

StartProcess = Callable[[AgentRequest, AgentState], Awaitable[None]]
"""Starts a teammate in a separate process, which stores its own state on disk."""


@dataclass(slots=True, kw_only=True, eq=False)
class TeamContext:
    """What all teams of one session share."""

    registry: AgentRegistry
    types: AgentTypes
    hooks: Hooks | None = None
    progress: ActivityWatcher | None = None
    members: dict[str, RunningAgent] = field(default_factory=dict)
    """Agents that this process has started, by name."""
    on_open: list[Callable[[ChildAgent, AgentState], None]] = field(default_factory=list)
    """Called before a child starts, to add layers to its session, such as mail."""
    start_process: StartProcess | None = None
    """If set, and enabled in the settings, teammates run in separate processes."""


class Team(Layer):
    """The agents of one owner."""

    log_kinds = {AGENT: "drop", AGENT_TYPES: "drop"}

    def __init__(
        self, parent: ParentAgent, shared: TeamContext, *, name: str = MAIN, pulse: IdleTimeout | None = None
    ) -> None:
        self.shared = shared
        self.name = name
        self._types_text = agent_types_text(shared.types)
        self._parent = parent
        self._pulse = pulse
        self._changed = asyncio.Event()
        self._work = AgentRunner(
            parent=parent, registry=shared.registry, opened=self._on_open, progress=shared.progress
        )

    def join(self) -> None:
        """Add this layer to the owner's session."""
        session = self._parent.session
        self._parent.toolset.bindings.agents.starter = self
        session.add_layers(self)
        self.shared.registry.on_change.append(self._on_change)
        # Closed once none of its agents runs any more.
        self._parent.background.resources.push_async_callback(self.close)

    def states(self) -> tuple[AgentState, ...]:
        """All agents of the session in the order of their start."""
        return tuple(self.shared.registry.states.values())

    async def answer(self, order: AgentRequest) -> str:
        """Start an agent and return its report, or a note that the report will follow."""
        state = await self.spawn(order)
        if state.background:
            return STARTED.format(name=state.name)
        if state.status != "completed":
            raise ToolError(f"{state.name} is {state.status}. {neutralise(state.result)}")
        return REPORT.format(
            report=neutralise(state.result),
            name=state.name,
            calls=state.calls,
            tokens=state.tokens,
            seconds=state.seconds,
        )

    async def spawn(self, order: AgentRequest) -> AgentState:
        """Start an agent; returns when it has ended, or at once if it runs in the background.

        Raises `ToolError` with the reason if it cannot be started.
        """
        await self._close_oldest()
        registry = self.shared.registry
        member = self._register(order)
        state = registry.states[member.name]
        if state.pattern == "teammate" and self._starts_processes and self.shared.start_process:
            await self.shared.start_process(order, state)
            return registry.states[member.name]
        if state.background:
            await self._begin(member, order.prompt)
            return registry.states[member.name]
        # A separate task with a copy of the context, so that context variables do not leak.
        work = self._work.play(member, order.prompt)
        task = asyncio.create_task(work, name=f"{AGENT_PURPOSE} {member.name}", context=copy_context())
        member.cancel = partial(_cancelled, task)
        try:
            await task
        except asyncio.CancelledError:
            _put_down(registry, member.name)
            running = asyncio.current_task()
            if running is None or running.cancelling():
                raise
        return registry.states[member.name]

    async def resume(self, name: str, text: str) -> AgentState:
        """Resume an ended agent in the background, with its conversation."""
        registry = self.shared.registry
        _check_free(registry.find(name))
        member = self.shared.members.get(name) or await self._again(registry.states[name])
        state = registry.states[name]
        _check_free(state)  # another call may have resumed it meanwhile
        self._check_room()
        pid, start = own_process()
        registry.put(
            replace(
                state,
                status="running",
                run=state.run + 1,
                background=True,
                owner=self.name,
                started=self._parent.session.clock.now(),
                pid=pid,
                process_start=start,
                result="",
            )
        )
        await self._begin(member, text)
        return registry.states[name]

    async def stop(self, name: str) -> str:
        """Stop an agent at its owner's request, without a report."""
        state = self.shared.registry.find(name)
        if state.status in OVER:
            return f"{name} is not at work ({state.status})."
        state = await self.halt(name)
        if state.owner == self.name:
            self.shared.registry.change(name, told=state.run)
        return f"{name} is {state.status}. {state.result}"

    async def halt(self, name: str) -> AgentState:
        """Stop an agent and wait for its tools; its owner gets a report later."""
        registry = self.shared.registry
        registry.find(name)
        member = self.shared.members.get(name)
        if member is not None and member.cancel is not None:
            await member.cancel()
        if member is not None and registry.states[name].status == "idle":
            await member.close()
        return _put_down(registry, name)

    async def close(self) -> None:
        """Stop and close all agents."""
        registry = self.shared.registry
        for name in [one.name for one in self.states() if one.owner == self.name]:
            if (member := self.shared.members.pop(name, None)) is not None:
                await member.close()
                _put_down(registry, name)
        if self._on_change in registry.on_change:
            registry.on_change.remove(self._on_change)

    @property
    def _starts_processes(self) -> bool:
        return self._parent.settings.agents.teammates == "process"

    def _register(self, order: AgentRequest) -> RunningAgent:
        """Check the request and register a new agent."""
        kind = self._kind(order)
        parent = self._parent
        registry = self.shared.registry
        depth = registry.depth + parent.depth
        deepest = parent.settings.agents.max_depth
        if depth >= deepest:
            raise ToolError(
                f"Agents start agents no more than {deepest} deep: do it here, or report what is left."
            )
        self._check_room()
        if order.team and kind is not None and self._starts_processes:
            parent.check_process_child(kind, order, parent)
        pattern: Pattern = "teammate" if order.team else "fork" if kind is None else "typed"
        clock = parent.session.clock
        pid, start = own_process()
        state = AgentState(
            id=blake2b(clock.new_id().encode(), digest_size=8).hexdigest(),
            name=registry.named(order.name, order.type),
            type=order.type,
            pattern=pattern,
            description=brief(order.description) or brief(order.prompt)[:DESCRIBED_CHARS],
            owner=self.name,
            depth=depth + 1,
            background=order.background or pattern != "typed" or (kind is not None and kind.background),
            team=order.team,
            model=order.model or _own_model(kind) or parent.session.base.model,
            started=clock.now(),
            pid=pid,
            process_start=start,
        )
        member = RunningAgent(
            name=state.name,
            type=kind,
            model=order.model,
            pulse=IdleTimeout(parent.settings.agents.stall_seconds, above=self._pulse),
            is_isolated=bool(order.isolation or (kind is not None and kind.isolation)),
            view=parent.session.view,
        )
        registry.put(state)
        self.shared.members[state.name] = member
        return member

    def _kind(self, order: AgentRequest) -> AgentType | None:
        if order.type == FORK:
            refuse_nested(self._parent.session.view)
            if order.model or order.isolation or order.team:
                raise ToolError("A fork is as its parent is: leave model, isolation and team_name empty.")
            return None
        kind = self.shared.types.types.get(order.type)
        if kind is None:
            known = ", ".join([*sorted(self.shared.types.types), FORK])
            raise ToolError(f"There is no kind of agent named {order.type[:80]!r}. Known: {known}.")
        return kind

    def _check_room(self) -> None:
        from nacre.agents.directory import count_running  # noqa: PLC0415 - most sessions start no agent

        settings = self._parent.settings
        registry = self.shared.registry
        most = settings.agents.max_at_once
        busy = registry.running
        if registry.root or self._starts_processes:
            busy = max(busy, count_running(settings.home, registry.root or self._parent.session.id))
        if busy >= most:
            raise ToolError(f"{most} agents are at work, which is the most: wait for one, or stop one.")

    async def _again(self, state: AgentState) -> RunningAgent:
        """Restore an agent of an earlier process from its log."""
        pulse = IdleTimeout(self._parent.settings.agents.stall_seconds)
        kind = None if state.pattern == "fork" else self.shared.types.types.get(state.type)
        if kind is None and state.pattern != "fork":
            raise ToolError(f"There is no kind of agent named {state.type} any more, which {state.name} was.")
        is_other = state.model not in {self._parent.session.base.model, _own_model(kind)}
        member = RunningAgent(
            name=state.name, type=kind, pulse=pulse, model=state.model if is_other and kind else ""
        )
        if kind is None:
            member.forked = await last_fork_result(self._parent, state.id, state.name)
        member.is_isolated = bool(state.worktree or (kind is not None and kind.isolation))
        self.shared.members[state.name] = member
        return member

    async def _close_oldest(self) -> None:
        """Close the agents that ended longest ago, because each holds open files."""
        states = self.shared.registry.states
        ended = [
            member
            for name, member in self.shared.members.items()
            if member.child is not None and states[name].owner == self.name and states[name].status in OVER
        ]
        for member in ended[:-KEPT_OPEN]:
            await member.close()

    async def _begin(self, member: RunningAgent, text: str) -> None:
        """Start a background task that outlives the turn."""
        name = f"{AGENT_PURPOSE} {member.name}"
        background = self._parent.background
        await background.wait(name)  # its last run may not have been stored yet
        work = self._work.play(member, text)
        member.cancel = partial(background.cancel, name)
        label = f"waiting for {member.name}"
        is_begun = background.start(name, work, grace=GRACE_SECONDS, label=label)
        if not is_begun:
            state = self.shared.registry.change(member.name, status="stopped", background=False)
            raise ToolError(f"{state.name} was not started: what background work may cost is used up.")

    def _on_open(self, child: ChildAgent, state: AgentState) -> None:
        """Add layers and cost accounting to a child before it starts."""
        shared = self.shared
        parent = self._parent
        child.session.on_usage = partial(self._pay, child, state.name)
        if not state.model.endswith(child.session.base.model):
            # `small`, or the parent's model because its own is not available.
            shared.registry.change(state.name, model=child.session.base.model)
        if shared.hooks is not None:
            add_child_hooks(
                child.session, shared.hooks, state.id, state.type, where=lambda: child.toolset.workspace.cwd
            )
        for line in child.notices:
            parent.session.notify(line)
        if TOOL in child.agent.tools:
            below = ParentAgent(
                agent=child.agent,
                toolset=child.toolset,
                settings=child.settings,
                forker=child.forker,
                folder=parent.folder,
                origins=child.origins,
                open_child=parent.open_child,
                check_process_child=parent.check_process_child,
                is_remote=child.is_remote,
                depth=parent.depth + 1,
            )
            member = shared.members[state.name]
            Team(below, shared, name=state.name, pulse=member.pulse).join()
        for callback in shared.on_open:
            callback(child, state)

    def _pay(self, child: ChildAgent, name: str, usage: Usage, model: str) -> None:
        """Charge the cost of an agent to its owner, in the log at the next boundary."""
        session = self._parent.session
        meter = child.session.meter
        self.shared.registry.change(name, tokens=meter.usage.total, cost_usd=meter.usd)
        session.add_usage(usage, model, purpose=AGENT_PURPOSE)
        facts: JsonObject = {
            "purpose": AGENT_PURPOSE,
            "model": model,
            "usage": usage.as_json(),
            "agent": name,
        }
        note = Noted(id=session.clock.new_id(), at=session.clock.now(), kind=SIDE_QUERY, facts=facts)
        self._parent.background.record(note)

    async def attach(self, message: Said, view: View) -> Sequence[Attachment]:
        self._settle(view)
        news = self._news()
        if self._types_text and not notes_in_view(view, AGENT_TYPES):
            names: JsonObject = {"names": [one.name for one in self.shared.types.custom]}
            news.append(Attachment(kind=AGENT_TYPES, text=self._types_text, facts=names))
        return news

    async def restore(self, kept: Sequence[Item]) -> Sequence[Fragment]:
        return registry_fragments(self.shared.registry, self.name)

    async def before_request(self) -> None:
        self._settle(self._parent.session.view)

    def _news(self) -> list[Attachment]:
        """Return the results of background agents that were not reported yet."""
        return [agent_news(one) for one in self.states() if one.owner == self.name and one.is_untold]

    def _settle(self, view: View) -> None:
        """Mark the results that are in the log as reported."""
        for note in view.noted(AGENT):
            run = note.fact("run")
            for state in self.states():
                if state.id == note.fact("id") and isinstance(run, int) and state.told < run:
                    self.shared.registry.change(state.name, told=run)

    def _on_change(self, state: AgentState) -> None:
        if not state.is_running:
            self._changed.set()

    async def pending(self) -> list[Attachment]:
        """Return outstanding reports for a session that ends with its answer."""
        if not self._parent.session.is_one_shot:
            return []
        while True:
            self._changed.clear()
            self._settle(self._parent.session.view)
            if news := self._news():
                return news
            mine = [one for one in self.states() if one.owner == self.name and one.background]
            if not any(one.is_running for one in mine):
                return []
            await self._changed.wait()


def _own_model(kind: AgentType | None) -> str:
    """Return the model that a type names; empty if it has that of the session."""
    return kind.model if kind is not None and kind.model != INHERIT else ""


def _check_free(state: AgentState) -> None:
    if state.is_running:
        raise ToolError(f"{state.name} is at work; what you write to it is delivered there.")


async def _cancelled(task: asyncio.Task[None]) -> None:
    if not task.done():
        task.cancel()
        await asyncio.wait({task}, timeout=STOP_SECONDS)


def _put_down(registry: AgentRegistry, name: str) -> AgentState:
    """Record the end of an agent that was cancelled before its first step."""
    state = registry.states[name]
    is_over = state.status in OVER
    return state if is_over else registry.change(name, status="stopped", doing="")


def agent_types_text(types: AgentTypes) -> str:
    """Return the list of custom agent types for the model; empty if all types are built in."""
    listed = [
        f"- `{one.name}`: {clipped(one_line(neutralise(one.description)), DESCRIPTION_CHARS)}"
        for one in types.custom
    ]
    return prompts.render(TYPES, types="\n".join(listed)) if listed else ""


def agent_news(state: AgentState) -> Attachment:
    """Return the result of an agent as an attachment for its owner."""
    text = prompts.render(
        DONE,
        name=state.name,
        task=clipped(one_line(neutralise(state.description)), SHOWN_CHARS) or "no description",
        ended=ENDED.get(state.status, state.status),
        calls=f"{state.calls:,}",
        tokens=f"{state.tokens:,}",
        seconds=f"{state.seconds:,.0f}",
        result=neutralise(state.result),
    )
    facts: JsonObject = {"id": state.id, "run": state.run, "name": state.name, "status": state.status}
    notice = f"{state.name} {ENDED.get(state.status, state.status)}; its report goes to the model."
    return Attachment(kind=AGENT, text=text, facts=facts, notice=notice)


def registry_fragments(registry: AgentRegistry, owner: str) -> list[Fragment]:
    """Return running agents and outstanding reports for after a compaction, so that none is started twice."""
    states = [one for one in registry.states.values() if one.owner == owner]
    lines = [_line(one) for one in states if one.is_running or one.status == "idle" or one.is_untold]
    return [Fragment(kind="agents", name="the agents you started", text="\n".join(lines))] if lines else []


def _line(state: AgentState) -> str:
    task = clipped(one_line(neutralise(state.description)), SHOWN_CHARS)
    told = "its report comes in a later message" if state.is_running or state.is_untold else "waits"
    doing = f" ({one_line(state.doing)})" if state.doing else ""
    return f"- {state.name} ({state.type}): {task}; {state.status}{doing}, {told}"
