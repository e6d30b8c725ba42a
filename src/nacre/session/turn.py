"""One user turn, told top to bottom: the words go to the log, the loop runs, the books are closed."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace

from nacre.loop.limits import Limits
from nacre.loop.loop import LoopCallbacks, run
from nacre.loop.round import heard
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

MAX_GO_ONS = 3
"""So often a turn is made to go on after its last reply: who is never content must not hold it for ever."""
DECLINED = "The model declined to answer; say it in other words, or ask another model (--model)."
NO_FURTHER = "The turn ends here, although a command of yours wants it to go on: {why}."


async def turn(
    session: Session, provider: Provider, text: str | None, *, tools: Mapping[str, Tool], limits: Limits
) -> AsyncGenerator[Event, None]:
    """From the person's text to the final reply; the text is on disk before anything is sent."""
    if text is not None:
        await session.add_user(text)
    tally = _Tally(limits)
    paid_before = session.meter.cost_usd
    is_over = False
    try:
        for notice in session.notices():
            yield notice
        while not is_over:
            async with aclosing(_rounds(session, provider, tools, tally.limits_left)) as events:
                async for event in events:
                    tally.count(event, session)
                    # What was done before the request is told before the first word of its reply.
                    for notice in session.notices():
                        yield notice
                    yield event
            is_over = not await _goes_on(session, tally)
            for notice in session.notices():
                yield notice
    except BaseException:
        session.cancelled()
        raise
    finally:
        await session.record_payments()
        await session.keeper.sync()
    if tally.outcome == "refused" and not tally.answer:
        yield Notice(DECLINED, "warning")
    cost = session.meter.cost_usd - paid_before
    yield TurnDone(tally.outcome, rounds=tally.rounds, usage=tally.spent, cost_usd=cost)


class _Tally:
    """What a turn has come to so far."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._last: Reply | None = None
        self.spent = Usage()
        self.rounds = 0
        self.go_ons = 0

    def count(self, event: Event, session: Session) -> None:
        match event:
            case Reply():
                self.spent = self.spent + event.usage
                self.rounds = self.rounds + 1
                self._last = event
            case StartedOver(usage=Usage() as wasted):
                session.pay_unfinished(wasted)
                self.spent += wasted
            case _:
                pass

    @property
    def answer(self) -> str | None:
        """The words of the last reply, unless it still calls tools."""
        return None if self._last is None or self._last.message.tool_calls else self._last.message.text

    @property
    def outcome(self) -> Outcome:
        if self._last is None or self._last.message.tool_calls:
            return "turn_limit"
        return "refused" if self._last.stop_reason == REFUSAL else "answered"

    @property
    def limits_left(self) -> Limits:
        return replace(self._limits, max_rounds=self._limits.max_rounds - self.rounds)

    @property
    def may_go_on(self) -> bool:
        return self.go_ons < MAX_GO_ONS and self.limits_left.max_rounds > 0


def _rounds(
    session: Session, provider: Provider, tools: Mapping[str, Tool], limits: Limits
) -> AsyncGenerator[Event, None]:
    """The loop, with this session in its slots."""

    def ask(view: View, max_output: int) -> AsyncGenerator[ProviderEvent, None]:
        expected = session.expected_input(view)
        stream = session.telemetry.ask(provider, session.send(view, max_output))
        return metered(stream, expected, session.pay_unfinished)

    slots = LoopCallbacks(fit=session.fit, keep=session.keep, heard=session.heard, sift=session.sift)
    hands = session.telemetry.tools(session.wrapped(tools))
    return run(session.transcript, ask, hands, slots=slots, limits=limits, clock=session.clock)


async def _goes_on(session: Session, tally: _Tally) -> bool:
    """Whether somebody has an answered turn go on; the model is told why."""
    if tally.answer is None:
        return False
    if tally.limits_left.max_rounds > 0:
        # What the model itself sent for; whether it is done is asked once all of that is there.
        awaited = [extra for layer in session.layers for extra in await layer.pending()]
        if awaited:
            await _add(session, awaited)
            return True
    continued = tally.go_ons > 0
    asked = [await layer.before_stop(tally.answer, continued=continued) for layer in session.layers]
    wanted = [extra for extra in asked if extra is not None]
    if not wanted:
        return False
    if not tally.may_go_on:
        why = f"it did {MAX_GO_ONS} times" if tally.go_ons == MAX_GO_ONS else "no round is left"
        session.notify(NO_FURTHER.format(why=why))
        return False
    tally.go_ons += 1
    await _add(session, wanted)
    return True


async def _add(session: Session, extras: Sequence[Attachment]) -> None:
    """Each as a message of its own, with a note for the log."""
    for extra in await session.redacted(extras):
        said = heard("user", (Text(extra.text),), session.clock, meta=True)
        facts: JsonObject = {**extra.facts, RECORD: said.id}
        note = Noted(id=session.clock.new_id(), at=session.clock.now(), kind=extra.kind, facts=facts)
        await session.transcript.append(said, note)
        if extra.notice:
            session.notify(extra.notice)
