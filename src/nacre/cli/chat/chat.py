"""`nacre chat`: a conversation in the terminal, full screen or line by line.

Ctrl-C stops the turn, not the program. What opens a session is imported after the screen is there.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING

import click

from nacre.cli.chat.answers import ask_outside, ask_trust
from nacre.cli.options import RunOptions, load_settings, run_options
from nacre.cli.output import is_terminal, print_error, printable

if TYPE_CHECKING:
    from nacre.app.endings import Ending
    from nacre.app.open_agent import OpenedAgent
    from nacre.app.slash_commands import Run, SlashCommands
    from nacre.settings import Settings


@click.command()
@run_options
@click.pass_obj
def chat(options: RunOptions, /, **given: str | int | bool | None) -> int:
    """Chat in the terminal. /help lists the commands; Ctrl-C stops a turn, Ctrl-D leaves."""
    return run_chat(options.updated(**given))


def run_chat(options: RunOptions) -> int:
    """Run a conversation until the user leaves."""
    options.check()
    settings = load_settings(options)
    if is_terminal(sys.stdin) and is_terminal() and not options.incognito:
        settings = _asked(settings, options)
    is_read_aloud = settings.terminal.screen_reader
    if is_read_aloud:
        os.environ["NO_COLOR"] = "1"  # without colour no line is redrawn
    elif fits_screen(options, os.environ):
        return _run_screen(settings, options)
    from nacre.cli.chat.line_mode import run_line_chat
    from nacre.cli.signals import end_on_signals

    end_on_signals()
    run_line_chat(settings, options.session, keeps=not options.incognito)
    return 0


def _asked(settings: Settings, options: RunOptions) -> Settings:
    """Ask on the first run in a directory that has its own settings, and for each file outside the project
    that its instructions include (M23)."""
    from nacre.app.memory_locations import instruction_paths
    from nacre.memory.instructions.load import load_instructions
    from nacre.settings import decline, trust
    from nacre.settings.trust import consent

    if settings.wants_trust:
        is_yes = ask_trust(settings.project_root, settings.wants_trust)
        (trust if is_yes else decline)(settings.home, settings.project_root)
        settings = load_settings(options)
    for path in load_instructions(instruction_paths(settings)).outside:
        if ask_outside(settings.project_root, path):
            consent(settings.home, settings.project_root, path)
    return settings


def _run_screen(settings: Settings, options: RunOptions) -> int:
    from nacre.tui.run import run_tui
    from nacre.tui.start import Start

    ended = run_tui(
        Start(
            settings=settings,
            session=options.session,
            slash=lambda: slash_commands(settings),
            keeps=not options.incognito,
        )
    )
    for line in ended.last_words:
        print_error(line)
    if ended.farewell:
        print(printable(ended.farewell))
    return ended.code


def slash_commands(settings: Settings) -> SlashCommands:
    """Return the slash commands of a chat with these settings."""
    from nacre.app.slash_commands import SlashCommands
    from nacre.cli.chat.slash import COMMANDS, SlashContext, run_slash

    def done(line: str, ready: OpenedAgent, run: Run, go_on: Callable[[OpenedAgent], None]) -> Ending:
        return run_slash(line, SlashContext(ready, settings, run, go_on))

    return SlashCommands(
        {name: command.summary for name, command in COMMANDS.items()},
        done,
        frozenset(name for name, command in COMMANDS.items() if command.runs_at_once),
    )


def fits_screen(options: RunOptions, environ: Mapping[str, str]) -> bool:
    """Whether the chat uses the full screen: a user, a capable terminal, and the extra `tui`."""
    is_asked_for = not options.line and environ.get("NACRE_TUI", "1") != "0"
    is_capable = environ.get("TERM", "dumb") != "dumb" and is_terminal(sys.stdin) and is_terminal()
    return is_asked_for and is_capable and find_spec("textual") is not None
