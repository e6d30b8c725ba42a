"""One turn: record the prompt, run the loop, let layers continue the turn, write what it cost."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial

from nacre.loop.limits import Limits
from nacre.loop.loop import LoopCallbacks, run
from nacre.loop.round import message_record
from nacre.messages.blocks import JsonObject, Text
from nacre.messages.events import (
    REFUSAL,
    Event,
    Notice,
    Outcome,
    ProviderEvent,
    Reply,
    StartedOver,
    TurnDone,
)
from nacre.messages.records import Noted
from nacre.messages.usage import Usage
from nacre.messages.view import View
from nacre.providers.base import Provider
from nacre.session.attachments import RECORD, Attachment
from nacre.session.meter import metered
from nacre.session.session import Session
from nacre.tools.base import Tool

MAX_CONTINUATIONS = 3
"""How often layers may continue a turn after its last reply, so that a hook cannot hold it for ever."""
DECLINED = "The model declined to answer; say it in other words, or ask another model (--model)."
NOT_CONTINUED = "The turn ends here, although a command of yours wants it to go on: {why}."


async def turn(
    session: Session, provider: Provider, text: str | None, *, tools: Mapping[str, Tool], limits: Limits
) -> AsyncGenerator[Event, None]:
    """Run one turn from the prompt to the final reply; the prompt is on disk before anything is sent.

    Without a text the turn continues from where the conversation stands.
    """
    if text is not None:
        await session.add_user(text)
    progress = _Progress(limits)
    cost_before = session.meter.cost_usd
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
    cost = session.meter.cost_usd - cost_before
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
        return "refused" if self._last.stop_reason == REFUSAL else "answered"

    @property
    def limits_left(self) -> Limits:
        return replace(self._limits, max_rounds=self._limits.max_rounds - self.rounds)


def _rounds(
    session: Session, provider: Provider, tools: Mapping[str, Tool], limits: Limits
) -> AsyncGenerator[Event, None]:
    """Run the loop with the callbacks of this session."""

    def send(view: View, max_output: int) -> AsyncGenerator[ProviderEvent, None]:
        expected = session.expected_input(view)
        stream = session.telemetry.ask(provider, session.start_request(view, max_output))
        return metered(stream, expected, session.add_unfinished_usage)

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
