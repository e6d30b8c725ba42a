"""Keep-warm in a replay: the product's own warmer, by the recording's clock (C8b).

Its refreshes are written down as requests beside the conversation and charged with the rest.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from datetime import datetime, timedelta

from nacre.agents.session import Session
from nacre.agents.warming import Warmer
from nacre.cache.warming_settings import WarmingSettings
from nacre.messages.blocks import Message
from nacre.messages.events import ProviderEvent, Reply
from nacre.messages.usage import Usage
from nacre.providers.base import Capabilities, Request
from nacre.replay.recorded_clock import RecordedClock

NO_END = timedelta(days=1)
"""How long after its last reply a session is still waited for: longer than any refreshes go on."""


class RecordedWarmer(Warmer):
    """A warmer whose sleep moves the recording's clock, up to when the person came back."""

    def __init__(
        self,
        session: Session,
        clock: RecordedClock,
        settings: WarmingSettings,
        refreshed: Callable[[datetime], None],
    ) -> None:
        """`refreshed` is told of each refresh that is sent."""
        super().__init__(session, _Refreshing(session, refreshed), settings=settings, sleep=self._pass_time)
        session.warming = settings
        self._clock = clock
        self._until = clock.at
        self._is_back = asyncio.Event()

    async def wait(self, until: datetime | None) -> None:
        """Let the pause go by as far as this; none means that nobody came back."""
        self._until = until or self._clock.at + NO_END
        self._is_back = asyncio.Event()
        self.begin()
        if self._task is not None:
            back = asyncio.create_task(self._is_back.wait())
            await asyncio.wait({self._task, back}, return_when=asyncio.FIRST_COMPLETED)
            back.cancel()
        await self.rest()

    async def _pass_time(self, seconds: float) -> None:
        then = self._clock.at + timedelta(seconds=seconds)
        if then >= self._until:
            self._is_back.set()
            await asyncio.Event().wait()
        self._clock.at = then


class _Refreshing:
    """A provider that only ever reads what it read before."""

    name = "replay"

    def __init__(self, session: Session, refreshed: Callable[[datetime], None]) -> None:
        self._session = session
        self._refreshed = refreshed

    def capabilities(self, model: str) -> Capabilities:
        return Capabilities(refreshes=self._session.profile.refreshes)

    async def stream(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
        answered = self._session.answered
        before = answered.usage if answered else Usage()
        usage = Usage(input=before.input, cache_read=before.cache_read + before.cache_write)
        self._refreshed(self._session.clock.now())
        yield Reply(message=Message("assistant", ()), usage=usage, model=request.model)

    async def count_tokens(self, request: Request) -> int | None:
        return None

    async def close(self) -> None:
        return None
