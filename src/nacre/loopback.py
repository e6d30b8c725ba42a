"""Parts that the servers on loopback share: a bound socket, and a limit of open connections."""

from __future__ import annotations

import asyncio
import resource
import socket
from collections.abc import Callable

QUEUED_CONNECTIONS = 1_024
"""Connections that the kernel holds until they are accepted."""
MAX_CONNECTIONS = 512
"""Maximum number of open connections, and at most half of the descriptors that the process may open."""

Peer = tuple[str, int]
"""The address of a client, which identifies its connection."""


def bind(host: str, port: int) -> socket.socket:
    """Return a bound socket that does not listen yet; raises `OSError` if the port is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol is named: only then asyncio sends the parts of an answer at once, not 40 ms apart.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
    except OSError:
        bound.close()
        raise
    return bound


class ConnectionLimit:
    """Limits the open connections of a server; above the limit the oldest one that is not kept is dropped.

    A connection is kept once its client has sent the token, or while it is answered. Any number of other
    connections can therefore not block a client.
    """

    def __init__(self) -> None:
        descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        is_limited = 0 < descriptors < 2 * MAX_CONNECTIONS
        self._most = max(descriptors // 2, 1) if is_limited else MAX_CONNECTIONS
        self.accepted_at_once = max(self._most // 8, 1)
        """Connections to accept per iteration of the event loop: a request is read some iterations later."""
        self.on_stop: Callable[[], None] | None = None
        """Called when the server is told to stop, to end answers that would go on."""
        self._waiting: dict[Peer, asyncio.WriteTransport] = {}
        self._kept: dict[Peer, asyncio.WriteTransport] = {}

    def add(self, peer: Peer, transport: asyncio.WriteTransport) -> None:
        """Count a new connection, and drop the oldest ones above the limit."""
        self._waiting[peer] = transport
        while self._waiting and len(self._waiting) + len(self._kept) > self._most:
            self._waiting.pop(next(iter(self._waiting))).abort()

    def keep(self, peer: Peer) -> None:
        """Do not drop this connection, until it is released."""
        if (transport := self._waiting.pop(peer, None)) is not None:
            self._kept[peer] = transport

    def release(self, peer: Peer) -> None:
        """Make the connection the youngest of those that can be dropped."""
        if (transport := self._kept.pop(peer, None)) is not None:
            self._waiting[peer] = transport

    def remove(self, peer: Peer, transport: asyncio.WriteTransport) -> None:
        """Forget a closed connection; another one with the same address stays."""
        for connections in (self._waiting, self._kept):
            if connections.get(peer) is transport:
                del connections[peer]
