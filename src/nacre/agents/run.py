"""Opens a child agent, runs its turns, and records the result of each, however it ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from nacre import prompts
from nacre.agents.activity import ActivityWatcher, reply_activity
from nacre.agents.registry import AgentRegistry, AgentState, IdleTimeout, Status
from nacre.agents.tools import AgentRequest
from nacre.agents.toolset import Toolset
from nacre.agents.types import AgentType
from nacre.cache.models import cost, profile
from nacre.context.privacy import OriginTracker
from nacre.errors import SpendCapReached, StoreError, ToolError
from nacre.loop.fork import FORK, ForkResult
from nacre.messages.events import Event, Reply, TurnDone
from nacre.messages.records import Noted, Record
from nacre.messages.usage import Usage
from nacre.messages.view import View
from nacre.session.agent import SessionAgent
from nacre.session.background import Background
from nacre.session.forks import ForkRunner
from nacre.session.log_writer import AgentLog, SessionLogWriter, agent_log_path
from nacre.session.session import Session
from nacre.settings import Settings
from nacre.store.lines import read_lines
from nacre.store.tool_results import ToolResultStore
from nacre.tools.run import RUNNING

if TYPE_CHECKING:
    from nacre.agents.worktree import KeptWorktree, Worktree

WOKEN = prompts.load(__package__, "mail_woken")
NOTHING_SAID = "(It ended without a word.)"
STOPPED = "It was stopped before it was done."
STALLED = "It was stopped because nothing was heard of it for {seconds:g} seconds."
OUT_OF_ROUNDS = "It came to the end of its rounds ({rounds}) before it was done."
ERROR_CHARS = 2_000
"""Maximum length of an error message: an exception may quote a whole document."""
LOST = "{name} was a fork of this conversation, which has been shortened since; start another agent instead."


@dataclass(frozen=True, slots=True, kw_only=True)
class ParentAgent:
    """The agent that opens children, and what they inherit."""

    agent: SessionAgent
    toolset: Toolset
    settings: Settings
    forker: ForkRunner
    folder: Path | None
    """Session folder, with the logs of all its agents; None if the session is not stored."""
    origins: OriginTracker
    """Finds the origin of a text in its conversation."""
    open_child: Callable[[ChildSpec, ParentAgent, AsyncExitStack], Awaitable[ChildAgent]]
    """Opens an agent in this process; closing the stack closes it."""
    check_process_child: Callable[[AgentType, AgentRequest, ParentAgent], None]
    """Raises `ToolError` for what an agent in a separate process cannot do."""
    is_remote: bool = True
    """Whether its model requests leave the machine."""
    depth: int = 0

    @property
    def session(self) -> Session:
        return self.agent.session

    @property
    def background(self) -> Background:
        return self.forker.background


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildSpec:
    """The child agent to open."""

    id: str
    name: str
    owner: str
    type: AgentType
    model: str = ""
    """Overrides the model of its type."""
    tree: Worktree | None = None
    """Worktree to work in; None: the directory of the parent's session."""
    pulse: IdleTimeout
    records: Sequence[Record] = ()
    """Its earlier records, if they are in no log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildAgent:
    """An opened child agent."""

    agent: SessionAgent
    toolset: Toolset
    forker: ForkRunner
    settings: Settings
    origins: OriginTracker
    is_remote: bool
    notices: tuple[str, ...] = ()

    @property
    def session(self) -> Session:
        return self.agent.session


@dataclass(slots=True, kw_only=True, eq=False)
class RunningAgent:
    """An agent that runs in this process; mutable, owned by its team."""

    name: str
    type: AgentType | None
    """None for a fork."""
    model: str = ""
    pulse: IdleTimeout
    is_isolated: bool = False
    """Whether it works in a worktree."""
    tree: Worktree | None = None
    child: ChildAgent | None = None
    view: View = field(default_factory=View, repr=False)
    """The view that a fork starts from."""
    forked: ForkResult | None = None
    """The result of a fork's last run."""
    stack: AsyncExitStack = field(default_factory=AsyncExitStack)
    records: tuple[Record, ...] = ()
    """Its records, if they are in no log and it is not open."""
    cancel: Callable[[], Awaitable[object]] | None = None
    """Cancels its run and waits for the end; None if it was never started."""
    last: str = ""
    """Text of its last reply."""
    ending: str = ""

    async def close(self) -> None:
        """Close the agent; it can be opened again."""
        child = self.child
        self.child = None
        stack = self.stack
        self.stack = AsyncExitStack()
        if child is not None:
            self.records = tuple(child.session.transcript.records)
        await stack.aclose()


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRunner:
    """Runs the agents of one owner."""

    parent: ParentAgent
    registry: AgentRegistry
    opened: Callable[[ChildAgent, AgentState], None]
    """Called with every child before it starts."""
    progress: ActivityWatcher | None = None

    async def play(self, member: RunningAgent, text: str) -> None:
        """Run one turn of an agent and record its report in the registry.

        Without a text the turn starts with the letters that have arrived.

        Returns normally if the agent fails; a cancellation is raised again once the result is stored.
        """
        RUNNING.set(None)  # a separate task, not part of the call that started it
        clock = self.parent.session.clock
        begun = clock.seconds()
        member.last = ""
        member.ending = ""
        status: Status = "stopped"
        try:
            status = await self._run(member, text)
        finally:
            left = await _finish_worktree(member)
            self._put(member, status, left, clock.seconds() - begun)

    def _put(self, member: RunningAgent, status: Status, left: KeptWorktree | None, seconds: float) -> None:
        state = self.registry.states[member.name]
        parent = self.parent
        said = "\n\n".join(part for part in (member.ending, member.last) if part) or NOTHING_SAID
        if left is not None:
            said += f"\n\nWhat it changed is in {left.description}"
        if state.pattern == "teammate" and status == "completed":
            status = "idle"
        chars = parent.settings.agents.result_chars
        self.registry.put(
            replace(
                state,
                status=status,
                result=bounded(said, f"{state.id}-{state.run}", parent.folder, chars),
                seconds=seconds,
                doing="",
                worktree=str(left.path) if left else "",
                branch=left.branch if left else "",
            )
        )

    async def _run(self, member: RunningAgent, text: str) -> Status:
        limit = asyncio.timeout(None)
        try:
            async with limit:
                with member.pulse.watched(limit):
                    return await (self._turn if member.type else self._fork)(member, text)
        except TimeoutError as error:
            if not limit.expired():
                return _failed(member, error)
            member.ending = STALLED.format(seconds=self.parent.settings.agents.stall_seconds)
            return "stalled"
        except asyncio.CancelledError:
            member.ending = STOPPED
            raise
        except SpendCapReached as error:
            member.ending = f"It was stopped: {error}"
            return "stopped"
        except Exception as error:  # noqa: BLE001  # a background task: its owner reads what went wrong
            return _failed(member, error)

    async def _turn(self, member: RunningAgent, text: str) -> Status:
        child = await self._open(member)
        outcome = "answered"
        if not text:
            await child.session.add_user(WOKEN, is_persons=False)
        async with (
            self._shown_activity(member, child),
            aclosing(child.agent.stream(text or None)) as events,
        ):
            async for event in events:
                self.heard(member, event)
                if isinstance(event, TurnDone):
                    outcome = event.outcome
        if outcome != "turn_limit":
            return "completed"
        member.ending = OUT_OF_ROUNDS.format(rounds=child.agent.limits.max_rounds)
        return "stopped"

    async def _fork(self, member: RunningAgent, text: str) -> Status:
        """Run a fork from the parent's view when it was requested, or from its own end."""
        agent = self.registry.states[member.name].id
        member.forked = done = await send_fork(
            self.parent, member.forked or member.view, text, agent=agent, heard=partial(self.heard, member)
        )
        if done.stop_reason != "tool_use":
            return "completed"
        member.ending = OUT_OF_ROUNDS.format(rounds=len(done.replies))
        return "stopped"

    async def _open(self, member: RunningAgent) -> ChildAgent:
        """Return the open child, or open it."""
        if member.child is not None:
            return member.child
        assert member.type is not None, "only a kind of agent is opened"
        state = self.registry.states[member.name]
        parent = self.parent
        if member.is_isolated and member.tree is None:
            member.tree = await _tree(state, parent)
        spec = ChildSpec(
            id=state.id,
            name=state.name,
            owner=state.owner,
            type=member.type,
            model=member.model,
            tree=member.tree,
            pulse=member.pulse,
            records=member.records,
        )
        try:
            member.child = await self.parent.open_child(spec, self.parent, member.stack)
            self.opened(member.child, state)
        except BaseException:
            await member.close()
            raise
        return member.child

    @asynccontextmanager
    async def _shown_activity(self, member: RunningAgent, child: ChildAgent) -> AsyncGenerator[None, None]:
        """Report the activity of an agent within the block."""
        if self.progress is None:
            yield
            return

        def show(line: str) -> None:
            if self.registry.states[member.name].is_running:
                self.registry.change(member.name, doing=line)

        watching = asyncio.create_task(
            self.progress.watch(
                lambda: child.session.view,
                show,
                stays=child.session.telemetry.hides_words,
            ),
            name=f"progress of {member.name}",
        )
        try:
            yield
        finally:
            watching.cancel()
            await asyncio.wait({watching})
            if not watching.cancelled():
                watching.exception()  # retrieved: a missing line does not matter

    def heard(self, member: RunningAgent, event: Event) -> None:
        """Handle an event: restart the timeout, and update the registry after a reply."""
        member.pulse.beat()
        if not isinstance(event, Reply):
            return
        if event.message.text:
            member.last = event.message.text
        state = self.registry.states[member.name]
        usage = event.usage
        if member.child is None:
            # A fork has no meter and is not watched: its conversation is not available before it ends.
            price = cost(profile(self.parent.session.pricing_model(event.model)), usage)
            tokens = state.tokens + usage.total
            paid = None if price is None or state.cost_usd is None else state.cost_usd + price
            state = replace(state, tokens=tokens, cost_usd=paid, doing=reply_activity(event.message))
        calls = state.calls + len(event.message.tool_calls)
        self.registry.put(replace(state, rounds=state.rounds + 1, calls=calls))


def bounded(text: str, name: str, folder: Path | None, chars: int) -> str:
    """Return a report; of a long one the beginning and the path of the whole."""
    if len(text) <= chars:
        return text
    try:
        kept = ToolResultStore(folder / "tool-results" if folder else None).keep(f"agent-{name}", text)
        where = f"the whole report, {len(text):,} characters, is in {kept.path}"
    except StoreError as error:
        where = f"the report has {len(text):,} characters, and the rest cannot be kept: {error}"
    return f"{text[:chars]}\n[Cut here: {where}]"


def _failed(member: RunningAgent, error: BaseException) -> Status:
    words = " ".join(str(error).split())[:ERROR_CHARS]
    member.ending = f"It failed: {words or type(error).__name__}"
    return "failed"


async def _tree(state: AgentState, parent: ParentAgent) -> Worktree:
    """Return the worktree of an earlier run if it exists, else a new one."""
    from nacre.agents.worktree import make, records, take_over  # noqa: PLC0415 - few agents have a worktree

    settings = parent.settings
    session = parent.session
    known = await asyncio.to_thread(lambda: [one.tree for one in records(settings.home)])
    for tree in known:
        if state.worktree and tree.path == Path(state.worktree) and tree.path.is_dir():
            take_over(tree, session=session.id, clock=session.clock)
            return tree
    return await make(settings.cwd, state.id, home=settings.home, session=session.id, clock=session.clock)


async def _finish_worktree(member: RunningAgent) -> KeptWorktree | None:
    """Remove an unchanged worktree; return one that stays."""
    from nacre.agents.worktree import finish  # noqa: PLC0415 - see _tree

    if member.tree is None:
        return None
    looking = asyncio.ensure_future(finish(member.tree))
    with suppress(asyncio.CancelledError):
        await asyncio.shield(looking)
    left = await looking
    if left is None:
        member.tree = None
        await member.close()
    return left


async def send_fork(
    parent: ParentAgent, start: View | ForkResult, text: str, *, agent: str, heard: Callable[[Event], None]
) -> ForkResult:
    """Run a fork to its end, with a log if the session has one."""
    writer = parent.session.writer
    if parent.folder is None or not isinstance(writer, SessionLogWriter):
        return await parent.forker.detached(text, view=start, heard=heard)
    with AgentLog(agent_log_path(parent.folder, agent), writer.envelope, agent=agent) as log:
        return await parent.forker.detached(text, view=start, write=log.write, heard=heard)


async def last_fork_result(parent: ParentAgent, agent: str, name: str) -> ForkResult:
    """Restore the result of a fork of an earlier process from both logs; raises `ToolError` if that fails."""
    if parent.folder is None:
        raise ToolError(LOST.format(name=name))
    own = await asyncio.to_thread(_records, agent_log_path(parent.folder, agent))
    above = parent.session.transcript.records
    mark = next((one for one in own if isinstance(one, Noted) and one.kind == FORK), None)
    ids = [one.id for one in above]
    if mark is None or mark.fact("after") not in ids:
        raise ToolError(LOST.format(name=name))
    # The parent's records up to the start of the fork, followed by its own.
    shared = above[: ids.index(str(mark.fact("after"))) + 1]
    seen = {one.id for one in shared}
    view = View.of([*shared, *(one for one in own if one.id not in seen)])
    return ForkResult(source="agent", replies=(), usage=Usage(), first=Usage(), view=view)


def _records(path: Path) -> list[Record]:
    from nacre.messages.jsonl import decode  # noqa: PLC0415 - a new agent reads no log

    return decode(read_lines(path), subagent=True).records if path.is_file() else []
