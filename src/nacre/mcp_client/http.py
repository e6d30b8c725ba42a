"""A server over streamable HTTP, as the pair of streams the SDK speaks over."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING

import anyio
import httpx2
from mcp.client.streamable_http import streamable_http_client

from nacre.mcp_client.base import HttpServer, McpLimits

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams

MAX_EVENT_BYTES = 64 * 1024 * 1024
"""The same as over pipes: a larger message is of use to nobody."""
CONNECT_SECONDS = 10.0
"""Also for sending; an address that does not answer by then is not there."""
FAILED_STATUS = 400


class HttpLine:
    """One connection to a remote server; what its last refusal was is kept to explain a failure."""

    def __init__(self, server: HttpServer, limits: McpLimits) -> None:
        self._server = server
        self._limits = limits
        self._refused: int | None = None
        self.gone = anyio.Event()
        """Never set: between two requests there is nothing that could be gone."""

    @property
    def end(self) -> str:
        return "closed the connection"

    @property
    def last_words(self) -> str:
        """The status of the last refused request, which the SDK's errors do not show."""
        advice = "; check its headers in mcpServers" if self._refused in {401, 403} else ""
        return f" (HTTP {self._refused}{advice})" if self._refused else ""

    def kill(self) -> None:
        """Nothing of a remote server is ours to end."""

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncGenerator[TransportStreams, None]:
        """The two streams; leaving closes every socket."""
        # A silent stream is no failure: how long an answer may take is for the call to say.
        timeout = httpx2.Timeout(CONNECT_SECONDS, read=self._limits.max_call_seconds)
        async with (
            httpx2.AsyncClient(
                headers=dict(self._server.headers), timeout=timeout, event_hooks={"response": [self._note]}
            ) as client,
            streamable_http_client(
                self._server.url, http_client=client, max_sse_event_size=MAX_EVENT_BYTES
            ) as streams,
        ):
            yield streams

    async def _note(self, response: httpx2.Response) -> None:
        self._refused = response.status_code if response.status_code >= FAILED_STATUS else None
