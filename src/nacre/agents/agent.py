"""An agent: a provider, tools and a session; `run` plays one turn and streams what happens."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing

from nacre.agents.session import Session
from nacre.agents.turn import turn
from nacre.loop.limits import Limits
from nacre.messages.events import Event
from nacre.providers.base import Provider
from nacre.tools.base import Tool

DEFAULT_LIMITS = Limits()


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
        self.before_turn: list[Callable[[], Awaitable[None]]] = []
        """What must come to rest before a turn begins."""
        self.after_turn: list[Callable[[], Awaitable[None]]] = []
        """What is done once a turn has ended by itself, and before the next can begin."""
        self._turn: AsyncGenerator[Event, None] | None = None

    async def run(self, text: str | None) -> AsyncGenerator[Event, None]:
        """One turn: from the person's text to the final reply; without a text the last turn goes on (Q5).

        Cancelling the task that reads the events, or closing the generator, stops the request and every tool
        and leaves a session that can go on.
        """
        await self.cancel()
        for rest in self.before_turn:
            await rest()
        session = self.session
        played = turn(session, self.provider, text, tools=self.tools, limits=self.limits)
        self._turn = session.telemetry.turn(played, self.provider.name, session.base.model)
        async with aclosing(self._turn) as events:
            async for event in events:
                yield event
        self._turn = None
        for done in self.after_turn:
            await done()

    async def cancel(self) -> None:
        """Stop a turn that somebody began and did not read to its end."""
        if self._turn is not None:
            unfinished, self._turn = self._turn, None
            await unfinished.aclose()
