"""Serve on stdin and stdout for the client that started this process."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import threading
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Self

import mcp_types as types
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage

from nacre.integrations.mcp_server.base import ServerOptions
from nacre.integrations.mcp_server.greeting import Greeted
from nacre.integrations.mcp_server.server import McpServer

if TYPE_CHECKING:  # no promise of the SDK's: a server need not fail where this has moved
    from mcp.shared._stream_protocols import WriteStream

CHUNK_BYTES = 65_536
"""Capacity of a pipe."""
HALF = rb"\ud"
"""Beginning of a surrogate escape in JSON."""
REPLACEMENT = rb"\ufffd"
_ESCAPE = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"  # two halves that belong together
    rb"|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
    rb"|\\."
)


async def serve_stdio(options: ServerOptions, greeted: Greeted) -> None:
    """Serve until the client closes its end or a signal arrives; only the protocol is written to stdout."""
    server = McpServer(options).server()
    end = _input(greeted.line)
    loop = asyncio.get_running_loop()
    for one in (signal.SIGINT, signal.SIGTERM):
        with suppress(NotImplementedError):
            # From a thread: the pump may wait for the event loop that handles the signal.
            loop.add_signal_handler(one, loop.run_in_executor, None, end)
    async with stdio_server() as (reading, writing):
        said = _Without(writing, greeted.answered) if greeted.answered is not None else writing
        await server.run(reading, said, server.create_initialization_options())


def _input(first: bytes) -> _Pump:
    """Return stdin preceded by the line that was read before, with an end that can be closed from here.

    A thread that waits for the client cannot be woken; one that waits for our own pipe can.
    """
    heard, poured = os.pipe()
    pump = _Pump(os.dup(0), poured)
    os.dup2(heard, 0)
    os.close(heard)
    threading.Thread(target=pump.run, args=(first,), name="read stdin", daemon=True).start()
    return pump


class _Pump:
    """Copies the client's data until one side ends; `__call__` ends it at once."""

    def __init__(self, source: int, sink: int) -> None:
        self._source = source
        self._sink = sink
        self._lock = threading.Lock()
        self._is_over = False

    def run(self, first: bytes) -> None:
        data = first
        begun = list[bytes]()
        while data:
            whole, end, rest = data.rpartition(b"\n")
            if end and not self._is_poured(mended(b"".join([*begun, whole, end]))):
                break
            begun = [rest] if end else [*begun, data]
            data = os.read(self._source, CHUNK_BYTES)
        self._is_poured(mended(b"".join(begun)))
        self()

    def __call__(self) -> None:
        # A blocked writer holds the lock; the reader at the other end lets it continue.
        with self._lock:
            if not self._is_over:
                self._is_over = True
                os.close(self._sink)

    def _is_poured(self, data: bytes) -> bool:
        with self._lock:
            while data and not self._is_over:
                data = data[os.write(self._sink, data) :]
            return not self._is_over


def mended(lines: bytes) -> bytes:
    """Replace lone surrogates in lines of JSON, which a client that splits a text may send.

    The SDK ignores such a line without an answer, so that its client would wait for ever.
    """
    return _ESCAPE.sub(_whole, lines) if HALF in lines.lower() else lines


def _whole(found: re.Match[bytes]) -> bytes:
    return found[0] if found[1] is None else REPLACEMENT


class _Without:
    """Drops the answer that the client already has."""

    def __init__(self, rest: WriteStream[SessionMessage], answered: str | int) -> None:
        self._rest = rest
        self._answered: str | int | None = answered

    async def send(self, item: SessionMessage, /) -> None:
        if isinstance(item.message, types.JSONRPCResponse) and item.message.id == self._answered:
            self._answered = None
            return
        await self._rest.send(item)

    async def aclose(self) -> None:
        await self._rest.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()
