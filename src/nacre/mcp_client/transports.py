"""The two transports: a server as a child process in its own group, and streamable HTTP.

The SDK's own stdio transport hides the process and its errors, leaves children of a server alive and accepts
lines of any length. Here the whole process group has ended when `StdioTransport.open` exits.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import IO, TYPE_CHECKING

import anyio
import anyio.abc
import httpx2
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from nacre.mcp_client.base import HttpServerConfig, McpLimits, StdioServerConfig, one_line
from nacre.process import end_group, kill_group, spawn

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams

MAX_MESSAGE_BYTES = 64 * 1024 * 1024
"""A longer line is output without end; no result of this size is useful."""
TAIL_BYTES = 8_192
"""How much of the error output is kept: the last line and the traceback above it."""
DRAIN_SECONDS = 0.5
"""How long to read from a dead server; a later writer is another process that holds its pipes."""


class StdioTransport:
    """A server process; the end of its error output is kept to explain why it ended."""

    def __init__(
        self, server: StdioServerConfig, limits: McpLimits, *, on_notice: Callable[[str], None]
    ) -> None:
        self._server = server
        self._limits = limits
        self._on_notice = on_notice
        self._process: asyncio.subprocess.Process | None = None
        self._errors = bytearray()
        self._stray: str | None = None
        self._flooded = False
        self._errors_read = anyio.Event()
        self._reading: list[anyio.CancelScope] = []
        self._is_over = False
        self.gone = anyio.Event()
        """Set once the server has ended or closed its output."""

    @property
    def end(self) -> str:
        """How the server ended, with the last line of its errors."""
        code = self._process.returncode if self._process else None
        if self._flooded:
            how = f"sent a line of more than {MAX_MESSAGE_BYTES // 1024 // 1024} MiB and was ended"
        elif code is None:
            how = "closed its output"
        else:
            how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        return f"{how}{self.last_words}"

    @property
    def last_words(self) -> str:
        """The last line of its errors, or of output that is not MCP; empty if there is none."""
        lines = [one_line(line) for line in self._errors.decode(errors="replace").splitlines()]
        said = next((line for line in reversed(lines) if line), self._stray)
        return f": {said}" if said else ""

    def kill(self) -> None:
        """Kill the whole process group."""
        # After the end its process id may have been reused.
        if self._process is not None and not self._is_over:
            kill_group(self._process.pid)

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncGenerator[TransportStreams, None]:
        """Start the process; on exit close its input, wait, and end its group."""
        inbound_send, inbound = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        outbound, outbound_receive = anyio.create_memory_object_stream[SessionMessage](0)
        async with contextlib.AsyncExitStack() as stack:
            for stream in (inbound_send, inbound, outbound, outbound_receive):
                stack.callback(stream.close)
            pipes = await stack.enter_async_context(open_pipes())
            tasks = await stack.enter_async_context(anyio.create_task_group())
            try:
                with anyio.CancelScope(shield=True):
                    try:
                        process = self._process = await spawn(
                            (self._server.command, *self._server.args),
                            cwd=self._server.cwd,
                            environ=dict(self._server.env),
                            files=pipes.child_ends,
                        )
                    finally:
                        for end in pipes.child_ends:
                            end.close()
                tasks.start_soon(self._shielded, partial(self._read_messages, pipes.output, inbound_send))
                tasks.start_soon(self._shielded, partial(self._read_errors, pipes.errors))
                tasks.start_soon(self._write_messages, pipes.input, outbound_receive)
                tasks.start_soon(self._watch, process)
                yield inbound, outbound
            finally:
                # So that the reader does not wait for a consumer that is gone.
                inbound.close()
                with anyio.CancelScope(shield=True):
                    await self._end(pipes)
                for scope in self._reading:
                    scope.cancel()
                tasks.cancel_scope.cancel()

    async def _end(self, pipes: Pipes) -> None:
        process = self._process
        if process is None:
            return
        try:
            pipes.input.close()
            with anyio.move_on_after(self._limits.exit_seconds):
                await process.wait()
            await end_group(process.pid, term_seconds=self._limits.term_seconds)
            with anyio.move_on_after(DRAIN_SECONDS):
                await process.wait()
                await self._errors_read.wait()
        finally:
            self.kill()
            self._is_over = True

    async def _shielded(self, read: Callable[[], Awaitable[None]]) -> None:
        """Continue to read during cancellation: a server that cannot write cannot end."""
        with anyio.CancelScope(shield=True) as scope:
            self._reading.append(scope)
            await read()

    async def _watch(self, process: asyncio.subprocess.Process) -> None:
        # A child of a dead server may hold the pipes open for ever: the process counts, not the pipes.
        await process.wait()
        await anyio.sleep(DRAIN_SECONDS)
        self.gone.set()

    async def _read_messages(
        self, output: asyncio.StreamReader, inbound: anyio.abc.ObjectSendStream[SessionMessage | Exception]
    ) -> None:
        pieces: list[bytes] = []
        held = 0
        async with inbound:
            while chunk := await output.read(CHUNK_BYTES):
                first, *others = chunk.split(b"\n")
                pieces.append(first)
                held += len(first)
                for piece in others:
                    await self._deliver(b"".join(pieces), inbound)
                    pieces = [piece]
                    held = len(piece)
                if held > MAX_MESSAGE_BYTES:
                    self._flooded = True
                    self.kill()
                    break
        self.gone.set()

    async def _deliver(
        self, line: bytes, inbound: anyio.abc.ObjectSendStream[SessionMessage | Exception]
    ) -> None:
        if not line.strip():
            return
        try:
            message = jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValueError:
            words = one_line(line[:1_000].decode(errors="replace"), chars=120)
            if self._stray is None:
                name = self._server.name
                self._on_notice(f"MCP server {name} prints on its output what is not MCP; ignored: {words}")
            self._stray = words
            return
        # While closing there is no consumer; further messages are read and dropped.
        with contextlib.suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
            await inbound.send(SessionMessage(message))

    async def _write_messages(
        self, writer: asyncio.StreamWriter, outbound: anyio.abc.ObjectReceiveStream[SessionMessage]
    ) -> None:
        # A broken pipe means that the server is ending, which the reader reports.
        with contextlib.suppress(OSError):
            async for item in outbound:
                writer.write(item.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
                await writer.drain()

    async def _read_errors(self, errors: asyncio.StreamReader) -> None:
        while chunk := await errors.read(CHUNK_BYTES):
            self._errors += chunk
            del self._errors[:-TAIL_BYTES]
        self._errors_read.set()


CHUNK_BYTES = 65_536
"""The capacity of a pipe; no more is read ahead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipes:
    """Our ends as streams, the child's ends as files."""

    input: asyncio.StreamWriter
    output: asyncio.StreamReader
    errors: asyncio.StreamReader
    child_ends: tuple[IO[bytes], IO[bytes], IO[bytes]]


@contextlib.asynccontextmanager
async def open_pipes() -> AsyncGenerator[Pipes, None]:
    """Open three pipes and close all six ends on exit."""
    with contextlib.ExitStack() as stack:
        child_input, our_input = _pipe(stack)
        our_output, child_output = _pipe(stack)
        our_errors, child_errors = _pipe(stack)
        yield Pipes(
            input=await _writer(stack, our_input),
            output=await _reader(stack, our_output),
            errors=await _reader(stack, our_errors),
            child_ends=(child_input, child_output, child_errors),
        )


def _pipe(stack: contextlib.ExitStack) -> tuple[IO[bytes], IO[bytes]]:
    reading, writing = os.pipe()
    return stack.enter_context(os.fdopen(reading, "rb", 0)), stack.enter_context(os.fdopen(writing, "wb", 0))


async def _reader(stack: contextlib.ExitStack, end: IO[bytes]) -> asyncio.StreamReader:
    reader = asyncio.StreamReader(limit=CHUNK_BYTES)
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), end)
    stack.callback(transport.close)
    return reader


async def _writer(stack: contextlib.ExitStack, end: IO[bytes]) -> asyncio.StreamWriter:
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.connect_write_pipe(lambda: _Input(asyncio.StreamReader()), end)

    def abort() -> None:
        # Not `close`, which would wait for a full pipe without a reader; and not twice, which fails.
        if not protocol.is_lost:
            transport.abort()

    stack.callback(abort)
    return asyncio.StreamWriter(transport, protocol, None, loop)


class _Input(asyncio.StreamReaderProtocol):
    """Flow control for the write end, and whether the pipe is closed."""

    is_lost = False

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True
        super().connection_lost(exc)


MAX_EVENT_BYTES = 64 * 1024 * 1024
"""The same limit as for pipes."""
CONNECT_SECONDS = 10.0
"""For connecting and for sending."""
FAILED_STATUS = 400


class HttpTransport:
    """A connection to a remote server; the last error status is kept to explain a failure."""

    def __init__(self, server: HttpServerConfig, limits: McpLimits) -> None:
        self._server = server
        self._limits = limits
        self._failed_status: int | None = None
        self.gone = anyio.Event()
        """Never set: between two requests there is no connection that could end."""

    @property
    def end(self) -> str:
        return "closed the connection"

    @property
    def last_words(self) -> str:
        """The status of the last failed request, which the SDK's errors do not contain."""
        advice = "; check its headers in mcpServers" if self._failed_status in {401, 403} else ""
        return f" (HTTP {self._failed_status}{advice})" if self._failed_status else ""

    def kill(self) -> None:
        """Nothing to kill for a remote server."""

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncGenerator[TransportStreams, None]:
        """Open the two streams; all sockets are closed on exit."""
        # A silent stream is no failure: the call itself limits how long an answer may take.
        timeout = httpx2.Timeout(CONNECT_SECONDS, read=self._limits.max_call_seconds)
        async with (
            httpx2.AsyncClient(
                headers=dict(self._server.headers),
                timeout=timeout,
                event_hooks={"response": [self._on_response]},
            ) as client,
            streamable_http_client(
                self._server.url, http_client=client, max_sse_event_size=MAX_EVENT_BYTES
            ) as streams,
        ):
            yield streams

    async def _on_response(self, response: httpx2.Response) -> None:
        self._failed_status = response.status_code if response.status_code >= FAILED_STATUS else None
