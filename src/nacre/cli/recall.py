"""`nacre recall`: what a turn would get from memory for these words, and why (R10)."""

from __future__ import annotations

import click

from nacre.cli.memory_opening import json_option, run
from nacre.cli.options import RunOptions, load_settings
from nacre.cli.output import print_json


@click.command(short_help="Show which memories a message would get, and why.")
@click.argument("query", nargs=-1, required=True)
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    metavar="N",
    help="Show at most N picks and N of those left out.",
)
@json_option
@click.pass_obj
def recall(options: RunOptions, /, query: tuple[str, ...], *, limit: int | None, as_json: bool) -> None:
    """Show which memories the words of QUERY would get in a new conversation, and why the others would not.

    Nothing is sent and nothing is attached; that no memory helps is an answer like any other.
    """
    from nacre.agents.recall_once import recall_once
    from nacre.cli.recalling import recalled_json, recalled_lines

    recalled = run(recall_once(load_settings(options), " ".join(query)))
    if as_json:
        print_json(recalled_json(recalled, limit=limit))
    else:
        print("\n".join(recalled_lines(recalled, limit=limit)))
