"""Runs git on a repository of our own: no prompts, no hooks, no programs that settings name, bounded.

The person's own settings of git are in force as far as they say how to reach a place (keys, proxies, stored
passwords); whatever a variable of the environment could aim elsewhere is gone.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from nacre.errors import ConfigError, StoreError
from nacre.process import ProcessSpec, run
from nacre.tools.git_config import NO_PROGRAMS

SECONDS = 60.0
"""For one command: a slow network has done with a few pages of text long before."""
MAX_OUTPUT = 67_108_864
"""Of one command: far more than a team's memory, and little enough to hold."""
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
    output = bytearray()
    # A file, because what ssh leaves in the background would hold a pipe open for hours.
    with tempfile.TemporaryFile() as errors:
        spec = ProcessSpec(
            argv=("git", "--no-pager", *settings, "-C", str(directory), *arguments),
            environ={**_environ(os.environ), **(variables or {})},
            stdin=stdin,
            stderr=errors,
            seconds=seconds,
            max_bytes=limit,
        )
        try:
            ended = await run(spec, output.extend)
        except FileNotFoundError as error:
            raise ConfigError("git is not installed; install it, or share a `folder:/path`") from error
        if ended.why == "timeout":
            raise StoreError(f"git {arguments[0]} took over {seconds:g} s; nothing is lost, try again")
        if ended.exit_code is None:
            raise StoreError(f"git said more than {limit:,} bytes; what lies there is no team's memory")
        errors.seek(0)
        told = _USERINFO.sub("", errors.read(limit).decode(errors="replace"))
        return Ran(ended.exit_code, bytes(output), told)


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
