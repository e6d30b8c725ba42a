"""The agents of one session: started, limited, stopped, set to work again; what they find out comes back.

Whoever has the Agent tool has a team, agents included; all teams of a session share one roll.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import blake2b

from nacre.agents.activity import ActivityWatcher
from nacre.agents.child_spec import ChildAgent, ParentAgent
from nacre.agents.directory import count_running
from nacre.agents.news import AGENT, AGENT_TYPES, AgentNews, AgentTypeUpdates, registry_fragments
from nacre.agents.registry import OVER, AgentRegistry, AgentState, IdleTimeout, Pattern, own_process
from nacre.agents.run import AgentRunner, RunningAgent, last_fork_result
from nacre.agents.tools import AGENT as TOOL
from nacre.agents.tools import AgentRequest
from nacre.agents.types import FORK, AgentType, AgentTypes
from nacre.errors import ToolError
from nacre.hooks.layer import add_child_hooks
from nacre.hooks.points import Hooks
from nacre.layers.l7_mail.letter import MAIN, brief
from nacre.loop.fork import refuse_nested
from nacre.messages.blocks import JsonObject
from nacre.messages.draft import Fragment
from nacre.messages.pairing import Item
from nacre.messages.records import Noted, Said
from nacre.messages.untrusted_text import neutralise
from nacre.messages.usage import Usage
from nacre.messages.view import View
from nacre.session.attachments import Attachment
from nacre.session.background import AGENT_PURPOSE
from nacre.session.layer import Layer
from nacre.session.meter import SIDE_QUERY

STARTED = "{name} works in the background now. Its report comes by itself in a later message."
REPORT = "{report}\n\n[{name}: {calls:,} tool calls, {tokens:,} tokens, {seconds:,.0f} s]"
STOP_SECONDS = 10.0
"""How long a stopped agent may take to put its tools down."""
KEPT_OPEN = 10
"""So many that have ended stay as they are: who goes on with one mostly does so soon."""
GRACE_SECONDS = 5.0
"""How long agents may go on when the session ends: enough to finish a reply."""
DESCRIBED_CHARS = 80
"""Of a prompt, where nobody describes the task."""

StartProcess = Callable[[AgentRequest, AgentState], Awaitable[None]]
"""Starts a teammate in a process of its own, which says itself on disk what becomes of it."""


@dataclass(slots=True, kw_only=True, eq=False)
class TeamContext:
    """What all teams of a session share."""

    roll: AgentRegistry
    types: AgentTypes
    hooks: Hooks | None = None
    progress: ActivityWatcher | None = None
    members: dict[str, RunningAgent] = field(default_factory=dict)
    """Those that this process has set to work, by name."""
    on_open: list[Callable[[ChildAgent, AgentState], None]] = field(default_factory=list)
    """Others that take part in a child's session; told before it begins. Mail joins here."""
    start_process: StartProcess | None = None
    """Where there is one and the settings say so, teammates run elsewhere."""


class Team(Layer):
    """The agents of one owner."""

    log_kinds = {AGENT: "drop", AGENT_TYPES: "drop"}

    def __init__(
        self, parent: ParentAgent, house: TeamContext, *, name: str = MAIN, pulse: IdleTimeout | None = None
    ) -> None:
        self.house = house
        self.name = name
        self.news = AgentNews(house.roll, name)
        self._kinds = AgentTypeUpdates(house.types)
        self._parent = parent
        self._pulse = pulse
        self._changed = asyncio.Event()
        self._work = AgentRunner(
            parent=parent, roll=house.roll, opened=self._welcome, progress=house.progress
        )

    def join(self) -> None:
        """Take part in the owner's session."""
        session = self._parent.session
        roll = self.house.roll
        self._parent.hands.crew.crew = self
        session.layers.append(self)
        roll.on_change.append(self._heed)
        # Let go once nothing of it is under way any more.
        self._parent.background.resources.push_async_callback(self.close)

    def states(self) -> tuple[AgentState, ...]:
        """All agents of the session, in the order they were started."""
        return tuple(self.house.roll.states.values())

    async def answer(self, order: AgentRequest) -> str:
        """What the model gets for an order: the report, or the word that it will come."""
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
        """Start an agent; comes back when it is done, or at once where it works in the background.

        `ToolError` refuses in one line.
        """
        await self._let_go()
        member = self._enlisted(order)
        state = self.house.roll.states[member.name]
        if state.pattern == "teammate" and self._starts_processes and self.house.start_process:
            await self.house.start_process(order, state)
        elif state.background:
            await self._begin(member, order.prompt)
        else:
            await self._attended(member, order.prompt)
        return self.house.roll.states[member.name]

    async def resume(self, name: str, text: str) -> AgentState:
        """Set an agent that has ended to work again, on its own conversation, in the background."""
        roll = self.house.roll
        _check_free(roll.find(name))
        member = self.house.members.get(name) or await self._again(roll.states[name])
        state = roll.states[name]
        _check_free(state)  # somebody else may have been quicker
        self._check_room()
        pid, start = own_process()
        roll.put(
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
        return roll.states[name]

    async def stop(self, name: str) -> str:
        """Stop an agent on its owner's own wish, who then need not be told."""
        state = self.house.roll.find(name)
        if state.status in OVER:
            return f"{name} is not at work ({state.status})."
        state = await self.halt(name)
        if state.owner == self.name:
            self.house.roll.change(name, told=state.run)
        return f"{name} is {state.status}. {state.result}"

    async def halt(self, name: str) -> AgentState:
        """Stop an agent and wait until it has put its tools down; its owner is told by and by."""
        roll = self.house.roll
        roll.find(name)
        member = self.house.members.get(name)
        if member is not None and member.cancel is not None:
            await member.cancel()
        if member is not None and roll.states[name].status == "idle":
            await member.close()
        return _put_down(roll, name)

    async def close(self) -> None:
        """Let go of all that its agents hold; who is still at work by now is not any more."""
        roll = self.house.roll
        for name in [one.name for one in self.states() if one.owner == self.name]:
            if (member := self.house.members.pop(name, None)) is not None:
                await member.close()
                _put_down(roll, name)
        if self._heed in roll.on_change:
            roll.on_change.remove(self._heed)

    @property
    def _starts_processes(self) -> bool:
        return self._parent.settings.agents.teammates == "process"

    @property
    def _depth(self) -> int:
        return self.house.roll.depth + self._parent.depth

    def _enlisted(self, order: AgentRequest) -> RunningAgent:
        """A place on the roll for a new agent; every refusal comes before it."""
        kind = self._kind(order)
        parent = self._parent
        roll = self.house.roll
        self._check_depth()
        self._check_room()
        if order.team and kind is not None and self._starts_processes:
            parent.check_process_child(kind, order, parent)
        pattern: Pattern = "teammate" if order.team else "fork" if kind is None else "typed"
        clock = parent.session.clock
        (pid, start) = own_process()
        seconds = parent.settings.agents.stall_seconds
        state = AgentState(
            id=blake2b(clock.new_id().encode(), digest_size=8).hexdigest(),
            name=roll.named(order.name, order.type),
            type=order.type,
            pattern=pattern,
            description=brief(order.description) or brief(order.prompt)[:DESCRIBED_CHARS],
            owner=self.name,
            depth=self._depth + 1,
            background=order.background or pattern != "typed" or (kind is not None and kind.background),
            team=order.team,
            model=order.model or parent.session.base.model,
            started=clock.now(),
            pid=pid,
            process_start=start,
        )
        member = RunningAgent(
            name=state.name,
            type=kind,
            model=order.model,
            pulse=IdleTimeout(seconds, above=self._pulse),
            is_isolated=bool(order.isolation or (kind is not None and kind.isolation)),
            view=parent.session.view,
        )
        roll.put(state)
        self.house.members[state.name] = member
        return member

    def _kind(self, order: AgentRequest) -> AgentType | None:
        if order.type == FORK:
            refuse_nested(self._parent.session.view)
            if order.model or order.isolation or order.team:
                raise ToolError("A fork is as its parent is: leave model, isolation and team_name empty.")
            return None
        kind = self.house.types.types.get(order.type)
        if kind is None:
            known = ", ".join([*sorted(self.house.types.types), FORK])
            raise ToolError(f"There is no kind of agent named {order.type[:80]!r}. Known: {known}.")
        return kind

    def _check_depth(self) -> None:
        most = self._parent.settings.agents.max_depth
        if self._depth >= most:
            raise ToolError(
                f"Agents start agents no more than {most} deep: do it here, or report what is left."
            )

    def _check_room(self) -> None:
        settings = self._parent.settings
        roll = self.house.roll
        most = settings.agents.max_at_once
        busy = roll.running
        if roll.root or self._starts_processes:
            busy = max(busy, count_running(settings.home, roll.root or self._parent.session.id))
        if busy >= most:
            raise ToolError(f"{most} agents are at work, which is the most: wait for one, or stop one.")

    async def _again(self, state: AgentState) -> RunningAgent:
        """An agent of an earlier process, as its log left it."""
        pulse = IdleTimeout(self._parent.settings.agents.stall_seconds)
        kind = None if state.pattern == "fork" else self.house.types.types.get(state.type)
        if kind is None and state.pattern != "fork":
            raise ToolError(f"There is no kind of agent named {state.type} any more, which {state.name} was.")
        is_other = state.model != self._parent.session.base.model
        member = RunningAgent(
            name=state.name, type=kind, pulse=pulse, model=state.model if is_other and kind else ""
        )
        if kind is None:
            member.forked = await last_fork_result(self._parent, state.id, state.name)
        member.is_isolated = bool(state.worktree or (kind is not None and kind.isolation))
        self.house.members[state.name] = member
        return member

    async def _let_go(self) -> None:
        """Close those that ended longest ago: they can be opened again, and each holds files."""
        states = self.house.roll.states
        ended = [
            member
            for name, member in self.house.members.items()
            if member.child is not None and states[name].owner == self.name and states[name].status in OVER
        ]
        for member in ended[:-KEPT_OPEN]:
            await member.close()

    async def _begin(self, member: RunningAgent, text: str) -> None:
        """Beside the turn, whose end is not its end."""
        name = f"{AGENT_PURPOSE} {member.name}"
        background = self._parent.background
        await background.wait(name)  # what it has done last may not be put away yet
        work = self._work.play(member, text)
        told = f"waiting for {member.name}"
        member.cancel = partial(background.cancel, name)
        is_begun = background.start(name, work, grace=GRACE_SECONDS, label=told)
        if not is_begun:
            state = self.house.roll.change(member.name, status="stopped", background=False)
            raise ToolError(f"{state.name} was not started: what background work may cost is used up.")

    async def _attended(self, member: RunningAgent, text: str) -> None:
        """In a task of its own, with a copy of the context: what it sets there, nobody else sees."""
        work = self._work.play(member, text)
        task = asyncio.create_task(work, name=f"{AGENT_PURPOSE} {member.name}", context=copy_context())
        member.cancel = partial(_cancelled, task)
        try:
            await task
        except asyncio.CancelledError:
            _put_down(self.house.roll, member.name)
            running = asyncio.current_task()
            if running is None or running.cancelling():
                raise

    def _welcome(self, child: ChildAgent, state: AgentState) -> None:
        """A child is about to begin: who takes part in its session, and who pays."""
        house = self.house
        parent = self._parent
        child.session.on_usage = partial(self._pay, child, state.name)
        if house.hooks is not None:
            add_child_hooks(
                child.session, house.hooks, state.id, state.type, where=lambda: child.hands.workspace.cwd
            )
        for line in child.notices:
            parent.session.notify(line)
        if TOOL in child.agent.tools:
            below = ParentAgent(
                agent=child.agent,
                hands=child.hands,
                settings=child.settings,
                forker=child.forker,
                folder=parent.folder,
                origins=child.origins,
                open_child=parent.open_child,
                check_process_child=parent.check_process_child,
                leaves=child.leaves,
                depth=parent.depth + 1,
            )
            member = house.members[state.name]
            Team(below, house, name=state.name, pulse=member.pulse).join()
        for told in house.on_open:
            told(child, state)

    def _pay(self, child: ChildAgent, name: str, usage: Usage, model: str) -> None:
        """What an agent costs, its owner pays: at once, and in the log at the next boundary."""
        session = self._parent.session
        meter = child.session.meter
        self.house.roll.change(name, tokens=meter.usage.total, cost_usd=meter.cost_usd)
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
        self.news.settle(view)
        return [*self.news.extras(), *self._kinds.extras(view)]

    async def restore(self, kept: Sequence[Item]) -> Sequence[Fragment]:
        return registry_fragments(self.house.roll, self.name)

    async def before_request(self) -> None:
        self.news.settle(self._parent.session.view)

    def _heed(self, state: AgentState) -> None:
        if not state.is_running:
            self._changed.set()

    async def pending(self) -> list[Attachment]:
        """For a session that ends with its answer: the next reports, as long as any are to come."""
        if not self._parent.session.is_one_shot:
            return []
        while True:
            self._changed.clear()
            self.news.settle(self._parent.session.view)
            if extras := self.news.extras():
                return extras
            mine = [one for one in self.states() if one.owner == self.name and one.background]
            if not any(one.is_running for one in mine):
                return []
            await self._changed.wait()


def _check_free(state: AgentState) -> None:
    if state.is_running:
        raise ToolError(f"{state.name} is at work; what you write to it is delivered there.")


async def _cancelled(task: asyncio.Task[None]) -> None:
    if not task.done():
        task.cancel()
        await asyncio.wait({task}, timeout=STOP_SECONDS)


def _put_down(roll: AgentRegistry, name: str) -> AgentState:
    """Whoever was cancelled before the first step could not say so itself."""
    state = roll.states[name]
    is_over = state.status in OVER
    return state if is_over else roll.change(name, status="stopped", doing="")
