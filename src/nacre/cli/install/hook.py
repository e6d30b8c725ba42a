"""`nacre hook`: the door that Claude Code's hooks come in by."""

from __future__ import annotations

import click


@click.command(
    short_help="Answer a hook of Claude Code.",
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
)
@click.argument("event", required=False, default="")
@click.option("--now", is_flag=True, help="Do what EVENT leaves to be done later, and answer nothing.")
def hook(*, event: str, now: bool) -> int:
    """Answer EVENT of Claude Code: JSON on stdin, JSON on stdout.

    Claude Code runs this; `nacre install claude-code` tells it to. EVENT is SessionStart, UserPromptSubmit,
    PreCompact, Stop or SessionEnd. Works on Claude Code's own memory, wherever NACRE_HOME points. Whatever
    goes wrong is a line on stderr: the exit code is always 0, so that the client is never held up.
    """
    from nacre.cli.install.run_hook import run_hook

    return run_hook(event, now=now)
