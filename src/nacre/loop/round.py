"""One round: hear a reply, answer its calls; whatever interrupts it, what it records is valid (T6, Q2)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from nacre.clock import Clock
from nacre.errors import PromptTooLong, ThinkingMismatch
from nacre.loop.limits import Limits
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


class Round:
    """The state of one round while it runs."""

    def __init__(self, transcript: Transcript, tools: Mapping[str, Tool], clock: Clock) -> None:
        self._transcript = transcript
        self._tools = tools
        self._clock = clock
        self._running = ToolCallRunner(tools)
        self._partial = ""
        self.reply: Reply | None = None

    async def play(
        self, stream: AsyncGenerator[ProviderEvent, None], listen: Callable[[Reply], None]
    ) -> AsyncGenerator[Event, None]:
        """Hear the reply, start readers as soon as their call is whole, then let the writers go too."""
        async with aclosing(stream) as events:
            async for event in events:
                await self._take(event)
                yield event
        assert self.reply is not None, "a stream ends with its reply"
        listen(self.reply)
        async with aclosing(self._running.as_ready()) as results:
            async for ready in results:
                yield ready

    async def _take(self, event: ProviderEvent) -> None:
        match event:
            case TextDelta(text):
                self._partial += text
            case ToolCallEvent(call):
                self._running.start(call)
            case StartedOver():
                await self.stop()
                self._running = ToolCallRunner(self._tools)
                self._partial = ""
            case Reply():
                await self._transcript.append(said(event, self._clock, self._transcript.view))
                self.reply = event
            case _:
                pass

    @property
    def results(self) -> list[ToolResult]:
        """One for every call of the reply, in the order of the calls."""
        done = {result.call_id: result for result in self._running.done}
        calls = self.reply.message.tool_calls if self.reply else ()
        return [done.get(call.id) or result_of(call, INTERRUPTED, is_error=True) for call in calls]

    async def cut_short(self, sift: Callable[[Said], Awaitable[Sequence[Record]]]) -> None:
        """End in the middle: what was heard and done is kept, what was not is said to be interrupted."""
        await self.stop()
        ending = [record for one in self._ending() for record in await sift(one)]
        await self._transcript.append(*ending)

    async def stop(self) -> None:
        await self._running.stop()

    def _ending(self) -> list[Said]:
        if self.reply is None:
            # Thinking and half-written calls are useless without their end; words are not.
            said_so_far = (
                [heard("assistant", (Text(self._partial),), self._clock)] if self._partial.strip() else []
            )
            return [*said_so_far, heard("user", (Text(CUT_SHORT),), self._clock, meta=True)]
        # What was recorded before the cancel came is not recorded twice.
        is_open = self._transcript.view.open_calls
        results = [one for one in self.results if one.call_id in is_open]
        return [heard("user", tuple(results), self._clock)] if results else []


def said(reply: Reply, clock: Clock, view: View) -> Said:
    """A provider's reply as a record.

    Some servers draw ids from a thousand, or always say the same. Records that share an id are one reply,
    so the second would be folded into the first, which was sent long ago: it gets an id of its own.
    """
    is_taken = reply.id is not None and view.has_reply(reply.id)
    reply_id = f"{reply.id}-{clock.new_id()}" if is_taken else reply.id
    facts = ReplyFacts(id=reply_id, model=reply.model, stop_reason=reply.stop_reason, usage=reply.usage)
    return Said(id=clock.new_id(), at=clock.now(), role="assistant", blocks=reply.message.blocks, reply=facts)


def heard(role: str, blocks: Sequence[Block], clock: Clock, *, meta: bool = False) -> Said:
    """Anything else that was said, as a record."""
    facts = ReplyFacts(stop_reason="interrupted") if role == "assistant" else None
    return Said(
        id=clock.new_id(),
        at=clock.now(),
        role="assistant" if role == "assistant" else "user",
        blocks=tuple(blocks),
        reply=facts,
        meta=meta,
    )


CUT_OFF = "max_tokens"
"""The stop reason of a reply that reached the output limit."""

SendRequest = Callable[[View, int], AsyncGenerator[ProviderEvent, None]]
"""Sends the view, allowing so many tokens of output; the last event is the whole reply."""
FitView = Callable[[View, PromptTooLong | None], Awaitable[Sequence[Record]]]
"""Shrinks the view until it fits; told of the provider's refusal when there was one."""


@dataclass(slots=True)
class Recovery:
    """What this turn has not used up yet."""

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
        """Whether there is more room to give; gives it."""
        before = self.output
        self.can_raise_output = False
        return self.output > before

    def may_continue(self, reply: Reply) -> bool:
        """Whether a reply that was cut off should be asked to go on; counts the asking."""
        if reply.stop_reason != CUT_OFF or reply.message.tool_calls:
            return False
        self.continues += 1
        return self.continues <= self.limits.max_continues


async def request_reply(
    transcript: Transcript, ask: SendRequest, fit: FitView, remedies: Recovery, clock: Clock
) -> AsyncGenerator[ProviderEvent, None]:
    """Stream a reply; a prompt that is too long is shrunk once, a reply that is cut off gets room once.

    Thinking blocks that the provider refuses are dropped from the transcript, once.
    """
    while True:
        again = False
        try:
            async with aclosing(ask(transcript.view, remedies.output)) as events:
                async for event in events:
                    if isinstance(event, Reply) and event.stop_reason == CUT_OFF and remedies.raise_output():
                        again = True
                        yield StartedOver("the reply was cut off; asking again with more room", event.usage)
                    else:
                        yield event
        except PromptTooLong as refusal:
            records = await fit(transcript.view, refusal) if remedies.can_shrink else ()
            if not records:
                raise
            remedies.can_shrink = False
            again = True
            await transcript.append(*records)
            yield StartedOver("the prompt was too long; it was shortened")
        except ThinkingMismatch as refusal:
            records = drop_thinking(transcript.view.items, clock)
            if not remedies.can_drop_thinking:
                raise ThinkingMismatch(
                    f"{refusal}; refused again after thinking was dropped in this turn; /retry asks once more"
                ) from refusal
            if not records:
                raise
            remedies.can_drop_thinking = False
            again = True
            await transcript.append(*records)
            yield StartedOver("the provider refused earlier thinking; it was dropped from the conversation")
        if not again:
            return
