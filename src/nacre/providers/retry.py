"""Tries a call again while that can help, and says so; what cannot be helped surfaces at once (Q3)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, replace

import anyio

from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.errors import Overloaded, ProviderError, StreamBroken
from nacre.messages.events import ProviderEvent, StartedOver, TextDelta, ThinkingDelta, ToolCallEvent, Waiting
from nacre.providers.base import Capabilities, Provider, Request


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrySettings:
    """How patient a call is."""

    tries: int = 8
    """All tries of one call; with the waits below a minute and a half, longer than most overloads last."""
    broken_tries: int = 3
    """Tries that may break off in mid-reply: each was paid for, and a reply that always breaks will again."""
    first_wait: float = 1.0
    """Seconds before the second try; most failures are over by then."""
    growth: float = 2.0
    """Each wait is so many times the one before, so that a crowd of clients thins out."""
    max_wait: float = 30.0
    """Seconds; longer waits of our own choosing only hide that the provider is down."""
    jitter: float = 0.25
    """The share of a wait that chance may take off, so that clients do not come back all at once."""
    max_retry_after: float = 120.0
    """Seconds we wait when the provider asks for it; a person would rather be told than wait longer."""


def with_retry(
    provider: Provider,
    settings: RetrySettings | None = None,
    *,
    clock: Clock = SYSTEM_CLOCK,
    sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
) -> Provider:
    """The same provider, more patient."""
    return RetryingProvider(provider, settings or RetrySettings(), clock=clock, sleep=sleep)


def wait_before(attempt: int, error: ProviderError, settings: RetrySettings, *, chance: float) -> float:
    """Seconds before the try after the `attempt`-th, which failed with this error."""
    own = min(settings.max_wait, settings.first_wait * settings.growth ** (attempt - 1))
    own *= 1 - settings.jitter * chance
    asked = error.retry_after if isinstance(error, Overloaded) else None
    # Coming back before the provider asked us to would only fail again.
    return own if asked is None else max(own, min(asked, settings.max_retry_after))


class RetryingProvider:
    """Passes everything on; only `stream` and `count_tokens` are tried again."""

    def __init__(
        self,
        provider: Provider,
        settings: RetrySettings,
        *,
        clock: Clock,
        sleep: Callable[[float], Awaitable[None]],
    ) -> None:
        self.inner = provider
        self._settings = settings
        self._clock = clock
        self._sleep = sleep

    @property
    def name(self) -> str:
        return self.inner.name

    def capabilities(self, model: str) -> Capabilities:
        return self.inner.capabilities(model)

    async def stream(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
        """The provider's events, `Waiting` before each new try, `StartedOver` where words became void."""
        failures: list[ProviderError] = []
        while True:
            was_heard = False
            try:
                async with aclosing(self.inner.stream(request)) as events:
                    async for event in events:
                        was_heard = was_heard or isinstance(event, TextDelta | ThinkingDelta | ToolCallEvent)
                        yield event
            except (Overloaded, StreamBroken) as error:
                # A refresh that comes late finds nothing left to refresh and pays for a write: one try only.
                if not request.generates:
                    raise
                failures.append(error)
            else:
                return
            wait = self._next_wait(failures)
            if was_heard:
                yield StartedOver(str(failures[-1]))
            yield Waiting(wait, str(failures[-1]))
            await self._sleep(wait)

    async def count_tokens(self, request: Request) -> int | None:
        failures: list[ProviderError] = []
        while True:
            try:
                return await self.inner.count_tokens(request)
            except (Overloaded, StreamBroken) as error:
                failures.append(error)
            await self._sleep(self._next_wait(failures))

    async def close(self) -> None:
        await self.inner.close()

    def _next_wait(self, failures: list[ProviderError]) -> float:
        """Seconds to wait now; raises the last failure when there were enough."""
        last = failures[-1]
        broken = sum(isinstance(failure, StreamBroken) for failure in failures)
        if len(failures) < self._settings.tries and broken < self._settings.broken_tries:
            return wait_before(len(failures), last, self._settings, chance=self._clock.chance())
        said = f"{last}; gave up after {len(failures)} tries, try again later"
        if isinstance(last, Overloaded):
            raise Overloaded(said, retry_after=last.retry_after) from last
        raise StreamBroken(said) from last


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
