"""Put the parts of the gateway together and serve it on loopback."""

from __future__ import annotations

import asyncio
import logging
import socket
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from nacre.asgi import App, Receive, Scope, Send, serve
from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.errors import ConfigError
from nacre.loopback import ConnectionLimit
from nacre.server.gateway.changes import RequestChanges, Shrinker
from nacre.server.gateway.keep_warm import CacheRefresher, KeepWarmLimits, Sleep
from nacre.server.gateway.memory import GatewayMemory
from nacre.server.gateway.observer import SessionObserver
from nacre.server.gateway.proxy import Gateway, upstream_transport
from nacre.server.gateway.recording import SessionRecorder
from nacre.server.gateway.records import RecordFile, refreshes_usd
from nacre.server.gateway.upstream import Upstream
from nacre.settings import Settings

HOST = "127.0.0.1"
"""Always loopback: keys cross this connection unencrypted."""
MOUNTED_AT = "/gateway"
"""Its path in a server that has others, too."""
GRACE_SECONDS = 10
"""Time for replies in progress when the gateway stops."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayOptions:
    """What the gateway does besides passing requests on."""

    home: Path
    upstream: Upstream = field(default_factory=Upstream)
    keep_warm: KeepWarmLimits | None = None
    record: Path | None = None
    """Folder for recordings of whole sessions, with all text."""
    memory: Settings | None = None
    """Attach memories and extract them, as these settings say."""
    shrinker: Shrinker | None = None
    """Shrinks histories of clients that do not do it themselves."""
    clock: Clock = SYSTEM_CLOCK
    sleep: Sleep = asyncio.sleep


@dataclass(frozen=True, slots=True)
class BuiltGateway:
    """The application, with the parts that tests look at."""

    app: Gateway
    observer: SessionObserver
    limit: ConnectionLimit


def build_gateway(
    options: GatewayOptions, port: int, *, limit: ConnectionLimit | None = None
) -> BuiltGateway:
    """Return the gateway for a port of this machine; `limit` is that of a server that it is a part of."""
    if options.upstream.url is not None and _is_own(options.upstream.url, port):
        raise ConfigError("--upstream is the address of this gateway; name the address of the provider")
    transport = upstream_transport(options.upstream)
    observer = SessionObserver(RecordFile(options.home), clock=options.clock)
    if options.record is not None:
        observer.recorder = SessionRecorder(options.record, options.clock)
    if options.keep_warm is not None:
        today = options.clock.now().date()
        observer.refresher = CacheRefresher(
            transport,
            limits=options.keep_warm,
            clock=options.clock,
            on_record=observer.record,
            sleep=options.sleep,
            spent={today: refreshes_usd(options.home, today)},
        )
    if options.memory is not None or options.shrinker is not None:
        memory = None if options.memory is None else GatewayMemory(options.memory, options.clock)
        observer.changes = RequestChanges(memory=memory, shrinker=options.shrinker)
    limit = limit or ConnectionLimit()
    app = Gateway(options.upstream, port=port, limit=limit, observer=observer, transport=transport)
    return BuiltGateway(app, observer, limit)


def with_gateway(app: App, built: BuiltGateway) -> App:
    """Return an application that also is a gateway, below the path `/gateway`."""
    # As in `serve_gateway`.
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)

    async def both(scope: Scope, receive: Receive, send: Send) -> None:
        raw: bytes = scope.get("raw_path") or b""
        if scope["type"] == "http" and raw.startswith(MOUNTED_AT.encode() + b"/"):
            path = scope["path"].removeprefix(MOUNTED_AT)
            below = {**scope, "path": path, "raw_path": raw.removeprefix(MOUNTED_AT.encode())}
            await built.app(below, receive, send)
            return
        await app(scope, receive, send)
        if scope["type"] == "lifespan":
            await built.app.close()

    return both


async def serve_gateway(built: BuiltGateway, listening: socket.socket) -> None:
    """Serve until the process is told to stop."""
    # A reply that broke off at the provider is left unfinished, which the server would log as an error.
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
    await serve(built.app, listening, limit=built.limit, grace_seconds=GRACE_SECONDS, date_header=False)


def _is_own(url: str, port: int) -> bool:
    return urlsplit(url).netloc in {f"{name}:{port}" for name in (HOST, "localhost")}
