"""Serve over HTTP on loopback, for clients that know the token; pages in a browser are refused.

Host and Origin are checked before the token, so that a page that guesses tokens learns nothing. A connection
whose client has not sent the token is dropped after a time limit, or when there are too many of them.
"""

from __future__ import annotations

import hmac
import secrets
import socket

from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette

from nacre.asgi import App, Receive, Scope, Send, bearer_token, header_values, read_refused, serve
from nacre.errors import ConfigError
from nacre.integrations.mcp_server.base import ServerOptions
from nacre.integrations.mcp_server.server import McpServer
from nacre.integrations.mcp_server.shared import SharedStore
from nacre.loopback import ConnectionLimit

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


def address(listening: socket.socket) -> str:
    """Return the URL for clients."""
    return f"http://{HOST}:{listening.getsockname()[1]}{PATH}"


async def serve_http(options: ServerOptions, listening: socket.socket, token: str) -> None:
    """Serve until the process is told to stop."""
    port = int(listening.getsockname()[1])
    hosts = [f"{name}:{port}" for name in NAMES]
    origins = [f"http://{host}" for host in hosts]
    served = mcp_application(options, TransportSecuritySettings(allowed_hosts=hosts, allowed_origins=origins))
    limit = ConnectionLimit()
    gated = gate(served, token=token, hosts=hosts, origins=origins, limit=limit)
    await serve(gated, listening, limit=limit)


def mcp_application(
    options: ServerOptions,
    security: TransportSecuritySettings | None = None,
    *,
    shared: SharedStore | None = None,
) -> Starlette:
    """Return the application at `/mcp`; without settings the caller checks Host, Origin and keys.

    With a shared store no request needs the process that answered the one before.
    """
    return (
        McpServer(options, shared)
        .server()
        .streamable_http_app(
            streamable_http_path=PATH,
            max_request_body_size=MAX_BODY_BYTES,
            session_idle_timeout=IDLE_SECONDS,
            max_sessions=MAX_SESSIONS,
            stateless_http=shared is not None,
            transport_security=security or TransportSecuritySettings(enable_dns_rebinding_protection=False),
        )
    )


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
        if header_values(headers, b"host") - {host.encode() for host in hosts} or not header_values(
            headers, b"host"
        ):
            await _refused(receive, send, 421, "this server answers to its loopback address only")
        elif header_values(headers, b"origin") - {origin.encode() for origin in origins}:
            await _refused(receive, send, 403, "pages of other origins may not use this server")
        elif not hmac.compare_digest(bearer_token(headers), wanted):
            why = "send the token that `nacre mcp --http` printed: Authorization: Bearer …"
            await _refused(receive, send, 401, why)
        else:
            if limit is not None:
                limit.keep(scope["client"])
            await served(scope, receive, send)

    return gated


async def _refused(receive: Receive, send: Send, status: int, why: str) -> None:
    """Read the rest of a request, within limits, answer it and close the connection."""
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"connection", b"close")]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await read_refused(receive)
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": f"{why}\n".encode()})
