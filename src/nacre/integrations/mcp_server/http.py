"""The server over HTTP, on loopback only: whoever knows the token, and no page in a browser (no DNS tricks).

Host and Origin are looked at before the token, so that a page that guesses learns nothing.
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
"""Never another: what is served here is one person's memory."""
NAMES = (HOST, "localhost")
MIN_TOKEN_CHARS = 16
"""Of a token that somebody chose: fewer can be guessed."""
TOKEN_BYTES = 32
MAX_BODY_BYTES = 1_048_576
"""Of one request: fifty of the longest memories."""
IDLE_SECONDS = 1_800.0
"""After this a session of a client that went away is forgotten."""
MAX_SESSIONS = 1_000
"""At once: a program that starts, asks and goes without a word leaves one behind until it is forgotten."""
GRACE_SECONDS = 2
"""What calls under way get when the server ends."""

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]


def sound_token(given: str | None) -> str:
    """The token that was given, or a new one; `ConfigError` for one that could be guessed."""
    if not given:
        return secrets.token_urlsafe(TOKEN_BYTES)
    if len(given) < MIN_TOKEN_CHARS or not given.isascii() or not given.isprintable() or " " in given:
        raise ConfigError(
            f"NACRE_MCP_TOKEN needs {MIN_TOKEN_CHARS} or more printable characters without blanks; "
            "unset it to have one made"
        )
    return given


def bound(port: int) -> socket.socket:
    """A listening socket on loopback; `ConfigError` when the port is taken."""
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
    """Where clients find the server."""
    return f"http://{HOST}:{listening.getsockname()[1]}{PATH}"


async def serve_http(options: ServerOptions, listening: socket.socket, token: str) -> None:
    """Serve until the process is told to end."""
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
    """Lets nobody through but clients of this machine that know the token."""
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
    """What a header says, each time it stands there: who reads the first and who the last must agree."""
    return {value for key, value in headers if key == name}


def _bearer(headers: list[tuple[bytes, bytes]]) -> bytes:
    """The token of a request; nothing where it has none, or several. The scheme may be in any case."""
    given = _all_of(headers, b"authorization")
    scheme, _, token = given.pop().partition(b" ") if len(given) == 1 else (b"", b"", b"")
    return token if scheme.lower() == b"bearer" else b""


async def _refused(send: Send, status: int, why: str) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8")]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": f"{why}\n".encode()})
