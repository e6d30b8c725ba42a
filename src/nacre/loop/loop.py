"""Ask, act, repeat: the query loop on one screen, with slots for whoever wants to shrink, keep or listen.

It knows nothing of memory or layers. `fit` runs before every request, `keep` before results are recorded,
`heard` after every reply. Whatever happens, also a cancel, the transcript it leaves behind is valid (T6, Q2).
"""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.errors import PromptTooLong
from nacre.loop.limits import Limits
from nacre.loop.round import FitView, Recovery, Round, SendRequest, heard, request_reply
from nacre.messages.blocks import Text
from nacre.messages.events import Event, Notice, Reply
from nacre.messages.records import Record, Said
from nacre.messages.transcript import Transcript
from nacre.messages.view import View
from nacre.tools.base import Tool

CONTINUE = "[The reply was cut off at the output limit. Go on exactly where it stopped.]"


async def fits_as_it_is(view: View, overflow: PromptTooLong | None) -> Sequence[Record]:
    return ()


async def kept_as_it_is(results: Said) -> Sequence[Record]:
    return (results,)


def heard_by_nobody(reply: Reply) -> None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopCallbacks:
    """Where others take part in the loop."""

    fit: FitView = fits_as_it_is
    keep: Callable[[Said], Awaitable[Sequence[Record]]] = kept_as_it_is
    """Takes the results as they would be recorded, gives what is recorded: smaller ones, with more behind."""
    heard: Callable[[Reply], None] = heard_by_nobody
    sift: Callable[[Said], Awaitable[Sequence[Record]]] = kept_as_it_is
    """As `keep`, for a round that is cut short: what must not be recorded is taken out, nothing is added."""


NO_CALLBACKS = LoopCallbacks()
DEFAULT_LIMITS = Limits()


async def run(
    transcript: Transcript,
    ask: SendRequest,
    tools: Mapping[str, Tool],
    *,
    slots: LoopCallbacks = NO_CALLBACKS,
    limits: Limits = DEFAULT_LIMITS,
    clock: Clock = SYSTEM_CLOCK,
) -> AsyncGenerator[Event, None]:
    """Run rounds until a reply calls no tool; yields what happens on the way."""
    remedies = Recovery(limits)
    for _ in range(limits.max_rounds):
        await transcript.append(*await slots.fit(transcript.view, None))
        one = Round(transcript, tools, clock)
        try:
            async with aclosing(
                one.play(request_reply(transcript, ask, slots.fit, remedies, clock), slots.heard)
            ) as events:
                async for event in events:
                    yield event
            assert one.reply is not None, "a round that ends by itself has its reply"
            if one.reply.message.tool_calls:
                await transcript.append(*await slots.keep(heard("user", one.results, clock)))
        except (CancelledError, GeneratorExit):
            await one.cut_short(slots.sift)
            raise
        finally:
            await one.stop()
        if one.reply.message.tool_calls:
            continue
        if not remedies.may_continue(one.reply):
            return
        await transcript.append(heard("user", (Text(CONTINUE),), clock, meta=True))
    yield Notice(f"Stopped after {limits.max_rounds} rounds in one turn; say something to go on.", "warning")
