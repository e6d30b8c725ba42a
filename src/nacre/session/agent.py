"""Runs turns of one session, at most one at a time.

A turn records the prompt, runs the loop, lets layers continue it, and writes what it cost.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import AsyncGeneratorType
from typing import cast

from nacre.errors import AgentBusy, ProviderError
from nacre.loop.loop import LoopCallbacks, run
from nacre.loop.round import Limits, message_record
from nacre.messages.blocks import Image, JsonObject, Message, Text
from nacre.messages.events import (
    REFUSAL,
    Event,
    Notice,
    Outcome,
    ProviderEvent,
    Reply,
    StartedOver,
    TurnDone,
    Waiting,
)
from nacre.messages.media import ImageInput, as_image
from nacre.messages.records import Noted, Said
from nacre.messages.usage import Usage
from nacre.messages.view import View
from nacre.providers.base import Provider, Request
from nacre.session.layer import RECORD, Attachment
from nacre.session.meter import metered
from nacre.session.session import Session
from nacre.tools.base import Tool

DEFAULT_LIMITS = Limits()
UNNAMED = "unnamed"
"""The model's name if a program brings a provider and does not name a model."""
UNDER_WAY = (
    "this agent is running a turn; wait until it ends, call `await agent.cancel()` if its events are no "
    "longer read, or use a second agent"
)
BEING_READ = "this agent is running a turn; cancel the task that reads its events, or wait until it ends"
INSIDE_LOOP = "run_sync() cannot be called while an event loop is running; write `await agent.run(…)` instead"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """The result of one turn."""

    output: str
    """Text of the final reply."""
    usage: Usage
    """Tokens of all model requests of this turn."""
    cost_usd: float | None
    """Price of these requests; None if the prices of the model are not known."""
    messages: tuple[Message, ...]
    """The whole conversation so far, without what layers attached to it."""
    outcome: Outcome = "answered"
    """`refused` if the model declined to answer, `empty` if its last reply has no text, `turn_limit` if it
    made too many requests in a row."""


class SessionAgent:
    """Runs turns of one session, one at a time."""

    def __init__(
        self,
        session: Session,
        provider: Provider,
        tools: Sequence[Tool] = (),
        *,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        self.session = session
        session.count_request = provider.count_tokens
        self.provider = provider
        self.tools = {one.name: one for one in tools}
        self.limits = limits
        self._turn: AsyncGeneratorType[Event, None] | None = None
        self._reader: asyncio.Task[object] | None = None
        self._runner: asyncio.Runner | None = None

    async def run(self, prompt: str | None, *, images: Sequence[ImageInput] = ()) -> RunResult:
        """Run one turn and return its result; the next call continues the same conversation.

        `images` are pictures for the model: paths, bytes or `Image` blocks.
        """
        done: TurnDone | None = None
        async with aclosing(self.stream(prompt, images=images)) as events:
            async for event in events:
                done = event if isinstance(event, TurnDone) else done
        assert done is not None, "a turn that does not raise ends with TurnDone"
        reply = self.session.view.last_reply
        said = (one for one in self.session.transcript.records if isinstance(one, Said))
        return RunResult(
            output=reply.text if reply else "",
            usage=done.usage,
            cost_usd=done.cost_usd,
            messages=tuple(one.message for one in said if not one.meta and not one.aside),
            outcome=done.outcome,
        )

    def run_sync(self, prompt: str | None, *, images: Sequence[ImageInput] = ()) -> RunResult:
        """Run one turn from code without an event loop; raises `RuntimeError` inside one."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            pass
        else:
            raise RuntimeError(INSIDE_LOOP)
        if self._runner is None:
            # One loop for all calls: connections of the provider belong to the loop that opened them.
            self._runner = asyncio.Runner()
            weakref.finalize(self, self._runner.get_loop().close)
        return self._runner.run(self.run(prompt, images=images))

    async def stream(
        self, prompt: str | None, *, images: Sequence[ImageInput] = ()
    ) -> AsyncGenerator[Event, None]:
        """Run one turn and yield its events; without a prompt the last turn is continued (Q5).

        Cancelling the task that reads the events, or closing the generator, stops the request and every tool
        and leaves a session that can go on. Raises `AgentBusy` while another task reads a turn of this agent.
        """
        if prompt is not None and not isinstance(prompt, str):
            raise TypeError(f"a prompt is a text, not {type(prompt).__name__}")
        if prompt is not None and not prompt.strip():
            raise ValueError("the prompt is empty; pass some text, or None to continue the last turn")
        if images and prompt is None:
            raise ValueError("images belong to a prompt; pass some text with them")
        pictures = await asyncio.to_thread(_read_images, images) if images else ()
        reader = self._reader
        # This task has given up the turn that it began; another one may still read its own.
        if self._turn and reader and not reader.done() and reader is not asyncio.current_task():
            raise AgentBusy(UNDER_WAY)
        await self.cancel()
        self._turn = mine = cast("AsyncGeneratorType[Event, None]", self._run_turn(prompt, pictures))
        self._reader = asyncio.current_task()
        try:
            async with aclosing(mine) as events:
                async for event in events:
                    yield event
        finally:
            if self._turn is mine:
                self._turn = None

    async def cancel(self) -> None:
        """Stop a turn whose events were not read to the end; raises `AgentBusy` while they are being read."""
        unfinished = self._turn
        if unfinished is None:
            return
        if unfinished.ag_running:
            raise AgentBusy(BEING_READ)
        try:
            await unfinished.aclose()
        finally:
            # Only after it is closed may another turn begin.
            if self._turn is unfinished:
                self._turn = None

    async def _run_turn(
        self, prompt: str | None, images: Sequence[Image] = ()
    ) -> AsyncGenerator[Event, None]:
        """Run the turn between the layers' `before_turn` and `after_turn`."""
        session = self.session
        for layer in session.layers:
            await layer.before_turn()
        events_of_turn = turn(
            session, self.provider, prompt, images=images, tools=self.tools, limits=self.limits
        )
        traced = session.telemetry.turn(events_of_turn, self.provider.name, session.base.model)
        async with aclosing(traced) as events:
            async for event in events:
                yield event
        for layer in session.layers:
            await layer.after_turn()


LEAST_OUTPUT_SHARE = 0.1
"""Share of the window that a reply may take at least: as much as the thresholds keep free for it (C3)."""
MAX_CONTINUATIONS = 3
"""How often layers may continue a turn after its last reply, so that a hook cannot hold it for ever."""
DECLINED = "The model declined to answer; say it in other words, or ask another model (--model)."
EMPTY = "The model sent an empty reply; /retry asks again, or say it in other words."
NOT_CONTINUED = "The turn ends here, although a command of yours wants it to go on: {why}."


def _read_images(images: Sequence[ImageInput]) -> tuple[Image, ...]:
    if isinstance(images, str | bytes | Path | Image):
        raise TypeError("images takes a list; write images=[…]")
    return tuple(as_image(one) for one in images)


async def turn(
    session: Session,
    provider: Provider,
    text: str | None,
    *,
    images: Sequence[Image] = (),
    tools: Mapping[str, Tool],
    limits: Limits,
) -> AsyncGenerator[Event, None]:
    """Run one turn from the prompt to the final reply; the prompt is on disk before anything is sent.

    Without a text the turn continues from where the conversation stands.
    """
    if text is not None:
        await session.add_user(text, images=images)
    progress = _Progress(limits)
    before = session.meter
    is_over = False
    try:
        for notice in session.notices():
            yield notice
        while not is_over:
            async with aclosing(_rounds(session, provider, tools, progress.limits_left)) as events:
                async for event in events:
                    progress.count(event, session)
                    # Notices about what happened before the request come before its first event.
                    for notice in session.notices():
                        yield notice
                    yield event
            is_over = not await _continue(session, progress)
            for notice in session.notices():
                yield notice
    except BaseException:
        session.cancel_turn()
        raise
    finally:
        await session.write_unfinished_usage()
        await session.writer.sync()
    if progress.outcome == "refused" and not progress.answer:
        yield Notice(DECLINED, "warning")
    if progress.outcome == "empty":
        yield Notice(EMPTY, "warning")
    is_priced = session.meter.unpriced == before.unpriced
    cost = session.meter.cost_usd - before.cost_usd if is_priced else None
    yield TurnDone(progress.outcome, rounds=progress.rounds, usage=progress.usage, cost_usd=cost)


class _Progress:
    """What a turn has used so far, and its last reply."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._last: Reply | None = None
        self.usage = Usage()
        self.rounds = 0
        self.continuations = 0

    def count(self, event: Event, session: Session) -> None:
        match event:
            case Reply():
                self.usage += event.usage
                self.rounds += 1
                self._last = event
            case StartedOver(usage=Usage() as wasted):
                session.add_unfinished_usage(wasted)
                self.usage += wasted
            case _:
                pass

    @property
    def answer(self) -> str | None:
        """The text of the last reply, unless it still calls tools."""
        return None if self._last is None or self._last.message.tool_calls else self._last.message.text

    @property
    def outcome(self) -> Outcome:
        if self._last is None or self._last.message.tool_calls:
            return "turn_limit"
        if self._last.stop_reason == REFUSAL:
            return "refused"
        return "answered" if self._last.message.text.strip() else "empty"

    @property
    def limits_left(self) -> Limits:
        return replace(self._limits, max_rounds=self._limits.max_rounds - self.rounds)


def _rounds(
    session: Session, provider: Provider, tools: Mapping[str, Tool], limits: Limits
) -> AsyncGenerator[Event, None]:
    """Run the loop with the callbacks of this session."""
    if session.needs_raised_output:
        limits = replace(limits, max_output=max(limits.max_output, limits.raised_output))

    async def stream(request: Request) -> AsyncGenerator[ProviderEvent, None]:
        has_started = False
        try:
            async with aclosing(session.telemetry.ask(provider, request)) as events:
                async for event in events:
                    has_started = has_started or not isinstance(event, Waiting)
                    yield event
        except ProviderError:
            if not has_started:
                session.request_refused()
            raise

    def send(view: View, max_output: int) -> AsyncGenerator[ProviderEvent, None]:
        if max_output > limits.max_output:
            session.note_raised_output(max_output)
        # Some providers refuse a limit that does not fit the window together with the prompt.
        room = session.window - session.count_tokens(view)
        least = min(session.settings.max_output, int(session.window * LEAST_OUTPUT_SHARE))
        max_output = min(max_output, max(room, least))
        return metered(
            stream(session.start_request(view, max_output)),
            partial(session.unfinished_input, view),
            session.add_unfinished_usage,
            on_start=session.timer.started,
        )

    callbacks = LoopCallbacks(
        fit=session.fit,
        result_records=session.message_records,
        cancelled_records=partial(session.message_records, attach=False),
        on_reply=session.on_reply,
    )
    wrapped = session.telemetry.tools(session.wrap_tools(tools))
    return run(session.transcript, send, wrapped, callbacks=callbacks, limits=limits, clock=session.clock)


async def _continue(session: Session, progress: _Progress) -> bool:
    """Ask layers whether an answered turn continues, and record the messages that make it do so."""
    if progress.answer is None:
        return False
    has_rounds_left = progress.limits_left.max_rounds > 0
    if has_rounds_left:
        # The model waits for these itself; only when all have arrived are layers asked about the stop.
        pending = [one for layer in session.layers for one in await layer.pending()]
        if pending:
            await _add(session, pending)
            return True
    continued = progress.continuations > 0
    asked = [await layer.before_stop(progress.answer, continued=continued) for layer in session.layers]
    messages = [one for one in asked if one is not None]
    if not messages:
        return False
    is_limit_reached = progress.continuations == MAX_CONTINUATIONS
    if is_limit_reached or not has_rounds_left:
        why = f"it did {MAX_CONTINUATIONS} times" if is_limit_reached else "no round is left"
        session.notify(NOT_CONTINUED.format(why=why))
        return False
    progress.continuations += 1
    await _add(session, messages)
    return True


async def _add(session: Session, attachments: Sequence[Attachment]) -> None:
    """Record each attachment as a message of its own, with its note."""
    for one in await session.redacted(attachments):
        message = message_record("user", (Text(one.text),), session.clock, meta=True)
        facts: JsonObject = {**one.facts, RECORD: message.id}
        note = Noted(id=session.clock.new_id(), at=session.clock.now(), kind=one.kind, facts=facts)
        await session.transcript.append(message, note)
        if one.notice:
            session.notify(one.notice)
