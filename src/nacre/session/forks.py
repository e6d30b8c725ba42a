"""Sends forks out from a session: the parent's exact bytes, fewer permissions, and nothing comes back (F1).

A fork's workspace and task list are copies. What it may write into memory goes through the same owners as
the parent's writes, so that memory's index and history hold; file checkpoints are not kept for it, because
what it does is no step of the conversation.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from nacre.cache.breakpoints import place_markers
from nacre.cache.models import profile
from nacre.errors import SpendCapReached, ToolError
from nacre.loop.fork import FULL_ACCESS, ForkResult, ForkTask, FullAccess, branch, refuse_nested, run_fork
from nacre.loop.loop import LoopCallbacks
from nacre.messages.blocks import JsonObject
from nacre.messages.events import Event, ProviderEvent, Reply, StartedOver, Waiting
from nacre.messages.records import Noted, Record, Said
from nacre.messages.text import as_text
from nacre.messages.transcript import Transcript, Write, nowhere
from nacre.messages.usage import Usage
from nacre.messages.view import View
from nacre.providers.base import Provider, Request
from nacre.session.attachments import Attachment, with_attachments
from nacre.session.background import IN_BACKGROUND, Background
from nacre.session.cache_ttl import TOUCHED
from nacre.session.layer import Layer
from nacre.session.meter import SIDE_QUERY, metered
from nacre.session.session import Session
from nacre.tools.base import Tool
from nacre.tools.checkout_guard import deny_other_checkouts
from nacre.tools.guard import Guard
from nacre.tools.policy import Narrowing
from nacre.tools.workspace import Version, Workspace, version_of

ToolFactory = Callable[[Workspace], Sequence[Tool]]
"""Builds tools that work in a workspace."""


MAX_ROUNDS = 200
"""Of a fork that was sent for on purpose: more than any real task took, and an end to going in circles."""


MCP_PREFIX = "mcp__"
"""How the names of tools begin that servers offer: they belong to no workspace."""


def no_tools(workspace: Workspace) -> Sequence[Tool]:
    return ()


class ForkRunner(Layer):
    """Makes forks of one session; hand it to a layer as its `Fork`."""

    def __init__(
        self,
        session: Session,
        provider: Provider,
        tools: Sequence[Tool],
        *,
        guard: Guard,
        background: Background,
        make: ToolFactory = no_tools,
    ) -> None:
        """`tools` are the parent's, of which forks may call those that `make` builds just alike."""
        self.session = session
        self.provider = provider
        self._tools = {one.name: one for one in tools}
        self._guard_of_parent = guard
        self.background = background
        self._make = make
        self._line = PrefixQueue()
        self._foreground: set[asyncio.Task[ForkResult]] = set()

    @property
    def has_model(self) -> bool:
        """Whether a fork would be answered by a model; the embedded engine knows no directives."""
        return self.provider.name != "embedded"

    async def __call__(self, errand: ForkTask) -> ForkResult:
        """Send one fork out; raises what the provider raises."""
        return await self._sent(errand, asyncio.Event())

    async def fan_out(self, errands: Sequence[ForkTask]) -> list[ForkResult | Exception]:
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
        view: View | ForkResult | None = None,
        max_rounds: int = MAX_ROUNDS,
        write: Write | None = None,
        heard: Callable[[Event], None] | None = None,
    ) -> Coroutine[Any, Any, ForkResult]:
        """A fork that may do what its parent may, for a supervisor to run: a cancelled turn does not end it.

        What the parent has said is taken now, not when it begins; where it cannot be sent, this raises at
        once. Those that start from the same words let one go ahead (A1). Instead of a view it takes a fork
        that has ended, which then goes on. `write` keeps what is said, `heard` is told of each event.
        """
        ended = view if isinstance(view, ForkResult) else None
        start = view if isinstance(view, View) else ended.view if ended else self.session.view
        refuse_nested(View() if ended else start)
        errand = ForkTask(
            source="agent",
            directive=directive,
            may=FULL_ACCESS,
            max_rounds=max_rounds,
            max_output=self.session.settings.max_output,
            view=start,
            resumes=ended is not None,
            on_event=heard,
            write=write or nowhere,
        )
        return self._in_line(start, errand)

    async def _in_line(self, view: View, errand: ForkTask) -> ForkResult:
        last = bytes(view.links[-1]) if view.links else b""
        async with self._line.stand(last) as began:
            return await self._fork(view, errand, began)

    def on_cancel(self) -> None:
        """The turn was cancelled: its forks end with it; those of the background do not."""
        for task in self._foreground:
            task.cancel()

    async def _sent(self, errand: ForkTask, began: asyncio.Event) -> ForkResult:
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

    async def side(self, errand: ForkTask, provider: Provider, model: str) -> ForkResult:
        """The same errand for another model, which shares no cache: it gets the newest words as text (F7)."""
        view = errand.view or self.session.view
        session = self.session
        refuse_nested(view)
        room = profile(model).window // 2 - errand.max_output
        told = as_text(view, tokens=max(room, 0))
        words = f"<conversation>\n{told}\n</conversation>\n\n{errand.directive}"
        transcript = await branch(View(), replace(errand, directive=words), clock=session.clock)
        may = errand.may.tools if isinstance(errand.may, Narrowing) else frozenset()
        asking = SideModelRequests(
            session,
            provider,
            self.background,
            errand,
            asyncio.Event(),
            model=model,
            tools=[one for name, one in self._tools.items() if name in may],
        )
        return await self._run(transcript, asking)

    async def _fork(self, view: View, errand: ForkTask, began: asyncio.Event) -> ForkResult:
        session = self.session
        inside = session.profile.strips_old_thinking
        transcript = await branch(view, errand, clock=session.clock, inside_results=inside)
        return await self._run(
            transcript, ForkRequests(session, self.provider, self.background, errand, began)
        )

    async def _run(self, transcript: Transcript, asking: ForkRequests) -> ForkResult:
        session = self.session
        errand = asking.errand
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
    async def _apart(self, errand: ForkTask) -> AsyncGenerator[tuple[Mapping[str, Tool], Guard], None]:
        """The parent's tools by name, on a workspace of the fork's own, behind a guard of its own."""
        workspace = self._guard_of_parent.workspace.clone()
        may = errand.may
        workspace.owned = dict(self._guard_of_parent.workspace.owned)
        workspace.copies = errand.copies
        for path in errand.knows:
            workspace.saw(path, await asyncio.to_thread(_version, path))
        guard = self._guard(may, workspace)
        built = {one.name: one for one in self._make(workspace)} if may is not None else {}
        guarded = guard.stand_before(_same(one, built.get(one.name)) for one in self._tools.values())
        tools = deny_other_checkouts(guarded, workspace, guard.policy)
        lent = {one.name: one for one in self._tools.values() if may == FULL_ACCESS and _is_lent(one)}
        try:
            yield {one.name: one for one in tools} | lent, guard
        finally:
            await workspace.close()

    def _guard(self, may: Narrowing | FullAccess | None, workspace: Workspace) -> Guard:
        """Asks nobody where the fork may do less than its parent; else whom the parent's asks."""
        if isinstance(may, FullAccess):
            return self._guard_of_parent.apart(workspace, who="A fork of this conversation")
        policy = self._guard_of_parent.policy
        return Guard(policy.narrowed(may or Narrowing(tools=frozenset())), workspace)


def _slots(session: Session, transcript: Transcript) -> LoopCallbacks:
    """A fork's results pass through what the parent's pass through; nobody adds to them."""
    layers = [one for layer in session.layers if (one := layer.for_fork()) is not None]

    async def keep(said: Said) -> Sequence[Record]:
        extras: list[Attachment] = []
        if session.redactor is not None:
            said = await session.redactor.filter(said)
        for layer in layers:
            said, new = await layer.filter(said, transcript.view)
            extras += new
        return with_attachments(
            said, extras, session.clock, inside_results=session.profile.strips_old_thinking
        )

    return LoopCallbacks(keep=keep, sift=keep)


def _version(path: Path) -> Version:
    return version_of(path.read_bytes(), path.stat())


def _is_lent(tool: Tool) -> bool:
    """Tools of servers stand behind the parent's guard already; a caller's own stand behind none."""
    return tool.name.startswith(MCP_PREFIX) or not tool.guarded


def _same(tool: Tool, built: Tool | None) -> Tool:
    """What a fork has under this name: the tool built anew, or one that says that it is out of reach."""
    if built is not None and built.definition == tool.definition:
        return built

    async def call(arguments: JsonObject) -> str:
        raise ToolError(f"{tool.name} cannot be called from a fork.")

    return replace(tool, call=call)


def _outcome(task: asyncio.Task[ForkResult]) -> ForkResult | Exception:
    """What came of it, or why nothing did; a cancel is the caller's and passes through."""
    error = task.exception()
    if error is None:
        return task.result()
    if not isinstance(error, Exception):
        raise error
    return error


TOUCHED_SHARE = 0.5
"""Of a fork's request: where it read this much, the provider's cache lives on from there."""
SHARE_DECIMALS = 4


@dataclass(slots=True)
class ForkRequests:
    """The requests of one fork: the parent's bytes before its own, booked beside the conversation."""

    session: Session
    provider: Provider
    background: Background
    errand: ForkTask
    began: asyncio.Event
    """Set once a reply begins: what was sent is in the provider's cache from then on."""
    shared: int | None = None
    """How many messages it has in common with the parent, and with other forks of this view."""
    requests: int = 0
    fork_id: str = ""

    def request(self, view: View, max_output: int) -> Request:
        """The parent's bytes with what is the fork's own behind them."""
        if self.shared is None:
            self.shared = len(self.session.request(view, max_output).messages) - 1
        return self.session.request(view, max_output, branch_at=self.shared)

    @property
    def asked_model(self) -> str | None:
        """Whose prices count where no reply says who answered; none: the session's."""
        return None

    def expected_input(self, view: View) -> Usage:
        return self.session.expected_input(view)

    async def ask(self, view: View, max_output: int) -> AsyncGenerator[ProviderEvent, None]:
        """The loop's slot; the parent's own books are not touched."""
        session = self.session
        source = self.errand.source
        self._check_cap()
        self.fork_id = self.fork_id or session.clock.new_id()
        request = self.request(view, max_output)
        begun = session.clock.now()
        stream = session.telemetry.ask(self.provider, request, purpose=source)
        pay = partial(self._pay, model=self.asked_model, at=begun)
        async with aclosing(metered(stream, self.expected_input(view), pay)) as events:
            async for event in events:
                if not isinstance(event, Waiting | StartedOver):
                    self.began.set()
                match event:
                    case Reply():
                        is_touched = self._touches(view, event.usage, begun)
                        self._pay(event.usage, event.model, at=begun, is_touched=is_touched)
                    case StartedOver(usage=Usage() as wasted):
                        pay(wasted)
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
        session = self.session
        source = self.errand.source
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
class SideModelRequests(ForkRequests):
    """The same of another model, which shares nothing: of the tools it is told those it may call."""

    model: str
    tools: Sequence[Tool]

    def request(self, view: View, max_output: int) -> Request:
        definitions = [one.definition for one in sorted(self.tools, key=lambda one: one.name)]
        rules = profile(self.model)
        system, tools, messages = place_markers([], definitions, view.messages, profile=rules)
        most = min(max_output, rules.max_output)
        return Request(model=self.model, system=system, tools=tools, messages=messages, max_tokens=most)

    @property
    def asked_model(self) -> str | None:
        return self.model

    def expected_input(self, view: View) -> Usage:
        return Usage(input=view.count(), approximate=True)

    def _touches(self, view: View, usage: Usage, begun: datetime) -> bool:
        return False


WAIT_SECONDS = 10.0
"""How long the others wait for the first: a reply has begun by then, or the provider is not well."""


class PrefixQueue:
    """Where requests that begin alike wait until the first of them is being answered."""

    def __init__(self, *, seconds: float = WAIT_SECONDS) -> None:
        self._ahead: dict[bytes, asyncio.Event] = {}
        self._seconds = seconds

    @asynccontextmanager
    async def stand(self, beginning: bytes) -> AsyncGenerator[asyncio.Event, None]:
        """Come in when it is one's turn; whoever is inside sets the event once an answer begins.

        Where the first ends without an answer, the next goes ahead in its place.
        """
        while (ahead := self._ahead.get(beginning)) is not None and not ahead.is_set():
            try:
                async with asyncio.timeout(self._seconds):
                    await ahead.wait()
            except TimeoutError:
                break
        began = asyncio.Event()
        if beginning not in self._ahead:
            under_way = {key: event for key, event in self._ahead.items() if not event.is_set()}
            self._ahead = {**under_way, beginning: began}
        try:
            yield began
        finally:
            if self._ahead.get(beginning) is began and not began.is_set():
                del self._ahead[beginning]
            began.set()
