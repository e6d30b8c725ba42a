"""Runs forks of a session: the parent's exact prefix bytes with fewer permissions (F1).

A fork's workspace and task list are copies. What it writes into memory goes through the same code as the
parent's writes, so that memory's index and history stay correct. No file checkpoints are made for it, because
its changes are not part of the conversation.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cache, partial
from pathlib import Path
from typing import Any

from nacre.cache.breakpoints import place_markers
from nacre.cache.models import PER_MILLION, cost, profile
from nacre.errors import SpendCapReached, ToolError
from nacre.loop.fork import (
    FULL_ACCESS,
    PARTICIPANT,
    ForkResult,
    ForkTask,
    FullAccess,
    branch,
    refuse_nested,
    run_fork,
)
from nacre.loop.loop import LoopCallbacks
from nacre.messages.blocks import JsonObject, ToolResult
from nacre.messages.events import Event, ProviderEvent, Reply, StartedOver, Waiting
from nacre.messages.records import Noted, Record, Said
from nacre.messages.text import as_text
from nacre.messages.tokens import estimate_text
from nacre.messages.transcript import Transcript, Write, nowhere
from nacre.messages.usage import Usage
from nacre.messages.view import View
from nacre.providers.base import Provider, Request, betas_of
from nacre.session.background import AGENT_PURPOSE, IN_BACKGROUND, Background
from nacre.session.cache_ttl import pauses_in
from nacre.session.cached_prefixes import TOUCHED
from nacre.session.layer import Attachment, Layer, with_attachments
from nacre.session.meter import SIDE_QUERY, Meter, metered
from nacre.session.session import Session
from nacre.session.spending import SpendTotal
from nacre.tools.base import Tool, call_with_timeout
from nacre.tools.guard import Guard
from nacre.tools.policy import Narrowing
from nacre.tools.workspace import Version, Workspace, version_of

ToolFactory = Callable[[Workspace], Sequence[Tool]]
"""Builds tools that work in a workspace."""


MAX_ROUNDS = 200
"""Limit for a detached fork: more than any real task took, and an end to endless repetition."""


MCP_PREFIX = "mcp__"
"""Prefix of the names of MCP tools, which belong to no workspace."""


def no_tools(workspace: Workspace) -> Sequence[Tool]:
    return ()


class ForkRunner(Layer):
    """Runs forks of one session; layers use it as their `Fork`."""

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
        """`tools` are the parent's; forks may call those that `make` builds with the same definition."""
        self.session = session
        self.provider = provider
        self._tools = {one.name: one for one in tools}
        self._parent_guard = guard
        self.background = background
        self._make = make
        self._queue = PrefixQueue()
        self._foreground: set[asyncio.Task[ForkResult]] = set()

    @property
    def has_model(self) -> bool:
        """Whether a model would answer a fork; the embedded engine cannot follow directives.

        Neither can a model that is known to call no tools.
        """
        if self.provider.name == "embedded":
            return False
        from nacre.providers.text_calls import TextCallsProvider  # noqa: PLC0415 - the embedded engine needs none

        support = self.provider.support if isinstance(self.provider, TextCallsProvider) else None
        return support != "none"

    async def __call__(self, task: ForkTask, /) -> ForkResult:
        """Run one fork, merged with those of other background tasks; raises what the provider raises."""
        participant = PARTICIPANT.get()
        if participant is not None:
            return await participant.run(task, self._run_alone)
        return await self._run_alone(task)

    async def _run_alone(self, task: ForkTask) -> ForkResult:
        return await self._run_foreground(task, asyncio.Event())

    async def fan_out(self, tasks: Sequence[ForkTask]) -> list[ForkResult | Exception]:
        """Run several forks: the first alone, the others once its reply began, to read its cache."""
        if not tasks:
            return []
        began = asyncio.Event()
        running = [asyncio.create_task(self._run_foreground(tasks[0], began))]
        try:
            await began.wait()
            for task in tasks[1:]:
                running.append(asyncio.create_task(self._run_foreground(task, asyncio.Event())))
            await asyncio.wait(running)
        finally:
            for one in running:
                one.cancel()
            await asyncio.gather(*running, return_exceptions=True)
        return [_outcome(one) for one in running]

    def detached(
        self,
        directive: str,
        *,
        view: View | ForkResult | None = None,
        max_rounds: int = MAX_ROUNDS,
        write: Write | None = None,
        heard: Callable[[Event], None] | None = None,
    ) -> Coroutine[Any, Any, ForkResult]:
        """Return a coroutine that runs a fork with full access, for `Background`; a cancelled turn spares it.

        The view is taken now, not when the coroutine starts; a fork that is not allowed raises at once. Forks
        of the same view wait for the first of them to begin (A1). Given a `ForkResult`, the fork continues
        that one. `write` receives its records, `heard` its events.
        """
        ended = view if isinstance(view, ForkResult) else None
        start = view if isinstance(view, View) else ended.view if ended else self.session.view
        refuse_nested(View() if ended else start)
        task = ForkTask(
            source="agent",
            directive=directive,
            access=FULL_ACCESS,
            max_rounds=max_rounds,
            max_output=self.session.settings.max_output,
            view=start,
            resumes=ended is not None,
            on_event=heard,
            write=write or nowhere,
        )

        async def run() -> ForkResult:
            last_link = bytes(start.links[-1]) if start.links else b""
            async with self._queue.turn(last_link) as began:
                return await self._fork(start, task, began)

        return run()

    def on_cancel(self) -> None:
        """Cancel the forks of the turn; those of the background continue."""
        for running in self._foreground:
            running.cancel()

    async def side(self, task: ForkTask, provider: Provider, model: str) -> ForkResult:
        """Run a task on another model, which shares no cache and gets the newest messages as text (F7)."""
        refuse_nested(task.view or self.session.view)
        directive = side_text(task, task.view or self.session.view, model)
        transcript = await branch(View(), replace(task, directive=directive), clock=self.session.clock)
        allowed = task.access.tools if isinstance(task.access, Narrowing) else frozenset()
        requests = SideModelRequests(
            self.session,
            provider,
            self.background,
            task,
            asyncio.Event(),
            model=model,
            tools=[one for name, one in self._tools.items() if name in allowed],
        )
        return await self._run(transcript, requests)

    async def _run_foreground(self, task: ForkTask, began: asyncio.Event) -> ForkResult:
        view = task.view or self.session.view
        try:
            refuse_nested(view)
            running = asyncio.create_task(self._fork(view, task, began), name=f"fork {task.source}")
            if not IN_BACKGROUND.get():
                self._foreground.add(running)
            running.add_done_callback(self._foreground.discard)
            return await running
        finally:
            began.set()

    async def _fork(self, view: View, task: ForkTask, began: asyncio.Event) -> ForkResult:
        session = self.session
        if view is session.view:
            await session.note_base()
            view = session.view
        inside = session.profile.strips_old_thinking
        transcript = await branch(view, task, clock=session.clock, inside_results=inside)
        requests = ForkRequests(session, self.provider, self.background, task, began)
        return await self._run(transcript, requests)

    async def _run(self, transcript: Transcript, requests: ForkRequests) -> ForkResult:
        session = self.session
        task = requests.task
        layers = [one for layer in session.layers if (one := layer.for_fork()) is not None]

        async def records_of(message: Said) -> Sequence[Record]:
            # Results pass the same filters as the parent's; no layer attaches anything.
            attachments: list[Attachment] = []
            if session.redactor is not None:
                message = await session.redactor.filter(message)
            for layer in layers:
                message, added = await layer.filter(message, transcript.view)
                attachments += added
            inside = session.profile.strips_old_thinking
            return with_attachments(message, attachments, session.clock, inside_results=inside)

        async with self._isolated_tools(task) as (tools, guard):
            result = await run_fork(
                transcript,
                requests.send,
                session.telemetry.tools(session.wrap_tools(tools, task.source)),
                task,
                callbacks=LoopCallbacks(result_records=records_of, cancelled_records=records_of),
                clock=session.clock,
            )
        denials = result.denials + guard.denials
        return replace(result, denials=denials, denied_writes=guard.denied_writes)

    @asynccontextmanager
    async def _isolated_tools(self, task: ForkTask) -> AsyncGenerator[tuple[Mapping[str, Tool], Guard], None]:
        """Yield the parent's tools by name, on a workspace and behind a guard of the fork's own."""
        from nacre.tools.checkout_guard import deny_other_checkouts  # noqa: PLC0415 - few forks have a checkout

        workspace = self._parent_guard.workspace.clone()
        workspace.owned = dict(self._parent_guard.workspace.owned)
        workspace.copies = task.copies
        for path in task.shown_files:
            workspace.saw(path, await asyncio.to_thread(_version, path))
        guard = self._guard(task.access, workspace)

        @cache
        def built() -> Mapping[str, Tool]:
            return {one.name: one for one in self._make(workspace)}

        if task.access == FULL_ACCESS:
            # Now, because it copies the task list; a narrowed fork builds its tools at the first call.
            built()
        guarded = guard.wrap(_on_call(one, built) for one in self._tools.values())
        tools = {one.name: one for one in deny_other_checkouts(guarded, workspace, guard.policy)}
        if task.access == FULL_ACCESS:
            for one in self._tools.values():
                # MCP tools are behind the parent's guard already; a caller's own tools have no guard.
                if one.name.startswith(MCP_PREFIX) or not one.guarded:
                    tools[one.name] = one
        try:
            yield tools, guard
        finally:
            await workspace.close()

    def _guard(self, access: Narrowing | FullAccess | None, workspace: Workspace) -> Guard:
        """Return the fork's guard; only one with full access may ask the person, as the parent does."""
        if isinstance(access, FullAccess):
            return self._parent_guard.for_workspace(workspace, who="A fork of this conversation")
        policy = self._parent_guard.policy
        return Guard(policy.narrowed(access or Narrowing(tools=frozenset())), workspace)


def _version(path: Path) -> Version:
    return version_of(path.read_bytes(), path.stat())


def _on_call(tool: Tool, built: Callable[[], Mapping[str, Tool]]) -> Tool:
    """Return a tool that calls the one built for the fork, if that has the same definition."""

    async def call(arguments: JsonObject) -> ToolResult | str:
        own = built().get(tool.name)
        if own is None or replace(own, deferred=tool.deferred).definition != tool.definition:
            raise ToolError(f"{tool.name} cannot be called from a fork.")
        return await call_with_timeout(own, arguments)

    return replace(tool, call=call)


def _outcome(task: asyncio.Task[ForkResult]) -> ForkResult | Exception:
    """Return the result or the exception of a fork; a cancellation is raised."""
    error = task.exception()
    if error is None:
        return task.result()
    if not isinstance(error, Exception):
        raise error
    return error


BELOW_STEP = 0.8
"""Share of a model's price step that a side request fills at most: sizes are estimates."""
USUAL_OUTPUT = 800
"""Output tokens of an update of the notes together with an extraction."""
LEAST_SUMMARY_TOKENS = 2_000
"""Output tokens of a summary, whatever limit the person set for replies."""
TOUCHED_SHARE = 0.5
"""A fork's request that read at least this share from the cache renewed the parent's cached prefix."""
SHARE_DECIMALS = 4


@dataclass(slots=True)
class ForkRequests:
    """The requests of one fork: the parent's bytes before its own; their cost is noted as side queries."""

    session: Session
    provider: Provider
    background: Background
    task: ForkTask
    began: asyncio.Event
    """Set once a reply begins: from then on the request is in the provider's cache."""
    shared: int | None = None
    """How many messages it has in common with the parent and with other forks of this view."""
    meter: Meter = field(default_factory=Meter)
    fork_id: str = ""

    def request(self, view: View, max_output: int) -> Request:
        """Return the parent's bytes followed by the fork's own."""
        max_output = self.output_limit(max_output)
        if self.shared is None:
            self.shared = len(self.session.request(view, max_output).messages) - 1
        return self.session.request(view, max_output, branch_at=self.shared)

    def output_limit(self, max_output: int) -> int:
        """Return the output limit of a request within the person's own limit."""
        ceiling = self.session.settings.output_ceiling
        if ceiling is None:
            return max_output
        if self.task.source == "compact":
            # A summary that is cut off is useless, and nine sections need some room.
            ceiling = max(ceiling, LEAST_SUMMARY_TOKENS)
        return min(max_output, ceiling)

    @property
    def requested_model(self) -> str | None:
        """The model whose prices apply if no reply names one; None: the session's."""
        return None

    def unfinished_input(self, view: View) -> Usage:
        return self.session.unfinished_input(view)

    async def send(self, view: View, max_output: int) -> AsyncGenerator[ProviderEvent, None]:
        """Stream a reply and note its cost; the parent's prefix monitor is not involved."""
        session = self.session
        source = self.task.source
        if IN_BACKGROUND.get():
            await self._check_limits()
        self.fork_id = self.fork_id or session.clock.new_id()
        request = self.request(view, max_output)
        begun = session.clock.now()
        stream = session.telemetry.ask(self.provider, request, purpose=source)
        add_usage = partial(self._add_usage, model=self.requested_model, at=begun)
        paid = metered(stream, partial(self.unfinished_input, view), add_usage)
        async with aclosing(paid) as events:
            async for event in events:
                if not isinstance(event, Waiting | StartedOver):
                    self.began.set()
                match event:
                    case Reply():
                        is_touched = self._touch_cache(view, event.usage, begun)
                        self._add_usage(event.usage, event.model, at=begun, is_touched=is_touched)
                    case StartedOver(usage=Usage() as wasted):
                        add_usage(wasted)
                    case _:
                        pass
                yield event

    async def _check_limits(self) -> None:
        """Raise `SpendCapReached` if a spending limit is reached, in this process or another."""
        background = self.background
        if background.spending is not None:
            await background.spending.settle()
        if self.task.source == AGENT_PURPOSE:
            background.check_agent("a fork", SpendTotal.of(self.meter))
        elif (refusal := background.allows(self.task.source)) is not None:
            raise SpendCapReached(refusal)

    def _touch_cache(self, view: View, usage: Usage, begun: datetime) -> bool:
        """Return whether the request renewed the parent's cached prefix, and tell the session."""
        self.session.note_cached(view, usage.prompt, begun)
        last = self.session.warmth.touched_at
        is_same = view.epochs == self.session.view.epochs and usage.hit_rate >= TOUCHED_SHARE
        if is_same and (last is None or begun > last):
            self.session.touch_cache(begun)
        return is_same

    def _add_usage(self, usage: Usage, model: str | None, *, at: datetime, is_touched: bool = False) -> None:
        session = self.session
        source = self.task.source
        self.meter = self.meter.after(usage, session.pricing_model(model))
        session.add_usage(usage, model, purpose=source)
        facts: JsonObject = {
            "purpose": source,
            "model": session.pricing_model(model),
            "usage": usage.as_json(),
            "share": round(usage.hit_rate, SHARE_DECIMALS),
            "fork": self.fork_id,
            "request": self.meter.requests,
            TOUCHED: is_touched,
        }
        self.background.record(Noted(id=session.clock.new_id(), at=at, kind=SIDE_QUERY, facts=facts))


def side_text(task: ForkTask, view: View, model: str) -> str:
    """Return the new part of the conversation and the directive, below the price step of the model."""
    rules = profile(model)
    tokens = rules.window // 2 - task.max_output
    if len(rules.prices) > 1:
        step = int(rules.prices[1].above_prompt_tokens * BELOW_STEP)
        tokens = min(tokens, step - estimate_text(task.directive))
    conversation = as_text(view, tokens=max(tokens, 0), after=task.seen_to)
    return f"<conversation>\n{conversation}\n</conversation>\n\n{task.directive}"


def is_cheaper_aside(session: Session, task: ForkTask, model: str) -> bool:
    """Return whether another model, on what is new only, costs less than a fork (F7).

    A fork reads the conversation from the cache and so renews it. Where the cache is kept warm, that saves a
    refresh; elsewhere it saves a write, if the person returns in the time by which it prolongs the cache.
    """
    text = side_text(task, task.view or session.view, model)
    aside = cost(profile(model), Usage(input=estimate_text(text), output=USUAL_OUTPUT))
    refreshes = session.keep_warm is not None and session.profile.refreshes
    read = 0 if refreshes else session.tokens
    used = Usage(cache_read=read, cache_write=estimate_text(task.directive), output=USUAL_OUTPUT)
    fork = cost(session.profile, used)
    if aside is None or fork is None:
        return False
    return aside < fork - (0.0 if refreshes else _renewal_usd(session))


def _renewal_usd(session: Session) -> float:
    """Return what a request that renews the cache now saves on average."""
    idle, lifetime = session.warmth.idle_seconds, session.warmth.lifetime_seconds
    tier = session.profile.tier(session.tokens)
    if tier is None or session.profile.cache == "none" or idle >= lifetime:
        return 0.0
    returns = pauses_in(session.view.records).back_between(lifetime, idle + lifetime, idle=idle)
    return returns * session.tokens * (tier.write_5m - tier.read) / PER_MILLION


@dataclass(slots=True, kw_only=True)
class SideModelRequests(ForkRequests):
    """Requests to another model, which shares no cache; only tools that it may call are sent."""

    model: str
    tools: Sequence[Tool]

    def request(self, view: View, max_output: int) -> Request:
        definitions = [one.definition for one in sorted(self.tools, key=lambda one: one.name)]
        rules = profile(self.model)
        system, tools, messages = place_markers([], definitions, view.messages, profile=rules)
        max_tokens = min(self.output_limit(max_output), rules.max_output)
        return Request(
            model=self.model,
            system=system,
            tools=tools,
            messages=messages,
            max_tokens=max_tokens,
            betas=betas_of(self.model),
        )

    @property
    def requested_model(self) -> str | None:
        return self.model

    def unfinished_input(self, view: View) -> Usage:
        return Usage(input=view.count(), approximate=True)

    def _touch_cache(self, view: View, usage: Usage, begun: datetime) -> bool:
        return False


WAIT_SECONDS = 10.0
"""How long requests wait for the first one to be answered; a provider that takes longer has a problem."""


class PrefixQueue:
    """Makes requests with the same prefix wait until the first of them is being answered, and thus cached."""

    def __init__(self, *, seconds: float = WAIT_SECONDS) -> None:
        self._first: dict[bytes, asyncio.Event] = {}
        self._seconds = seconds

    @asynccontextmanager
    async def turn(self, prefix: bytes) -> AsyncGenerator[asyncio.Event, None]:
        """Wait for one's turn; the caller sets the yielded event once its answer begins.

        If the first request ends without an answer, the next one takes its place.
        """
        while (first := self._first.get(prefix)) is not None and not first.is_set():
            try:
                async with asyncio.timeout(self._seconds):
                    await first.wait()
            except TimeoutError:
                break
        began = asyncio.Event()
        if prefix not in self._first:
            waiting = {key: event for key, event in self._first.items() if not event.is_set()}
            self._first = {**waiting, prefix: began}
        try:
            yield began
        finally:
            if self._first.get(prefix) is began and not began.is_set():
                del self._first[prefix]
            began.set()
