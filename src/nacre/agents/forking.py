"""Sends forks out from a session: the parent's exact bytes, fewer permissions, and nothing comes back (F1).

A fork's workspace and task list are copies. What it may write into memory goes through the same owners as
the parent's writes, so that memory's index and history hold; file checkpoints are not kept for it, because
what it does is no step of the conversation.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from nacre.agents.agent import Agent
from nacre.agents.background import IN_BACKGROUND, Background, supervised
from nacre.agents.child_apart import kept_out
from nacre.agents.forking_asking import Asking, AskingAside
from nacre.agents.forking_line import Line
from nacre.agents.hands import Hands, own_tools
from nacre.agents.layer import Layer
from nacre.agents.riding import Extra, with_extras
from nacre.agents.session import Session
from nacre.cache.rules import profile
from nacre.errors import ToolError
from nacre.loop.fork import WHOLE, Errand, Forked, Whole, branch, refuse_nested, run_fork
from nacre.loop.loop import Slots
from nacre.messages.blocks import JsonObject
from nacre.messages.events import Event
from nacre.messages.plain import as_text
from nacre.messages.records import Record, Said
from nacre.messages.transcript import Transcript, Write, nowhere
from nacre.messages.view import View
from nacre.providers.base import Provider
from nacre.settings import Settings
from nacre.tools.base import Tool
from nacre.tools.guard import Guard
from nacre.tools.policy import Narrowing
from nacre.tools.tasks import TaskBoard
from nacre.tools.workspace import Version, Workspace, version_of

Make = Callable[[Workspace], Sequence[Tool]]
"""Builds tools that work in a workspace."""
MAX_ROUNDS = 200
"""Of a fork that was sent for on purpose: more than any real task took, and an end to going in circles."""
FROM_SERVERS = "mcp__"
"""How the names of tools begin that servers offer: they belong to no workspace."""


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
    forker = Forker(agent.session, agent.provider, tools, hands=hands, background=background, make=make)
    agent.session.layers.append(forker)
    return forker


def no_tools(workspace: Workspace) -> Sequence[Tool]:
    return ()


class Forker(Layer):
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
        self._line = Line()
        self._foreground: set[asyncio.Task[Forked]] = set()

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

    def detached(
        self,
        directive: str,
        *,
        view: View | Forked | None = None,
        max_rounds: int = MAX_ROUNDS,
        write: Write | None = None,
        heard: Callable[[Event], None] | None = None,
    ) -> Coroutine[Any, Any, Forked]:
        """A fork that may do what its parent may, for a supervisor to run: a cancelled turn does not end it.

        What the parent has said is taken now, not when it begins; where it cannot be sent, this raises at
        once. Those that start from the same words let one go ahead (A1). Instead of a view it takes a fork
        that has ended, which then goes on. `write` keeps what is said, `heard` is told of each event.
        """
        ended = view if isinstance(view, Forked) else None
        start = view if isinstance(view, View) else ended.view if ended else self.session.view
        refuse_nested(View() if ended else start)
        errand = Errand(
            source="agent",
            directive=directive,
            may=WHOLE,
            max_rounds=max_rounds,
            max_output=self.session.settings.max_output,
            view=start,
            resumes=ended is not None,
            on_event=heard,
            write=write or nowhere,
        )
        return self._in_line(start, errand)

    async def _in_line(self, view: View, errand: Errand) -> Forked:
        last = bytes(view.links[-1]) if view.links else b""
        async with self._line.stand(last) as began:
            return await self._fork(view, errand, began)

    def on_cancel(self) -> None:
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
        may = errand.may.tools if isinstance(errand.may, Narrowing) else frozenset()
        asking = AskingAside(
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
        return await self._run(transcript, Asking(session, self.provider, self.background, errand, began))

    async def _run(self, transcript: Transcript, asking: Asking) -> Forked:
        session, errand = self.session, asking.errand
        async with self._apart(errand) as (tools, guard):
            done = await run_fork(
                transcript,
                asking.ask,
                session.telemetry.tools(session.wrapped(tools, errand.source)),
                errand,
                slots=_slots(session, transcript),
                clock=session.clock,
            )
        return replace(done, denials=done.denials + guard.denials)

    @asynccontextmanager
    async def _apart(self, errand: Errand) -> AsyncGenerator[tuple[Mapping[str, Tool], Guard], None]:
        """The parent's tools by name, on a workspace of the fork's own, behind a guard of its own."""
        workspace, may = self._hands.workspace.clone(), errand.may
        workspace.owned = dict(self._hands.workspace.owned)
        workspace.copies = errand.copies
        for path in errand.knows:
            workspace.saw(path, await asyncio.to_thread(_version, path))
        guard = self._guard(may, workspace)
        built = {one.name: one for one in self._make(workspace)} if may is not None else {}
        guarded = guard.stand_before(_same(one, built.get(one.name)) for one in self._tools.values())
        tools = kept_out(guarded, workspace, guard.policy)
        lent = {one.name: one for one in self._tools.values() if may == WHOLE and _is_lent(one)}
        try:
            yield {one.name: one for one in tools} | lent, guard
        finally:
            await workspace.close()

    def _guard(self, may: Narrowing | Whole | None, workspace: Workspace) -> Guard:
        """Asks nobody where the fork may do less than its parent; else whom the parent's asks."""
        if isinstance(may, Whole):
            return self._hands.guard.apart(workspace, who="A fork of this conversation")
        policy = self._hands.guard.policy
        return Guard(policy.narrowed(may or Narrowing(tools=frozenset())), workspace)


def _slots(session: Session, transcript: Transcript) -> Slots:
    """A fork's results pass through what the parent's pass through; nobody adds to them."""
    layers = [one for layer in session.layers if (one := layer.for_fork()) is not None]

    async def keep(said: Said) -> Sequence[Record]:
        extras: list[Extra] = []
        if session.redactor is not None:
            said = await session.redactor.filter(said)
        for layer in layers:
            said, new = await layer.filter(said, transcript.view)
            extras += new
        return with_extras(said, extras, session.clock, inside_results=session.profile.strips_old_thinking)

    return Slots(keep=keep, sift=keep)


def _version(path: Path) -> Version:
    return version_of(path.read_bytes(), path.stat())


def _is_lent(tool: Tool) -> bool:
    """Tools of servers stand behind the parent's guard already; a caller's own stand behind none."""
    return tool.name.startswith(FROM_SERVERS) or not tool.guarded


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
