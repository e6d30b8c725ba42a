"""What is piped into `nacre -p`: the prompt itself, or what it is about."""

from __future__ import annotations

import os
import select
import stat
import sys

import click

from nacre.cli.output import print_error

STDIN = "-"
"""As a prompt: take it from stdin."""
SILENT_SECONDS = 3.0
"""A pipe that nobody writes to or closes, as some schedulers leave one, is not waited for any longer."""


def with_piped(prompt: str) -> str:
    """The prompt and what was piped in behind it; a usage error where there is no word in either."""
    if prompt == STDIN:
        if not (text := _read()).strip():
            raise click.UsageError("nothing came on stdin; pipe the prompt in, or say it after -p")
        return text
    piped = _read() if _has_input() else ""
    return f"{prompt}\n\n{piped}" if piped.strip() else prompt


def _has_input() -> bool:
    """Whether somebody sends something: a file, or a pipe in which there is something, or its end."""
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (AttributeError, OSError, ValueError):
        return False  # there is none, or it is closed
    if stat.S_ISREG(mode):
        return True
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
        return False
    if select.select([sys.stdin], [], [], SILENT_SECONDS)[0]:
        return True
    print_error(
        f"nothing came on stdin in {SILENT_SECONDS:.0f} s; going on without it (`< /dev/null` is quicker)"
    )
    return False


def _read() -> str:
    if sys.stdin is None:
        return ""
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as error:
        raise click.UsageError("what came on stdin is no UTF-8 text; convert it first") from error
