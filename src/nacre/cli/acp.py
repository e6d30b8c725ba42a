"""`nacre acp`: serve an editor that speaks the Agent Client Protocol."""

from __future__ import annotations

import gc
import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nacre.cli.options import RunOptions
from nacre.cli.output import print_error
from nacre.errors import ConfigError
from nacre.formatting import how_to_install

if TYPE_CHECKING:
    from nacre.app.slash_commands import SlashCommands
    from nacre.settings import Settings

BY_HAND = "this speaks ACP to an editor that starts it, such as Zed; Ctrl-C ends it"


@click.command(short_help="Be the agent of an editor, over ACP.")
@click.option("--no-memory", is_flag=True, help="Neither recall nor save memories.")
@click.option("--sandbox", is_flag=True, help="Run commands of Bash in a sandbox; refuse them without one.")
@click.option("--model", metavar="NAME", help="Model of new sessions; default: the settings.")
@click.pass_obj
def acp(options: RunOptions, /, **given: str | bool | None) -> None:
    """Be the agent of an editor: serve the Agent Client Protocol on stdin and stdout.

    Zed, Toad, JetBrains IDEs and others start this command. Logs go to stderr; Ctrl-C ends it.
    """
    if find_spec("acp") is None:
        raise ConfigError(f"nacre acp needs the ACP SDK; install it with: {how_to_install('acp')}")
    if sys.stdin is not None and sys.stdin.isatty():
        print_error(BY_HAND)  # at a terminal, both the user and the server would wait forever
    from nacre.cli.signals import run_to_end

    options = options.updated(**given)
    gc.disable()  # the models of the SDK are thousands of objects that all stay
    from nacre.integrations.acp.server import serve_acp

    gc.enable()
    gc.freeze()

    def load(cwd: Path) -> Settings:
        from nacre.settings import load

        return load(cwd, os.environ, cli=options.as_settings())

    run_to_end(serve_acp(load, _commands))


def _commands(settings: Settings) -> SlashCommands:
    from nacre.cli.chat.chat import slash_commands

    return slash_commands(settings)
