"""JSON-RPC lines on stdin and stdout that nothing else in the process can write to or read from."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from nacre.errors import ConfigError
from nacre.messages.blocks import Json, JsonObject

MAX_LINE_BYTES = 50 * 1024 * 1024
"""Of one message: some pictures in base64. It is also the limit of the protocol's SDK."""
PARSE_ERROR = -32700
INVALID_REQUEST = -32600
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
"""Codes of JSON-RPC; the SDK's own errors have fixed messages, of which a client shows nothing else."""


class StdioTransport:
    """Messages as lines of JSON; a line that is no message is answered with an error and skipped."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._is_closed = False

    async def send(self, message: JsonObject) -> None:
        """Write one message; raises `ConnectionError` if the client is gone."""
        if self._is_closed:
            raise ConnectionError("the client has closed the connection")
        # Without a pause before the write, so that messages leave in the order of the calls.
        self._writer.write(json.dumps(message, separators=(",", ":"), default=str).encode() + b"\n")
        await self._writer.drain()

    async def receive(self) -> JsonObject | None:
        """Return the next message; None if the client has closed its end."""
        while True:
            try:
                line = await self._reader.readuntil(b"\n")
            except asyncio.IncompleteReadError as error:
                line = error.partial
                if not line.strip():
                    return None
            except asyncio.LimitOverrunError:
                await self._skip_line()
                await self._refuse(INVALID_REQUEST, f"a message may have {MAX_LINE_BYTES:,} bytes")
                continue
            except ConnectionError:
                return None
            if not line.strip():
                continue
            try:
                value: Json = json.loads(line)
            except (ValueError, RecursionError) as error:
                await self._refuse(PARSE_ERROR, f"not JSON: {error}")
                continue
            if isinstance(value, dict) and _is_message(value):
                return value
            await self._refuse(INVALID_REQUEST, "not a JSON-RPC message")

    async def close(self) -> None:
        """Send nothing more."""
        self._is_closed = True
        self._writer.close()

    async def _skip_line(self) -> None:
        while True:
            try:
                await self._reader.readuntil(b"\n")
            except asyncio.LimitOverrunError as error:
                await self._reader.readexactly(error.consumed)
                continue
            except asyncio.IncompleteReadError:
                pass
            return

    async def _refuse(self, code: int, message: str) -> None:
        await self.send({"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": message}})


def _is_message(value: JsonObject) -> bool:
    """Whether the SDK can handle a message: it assumes hashable ids and a method that is text."""
    id_ = value.get("id")
    is_id = id_ is None or (isinstance(id_, int | str) and not isinstance(id_, bool))
    return is_id and (isinstance(value["method"], str) if "method" in value else "id" in value)


@asynccontextmanager
async def open_stdio() -> AsyncIterator[StdioTransport]:
    """Yield the client's connection; meanwhile stdin is empty and stdout is stderr for everything else.

    Commands of hooks and an editor that a slash command starts inherit these, and could destroy the protocol.
    """
    # Closed at the start, their numbers may belong to other files by now.
    is_open = sys.stdin is not None and sys.stdout is not None
    if not (is_open and _is_pipe(0) and _is_pipe(1)):
        raise ConfigError("nacre acp needs a pipe on stdin and stdout; an editor starts it so")
    sys.stdout.flush()
    loop = asyncio.get_running_loop()
    read_end = os.fdopen(os.dup(0), "rb", buffering=0)
    write_end = os.fdopen(os.dup(1), "wb", buffering=0)
    with open(os.devnull, "rb") as nothing:  # noqa: PTH123, ASYNC230 - the null device blocks nobody
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    reader = asyncio.StreamReader(limit=MAX_LINE_BYTES)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), read_end)
    transport, protocol = await loop.connect_write_pipe(
        lambda: asyncio.streams.FlowControlMixin(loop=loop), write_end
    )
    writer = asyncio.StreamWriter(transport, protocol, None, loop)
    try:
        yield StdioTransport(reader, writer)
    finally:
        writer.close()


def _is_pipe(descriptor: int) -> bool:
    """Whether a descriptor can be waited for: a pipe, a socket, or the terminal of a person."""
    try:
        mode = os.fstat(descriptor).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(descriptor)
