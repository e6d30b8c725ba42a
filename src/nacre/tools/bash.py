"""Bash: run a command in the session's working directory, within limits of time and output."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from nacre import prompts
from nacre.errors import ToolError
from nacre.messages.blocks import Text, ToolResult
from nacre.process import ProcessExit, ProcessSpec, run
from nacre.tools.base import Tool, tool
from nacre.tools.output import ToolOutput
from nacre.tools.shell import explain
from nacre.tools.workspace import Workspace

if TYPE_CHECKING:
    from nacre.tools.sandbox import Sandbox

DESCRIPTION = prompts.load("nacre.tools", "bash")
SANDBOXED = prompts.load("nacre.tools", "bash_sandbox")
ONLINE = "The network can be used."
OFFLINE = "There is no network."

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
    """Of output that is kept in no file: a command with more is ended."""
    sandbox: Sandbox | None = None
    """None: a command can do what the user can."""


def bash_tool(workspace: Workspace, settings: BashSettings | None = None) -> Tool:
    """Return the tool that runs shell commands; a `cd` applies to the next call."""
    limits = settings or BashSettings()
    description_text = DESCRIPTION
    if limits.sandbox is not None:
        network = ONLINE if limits.sandbox.network else OFFLINE
        description_text += "\n" + prompts.render(SANDBOXED, network=network)

    @tool(name="Bash", description=description_text)
    async def bash(
        command: str,
        timeout: Annotated[int | None, "At most 600000."] = None,  # noqa: ASYNC109 - the model's word
        description: Annotated[str | None, "What it does, in 5 to 10 words."] = None,
    ) -> ToolResult:
        if timeout is not None and timeout <= 0:
            raise ToolError("timeout must be a positive number of milliseconds.")
        seconds = min(limits.seconds if timeout is None else timeout / 1000, limits.max_seconds)
        output = ToolOutput(
            workspace.opens_output,
            head=limits.success_chars,
            tail=limits.failure_chars // 2,
            max_bytes=limits.max_bytes,
        )
        with output:
            return await _run(command, workspace, limits, output, seconds=seconds)

    return bash


def _environment(command: str, sandbox: Sandbox | None, cwd: Path) -> dict[str, str]:
    """Return the environment of a command: no pager, and git starts no program of a repository.

    In a sandbox there are no credentials; git has the user's name, although it cannot read their settings.
    """
    from nacre.tools.git import environment, identity, line_environment  # noqa: PLC0415 - only commands need it

    environ = os.environ if sandbox is None else sandbox.environ(os.environ)
    environ = line_environment(environ, read_only=explain(command).read_only)
    if sandbox is not None:
        environ = environment(environ, identity(cwd))
    # Without CDPATH a `cd` leads where it says, as the permission check assumes.
    return {**environ, "CDPATH": ""}


async def _run(
    command: str, workspace: Workspace, limits: BashSettings, output: ToolOutput, *, seconds: float
) -> ToolResult:
    shell = shutil.which("bash")
    if shell is None:
        raise ToolError("There is no bash on PATH; install it to run commands.")
    note = ""
    if not workspace.cwd.is_dir():
        note = f"[The working directory {workspace.cwd} is gone; this ran in {workspace.root}.]"
        workspace.cwd = workspace.root
    sandbox = limits.sandbox
    with tempfile.TemporaryFile() as report:
        argv: tuple[str, ...] = (shell, "-c", _SHELL.format(fd=report.fileno()), "bash", command)
        if sandbox is not None:
            argv = await asyncio.to_thread(sandbox.command, argv, workspace.cwd)
        environ = await asyncio.to_thread(_environment, command, sandbox, workspace.cwd)
        spec = ProcessSpec(
            argv=argv,
            cwd=workspace.cwd,
            seconds=seconds,
            max_bytes=None,
            pass_fds=(report.fileno(),),
            environ=environ,
        )
        try:
            ended = await run(spec, output.feed)
        except (OSError, ValueError) as error:
            raise ToolError(
                f"The command could not be started ({error}); put a long one into a file."
            ) from None
        # The directory in which the command ended, if it reported one.
        report.seek(0)
        place = report.read().removesuffix(b"\n").decode(errors="surrogateescape")
        if place and sandbox is not None and not sandbox.shows(Path(place)):
            note = f"[{place} exists for one command only; the next one starts in {workspace.cwd}.]"
        elif place and Path(place).is_dir():  # noqa: ASYNC240  # one look at a local directory
            workspace.cwd = Path(place)
    if ended.group is not None:
        workspace.keep_running(ended.group)
    failed = ended.why != "exited" or ended.exit_code != 0
    shown = _squeezed(output.text.head)
    is_cut = output.is_long or (failed and len(shown) > limits.failure_chars)
    await output.finish(is_cut=is_cut)
    if is_cut:
        shown = _cut(output, limits, failed=failed)
    parts = [
        note,
        _verdict(ended, seconds, output, limits),
        shown.removesuffix("\n") or ("" if failed else "(no output)"),
        _background(ended),
    ]
    return ToolResult("", (Text("\n".join(part for part in parts if part)),), is_error=failed)


def _verdict(ended: ProcessExit, seconds: float, output: ToolOutput, limits: BashSettings) -> str:
    match ended.why:
        case "timeout":
            return f"Stopped after {seconds:g} s with all its processes; set timeout for longer commands."
        case "flood" if output.whole is not None:
            return f"Stopped: it printed more than can be kept, {output.problem}; send its output to a file."
        case "flood":
            return f"Stopped: it printed more than {limits.max_bytes:,} bytes; send its output to a file."
        case "exited":
            return f"Exit code {ended.exit_code}" if ended.exit_code else ""


def _squeezed(text: str) -> str:
    """Return output as it is shown: without colour codes, and repeated lines once with their count."""
    from nacre.tools.squeeze import fold_repeats, without_escapes  # noqa: PLC0415 - only a command needs it

    return fold_repeats(without_escapes(text))


def _cut(output: ToolOutput, limits: BashSettings, *, failed: bool) -> str:
    """Return the beginning of a long output, and of a failed command's also the end."""
    text = output.text
    if not failed:
        left_out = text.characters - len(text.head)
        note = output.note(
            f"{left_out:,} more characters left out", "use head, tail, grep or a file to see them"
        )
        return f"{_squeezed(text.head)}\n{note}"
    half = limits.failure_chars // 2
    note = output.note(f"{text.characters - 2 * half:,} characters left out")
    return f"{_squeezed(text.head[:half])}\n{note}\n{_squeezed(text.tail[-half:])}"


def _background(ended: ProcessExit) -> str:
    if ended.cut_off:
        return (
            "[Processes it left in the background still held its output and were ended; "
            "to keep one running, send its output to a file.]"
        )
    return "[A process it started goes on in the background.]" if ended.group is not None else ""
