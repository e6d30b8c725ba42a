"""One round: send a request, recover from what the provider refuses, run the tools of the reply (Q3, C27).

Whatever interrupts a round, what it records is valid (T6, Q2).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from nacre.clock import Clock
from nacre.errors import PromptTooLong, ThinkingMismatch
from nacre.messages.blocks import Block, Text, ToolResult, result_of
from nacre.messages.events import Event, ProviderEvent, Reply, StartedOver, TextDelta, ToolCallEvent
from nacre.messages.pairing import INTERRUPTED
from nacre.messages.records import Record, ReplyFacts, Said
from nacre.messages.rewrite import drop_thinking
from nacre.messages.transcript import Transcript
from nacre.messages.view import View
from nacre.tools.base import Tool
from nacre.tools.run import ToolCallRunner

CUT_SHORT = "[The user interrupted this reply.]"
CUT_OFF = "max_tokens"
"""The stop reason of a reply that reached the output limit."""

SendRequest = Callable[[View, int], AsyncGenerator[ProviderEvent, None]]
"""Sends a view with this limit on output tokens; the last event is the whole reply."""
FitView = Callable[[View, PromptTooLong | None], Awaitable[Sequence[Record]]]
"""Returns records that make a view fit the window; gets the provider's refusal, if there was one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of one turn."""

    max_rounds: int = 100
    """Model calls in one turn: enough for real work, few enough to stop an endless loop."""
    max_output: int = 8_192
    """Output tokens of one reply: enough for nearly every reply, and a small part of the window."""
    raised_output: int = 64_000
    """Output tokens of the second attempt after a reply was cut off."""
    max_continues: int = 3
    """How often a reply that is cut off again is continued."""


class Round:
    """The state of one round while it runs."""

    def __init__(self, transcript: Transcript, tools: Mapping[str, Tool], clock: Clock) -> None:
        self._transcript = transcript
        self._tools = tools
        self._clock = clock
        self._running = ToolCallRunner(tools)
        self._partial_text = ""
        self.reply: Reply | None = None

    async def run(
        self, stream: AsyncGenerator[ProviderEvent, None], on_reply: Callable[[Reply], None]
    ) -> AsyncGenerator[Event, None]:
        """Record the reply, start reading tools as soon as their call is complete, then run the others."""
        async with aclosing(stream) as events:
            async for event in events:
                match event:
                    case TextDelta(text):
                        self._partial_text += text
                    case ToolCallEvent(call):
                        self._running.start(call)
                    case StartedOver():
                        await self.stop()
                        self._running = ToolCallRunner(self._tools)
                        self._partial_text = ""
                    case Reply():
                        record = reply_record(event, self._clock, self._transcript.view)
                        await self._transcript.append(record)
                        self.reply = event
                    case _:
                        pass
                yield event
        assert self.reply is not None, "a stream ends with its reply"
        on_reply(self.reply)
        async with aclosing(self._running.as_ready()) as results:
            async for ready in results:
                yield ready

    @property
    def results(self) -> list[ToolResult]:
        """One for every call of the reply, in the order of the calls."""
        done = {result.call_id: result for result in self._running.done}
        calls = self.reply.message.tool_calls if self.reply else ()
        return [done.get(call.id) or result_of(call, INTERRUPTED, is_error=True) for call in calls]

    async def cancel(self, records_of: Callable[[Said], Awaitable[Sequence[Record]]]) -> None:
        """End early: record what the reply said and the tools did so far, the rest as interrupted."""
        await self.stop()
        messages: list[Said] = []
        if self.reply is None:
            # Thinking and half-written calls are useless without their end; text is not.
            if self._partial_text.strip():
                messages.append(message_record("assistant", (Text(self._partial_text),), self._clock))
            messages.append(message_record("user", (Text(CUT_SHORT),), self._clock, meta=True))
        else:
            # What was recorded before the cancellation is not recorded twice.
            open_calls = self._transcript.view.open_calls
            results = tuple(one for one in self.results if one.call_id in open_calls)
            messages += [message_record("user", results, self._clock)] if results else []
        await self._transcript.append(*[record for one in messages for record in await records_of(one)])

    async def stop(self) -> None:
        await self._running.stop()


@dataclass(slots=True)
class Recovery:
    """Which ways to recover a turn has left; each is used at most once, except to continue a reply."""

    limits: Limits
    can_shrink: bool = True
    can_drop_thinking: bool = True
    can_raise_output: bool = True
    continues: int = 0

    @property
    def output(self) -> int:
        limits = self.limits
        return limits.max_output if self.can_raise_output else max(limits.max_output, limits.raised_output)

    def raise_output(self) -> bool:
        """Raise the output limit; return whether that made a difference."""
        before = self.output
        self.can_raise_output = False
        return self.output > before

    def may_continue(self, reply: Reply) -> bool:
        """Return whether a reply that was cut off should be continued, and count it."""
        if reply.stop_reason != CUT_OFF or reply.message.tool_calls:
            return False
        self.continues += 1
        return self.continues <= self.limits.max_continues


async def request_reply(
    transcript: Transcript, send: SendRequest, fit: FitView, recovery: Recovery, clock: Clock
) -> AsyncGenerator[ProviderEvent, None]:
    """Stream a reply; shrink a prompt that is too long, raise the limit of a reply that was cut off.

    Thinking blocks that the provider refuses are dropped from the transcript.
    """
    while True:
        again = False
        try:
            async with aclosing(send(transcript.view, recovery.output)) as events:
                async for event in events:
                    if isinstance(event, Reply) and event.stop_reason == CUT_OFF and recovery.raise_output():
                        again = True
                        yield StartedOver("the reply was cut off; asking again with more room", event.usage)
                    else:
                        yield event
        except PromptTooLong as refusal:
            records = await fit(transcript.view, refusal) if recovery.can_shrink else ()
            if not records:
                raise
            recovery.can_shrink = False
            again = True
            await transcript.append(*records)
            yield StartedOver("the prompt was too long; it was shortened")
        except ThinkingMismatch as refusal:
            records = drop_thinking(transcript.view.items, clock)
            if not recovery.can_drop_thinking:
                raise ThinkingMismatch(
                    f"{refusal}; refused again after thinking was dropped in this turn; /retry asks once more"
                ) from refusal
            if not records:
                raise
            recovery.can_drop_thinking = False
            again = True
            await transcript.append(*records)
            yield StartedOver("the provider refused earlier thinking; it was dropped from the conversation")
        if not again:
            return


def reply_record(reply: Reply, clock: Clock, view: View) -> Said:
    """Return a provider's reply as a record.

    Records that share a reply id are folded into one message. Some servers reuse ids, so a reply whose id is
    taken gets a new one: folding it into a message that was already sent would change the prefix.
    """
    is_taken = reply.id is not None and view.has_reply(reply.id)
    reply_id = f"{reply.id}-{clock.new_id()}" if is_taken else reply.id
    facts = ReplyFacts(id=reply_id, model=reply.model, stop_reason=reply.stop_reason, usage=reply.usage)
    return Said(id=clock.new_id(), at=clock.now(), role="assistant", blocks=reply.message.blocks, reply=facts)


def message_record(role: str, blocks: Sequence[Block], clock: Clock, *, meta: bool = False) -> Said:
    """Return a message that is not a complete reply as a record."""
    facts = ReplyFacts(stop_reason="interrupted") if role == "assistant" else None
    return Said(
        id=clock.new_id(),
        at=clock.now(),
        role="assistant" if role == "assistant" else "user",
        blocks=tuple(blocks),
        reply=facts,
        meta=meta,
    )
