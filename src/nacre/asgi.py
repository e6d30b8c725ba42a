"""Serve ASGI applications with time limits for each part of a request and a limit of connections."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, TypeAlias

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from nacre.errors import ConfigError
from nacre.loopback import QUEUED_CONNECTIONS, ConnectionLimit, bind

SECONDS: Mapping[object, float] = {h11.IDLE: 10.0, h11.SEND_BODY: 30.0}
"""Time for the head of a request, and between two parts of its body."""
KEEP_ALIVE_SECONDS = 30
"""Time between two requests on one connection; longer than in the clients' own pools."""
GRACE_SECONDS = 2
"""Time for calls in progress when the server stops."""
REFUSED_SECONDS = 1.0
REFUSED_BYTES = 65_536
"""How much of a refused request is read, so that its client is not reset before it has read the answer."""

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]


def bound(host: str, port: int) -> socket.socket:
    """Return a listening socket; raises `ConfigError` if the port is taken."""
    try:
        listening = bind(host, port)
    except OSError as error:
        raise ConfigError(
            f"port {port} of {host} cannot be had ({error.strerror}); choose another"
        ) from error
    listening.listen(QUEUED_CONNECTIONS)  # before the address is printed
    return listening


async def serve(
    app: App,
    listening: socket.socket,
    *,
    limit: ConnectionLimit,
    grace_seconds: int = GRACE_SECONDS,
    behind_proxy: bool = False,
    date_header: bool = True,
) -> None:
    """Serve an application until the process is told to stop, or the task is cancelled.

    Requests in progress get an answer within the time of grace, then the application is closed.
    Behind a proxy the client's address is taken from X-Forwarded-For of the addresses in FORWARDED_ALLOW_IPS.
    An application that is a proxy itself passes on the `date` of its replies.
    """

    class LimitedProtocol(_TimedProtocol):
        connection_limit = limit

    config = uvicorn.Config(
        app,
        http=LimitedProtocol,
        backlog=limit.accepted_at_once,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        log_config=None,
        access_log=False,
        ws="none",  # not needed here, and the checks do not cover it
        lifespan="on",
        server_header=False,
        proxy_headers=behind_proxy,
        date_header=date_header,
        timeout_graceful_shutdown=grace_seconds,
    )
    server = _Server(config)
    server.on_stop = limit.on_stop
    try:
        await server.serve(sockets=[listening])
    except asyncio.CancelledError:
        if server.started:
            await server.shutdown(sockets=[listening])
        raise


class _Server(uvicorn.Server):
    on_stop: Callable[[], None] | None = None

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self.on_stop is not None:
            self.on_stop()
        await super().shutdown(sockets)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for one in sockets or ():
            one.listen(QUEUED_CONNECTIONS)  # asyncio has set it to the number that it accepts at once


class _TimedProtocol(H11Protocol):
    """A connection with time limits for each part of a request, and a place in the limit of connections."""

    connection_limit: ConnectionLimit
    _timer: asyncio.TimerHandle | None = None
    _timed: object = None
    """What the timer waits for: a state of h11."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.connection_limit.add(transport.get_extra_info("peername"), transport)
        self._set_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.connection_limit.remove(self.transport.get_extra_info("peername"), self.transport)
        self._set_timer()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._set_timer()

    def _set_timer(self) -> None:
        """Start the time for what is expected now; a whole head has one, each part of a body its own."""
        expected = None if self.transport.is_closing() else self.conn.their_state
        if expected is self._timed is h11.IDLE:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timed = expected
        if expected in SECONDS:
            self._timer = self.loop.call_later(SECONDS[expected], self.transport.abort)


def header_values(headers: list[tuple[bytes, bytes]], name: bytes) -> set[bytes]:
    """Return all values of a header, so that a repeated one cannot be read in two ways."""
    return {value for key, value in headers if key == name}


def bearer_token(headers: list[tuple[bytes, bytes]]) -> bytes:
    """Return the bearer token; empty if there is none or several."""
    given = header_values(headers, b"authorization")
    scheme, _, token = given.pop().partition(b" ") if len(given) == 1 else (b"", b"", b"")
    return token if scheme.lower() == b"bearer" else b""


async def read_refused(receive: Receive) -> None:
    """Read the rest of a request that is refused, within limits of size and time."""
    left = REFUSED_BYTES
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(REFUSED_SECONDS):
            while left > 0 and (part := await receive()).get("more_body"):
                left -= len(part["body"])
