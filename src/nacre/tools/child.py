"""A child process with its own group, bounded in time and output, never left behind.

Whatever happens to the caller, the whole group is gone when `run_child` returns or raises; the one exception
is a background process that sent its output elsewhere, which is reported as `Ended.group`.
"""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import os
import subprocess
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal

from nacre import process as groups

TERM_SECONDS = 2.0
"""How long a group may tidy up after SIGTERM before SIGKILL."""
KILL_SECONDS = 5.0
"""How long to wait for a killed process; one stuck in the kernel must not hold the turn."""
DRAIN_SECONDS = 0.5
"""What an ended command wrote is read at once; who still holds the pipe after this is in the background."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Child:
    """What to run and how far it may go."""

    argv: Sequence[str]
    cwd: Path
    seconds: float
    max_bytes: int
    """Past this much output the command prints without end and is killed."""
    pass_fds: tuple[int, ...] = ()
    stdin: IO[bytes] | None = None
    """What it reads; nothing by default."""
    stderr: IO[bytes] | None = None
    """Where errors go; into the output, in order, by default."""
    environ: Mapping[str, str] | None = None
    """None: the environment of this process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a child came to its end."""

    why: Literal["exited", "timeout", "flood"]
    exit_code: int | None
    cut_off: bool = False
    """Background processes still held the output and were ended with the command."""
    group: int | None = None
    """The process group, when background processes with output of their own live on."""


class Output:
    """What a child printed: the first and the last characters, and how much there was."""

    def __init__(self, *, head: int, tail: int = 0) -> None:
        self._head_chars = head
        self._tail_chars = tail
        self._head: list[str] = []
        self._tail: deque[str] = deque()
        self._tail_held = 0
        # Incremental, because a character's bytes may arrive in two chunks.
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self.bytes = 0
        self.characters = 0
        self.lines = 0

    @property
    def head(self) -> str:
        return "".join(self._head)

    @property
    def tail(self) -> str:
        """The last characters, of which some may be in the head too."""
        return "".join(self._tail)[-self._tail_chars :] if self._tail_chars else ""

    def feed(self, chunk: bytes, *, final: bool = False) -> None:
        self.bytes += len(chunk)
        text = self._decoder.decode(chunk, final)
        room = self._head_chars - self.characters
        if room > 0:
            self._head.append(text[:room])
        self.characters += len(text)
        self.lines += text.count("\n")
        if self._tail_chars:
            self._tail.append(text[-self._tail_chars :])
            self._tail_held += len(self._tail[-1])
            while self._tail_held - len(self._tail[0]) >= self._tail_chars:
                self._tail_held -= len(self._tail.popleft())


async def run_child(child: Child, output: Output) -> Ended:
    """Run it to its end, feeding `output` on the way; being cancelled ends the whole group."""
    read_end, write_end = os.pipe()
    pipe = _Pipe(output, child.max_bytes)
    with os.fdopen(read_end, "rb", 0) as source:
        try:
            transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: pipe, source)
            try:
                spawned = await _spawn(child, write_end)
            finally:
                os.close(write_end)
                write_end = -1
        except BaseException:
            if write_end >= 0:
                os.close(write_end)
            pipe.close()
            raise
        try:
            return await _until_ended(spawned, pipe, child.seconds)
        except BaseException:
            await _end(spawned)
            raise
        finally:
            transport.close()
            output.feed(b"", final=True)


async def end_group(group: int) -> None:
    """End a process group whole: SIGTERM, a moment to tidy up, SIGKILL."""
    await groups.end(group, term_seconds=TERM_SECONDS)


async def _spawn(child: Child, write_end: int) -> asyncio.subprocess.Process:
    spawning = asyncio.ensure_future(
        asyncio.create_subprocess_exec(
            *child.argv,
            cwd=child.cwd,
            stdin=subprocess.DEVNULL if child.stdin is None else child.stdin,
            stdout=write_end,
            stderr=write_end if child.stderr is None else child.stderr,
            start_new_session=True,
            pass_fds=child.pass_fds,
            env=child.environ,
        )
    )
    try:
        return await asyncio.shield(spawning)
    except asyncio.CancelledError:
        # The fork may already have happened; only its result says which group to end.
        with contextlib.suppress(OSError, ValueError):
            await _end(await spawning)
        raise


async def _until_ended(spawned: asyncio.subprocess.Process, pipe: _Pipe, seconds: float) -> Ended:
    exited = asyncio.ensure_future(spawned.wait())
    first: set[asyncio.Future[int] | asyncio.Future[None]] = {exited, pipe.flooded}
    try:
        await asyncio.wait(first, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if pipe.flooded.done() or not exited.done():
            why: Literal["flood", "timeout"] = "flood" if pipe.flooded.done() else "timeout"
            await _end(spawned)
            await asyncio.wait({pipe.closed}, timeout=DRAIN_SECONDS)
            return Ended(why=why, exit_code=None)
        await asyncio.wait(
            {pipe.closed, pipe.flooded}, timeout=DRAIN_SECONDS, return_when=asyncio.FIRST_COMPLETED
        )
        if not pipe.closed.done():
            await _end(spawned)
            return Ended(why="exited", exit_code=exited.result(), cut_off=True)
        living = spawned.pid if groups.has_members(spawned.pid) else None
        return Ended(why="exited", exit_code=exited.result(), group=living)
    finally:
        exited.cancel()


async def _end(spawned: asyncio.subprocess.Process) -> None:
    """End the whole group and collect the process we started, so that not even a zombie stays."""
    try:
        await end_group(spawned.pid)
    finally:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(spawned.wait(), KILL_SECONDS)


class _Pipe(asyncio.Protocol):
    """The reading end: feeds the output, and says when it is closed or too much came."""

    def __init__(self, output: Output, max_bytes: int) -> None:
        loop = asyncio.get_running_loop()
        self.closed: asyncio.Future[None] = loop.create_future()
        self.flooded: asyncio.Future[None] = loop.create_future()
        self._output = output
        self._max_bytes = max_bytes
        self._transport: asyncio.BaseTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if self.flooded.done():
            return
        self._output.feed(data)
        if self._output.bytes > self._max_bytes:
            self.flooded.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.closed.done():
            self.closed.set_result(None)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()
