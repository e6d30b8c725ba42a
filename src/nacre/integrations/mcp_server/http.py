"""Serve over HTTP on loopback, for clients that know the token; pages in a browser are refused.

Host and Origin are checked before the token, so that a page that guesses tokens learns nothing.
"""

from __future__ import annotations

import hmac
import secrets
import socket
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias

import uvicorn
from mcp.server.transport_security import TransportSecuritySettings

from nacre.errors import ConfigError
from nacre.integrations.mcp_server.base import ServerOptions
from nacre.integrations.mcp_server.server import Door

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
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((HOST, port))
    except OSError as error:
        listening.close()
        raise ConfigError(
            f"port {port} of {HOST} cannot be had ({error.strerror}); choose another"
        ) from error
    listening.listen()  # before anybody is told the address
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
        Door(options)
        .server()
        .streamable_http_app(
            streamable_http_path=PATH,
            max_request_body_size=MAX_BODY_BYTES,
            session_idle_timeout=IDLE_SECONDS,
            max_sessions=MAX_SESSIONS,
            transport_security=TransportSecuritySettings(allowed_hosts=hosts, allowed_origins=origins),
        )
    )
    config = uvicorn.Config(
        gate(served, token=token, hosts=hosts, origins=origins),
        log_config=None,
        access_log=False,
        ws="none",  # nobody needs it here, and it would not come through the gate
        lifespan="on",
        server_header=False,
        timeout_graceful_shutdown=GRACE_SECONDS,
    )
    await uvicorn.Server(config).serve(sockets=[listening])


def gate(served: App, *, token: str, hosts: list[str], origins: list[str]) -> App:
    """Pass on only requests from this machine with the token."""
    wanted = token.encode()

    async def gated(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await served(scope, receive, send)
            return
        headers: list[tuple[bytes, bytes]] = list(scope["headers"])
        if _all_of(headers, b"host") - {host.encode() for host in hosts} or not _all_of(headers, b"host"):
            await _refused(send, 421, "this server answers to its loopback address only")
        elif _all_of(headers, b"origin") - {origin.encode() for origin in origins}:
            await _refused(send, 403, "pages of other origins may not use this server")
        elif not hmac.compare_digest(_bearer(headers), wanted):
            await _refused(
                send, 401, "send the token that `nacre mcp --http` printed: Authorization: Bearer …"
            )
        else:
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


async def _refused(send: Send, status: int, why: str) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8")]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": f"{why}\n".encode()})
