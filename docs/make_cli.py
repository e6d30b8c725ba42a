"""Writes docs/reference/cli.md from the commands' own help; `make docs` runs it, a test compares."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from nacre.cli.chat.slash import COMMANDS as SLASH_COMMANDS
from nacre.cli.main import nacre

PAGE = Path(__file__).parent / "reference" / "cli.md"
WIDTH = 88
"""Fits beside a margin on every site that shows Markdown."""
HEAD = """\
# The command line

Written by `make docs` from the commands themselves; change their help, not this page.

Exit codes are in [errors.md](errors.md), what `--model` takes in [settings.md](settings.md).
"""


def text() -> str:
    """The page as it should be now."""
    sections = [
        f"## `{context.command_path}`\n\n```text\n{context.command.get_help(context)}\n```\n"
        for context in _walk(nacre, "nacre")
    ]
    return "\n".join([HEAD, *sections, _typed_in_a_chat()])


def _walk(command: click.Command, name: str, parent: click.Context | None = None) -> Iterator[click.Context]:
    context = click.Context(
        command,
        info_name=name,
        parent=parent,
        terminal_width=WIDTH,
        color=False,
        help_option_names=["-h", "--help"],
    )
    yield context
    if isinstance(command, click.Group):
        for child_name in command.list_commands(context):
            child = command.get_command(context, child_name)
            if child is not None:
                yield from _walk(child, child_name, context)


def _typed_in_a_chat() -> str:
    rows = [f"| `/{name}` | {command.summary} |" for name, command in SLASH_COMMANDS.items()]
    return "\n".join(["## In a chat\n", "| typed | does |", "|---|---|", *rows, ""])


if __name__ == "__main__":
    PAGE.write_text(text(), encoding="utf-8", newline="\n")
