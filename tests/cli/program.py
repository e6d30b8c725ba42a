"""Runs the real program in a process of its own, in a world of its own."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import termios
from pathlib import Path
from typing import Any

from tests.cli import warm

EXTRA_COMMANDS = """
import os, signal, click
from nacre.errors import ConfigError, ContextOverflow, Overloaded

@click.command()
@click.argument("how")
def ends(how):
    match how:
        case "well": print("fine")
        case "no": return 1
        case "exit": click.get_current_context().exit(1)
        case "config": raise ConfigError("the file is odd; mend it")
        case "provider": raise Overloaded("busy; try later")
        case "overflow": raise ContextOverflow("too big")
        case "bug": raise ZeroDivisionError("split\\nby zero")
        case "interrupt": os.kill(os.getpid(), signal.SIGINT); signal.pause()
        case "much":
            for n in range(100_000): print("line", n)
        case "pipe": raise BrokenPipeError(32, "Broken pipe")
        case "colour": click.secho("red", fg="red", color=None)

@click.group()
def deep(): pass
deep.add_command(ends)
"""
DRIVER = """
import sys
from nacre.cli import main
main.COMMANDS["ends"] = main.CommandEntry("extra_commands", "ends", "")
main.COMMANDS["deep"] = main.CommandEntry("extra_commands", "deep", "")
sys.exit(main.main())
"""


def nacre(cwd: Path, *args: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """`python -m nacre ARGS` in this directory, whose `home` is nacre's home."""
    return started(cwd, "-m", "nacre", *args, **environ)


def with_extra_commands(cwd: Path, *args: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """The same program with the commands `ends HOW` and `deep ends HOW` in its table."""
    (cwd / "extra_commands.py").write_text(EXTRA_COMMANDS)
    return started(cwd, "-c", DRIVER, *args, PYTHONPATH=str(cwd), **environ)


def started(cwd: Path, *args: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """`python ARGS` there, to its end."""
    return ended([sys.executable, *args], cwd, world(cwd, **environ))


def ended(
    command: list[str], cwd: Path, env: dict[str, str], *, given: str | None = None, **how: Any
) -> subprocess.CompletedProcess[str]:
    """A process there, to its end; `given` is what it reads."""
    stdin = subprocess.DEVNULL if given is None else subprocess.PIPE
    pipes = {"stdin": stdin, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with begin(command, cwd, env, text=True, **pipes, **how) as process:
        try:
            out, complaints = process.communicate(given, timeout=60)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(command, process.returncode, out, complaints)


def begin(
    command: list[str],
    cwd: Path,
    env: dict[str, str],
    *,
    takes_terminal: bool = False,
    has_nacre: bool = False,
    **how: Any,
) -> subprocess.Popen[Any]:
    """A process there; `python -m nacre` is loaded already, unless Python itself is told something else.

    So is nacre for a `python -c` that is said to have it.
    """
    is_nacre = has_nacre or command[:3] == [sys.executable, "-m", "nacre"]
    told_to_python = {name: value for name, value in env.items() if name.startswith("PYTHON")}
    if warm.IS_POSSIBLE and is_nacre and told_to_python == {"PYTHONUTF8": "1"}:
        return warm.Popen(command, cwd=cwd, env=env, takes_terminal=takes_terminal, **how)
    bound = {"preexec_fn": lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0)} if takes_terminal else {}
    return subprocess.Popen(command, cwd=cwd, env=env, **bound, **how)


def world(cwd: Path, **environ: str) -> dict[str, str]:
    """An environment in which nothing of the tester's own is configured."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "PYTHONPATH") if name in os.environ}
    return {**kept, "HOME": str(cwd), "NACRE_HOME": str(cwd / "home"), "PYTHONUTF8": "1", **environ}
