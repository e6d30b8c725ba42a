"""The loop of a turn: send a request, run the tools of the reply, repeat.

It knows nothing of memory or layers; callbacks shrink the view, change what is recorded and observe replies.
Whatever happens, also a cancellation, the transcript it leaves behind is valid (T6, Q2).
"""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.errors import PromptTooLong
from nacre.loop.round import FitView, Limits, Recovery, Round, SendRequest, message_record, request_reply
from nacre.messages.blocks import Text, ToolCall, ToolResult
from nacre.messages.events import Event, Notice, Reply
from nacre.messages.records import Record, Said
from nacre.messages.transcript import Transcript
from nacre.messages.view import View
from nacre.tools.base import Tool

CONTINUE = "[The reply was cut off at the output limit. Go on exactly where it stopped.]"


async def _no_fit(view: View, overflow: PromptTooLong | None) -> Sequence[Record]:
    return ()


async def _unchanged(message: Said) -> Sequence[Record]:
    return (message,)


def _ignore(reply: Reply) -> None:
    return None


def _never(calls: Sequence[ToolCall], results: Sequence[ToolResult]) -> bool:
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopCallbacks:
    """Functions that the loop calls; the defaults change nothing."""

    fit: FitView = _no_fit
    """Called before every request; returns records that make the view fit the window."""
    result_records: Callable[[Said], Awaitable[Sequence[Record]]] = _unchanged
    """Called with the tool results of a round; returns the records to append instead."""
    cancelled_records: Callable[[Said], Awaitable[Sequence[Record]]] = _unchanged
    """The same for the messages of a round that was cancelled."""
    on_reply: Callable[[Reply], None] = _ignore
    """Called after a reply was recorded."""
    is_finished: Callable[[Sequence[ToolCall], Sequence[ToolResult]], bool] = _never
    """Called with the calls of a round and their results; True ends the loop without another request."""


NO_CALLBACKS = LoopCallbacks()
DEFAULT_LIMITS = Limits()


async def run(
    transcript: Transcript,
    send: SendRequest,
    tools: Mapping[str, Tool],
    *,
    callbacks: LoopCallbacks = NO_CALLBACKS,
    limits: Limits = DEFAULT_LIMITS,
    clock: Clock = SYSTEM_CLOCK,
) -> AsyncGenerator[Event, None]:
    """Run rounds until a reply calls no tool; yields the events of the provider and the tools."""
    recovery = Recovery(limits)
    for _ in range(limits.max_rounds):
        await transcript.append(*await callbacks.fit(transcript.view, None))
        current = Round(transcript, tools, clock)
        reply_events = request_reply(transcript, send, callbacks.fit, recovery, clock)
        try:
            async with aclosing(current.run(reply_events, callbacks.on_reply)) as events:
                async for event in events:
                    yield event
            assert current.reply is not None, "a round that ends by itself has a reply"
            if current.reply.message.tool_calls:
                results = message_record("user", current.results, clock)
                await transcript.append(*await callbacks.result_records(results))
        except (CancelledError, GeneratorExit):
            await current.cancel(callbacks.cancelled_records)
            raise
        finally:
            await current.stop()
        if calls := current.reply.message.tool_calls:
            if callbacks.is_finished(calls, current.results):
                return
            continue
        if not recovery.may_continue(current.reply):
            return
        await transcript.append(message_record("user", (Text(CONTINUE),), clock, meta=True))
    yield Notice(f"Stopped after {limits.max_rounds} rounds in one turn; say something to go on.", "warning")
