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
from nacre.mcp_server.base import Options
from nacre.mcp_server.server import Door

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
MAX_SESSIONS = 100
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


async def serve_http(options: Options, listening: socket.socket, token: str) -> None:
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
        lifespan="on",
        server_header=False,
        timeout_graceful_shutdown=GRACE_SECONDS,
    )
    await uvicorn.Server(config).serve(sockets=[listening])


def gate(served: App, *, token: str, hosts: list[str], origins: list[str]) -> App:
    """Lets nobody through but clients of this machine that know the token."""
    wanted = f"Bearer {token}".encode()

    async def gated(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await served(scope, receive, send)
            return
        headers: dict[bytes, bytes] = dict(scope["headers"])
        origin = headers.get(b"origin")
        if headers.get(b"host", b"").decode("latin-1") not in hosts:
            await _refused(send, 421, "this server answers to its loopback address only")
        elif origin is not None and origin.decode("latin-1") not in origins:
            await _refused(send, 403, "pages of other origins may not use this server")
        elif not hmac.compare_digest(headers.get(b"authorization", b""), wanted):
            await _refused(
                send, 401, "send the token that `nacre mcp --http` printed: Authorization: Bearer …"
            )
        else:
            await served(scope, receive, send)

    return gated


async def _refused(send: Send, status: int, why: str) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8")]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": f"{why}\n".encode()})
