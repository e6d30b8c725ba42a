"""One command of the person's at work: told by JSON on stdin, bounded in time and output, ended whole."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from nacre.hooks.table import Hook
from nacre.tools.child import DRAIN_SECONDS, Child, Output, run_child

SHELL = "/bin/sh"
MAX_BYTES = 10_000_000
"""Of stdout: a command that says more than this prints without end."""
MAX_ERROR_BYTES = 40_000
"""Of stderr: 10,000 characters are passed on at most; what comes after is read and dropped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """How a command ended, and what it said."""

    command: str
    exit_code: int | None = None
    """None: it was ended, or never began."""
    stdout: str = ""
    stderr: str = ""
    failure: str = ""
    """Why there is no exit code."""


async def run_hook(hook: Hook, told: bytes, *, cwd: Path, environ: Mapping[str, str]) -> Ran:
    """Run it to its end; being cancelled ends it and everything it started."""
    output = Output(head=MAX_BYTES)
    try:
        # A file, not a pipe: a command that never reads must not hold up the one who writes.
        with tempfile.TemporaryFile() as stdin:
            stdin.write(told)
            stdin.seek(0)
            async with _listening() as (errors, heard):
                child = Child(
                    argv=(SHELL, "-c", hook.command),
                    cwd=cwd,
                    seconds=hook.seconds,
                    max_bytes=MAX_BYTES,
                    stdin=stdin,
                    stderr=errors,
                    environ=environ,
                )
                ended = await run_child(child, output)
    except (OSError, ValueError) as error:
        return Ran(command=hook.command, failure=f"could not be started: {error}")
    if ended.why == "timeout":
        return Ran(command=hook.command, failure=f"did not end within {hook.seconds:g} s and was ended")
    if ended.why == "flood":
        failure = f"printed more than {MAX_BYTES:,} bytes and was ended"
        return Ran(command=hook.command, failure=failure)
    return Ran(command=hook.command, exit_code=ended.exit_code, stdout=output.head, stderr=heard.text)


@asynccontextmanager
async def _listening() -> AsyncIterator[tuple[IO[bytes], _Beginning]]:
    """A pipe for stderr: the end to write to, and what was heard of it."""
    read_end, write_end = os.pipe()
    heard = _Beginning()
    with os.fdopen(write_end, "wb", 0) as writing, os.fdopen(read_end, "rb", 0) as reading:
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: heard, reading)
        try:
            yield writing, heard
            writing.close()
            # Who still holds the other end is in the background, and is not waited for.
            await asyncio.wait({heard.closed}, timeout=DRAIN_SECONDS)
        finally:
            transport.close()


class _Beginning(asyncio.Protocol):
    """Keeps how a stream begins and reads the rest away."""

    def __init__(self) -> None:
        self._kept = bytearray()
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def text(self) -> str:
        return bytes(self._kept).decode(errors="replace")

    def data_received(self, data: bytes) -> None:
        self._kept += data[: MAX_ERROR_BYTES - len(self._kept)]

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.closed.done():
            self.closed.set_result(None)
