"""`nacre hook`: answer hooks of Claude Code."""

from __future__ import annotations

import click


@click.command(
    short_help="Answer a hook of Claude Code.",
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
)
@click.argument("event", required=False, default="")
@click.option("--now", is_flag=True, help="Do the remaining work of EVENT without an answer.")
def hook(*, event: str, now: bool) -> int:
    """Answer EVENT of Claude Code: JSON on stdin, JSON on stdout.

    Claude Code runs this; `nacre install claude-code` configures it. EVENT is SessionStart, UserPromptSubmit,
    PreCompact, Stop or SessionEnd. Uses Claude Code's own memory, regardless of NACRE_HOME. An error is one
    line on stderr; the exit code is always 0, so that the client is never blocked.
    """
    from nacre.cli.install.run_hook import run_hook

    return run_hook(event, now=now)
