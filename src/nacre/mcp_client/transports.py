"""A server as a child process in a group of its own, as the pair of streams the SDK speaks over.

Not the SDK's own transport, which shows neither the process nor its errors, leaves a server's children alive
and takes lines of any length. Whatever happens, the whole group is gone when `open` is left.
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
"""A longer line is a server that prints without end; no result of this size is of use."""
TAIL_BYTES = 8_192
"""How much of a server's errors is kept: the last line, and the traceback above it."""
DRAIN_SECONDS = 0.5
"""What a dead server wrote is read at once; who still holds its pipes after this is not the server."""


class StdioTransport:
    """One life of a server's process; what it wrote to its error output is kept to explain its end."""

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
        """How the server came to its end, in words, with the last it said."""
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
        """The last line of its errors, or what it printed instead of answering; empty if nothing."""
        lines = [one_line(line) for line in self._errors.decode(errors="replace").splitlines()]
        said = next((line for line in reversed(lines) if line), self._stray)
        return f": {said}" if said else ""

    def kill(self) -> None:
        """End the whole group at once."""
        # Once it is over its number may already belong to somebody else.
        if self._process is not None and not self._is_over:
            kill_group(self._process.pid)

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncGenerator[TransportStreams, None]:
        """Start the process; leaving closes its input, waits, and ends its group."""
        inbound_send, inbound = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        outbound, outbound_receive = anyio.create_memory_object_stream[SessionMessage](0)
        async with contextlib.AsyncExitStack() as stack:
            for stream in (inbound_send, inbound, outbound, outbound_receive):
                stack.callback(stream.close)
            pipes = await stack.enter_async_context(open_pipes())
            tasks = await stack.enter_async_context(anyio.create_task_group())
            try:
                with anyio.CancelScope(shield=True):
                    process = self._process = await self._spawn(pipes)
                tasks.start_soon(self._unhurried, partial(self._read_messages, pipes.output, inbound_send))
                tasks.start_soon(self._unhurried, partial(self._read_errors, pipes.errors))
                tasks.start_soon(self._write_messages, pipes.input, outbound_receive)
                tasks.start_soon(self._watch, process)
                yield inbound, outbound
            finally:
                # So that the reader does not wait for somebody who has left.
                inbound.close()
                with anyio.CancelScope(shield=True):
                    await self._end(pipes)
                for scope in self._reading:
                    scope.cancel()
                tasks.cancel_scope.cancel()

    async def _spawn(self, pipes: Pipes) -> asyncio.subprocess.Process:
        server = self._server
        try:
            return await spawn(
                (server.command, *server.args), cwd=server.cwd, environ=dict(server.env), files=pipes.theirs
            )
        finally:
            for end in pipes.theirs:
                end.close()

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

    async def _unhurried(self, read: Callable[[], Awaitable[None]]) -> None:
        """Go on reading while the rest is being cancelled: a server that cannot write cannot end."""
        with anyio.CancelScope(shield=True) as scope:
            self._reading.append(scope)
            await read()

    async def _watch(self, process: asyncio.subprocess.Process) -> None:
        # A helper that a dead server left behind may hold its pipes for ever: the process counts, not they.
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
            self._note_stray(line)
            return
        # Nobody listens any more once we are closing; what still comes is read and dropped.
        with contextlib.suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
            await inbound.send(SessionMessage(message))

    def _note_stray(self, line: bytes) -> None:
        words = one_line(line[:1_000].decode(errors="replace"), chars=120)
        if self._stray is None:
            name = self._server.name
            self._on_notice(f"MCP server {name} prints on its output what is not MCP; ignored: {words}")
        self._stray = words

    async def _write_messages(
        self, writer: asyncio.StreamWriter, outbound: anyio.abc.ObjectReceiveStream[SessionMessage]
    ) -> None:
        # A broken pipe means that the server is gone or going, which the reader will see and report.
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
"""What a pipe holds; more is not read ahead while nobody takes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipes:
    """Our ends as streams, the child's ends as files to hand over."""

    input: asyncio.StreamWriter
    output: asyncio.StreamReader
    errors: asyncio.StreamReader
    theirs: tuple[IO[bytes], IO[bytes], IO[bytes]]


@contextlib.asynccontextmanager
async def open_pipes() -> AsyncGenerator[Pipes, None]:
    """Three pipes, all six ends closed on leaving."""
    with contextlib.ExitStack() as stack:
        their_input, our_input = _pipe(stack)
        our_output, their_output = _pipe(stack)
        our_errors, their_errors = _pipe(stack)
        yield Pipes(
            input=await _writer(stack, our_input),
            output=await _reader(stack, our_output),
            errors=await _reader(stack, our_errors),
            theirs=(their_input, their_output, their_errors),
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
        # Not `close`, which would wait for a full pipe that nobody empties; and not twice, which fails.
        if not protocol.is_lost:
            transport.abort()

    stack.callback(abort)
    return asyncio.StreamWriter(transport, protocol, None, loop)


class _Input(asyncio.StreamReaderProtocol):
    """Flow control for the writing end, and whether the pipe is already closed."""

    is_lost = False

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True
        super().connection_lost(exc)


MAX_EVENT_BYTES = 64 * 1024 * 1024
"""The same as over pipes: a larger message is of use to nobody."""
CONNECT_SECONDS = 10.0
"""Also for sending; an address that does not answer by then is not there."""
FAILED_STATUS = 400


class HttpTransport:
    """One connection to a remote server; what its last refusal was is kept to explain a failure."""

    def __init__(self, server: HttpServerConfig, limits: McpLimits) -> None:
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
