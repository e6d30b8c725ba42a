"""`nacre memory confirm`: confirm edits that an agent's shell may have made (M15)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from nacre.cli.memory.open import json_option, run, scope_option, writable
from nacre.cli.options import RunOptions
from nacre.cli.output import print_error, print_json, printable
from nacre.inspect.memory_origin import SHORT_COMMIT

if TYPE_CHECKING:
    from nacre.memory.files.confirm import ConfirmResult


@click.command(short_help="Confirm edits made while an agent was running.")
@click.argument("commits", nargs=-1, metavar="[COMMIT]...")
@click.option("--all", "everything", is_flag=True, help="Confirm every change that is unconfirmed.")
@scope_option
@json_option
@click.pass_obj
def confirm(
    options: RunOptions, /, commits: tuple[str, ...], *, everything: bool, scope: str, as_json: bool
) -> int:
    """Confirm edits made outside of nacre while an agent was running.

    `nacre memory log --unconfirmed` lists them, `nacre memory diff COMMIT` shows one, `nacre memory undo
    COMMIT` undoes one instead.
    """
    if everything == bool(commits):
        raise click.UsageError("name the commits to confirm, or use --all")
    done = run(_confirm(options, commits, scope))
    if as_json:
        print_json({"confirmed": [one.id for one in done.commits], "commit": done.commit})
        return 0
    if not done.commits:
        print_error("nothing is unconfirmed" if everything else "that was confirmed already")
    for one in done.commits:
        print(printable(f"confirmed {one.id[:SHORT_COMMIT]}: {', '.join(one.files)}"))
    return 0


async def _confirm(options: RunOptions, commits: tuple[str, ...], scope: str) -> ConfirmResult:
    from nacre.memory.files.confirm import confirm as vouch

    opened = await writable(options, scope)
    return await vouch(opened.location, commits)
