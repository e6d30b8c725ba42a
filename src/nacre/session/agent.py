"""An agent: a provider, tools and a session; `stream` plays one turn and yields what happens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from types import AsyncGeneratorType
from typing import cast

from nacre.errors import AgentBusy
from nacre.loop.limits import Limits
from nacre.messages.events import Event
from nacre.providers.base import Provider
from nacre.session.session import Session
from nacre.session.turn import turn
from nacre.tools.base import Tool

DEFAULT_LIMITS = Limits()
UNDER_WAY = (
    "a turn is under way on this agent; wait for its end, `await agent.cancel()` one that nobody reads on, "
    "or open a second agent"
)
BEING_READ = "a turn is under way on this agent; cancel the task that reads it, or wait for its end"


class Agent:
    """A runner of the loop on one session; one turn at a time."""

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

    async def stream(self, text: str | None) -> AsyncGenerator[Event, None]:
        """One turn: from the person's text to the final reply; without a text the last turn goes on (Q5).

        Cancelling the task that reads the events, or closing the generator, stops the request and every tool
        and leaves a session that can go on. Raises `AgentBusy` while another task reads a turn of this agent.
        """
        if self._is_read_elsewhere():
            raise AgentBusy(UNDER_WAY)
        await self.cancel()
        self._turn = mine = cast("AsyncGeneratorType[Event, None]", self._played(text))
        self._reader = asyncio.current_task()
        try:
            async with aclosing(mine) as events:
                async for event in events:
                    yield event
        finally:
            if self._turn is mine:
                self._turn = None

    async def cancel(self) -> None:
        """Stop a turn that somebody began and did not read to its end; raises `AgentBusy` while one runs."""
        unfinished = self._turn
        if unfinished is None:
            return
        if unfinished.ag_running:
            raise AgentBusy(BEING_READ)
        try:
            await unfinished.aclose()
        finally:
            # Not before: until it is closed nobody else may begin.
            if self._turn is unfinished:
                self._turn = None

    async def _played(self, text: str | None) -> AsyncGenerator[Event, None]:
        """The turn, and what comes before and after it: nothing of this goes on beside another turn."""
        session = self.session
        for layer in session.layers:
            await layer.before_turn()
        played = turn(session, self.provider, text, tools=self.tools, limits=self.limits)
        telling = session.telemetry.turn(played, self.provider.name, session.base.model)
        async with aclosing(telling) as events:
            async for event in events:
                yield event
        for layer in session.layers:
            await layer.after_turn()

    def _is_read_elsewhere(self) -> bool:
        """Whether somebody else may still want the rest: who broke off reading in this task does not."""
        if self._turn is None or self._reader is None:
            return False
        return not self._reader.done() and self._reader is not asyncio.current_task()
