"""Three pipes to a child, ours to close: no end is left open because somebody else still holds the other."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import IO

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
