"""Runs turns of one session: a provider, tools, and at most one turn at a time."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from types import AsyncGeneratorType
from typing import cast

from nacre.errors import AgentBusy
from nacre.loop.limits import Limits
from nacre.messages.blocks import Message
from nacre.messages.events import Event, Outcome, TurnDone
from nacre.messages.records import Said
from nacre.messages.usage import Usage
from nacre.providers.base import Provider
from nacre.session.session import Session
from nacre.session.turn import turn
from nacre.tools.base import Tool

DEFAULT_LIMITS = Limits()
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
    cost_usd: float
    """Price of these requests; 0 if the prices of the model are not known."""
    messages: tuple[Message, ...]
    """The whole conversation so far, without what layers attached to it."""
    outcome: Outcome = "answered"
    """`refused` if the model declined to answer, `turn_limit` if it made too many requests in a row."""


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
        self.provider = provider
        self.tools = {one.name: one for one in tools}
        self.limits = limits
        self._turn: AsyncGeneratorType[Event, None] | None = None
        self._reader: asyncio.Task[object] | None = None
        self._runner: asyncio.Runner | None = None

    async def run(self, prompt: str | None) -> RunResult:
        """Run one turn and return its result; the next call continues the same conversation."""
        done: TurnDone | None = None
        async with aclosing(self.stream(prompt)) as events:
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

    def run_sync(self, prompt: str | None) -> RunResult:
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
        return self._runner.run(self.run(prompt))

    async def stream(self, prompt: str | None) -> AsyncGenerator[Event, None]:
        """Run one turn and yield its events; without a prompt the last turn is continued (Q5).

        Cancelling the task that reads the events, or closing the generator, stops the request and every tool
        and leaves a session that can go on. Raises `AgentBusy` while another task reads a turn of this agent.
        """
        if prompt is not None and not isinstance(prompt, str):
            raise TypeError(f"a prompt is a text, not {type(prompt).__name__}")
        if self._is_read_elsewhere():
            raise AgentBusy(UNDER_WAY)
        await self.cancel()
        self._turn = mine = cast("AsyncGeneratorType[Event, None]", self._played(prompt))
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

    async def _played(self, prompt: str | None) -> AsyncGenerator[Event, None]:
        """Run the turn between the layers' `before_turn` and `after_turn`."""
        session = self.session
        for layer in session.layers:
            await layer.before_turn()
        played = turn(session, self.provider, prompt, tools=self.tools, limits=self.limits)
        traced = session.telemetry.turn(played, self.provider.name, session.base.model)
        async with aclosing(traced) as events:
            async for event in events:
                yield event
        for layer in session.layers:
            await layer.after_turn()

    def _is_read_elsewhere(self) -> bool:
        """Whether another task still reads the current turn; this task has given up the one it began."""
        if self._turn is None or self._reader is None:
            return False
        return not self._reader.done() and self._reader is not asyncio.current_task()
