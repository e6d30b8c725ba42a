"""Bash: run a command in the session's working directory, within limits of time and output."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Annotated

from nacre import prompts
from nacre.errors import ToolError
from nacre.messages.blocks import Text, ToolResult
from nacre.process import ProcessExit, ProcessOutput, ProcessSpec, run
from nacre.tools.base import Tool, tool
from nacre.tools.git_config import EVERY_LINE, READ_ONLY, environment
from nacre.tools.shell import explain
from nacre.tools.workspace import Workspace

DESCRIPTION = prompts.load("nacre.tools", "bash")

# The trap reports the last directory even if the command calls `exit`, through the descriptor of a file
# without a name: nothing to clean up, nothing for another process to guess. `set -P`: `cd` resolves links
# before `..`, as the permission check does.
_SHELL = "set -P; trap '{{ builtin pwd -P >&{fd}; }} 2>/dev/null' EXIT; eval \"$1\""


@dataclass(frozen=True, slots=True, kw_only=True)
class BashSettings:
    """Limits of one command."""

    seconds: float = 120.0
    """Enough for a test run; longer commands set `timeout`."""
    max_seconds: float = 600.0
    """The largest `timeout`."""
    success_chars: int = 30_000
    """Of the output of a successful command; about 7,500 tokens."""
    failure_chars: int = 10_000
    """Half from the beginning, half from the end, where errors are."""
    max_bytes: int = 64 * 1024 * 1024
    """A command with more output is ended: a thousand times what is shown."""


def bash_tool(workspace: Workspace, settings: BashSettings | None = None) -> Tool:
    """Return the tool that runs shell commands; a `cd` applies to the next call."""
    limits = settings or BashSettings()

    @tool(name="Bash", description=DESCRIPTION)
    async def bash(
        command: Annotated[str, "The command."],
        timeout: Annotated[  # noqa: ASYNC109  # the model's word for it
            int | None, "Milliseconds until it is stopped; 120000 unless given, at most 600000."
        ] = None,
        description: Annotated[str | None, "What it does, in five to ten words."] = None,
    ) -> ToolResult:
        if timeout is not None and timeout <= 0:
            raise ToolError("timeout must be a positive number of milliseconds.")
        seconds = min(limits.seconds if timeout is None else timeout / 1000, limits.max_seconds)
        return await _run(command, workspace, limits, seconds=seconds)

    return bash


def _environment(environ: Mapping[str, str], command: str) -> dict[str, str]:
    """Return the environment of a command: no pager, and git starts no program of a repository.

    In a command that only reads, git runs no hook either.
    """
    is_read_only = explain(command).read_only
    return {
        **environment(environ, READ_ONLY if is_read_only else EVERY_LINE),
        **({"GIT_OPTIONAL_LOCKS": "0"} if is_read_only else {}),
        "GIT_PAGER": "cat",
        "PAGER": "cat",
        # A `cd` leads where it says, as the permission check assumes.
        "CDPATH": "",
    }


async def _run(command: str, workspace: Workspace, limits: BashSettings, *, seconds: float) -> ToolResult:
    shell = shutil.which("bash")
    if shell is None:
        raise ToolError("There is no bash on PATH; install it to run commands.")
    note = ""
    if not workspace.cwd.is_dir():
        note = f"[The working directory {workspace.cwd} is gone; this ran in {workspace.root}.]"
        workspace.cwd = workspace.root
    output = ProcessOutput(head=limits.success_chars, tail=limits.failure_chars // 2)
    with tempfile.TemporaryFile() as report:
        spec = ProcessSpec(
            argv=(shell, "-c", _SHELL.format(fd=report.fileno()), "bash", command),
            cwd=workspace.cwd,
            seconds=seconds,
            max_bytes=limits.max_bytes,
            pass_fds=(report.fileno(),),
            environ=_environment(os.environ, command),
        )
        try:
            ended = await run(spec, output.feed)
        except (OSError, ValueError) as error:
            raise ToolError(
                f"The command could not be started ({error}); put a long one into a file."
            ) from None
        _follow(workspace, report)
    if ended.group is not None:
        workspace.keep_running(ended.group)
    failed = ended.why != "exited" or ended.exit_code != 0
    shown = _excerpt(output, limits) if failed else _beginning(output)
    parts = [note, _verdict(ended, seconds, limits), shown, _background(ended)]
    return ToolResult("", (Text("\n".join(part for part in parts if part)),), is_error=failed)


def _follow(workspace: Workspace, report: IO[bytes]) -> None:
    """Set the working directory to the one in which the command ended, if it reported one."""
    report.seek(0)
    place = report.read().removesuffix(b"\n").decode(errors="surrogateescape")
    if place and Path(place).is_dir():
        workspace.cwd = Path(place)


def _verdict(ended: ProcessExit, seconds: float, limits: BashSettings) -> str:
    match ended.why:
        case "timeout":
            return f"Stopped after {seconds:g} s with all its processes; set timeout for longer commands."
        case "flood":
            return f"Stopped: it printed more than {limits.max_bytes:,} bytes; send its output to a file."
        case "exited":
            return f"Exit code {ended.exit_code}" if ended.exit_code else ""


def _beginning(output: ProcessOutput) -> str:
    left_out = output.characters - len(output.head)
    if not left_out:
        return output.head.removesuffix("\n") or "(no output)"
    return (
        f"{output.head}\n[{left_out:,} more characters left out; use head, tail, grep or a file to see them.]"
    )


def _excerpt(output: ProcessOutput, limits: BashSettings) -> str:
    """Return the beginning and the end of a failed command's output."""
    if output.characters <= limits.failure_chars:
        return output.head.removesuffix("\n")
    half = limits.failure_chars // 2
    left_out = output.characters - 2 * half
    return f"{output.head[:half]}\n[{left_out:,} characters left out]\n{output.tail[-half:]}".removesuffix(
        "\n"
    )


def _background(ended: ProcessExit) -> str:
    if ended.cut_off:
        return (
            "[Processes it left in the background still held its output and were ended; "
            "to keep one running, send its output to a file.]"
        )
    return "[A process it started goes on in the background.]" if ended.group is not None else ""
