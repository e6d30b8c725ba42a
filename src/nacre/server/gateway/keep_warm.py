"""Refreshes the cached prefix of a client's session while the client is idle, where that pays (G3, C8b).

One task per session at most, which ends before a request of the session is sent on. Bodies and keys that a
refresh needs are held in memory only, within a limit, and dropped when the pause ends.
"""

from __future__ import annotations

import asyncio
import json
import logging
import zlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import date

import httpx2

from nacre.cache.keep_warm import (
    DEFAULT_KEEP_WARM,
    Pause,
    Pauses,
    Prefix,
    SessionCost,
    decide_refresh,
    seconds_to_refresh,
)
from nacre.cache.models import cost, profile
from nacre.cache.warmth import KeepWarmSettings
from nacre.clock import Clock
from nacre.messages.blocks import JsonObject
from nacre.messages.usage import Usage
from nacre.server.gateway.client_sessions import ClientSession
from nacre.server.gateway.conversation import Conversation, cache_lifetime, refresh_objection
from nacre.server.gateway.proxy import ClientRequest, upstream_request
from nacre.server.gateway.reply_reader import ReplyReader
from nacre.server.gateway.upstream import Headers
from nacre.session.cache_warming import READ_SHARE

_LOG = logging.getLogger("nacre.gateway")

MAX_KEPT_BYTES = 64 * 1024 * 1024
"""Of all requests that wait for a refresh, compressed; above it the oldest are dropped."""
DROPPED_HEADERS = frozenset(
    b"content-length content-encoding transfer-encoding accept-encoding idempotency-key expect".split()
)
SUBSCRIPTION = "the client uses a subscription; allow it with --keep-warm-subscription"
TOO_MANY_REQUESTS = 429
SERVER_ERROR = 500

Sleep = Callable[[float], Awaitable[None]]
Refreshed = Callable[[ClientSession, JsonObject], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepWarmLimits:
    """What refreshes may cost."""

    session: KeepWarmSettings = DEFAULT_KEEP_WARM
    day_usd: float = 5.0
    """For all sessions of a day."""
    subscriptions: bool = False
    """Refresh for clients with a subscription, whose limits count requests and not dollars."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kept:
    """A request that can be repeated without output."""

    call: ClientRequest
    body: bytes
    model: str


class CacheRefresher:
    """Owns the tasks of all sessions."""

    def __init__(
        self,
        transport: httpx2.AsyncBaseTransport,
        *,
        limits: KeepWarmLimits,
        clock: Clock,
        on_record: Refreshed,
        sleep: Sleep = asyncio.sleep,
        spent: Mapping[date, float] | None = None,
    ) -> None:
        self._transport = transport
        self._limits = limits
        self._clock = clock
        self._sleep = sleep
        self._on_record = on_record
        self._tasks: OrderedDict[str, asyncio.Task[None]] = OrderedDict()
        self._kept: dict[str, _Kept] = {}
        self._spent = dict(spent or {})

    async def begin(self, session: ClientSession, call: ClientRequest, said: Conversation) -> None:
        """Start the refreshes of a pause, unless they are known to be in vain."""
        if session.in_flight or session.id in self._tasks:
            return
        reason = session.cannot_refresh or self._objection(call, said)
        if reason:
            self._give_up(session, reason)
            return
        body = await asyncio.to_thread(_refresh_body, said.body)
        if session.in_flight or session.id in self._tasks:
            return  # the next request has come meanwhile
        self._kept[session.id] = _Kept(call=call, body=body, model=said.model)
        work = self._refresh_while_worth(session, said)
        task = self._tasks[session.id] = asyncio.create_task(work, name=f"keep {session.id} warm")
        task.add_done_callback(lambda done: self._ended(session.id, done))
        while sum(len(one.body) for one in self._kept.values()) > MAX_KEPT_BYTES and len(self._tasks) > 1:
            await self.stop(next(iter(self._tasks)))

    async def stop(self, session_id: str) -> None:
        """End the refreshes of a session; returns when none is on its way."""
        task = self._tasks.pop(session_id, None)
        self._kept.pop(session_id, None)
        if task is not None:
            task.cancel()
            await asyncio.wait({task})

    async def close(self) -> None:
        for session_id in list(self._tasks):
            await self.stop(session_id)

    @property
    def waiting(self) -> int:
        """How many sessions are kept warm at the moment."""
        return len(self._tasks)

    def _ended(self, session_id: str, done: asyncio.Task[None]) -> None:
        if self._tasks.get(session_id) is done:
            del self._tasks[session_id]
            self._kept.pop(session_id, None)

    def _objection(self, call: ClientRequest, said: Conversation) -> str:
        if objection := refresh_objection(said.body, profile(said.model)):
            return objection
        return "" if self._limits.subscriptions or not is_subscription(call.headers) else SUBSCRIPTION

    def _give_up(self, session: ClientSession, reason: str) -> None:
        """Record once per session why it is not refreshed."""
        if session.told_objection != reason:
            session.told_objection = reason
            self._on_record(session, {"kind": "no_refresh", "reason": reason})

    async def _refresh_while_worth(self, session: ClientSession, said: Conversation) -> None:
        settings = self._limits.session
        try:
            while True:
                await self._sleep(seconds_to_refresh(self._pause(session), settings))
                rules = profile(said.model)
                prefix = Prefix(
                    tokens=session.cached_tokens,
                    profile=rules,
                    lifetime=cache_lifetime(said.body),
                    head_tokens=session.head_tokens,
                )
                spent = SessionCost(conversation_usd=session.cost_usd, warming_usd=session.refresh_usd)
                decision = decide_refresh(
                    self._pause(session),
                    Pauses(tuple(session.pauses)),
                    prefix=prefix,
                    spent=spent,
                    settings=settings,
                )
                today = self._clock.now().date()
                if not decision.is_worth or self._spent.get(today, 0.0) >= self._limits.day_usd:
                    _LOG.debug("no refresh: %s", decision.reason)
                    return
                if not await self._refresh(session, self._kept[session.id]):
                    return
        except (httpx2.TransportError, TimeoutError) as error:
            _LOG.warning("no refresh in this pause: %s", type(error).__name__)

    def _pause(self, session: ClientSession) -> Pause:
        now = self._clock.now()
        assert session.asked_at is not None
        assert session.touched_at is not None
        return Pause(
            seconds=max(0.0, (now - session.asked_at).total_seconds()),
            untouched_seconds=max(0.0, (now - session.touched_at).total_seconds()),
            refreshes=session.refreshes_now,
        )

    async def _refresh(self, session: ClientSession, kept: _Kept) -> bool:
        """Send the request again without output; return whether the cache was read."""
        began = self._clock.now()
        async with asyncio.timeout(self._limits.session.margin_seconds):
            reader = await self._sent(kept)
        usage = reader.usage or Usage()
        price = cost(profile(kept.model), usage) or 0.0
        session.refresh_usd += price
        self._spent = {began.date(): self._spent.get(began.date(), 0.0) + price}
        facts: JsonObject = {"kind": "refresh", "status": reader.status, "model": kept.model}
        self._on_record(session, {**facts, "usage": usage.as_json(), "cost_usd": price})
        if reader.status == TOO_MANY_REQUESTS or reader.status >= SERVER_ERROR:
            return False
        if reader.status != 200:
            session.cannot_refresh = f"the provider refused it with status {reader.status}"
        elif usage.cache_read < READ_SHARE * usage.prompt:
            session.cannot_refresh = "the provider wrote the cache instead of reading it"
        if session.cannot_refresh:
            self._give_up(session, session.cannot_refresh)
            return False
        session.touched_at = began
        session.refreshes_now += 1
        return True

    async def _sent(self, kept: _Kept) -> ReplyReader:
        body = zlib.decompress(kept.body)
        headers: Headers = [(name, value) for name, value in kept.call.headers if name not in DROPPED_HEADERS]
        headers += [(b"content-length", str(len(body)).encode()), (b"accept-encoding", b"identity")]
        request = upstream_request("POST", kept.call.target, headers, httpx2.ByteStream(body))
        response = await self._transport.handle_async_request(request)
        reader = ReplyReader(kept.call.api)
        try:
            reader.start(response.status_code, response.headers.raw)
            stream = response.stream
            assert isinstance(stream, httpx2.AsyncByteStream)
            async for chunk in stream:
                reader.feed(chunk)
        finally:
            await response.aclose()
        reader.finish()
        return reader


def is_subscription(headers: Headers) -> bool:
    """Return whether a client signs in with a subscription; keys may come as bearer tokens, too."""
    values = dict(headers)
    token = values.get(b"authorization", b"").partition(b" ")[2]
    return token.startswith(b"sk-ant-oat") or b"oauth-" in values.get(b"anthropic-beta", b"")


def _refresh_body(body: JsonObject) -> bytes:
    changed = {key: value for key, value in body.items() if key not in {"stream", "stream_options"}}
    return zlib.compress(json.dumps({**changed, "max_tokens": 0}).encode(), 1)
