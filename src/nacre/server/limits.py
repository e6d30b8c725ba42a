"""Limits of a client: requests per minute, and answers to writes that a client repeats (S7)."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Protocol

from nacre.clock import Clock
from nacre.server.keys import ApiKey

REQUESTS_PER_MINUTE = 6_000
BURST = 200
"""Requests that may come at once."""
MAX_KEYS = 10_000
MAX_REMEMBERED = 10_000
REMEMBERED_SECONDS = 86_400.0


@dataclass(slots=True)
class _Bucket:
    tokens: float
    at: float


class RateLimit:
    """A token bucket for each API key."""

    def __init__(self, clock: Clock, *, per_minute: int = REQUESTS_PER_MINUTE, burst: int = BURST) -> None:
        self._clock = clock
        self._rate = per_minute / 60
        self._burst = burst
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def wait_seconds(self, key: str) -> float:
        """Take a token and return 0, or return the seconds until there is one."""
        now = self._clock.seconds()
        bucket = self._buckets.setdefault(key, _Bucket(self._burst, now))
        self._buckets.move_to_end(key)
        while len(self._buckets) > MAX_KEYS:
            self._buckets.popitem(last=False)
        bucket.tokens = min(self._burst, bucket.tokens + (now - bucket.at) * self._rate)
        bucket.at = now
        if bucket.tokens >= 1:
            bucket.tokens -= 1
            return 0.0
        return (1 - bucket.tokens) / self._rate


@dataclass(frozen=True, slots=True)
class RememberedAnswer:
    """The answer to a write, returned again for the same idempotency key."""

    fingerprint: str
    """Of method, path and body: another request with the same key is refused."""
    at: float
    status: int = 0
    """0 while the first request is in progress."""
    headers: tuple[tuple[str, str], ...] = ()
    content: bytes = b""


class IdempotencyKeys(Protocol):
    """Answers to writes of the last day, by API key and idempotency key."""

    async def begin(self, key: ApiKey, name: str, fingerprint: str) -> RememberedAnswer | None:
        """Return what is known about an earlier request; None if this is the first, which now begins."""

    async def finish(self, key: ApiKey, name: str, answer: RememberedAnswer) -> None: ...

    async def forget(self, key: ApiKey, name: str) -> None:
        """The request failed without a change: a repeated one is tried again."""


class LocalIdempotencyKeys:
    """Those of one process."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._answers: OrderedDict[tuple[str, str], RememberedAnswer] = OrderedDict()

    async def begin(self, key: ApiKey, name: str, fingerprint: str) -> RememberedAnswer | None:
        now = self._clock.seconds()
        found = self._answers.get((key.id, name))
        if found is not None and now - found.at <= REMEMBERED_SECONDS:
            return found
        self._answers[key.id, name] = RememberedAnswer(fingerprint, now)
        self._answers.move_to_end((key.id, name))
        while len(self._answers) > MAX_REMEMBERED:
            self._answers.popitem(last=False)
        return None

    async def finish(self, key: ApiKey, name: str, answer: RememberedAnswer) -> None:
        if (key.id, name) in self._answers:
            self._answers[key.id, name] = answer

    async def forget(self, key: ApiKey, name: str) -> None:
        self._answers.pop((key.id, name), None)
