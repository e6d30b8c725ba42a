"""What is tried, each remedy at most once, before a failed request is the user's problem (Q3, C27)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from nacre.clock import Clock
from nacre.errors import PromptTooLong, ThinkingMismatch
from nacre.loop.limits import Limits
from nacre.messages.events import ProviderEvent, Reply, StartedOver
from nacre.messages.records import Record
from nacre.messages.rewrite import drop_thinking
from nacre.messages.transcript import Transcript
from nacre.messages.view import View

CUT_OFF = "max_tokens"
"""The stop reason of a reply that reached the output limit."""

Ask = Callable[[View, int], AsyncGenerator[ProviderEvent, None]]
"""Sends the view, allowing so many tokens of output; the last event is the whole reply."""
Fit = Callable[[View, PromptTooLong | None], Awaitable[Sequence[Record]]]
"""Shrinks the view until it fits; told of the provider's refusal when there was one."""


@dataclass(slots=True)
class Remedies:
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


async def whole_reply(
    transcript: Transcript, ask: Ask, fit: Fit, remedies: Remedies, clock: Clock
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
