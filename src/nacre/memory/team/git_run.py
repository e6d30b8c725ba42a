"""Runs git on a repository of our own: no prompts, no hooks, no programs that settings name, bounded.

The person's own settings of git are in force as far as they say how to reach a place (keys, proxies, stored
passwords); whatever a variable of the environment could aim elsewhere is gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import tempfile
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from nacre import process as groups
from nacre.errors import ConfigError, StoreError
from nacre.tools.git_config import NO_PROGRAMS

SECONDS = 60.0
"""For one command: a slow network has done with a few pages of text long before."""
MAX_OUTPUT = 67_108_864
"""Of one command: far more than a team's memory, and little enough to hold."""
TERM_SECONDS = 1.0
"""To tidy up after SIGTERM: git removes its lock files then."""
POLL_SECONDS = 0.25
"""How often to look how much git has to say for itself."""
CHUNK = 65_536
_TOLD_CHARS = 300
"""Of what git said, in one line for a person."""
_ALLOWED = "file:git:http:https:ssh"
"""Ways to another repository that start no program an address names, whatever anybody's settings allow."""
_SETTINGS = (
    *(f"{key}={value}" for key, value in NO_PROGRAMS.items()),
    "core.askPass=",
    "credential.interactive=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "push.gpgSign=false",
    "push.followTags=false",
    "http.lowSpeedLimit=1",
    "http.lowSpeedTime=30",
)
_USERINFO = re.compile(r"(?<=://)[^/@\s]*@")


@dataclass(frozen=True, slots=True)
class Ran:
    """How a command of git ended."""

    code: int
    out: bytes
    err: str
    """Without passwords that stood in an address."""

    @property
    def told(self) -> str:
        """What git has to say for itself, in one line."""
        lines = [line.strip() for line in self.err.splitlines() if line.strip()]
        wanted = [line for line in lines if line.startswith(("fatal:", "error:", "remote:", "ssh:"))] or lines
        text = "; ".join(line.removeprefix("fatal: ").removeprefix("error: ") for line in wanted[:3])
        return text[:_TOLD_CHARS] or f"git ended with code {self.code}"


async def run_git(
    directory: Path,
    *arguments: str,
    stdin: bytes = b"",
    seconds: float = SECONDS,
    limit: int = MAX_OUTPUT,
    variables: Mapping[str, str] | None = None,
) -> Ran:
    """Run one command in a directory to its end; `StoreError` when it takes too long or says too much.

    `variables` stand beside those of the environment, and before what is said here about them.
    """
    settings = [word for setting in _SETTINGS for word in ("-c", setting)]
    # A file, because what ssh leaves in the background would hold a pipe open for hours.
    with tempfile.TemporaryFile() as words:
        try:
            child = await asyncio.create_subprocess_exec(
                "git", "--no-pager", *settings, "-C", str(directory), *arguments,
                stdin=PIPE if stdin else DEVNULL, stdout=PIPE, stderr=words,
                env={**_environ(os.environ), **(variables or {})},
                # Without a terminal of its own nothing below git can ask anybody anything either.
                start_new_session=True,
            )  # fmt: skip
        except FileNotFoundError as error:
            raise ConfigError("git is not installed; install it, or share a `folder:/path`") from error
        talking = asyncio.ensure_future(_talked(child, stdin, limit))
        try:
            out = await _bounded(talking, words, seconds=seconds, limit=limit)
        except TimeoutError as error:
            raise StoreError(
                f"git {arguments[0]} took over {seconds:g} s; nothing is lost, try again"
            ) from error
        finally:
            if child.returncode is None:
                await groups.end(child.pid, term_seconds=TERM_SECONDS)
            await asyncio.gather(talking, return_exceptions=True)
        words.seek(0)
        told = _USERINFO.sub("", words.read(limit).decode(errors="replace"))
        return Ran(await child.wait(), out, told)


async def _bounded(talking: asyncio.Future[bytes], words: IO[bytes], *, seconds: float, limit: int) -> bytes:
    """What git put out, unless it goes on for too long or without end."""
    for _ in range(max(1, round(seconds / POLL_SECONDS))):
        done, _ = await asyncio.wait({talking}, timeout=POLL_SECONDS)
        if os.fstat(words.fileno()).st_size > limit:
            raise _flood(limit)
        if done:
            return talking.result()
    raise TimeoutError


async def _talked(child: Process, stdin: bytes, limit: int) -> bytes:
    assert child.stdout is not None
    feeding = asyncio.ensure_future(_fed(child, stdin))
    try:
        out = bytearray()
        # To the end even where there is too much: only then is the pipe closed.
        while chunk := await child.stdout.read(CHUNK):
            if len(out) <= limit:
                out += chunk
                if len(out) > limit:
                    groups.kill(child.pid)
        await child.wait()
        if len(out) > limit:
            raise _flood(limit)
        return bytes(out)
    finally:
        feeding.cancel()
        await asyncio.gather(feeding, return_exceptions=True)


async def _fed(child: Process, stdin: bytes) -> None:
    if child.stdin is not None:
        # Whoever stops reading says why by its exit code.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            child.stdin.write(stdin)
            await child.stdin.drain()
        child.stdin.close()


def _flood(limit: int) -> StoreError:
    return StoreError(f"git said more than {limit:,} bytes; what lies there is no team's memory")


def _environ(environ: Mapping[str, str]) -> dict[str, str]:
    kept = {
        name: value
        for name, value in environ.items()
        if not name.startswith("GIT_") and name not in {"SSH_ASKPASS", "LANGUAGE"}
    }
    return {
        **kept,
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ALLOW_PROTOCOL": _ALLOWED,
        "GCM_INTERACTIVE": "never",
        "SSH_ASKPASS_REQUIRE": "never",
        "LC_ALL": "C",  # what git says is looked at
    }
