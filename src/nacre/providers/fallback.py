"""A second provider that takes over while the first is out of reach, so that a turn is not lost (Q5)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace

from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.errors import Overloaded, StreamBroken
from nacre.messages.events import ProviderEvent, StartedOver
from nacre.providers.base import Capabilities, Provider, Request

REST_SECONDS = 300.0
"""How long the first provider is left alone after it failed: an outage seldom ends sooner."""


def with_fallback(first: Provider, second: Provider, model: str, *, clock: Clock = SYSTEM_CLOCK) -> Provider:
    """The first provider, and the second with its model while the first is down."""
    return FallbackProvider(first, second, model, clock=clock)


class FallbackProvider:
    """Asks the first; when it has given up for good, asks the second and says so."""

    def __init__(self, first: Provider, second: Provider, model: str, *, clock: Clock) -> None:
        self._first = first
        self._second = second
        self._model = model
        self._clock = clock
        self._rests_until = 0.0

    @property
    def name(self) -> str:
        return self._first.name

    def capabilities(self, model: str) -> Capabilities:
        """While the second answers, the first has no cache worth refreshing."""
        found = self._first.capabilities(model)
        return found if self._is_up else replace(found, refreshes=False)

    async def stream(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
        if self._is_up or not request.generates:
            try:
                async with aclosing(self._first.stream(request)) as events:
                    async for event in events:
                        yield event
            except (Overloaded, StreamBroken) as error:
                if not request.generates:
                    raise
                self._rests_until = self._clock.seconds() + REST_SECONDS
                yield StartedOver(f"{request.model} is out of reach ({error}); {self._model} takes over")
            else:
                return
        async with aclosing(self._second.stream(replace(request, model=self._model))) as events:
            async for event in events:
                yield event

    @property
    def _is_up(self) -> bool:
        return self._clock.seconds() >= self._rests_until

    async def count_tokens(self, request: Request) -> int | None:
        return await self._first.count_tokens(request)

    async def close(self) -> None:
        await self._first.close()
        await self._second.close()
