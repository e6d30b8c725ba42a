"""Serve over HTTP on loopback, for clients that know the token; pages in a browser are refused.

Host and Origin are checked before the token, so that a page that guesses tokens learns nothing. A connection
whose client has not sent the token is dropped after a time limit, or when there are too many of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import secrets
import socket
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, TypeAlias

import h11
import uvicorn
from mcp.server.transport_security import TransportSecuritySettings
from uvicorn.protocols.http.h11_impl import H11Protocol

from nacre.errors import ConfigError
from nacre.integrations.mcp_server.base import ServerOptions
from nacre.integrations.mcp_server.server import McpServer
from nacre.loopback import QUEUED_CONNECTIONS, ConnectionLimit, bind

PATH = "/mcp"
HOST = "127.0.0.1"
"""Always loopback: one person's memory is served here."""
NAMES = (HOST, "localhost")
MIN_TOKEN_CHARS = 16
"""Minimum length of a chosen token; shorter ones can be guessed."""
TOKEN_BYTES = 32
MAX_BODY_BYTES = 1_048_576
"""Maximum size of one request: fifty of the longest memories."""
IDLE_SECONDS = 1_800.0
"""Idle time after which the session of a client is dropped."""
MAX_SESSIONS = 1_000
"""Maximum number of sessions: clients that leave without a word remain until the idle time."""
GRACE_SECONDS = 2
"""Time for calls in progress when the server stops."""
SECONDS: Mapping[object, float] = {h11.IDLE: 10.0, h11.SEND_BODY: 30.0}
"""Time for the head of a request, and between two parts of its body."""
KEEP_ALIVE_SECONDS = 30
"""Time between two requests on one connection; longer than in the clients' own pools."""
REFUSED_SECONDS = 1.0
REFUSED_BYTES = 65_536
"""How much of a refused request is read, so that its client is not reset before it has read the answer."""

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]


def sound_token(given: str | None) -> str:
    """Return the given token or a new one; raises `ConfigError` for one that can be guessed."""
    if not given:
        return secrets.token_urlsafe(TOKEN_BYTES)
    if len(given) < MIN_TOKEN_CHARS or not given.isascii() or not given.isprintable() or " " in given:
        raise ConfigError(
            f"NACRE_MCP_TOKEN needs {MIN_TOKEN_CHARS} or more printable characters without blanks; "
            "unset it to have one made"
        )
    return given


def bound(port: int) -> socket.socket:
    """Return a listening socket on loopback; raises `ConfigError` if the port is taken."""
    try:
        listening = bind(HOST, port)
    except OSError as error:
        raise ConfigError(
            f"port {port} of {HOST} cannot be had ({error.strerror}); choose another"
        ) from error
    listening.listen(QUEUED_CONNECTIONS)  # before the address is printed
    return listening


def address(listening: socket.socket) -> str:
    """Return the URL for clients."""
    return f"http://{HOST}:{listening.getsockname()[1]}{PATH}"


async def serve_http(options: ServerOptions, listening: socket.socket, token: str) -> None:
    """Serve until the process is told to stop."""
    port = int(listening.getsockname()[1])
    hosts = [f"{name}:{port}" for name in NAMES]
    origins = [f"http://{host}" for host in hosts]
    served = (
        McpServer(options)
        .server()
        .streamable_http_app(
            streamable_http_path=PATH,
            max_request_body_size=MAX_BODY_BYTES,
            session_idle_timeout=IDLE_SECONDS,
            max_sessions=MAX_SESSIONS,
            transport_security=TransportSecuritySettings(allowed_hosts=hosts, allowed_origins=origins),
        )
    )
    limit = ConnectionLimit()

    class LimitedProtocol(_TimedProtocol):
        connection_limit = limit

    config = uvicorn.Config(
        gate(served, token=token, hosts=hosts, origins=origins, limit=limit),
        http=LimitedProtocol,
        backlog=limit.accepted_at_once,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        log_config=None,
        access_log=False,
        ws="none",  # not needed here, and the checks do not cover it
        lifespan="on",
        server_header=False,
        timeout_graceful_shutdown=GRACE_SECONDS,
    )
    await _Server(config).serve(sockets=[listening])


class _Server(uvicorn.Server):
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


def gate(
    served: App, *, token: str, hosts: list[str], origins: list[str], limit: ConnectionLimit | None = None
) -> App:
    """Pass on only requests from this machine with the token, and keep their connections."""
    wanted = token.encode()

    async def gated(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await served(scope, receive, send)
            return
        headers: list[tuple[bytes, bytes]] = list(scope["headers"])
        if _all_of(headers, b"host") - {host.encode() for host in hosts} or not _all_of(headers, b"host"):
            await _refused(receive, send, 421, "this server answers to its loopback address only")
        elif _all_of(headers, b"origin") - {origin.encode() for origin in origins}:
            await _refused(receive, send, 403, "pages of other origins may not use this server")
        elif not hmac.compare_digest(_bearer(headers), wanted):
            why = "send the token that `nacre mcp --http` printed: Authorization: Bearer …"
            await _refused(receive, send, 401, why)
        else:
            if limit is not None:
                limit.keep(scope["client"])
            await served(scope, receive, send)

    return gated


def _all_of(headers: list[tuple[bytes, bytes]], name: bytes) -> set[bytes]:
    """Return all values of a header, so that a repeated one cannot be read in two ways."""
    return {value for key, value in headers if key == name}


def _bearer(headers: list[tuple[bytes, bytes]]) -> bytes:
    """Return the bearer token; None if there is none or several."""
    given = _all_of(headers, b"authorization")
    scheme, _, token = given.pop().partition(b" ") if len(given) == 1 else (b"", b"", b"")
    return token if scheme.lower() == b"bearer" else b""


async def _refused(receive: Receive, send: Send, status: int, why: str) -> None:
    """Read the rest of a request, within limits, answer it and close the connection."""
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"connection", b"close")]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    left = REFUSED_BYTES
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(REFUSED_SECONDS):
            while left > 0 and (part := await receive()).get("more_body"):
                left -= len(part["body"])
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": f"{why}\n".encode()})
