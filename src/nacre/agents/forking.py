"""Sends forks out from a session: the parent's exact bytes, fewer permissions, and nothing comes back (F1).

A fork's workspace and task list are copies. What it may write into memory goes through the same owners as
the parent's writes, so that memory's index and history hold; file checkpoints are not kept for it, because
what it does is no step of the conversation.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from nacre.agents.agent import Agent
from nacre.agents.background import IN_BACKGROUND, Background, supervised
from nacre.agents.hands import Hands, own_tools
from nacre.agents.lifetimes import TOUCHED
from nacre.agents.meter import SIDE_QUERY
from nacre.agents.offloading import Offloader
from nacre.agents.riding import Extra, with_extras
from nacre.agents.session import Session
from nacre.cache.breakpoints import place
from nacre.cache.rules import profile
from nacre.errors import SpendCapReached, ToolError
from nacre.loop.fork import Errand, Forked, branch, refuse_nested, run_fork
from nacre.loop.loop import Slots
from nacre.messages.blocks import JsonObject
from nacre.messages.events import ProviderEvent, Reply, StartedOver
from nacre.messages.plain import as_text
from nacre.messages.records import Noted, Record, Said
from nacre.messages.transcript import Transcript
from nacre.messages.usage import Usage
from nacre.messages.view import View
from nacre.providers.base import Provider, Request
from nacre.settings import Settings
from nacre.tools.base import Tool
from nacre.tools.guard import Guard
from nacre.tools.policy import Narrowing
from nacre.tools.tasks import TaskBoard
from nacre.tools.workspace import Version, Workspace, version_of

Make = Callable[[Workspace], Sequence[Tool]]
"""Builds tools that work in a workspace."""
TOUCHED_SHARE = 0.5
"""Of a fork's request: where it read this much, the provider's cache lives on from there."""
SHARE_DECIMALS = 4


async def join_forks(
    agent: Agent, hands: Hands, settings: Settings, stack: AsyncExitStack, *, shared: Sequence[Tool] = ()
) -> Forker:
    """Let work go on beside an agent's turns: forks of it, under one supervisor, within what it may cost.

    `shared` are tools that forks use as they are, because they belong to no workspace. Leaving the stack
    waits for the work that goes on.
    """
    background = await supervised(agent, settings, stack)

    def make(workspace: Workspace) -> Sequence[Tool]:
        return [*own_tools(settings, workspace, TaskBoard(hands.board.tasks)), *shared]

    tools = tuple(agent.tools.values())
    return Forker(agent.session, agent.provider, tools, hands=hands, background=background, make=make)


def no_tools(workspace: Workspace) -> Sequence[Tool]:
    return ()


class Forker:
    """Makes forks of one session; hand it to a layer as its `Fork`."""

    def __init__(
        self,
        session: Session,
        provider: Provider,
        tools: Sequence[Tool],
        *,
        hands: Hands,
        background: Background,
        make: Make = no_tools,
    ) -> None:
        """`tools` are the parent's, of which forks may call those that `make` builds just alike."""
        self.session = session
        self.provider = provider
        self._tools = {one.name: one for one in tools}
        self._hands = hands
        self.background = background
        self._make = make
        self._foreground: set[asyncio.Task[Forked]] = set()
        session.on_cancel.append(self.stop)

    @property
    def has_model(self) -> bool:
        """Whether a fork would be answered by a model; the embedded engine knows no directives."""
        return self.provider.name != "embedded"

    async def __call__(self, errand: Errand) -> Forked:
        """Send one fork out; raises what the provider raises."""
        return await self._sent(errand, asyncio.Event())

    async def fan_out(self, errands: Sequence[Errand]) -> list[Forked | Exception]:
        """Send several: the first alone, the rest once its reply has begun, so that they read its cache."""
        if not errands:
            return []
        began = asyncio.Event()
        first = asyncio.create_task(self._sent(errands[0], began))
        tasks = [first]
        try:
            await began.wait()
            tasks += [asyncio.create_task(self._sent(one, asyncio.Event())) for one in errands[1:]]
            await asyncio.wait(tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return [_outcome(task) for task in tasks]

    def stop(self) -> None:
        """The turn was cancelled: its forks end with it; those of the background do not."""
        for task in self._foreground:
            task.cancel()

    async def _sent(self, errand: Errand, began: asyncio.Event) -> Forked:
        view = errand.view or self.session.view
        try:
            refuse_nested(view)
            task = asyncio.create_task(self._fork(view, errand, began), name=f"fork {errand.source}")
            if not IN_BACKGROUND.get():
                self._foreground.add(task)
            task.add_done_callback(self._foreground.discard)
            return await task
        finally:
            began.set()

    async def side(self, errand: Errand, provider: Provider, model: str) -> Forked:
        """The same errand for another model, which shares no cache: it gets the newest words as text (F7)."""
        view, session = errand.view or self.session.view, self.session
        refuse_nested(view)
        room = profile(model).window // 2 - errand.max_output
        told = as_text(view, tokens=max(room, 0))
        words = f"<conversation>\n{told}\n</conversation>\n\n{errand.directive}"
        transcript = await branch(View(), replace(errand, directive=words), clock=session.clock)
        may = errand.may.tools if errand.may else frozenset()
        asking = _AskingAside(
            session,
            provider,
            self.background,
            errand,
            asyncio.Event(),
            model=model,
            tools=[one for name, one in self._tools.items() if name in may],
        )
        return await self._run(transcript, asking)

    async def _fork(self, view: View, errand: Errand, began: asyncio.Event) -> Forked:
        session = self.session
        inside = session.profile.strips_old_thinking
        transcript = await branch(view, errand, clock=session.clock, inside_results=inside)
        return await self._run(transcript, _Asking(session, self.provider, self.background, errand, began))

    async def _run(self, transcript: Transcript, asking: _Asking) -> Forked:
        session, errand = self.session, asking.errand
        async with self._apart(errand) as (tools, guard):
            done = await run_fork(
                transcript,
                asking.ask,
                session.telemetry.tools(tools),
                errand,
                slots=_slots(session, transcript),
                clock=session.clock,
            )
        return replace(done, denials=done.denials + guard.denials)

    @asynccontextmanager
    async def _apart(self, errand: Errand) -> AsyncGenerator[tuple[Mapping[str, Tool], Guard], None]:
        """The parent's tools by name, on a workspace of the fork's own, behind a guard that asks nobody."""
        workspace, may = self._hands.workspace.clone(), errand.may
        workspace.owned = dict(self._hands.workspace.owned)
        workspace.copies = errand.copies
        for path in errand.knows:
            workspace.saw(path, await asyncio.to_thread(_version, path))
        policy = self._hands.guard.policy
        guard = Guard(policy.narrowed(may or Narrowing(tools=frozenset())), workspace)
        built = {one.name: one for one in self._make(workspace)} if may is not None else {}
        tools = [_same(one, built.get(one.name)) for one in self._tools.values()]
        try:
            yield {one.name: one for one in guard.stand_before(tools)}, guard
        finally:
            await workspace.close()


@dataclass(slots=True)
class _Asking:
    """The requests of one fork: the parent's bytes before its own, booked beside the conversation."""

    session: Session
    provider: Provider
    background: Background
    errand: Errand
    began: asyncio.Event
    shared: int | None = None
    """How many messages it has in common with the parent, and with other forks of this view."""
    requests: int = 0
    fork_id: str = ""

    def request(self, view: View, max_output: int) -> Request:
        """The parent's bytes with what is the fork's own behind them."""
        if self.shared is None:
            self.shared = len(self.session.request(view, max_output).messages) - 1
        return self.session.request(view, max_output, branch_at=self.shared)

    async def ask(self, view: View, max_output: int) -> AsyncGenerator[ProviderEvent, None]:
        """The loop's slot; the parent's own books are not touched."""
        session, source = self.session, self.errand.source
        self._check_cap()
        self.fork_id = self.fork_id or session.clock.new_id()
        request, begun = self.request(view, max_output), session.clock.now()
        async with aclosing(session.telemetry.ask(self.provider, request, purpose=source)) as events:
            async for event in events:
                self.began.set()
                match event:
                    case Reply():
                        is_touched = self._touches(view, event.usage, begun)
                        self._pay(event.usage, event.model, at=begun, is_touched=is_touched)
                    case StartedOver(usage=Usage() as wasted):
                        self._pay(wasted, None, at=begun)
                    case _:
                        pass
                yield event

    def _touches(self, view: View, usage: Usage, begun: datetime) -> bool:
        """Whether the provider's cache of what the parent sends next lives on from here; says so."""
        last = self.session.warmth.touched_at
        is_later = last is None or begun > last
        is_same = view.epochs == self.session.view.epochs and usage.hit_rate >= TOUCHED_SHARE
        if is_later and is_same:
            self.session.touched(begun)
        return is_same

    def _pay(self, usage: Usage, model: str | None, *, at: datetime, is_touched: bool = False) -> None:
        session, source = self.session, self.errand.source
        self.requests += 1
        session.pay(usage, model, purpose=source)
        facts: JsonObject = {
            "purpose": source,
            "model": session.priced_as(model),
            "usage": usage.as_json(),
            "share": round(usage.hit_rate, SHARE_DECIMALS),
            "fork": self.fork_id,
            "request": self.requests,
            TOUCHED: is_touched,
        }
        self.background.record(Noted(id=session.clock.new_id(), at=at, kind=SIDE_QUERY, facts=facts))

    def _check_cap(self) -> None:
        why = self.background.allows(self.errand.source) if IN_BACKGROUND.get() else None
        if why is not None:
            raise SpendCapReached(why)


@dataclass(slots=True, kw_only=True)
class _AskingAside(_Asking):
    """The same of another model, which shares nothing: of the tools it is told those it may call."""

    model: str
    tools: Sequence[Tool]

    def request(self, view: View, max_output: int) -> Request:
        definitions = [one.definition for one in sorted(self.tools, key=lambda one: one.name)]
        rules = profile(self.model)
        system, tools, messages = place([], definitions, view.messages, profile=rules)
        most = min(max_output, rules.max_output)
        return Request(model=self.model, system=system, tools=tools, messages=messages, max_tokens=most)

    def _touches(self, view: View, usage: Usage, begun: datetime) -> bool:
        return False


def _slots(session: Session, transcript: Transcript) -> Slots:
    """A fork's results pass through what the parent's pass through; nobody adds to them."""
    filters = [one.apart(transcript) if isinstance(one, Offloader) else one for one in session.filters]

    async def keep(said: Said) -> Sequence[Record]:
        extras: list[Extra] = []
        for passed in filters:
            said, new = await passed(said)
            extras += new
        return with_extras(said, extras, session.clock, inside_results=session.profile.strips_old_thinking)

    return Slots(keep=keep, sift=keep)


def _version(path: Path) -> Version:
    return version_of(path.read_bytes(), path.stat())


def _same(tool: Tool, built: Tool | None) -> Tool:
    """What a fork has under this name: the tool built anew, or one that says that it is out of reach."""
    if built is not None and built.definition == tool.definition:
        return built

    async def call(arguments: JsonObject) -> str:
        raise ToolError(f"{tool.name} cannot be called from a fork.")

    return replace(tool, call=call)


def _outcome(task: asyncio.Task[Forked]) -> Forked | Exception:
    """What came of it, or why nothing did; a cancel is the caller's and passes through."""
    error = task.exception()
    if error is None:
        return task.result()
    if not isinstance(error, Exception):
        raise error
    return error
