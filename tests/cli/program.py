"""Runs the real program in a process of its own, in a world of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

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
main.COMMANDS["ends"] = main.Entry("extra_commands", "ends", "")
main.COMMANDS["deep"] = main.Entry("extra_commands", "deep", "")
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
    return subprocess.run(
        [sys.executable, *args],
        cwd=cwd,
        env=world(cwd, **environ),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def world(cwd: Path, **environ: str) -> dict[str, str]:
    """An environment in which nothing of the tester's own is configured."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    return {**kept, "HOME": str(cwd), "NACRE_HOME": str(cwd / "home"), "PYTHONUTF8": "1", **environ}
