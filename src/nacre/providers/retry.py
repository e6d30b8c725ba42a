"""Retry failed model calls (Q3), and fall back to a second model while the first is down (Q5)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, replace

from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.errors import Overloaded, ProviderError, StreamBroken, Unreachable
from nacre.messages.events import ProviderEvent, StartedOver, TextDelta, ThinkingDelta, ToolCallEvent, Waiting
from nacre.providers.base import Capabilities, Provider, Request


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrySettings:
    """How often and how long a call is retried."""

    tries: int = 8
    """Of one call; with the waits below about 90 seconds, longer than most overloads last."""
    broken_tries: int = 3
    """Attempts that may break in mid-reply: each one is paid for."""
    first_wait: float = 1.0
    """Seconds before the second attempt."""
    growth: float = 2.0
    """The factor between two waits."""
    max_wait: float = 30.0
    """Seconds; longer waits would only hide that the provider is down."""
    jitter: float = 0.25
    """The random share of a wait that is subtracted, so that clients do not return all at once."""
    max_retry_after: float = 120.0
    """The longest wait in seconds that a provider may request."""
    unreachable_tries: int = 2
    """Attempts while no server listens at an address on this machine: one that starts is there at once."""
    silence: float | None = None
    """Seconds without a byte after which a reply counts as broken; None: the default of the adapter."""


async def _sleep(seconds: float) -> None:
    import asyncio  # noqa: PLC0415 - `nacre doctor` imports this module and starts no event loop

    await asyncio.sleep(seconds)


def with_retry(
    provider: Provider,
    settings: RetrySettings | None = None,
    *,
    clock: Clock = SYSTEM_CLOCK,
    sleep: Callable[[float], Awaitable[None]] = _sleep,
) -> Provider:
    """Return the provider with retries."""
    return RetryingProvider(provider, settings or RetrySettings(), clock=clock, sleep=sleep)


def wait_before(attempt: int, error: ProviderError, settings: RetrySettings, *, chance: float) -> float:
    """Return the seconds to wait after the `attempt`-th attempt failed with this error."""
    own = min(settings.max_wait, settings.first_wait * settings.growth ** (attempt - 1))
    own *= 1 - settings.jitter * chance
    asked = error.retry_after if isinstance(error, Overloaded) else None
    # An earlier attempt than the provider requested would fail again.
    return own if asked is None else max(own, min(asked, settings.max_retry_after))


class RetryingProvider:
    """Retries `stream` and `count_tokens` of a provider."""

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
        """Yield the events, `Waiting` before each retry, `StartedOver` where earlier text is void."""
        failures: list[ProviderError] = []
        while True:
            has_output = False
            try:
                async with aclosing(self.inner.stream(request)) as events:
                    async for event in events:
                        has_output = has_output or isinstance(
                            event, TextDelta | ThinkingDelta | ToolCallEvent
                        )
                        yield event
            except (Overloaded, StreamBroken) as error:
                # A late refresh finds an expired cache and pays for a write: one attempt only.
                if not request.generates:
                    raise
                failures.append(error)
            else:
                return
            wait = self._next_wait(failures)
            if has_output:
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
        """Return the seconds to wait; raise the last failure when there were too many."""
        last = failures[-1]
        broken = sum(isinstance(failure, StreamBroken) for failure in failures)
        unreachable = sum(isinstance(failure, Unreachable) for failure in failures)
        is_worthwhile = (
            len(failures) < self._settings.tries
            and broken < self._settings.broken_tries
            and unreachable < self._settings.unreachable_tries
        )
        if is_worthwhile:
            return wait_before(len(failures), last, self._settings, chance=self._clock.chance())
        if isinstance(last, Unreachable):
            said = f"{last}; gave up after {len(failures)} tries: start the server, or correct its address"
            raise Unreachable(said) from last
        said = f"{last}; gave up after {len(failures)} tries, try again later"
        if isinstance(last, Overloaded):
            raise Overloaded(said, retry_after=last.retry_after) from last
        raise StreamBroken(said) from last


DOWN_SECONDS = 300.0
"""How long the first provider is not used after a failure: an outage seldom ends sooner."""


def with_fallback(first: Provider, second: Provider, model: str, *, clock: Clock = SYSTEM_CLOCK) -> Provider:
    """Return the first provider, with the second and its model while the first is down."""
    return FallbackProvider(first, second, model, clock=clock)


class FallbackProvider:
    """Uses the second provider after the first has failed, and reports it."""

    def __init__(self, first: Provider, second: Provider, model: str, *, clock: Clock) -> None:
        self._first = first
        self._second = second
        self._model = model
        self._clock = clock
        self._down_until = 0.0

    @property
    def name(self) -> str:
        return self._first.name

    def capabilities(self, model: str) -> Capabilities:
        """Return those of the first; while it is down, without cache refresh."""
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
                self._down_until = self._clock.seconds() + DOWN_SECONDS
                yield StartedOver(f"{request.model} is out of reach ({error}); {self._model} takes over")
            else:
                return
        async with aclosing(self._second.stream(replace(request, model=self._model))) as events:
            async for event in events:
                yield event

    @property
    def _is_up(self) -> bool:
        return self._clock.seconds() >= self._down_until

    async def count_tokens(self, request: Request) -> int | None:
        return await self._first.count_tokens(request)

    async def close(self) -> None:
        await self._first.close()
        await self._second.close()
