"""`nacre gc`: delete old session data after showing it."""

from __future__ import annotations

import asyncio
import math
from datetime import timedelta
from typing import TYPE_CHECKING

import click

from nacre.cli.options import RunOptions, load_settings
from nacre.cli.output import human_age, print_error, print_json, print_table
from nacre.messages.blocks import JsonObject

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from nacre.agents.worktree import LeftoverWorktree
    from nacre.inspect.prune import Pruned, PrunePlan

DEFAULT_DAYS = 30
"""Sessions this old are rarely continued, and their tool results can be produced again."""
MAX_DAYS = 36_500
"""A century, so that dates stay valid."""
KILOBYTE = 1_000
MEGABYTE = 1_000_000
SHORT_ID = 8


def _finite(_: click.Context, __: click.Parameter, value: float | None) -> float | None:
    """Reject `nan` and `inf`, which pass every range."""
    if value is not None and not math.isfinite(value):
        raise click.BadParameter(f"{value} is no number of days or megabytes; write one such as 30")
    return value


@click.command(short_help="Delete data of old sessions.")
@click.option(
    "--older-than",
    type=click.FloatRange(min=0, max=MAX_DAYS),
    callback=_finite,
    metavar="DAYS",
    help=f"What was written longer ago goes; {DEFAULT_DAYS} unless --max-size is given.",
)
@click.option(
    "--max-size",
    type=click.FloatRange(min=0),
    callback=_finite,
    metavar="MB",
    help="Delete the oldest until no more than this is left.",
)
@click.option("--transcripts", is_flag=True, help="Also delete whole sessions, not only tool results.")
@click.option("--yes/--dry-run", "is_meant", default=False, help="Delete, or only list (default).")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_obj
def gc(
    options: RunOptions,
    /,
    *,
    older_than: float | None,
    max_size: float | None,
    transcripts: bool,
    is_meant: bool,
    as_json: bool,
) -> int:
    """Delete tool results that sessions keep in files, oldest first; without --yes they are only listed.

    This covers sessions of all directories that nacre wrote, imported or continued; other programs' data in
    the same home is never deleted. Open sessions, and sessions that an open one refers to, are kept. A
    session that is resumed later says which of its results are gone. Worktrees of agents whose process has
    ended are removed, too, unless they contain changes; those are listed and kept.
    """
    from nacre.clock import SYSTEM_CLOCK
    from nacre.inspect.prune import PruneRequest, plan, prune

    settings = load_settings(options)
    days = DEFAULT_DAYS if older_than is None and max_size is None else older_than
    wish = PruneRequest(
        older_than=None if days is None else timedelta(days=days),
        max_bytes=None if max_size is None else round(max_size * MEGABYTE),
        transcripts=transcripts,
    )
    now = SYSTEM_CLOCK.now()
    planned = plan(settings.home, wish, now)
    done = prune(settings.home, planned) if is_meant else None
    empty: Sequence[LeftoverWorktree] = ()
    changed: Sequence[LeftoverWorktree] = ()
    if (settings.home / "worktrees").is_dir():
        from nacre.agents.worktree import leftovers, tidy

        if is_meant:
            empty, changed = asyncio.run(tidy(settings.home))
        else:
            found = asyncio.run(leftovers(settings.home))
            empty = [one for one in found if one.left is None]
            changed = [one for one in found if one.left is not None]
    if as_json:
        print_json(
            {
                **_as_json(planned, done),
                "worktrees": [str(one.record.tree.path) for one in empty],
                "worktrees_kept": [one.left.description for one in changed if one.left],
            }
        )
    else:
        _print(planned, done, now)
        if empty:
            what = f"{_count(len(empty), 'unchanged worktree')} of agents that are gone"
            print(f"Removed {what}." if is_meant else f"Would remove {what}: add --yes to do it.")
        for tree in changed:
            if tree.left is not None:
                print(f"Kept: {tree.left.description}")
    for line in done.failed if done else ():
        print_error(line)
    return 1 if done and done.failed else 0


def _as_json(planned: PrunePlan, done: Pruned | None) -> JsonObject:
    from nacre.inspect.prune import sessions_of

    pieces = done.gone if done else planned.goes
    return {
        "dry_run": done is None,
        "files": len(pieces),
        "bytes": sum(one.bytes for one in pieces),
        "kept_bytes": planned.kept_bytes,
        "in_use": [*planned.in_use],
        "kept_sessions": {"sessions": planned.logs.sessions, "bytes": planned.logs.bytes},
        "foreign": {"sessions": planned.foreign.sessions, "bytes": planned.foreign.bytes},
        "failed": [*(done.failed if done else ())],
        "sessions": [
            {
                "session": log.stem,
                "log": str(log),
                "bytes": sum(one.bytes for one in own),
                "paths": [str(one.path) for one in own],
            }
            for log, own in sessions_of(pieces).items()
        ],
    }


def _print(planned: PrunePlan, done: Pruned | None, now: datetime) -> None:
    pieces = done.gone if done else planned.goes
    if pieces:
        from nacre.inspect.prune import sessions_of

        rows = []
        for log, own in sessions_of(pieces).items():
            kind = "whole session" if any(one.kind == "transcript" for one in own) else "tool results"
            size = _size(sum(one.bytes for one in own))
            age = human_age(min(one.modified for one in own), now)
            rows.append([log.stem[:SHORT_ID], kind, str(len(own)), size, age])
        print_table(rows, header=("session", "what", "files", "size", "oldest"), right=(2, 3))
    if planned.in_use:
        print(f"{_count(len(planned.in_use), 'session')} in use: skipped.")
    what = f"{_count(len(pieces), 'file')}, {_size(sum(one.bytes for one in pieces))}"
    left = _size(planned.kept_bytes)
    if planned.logs.sessions:  # deleted only with --transcripts
        left += f" of results and {_count(planned.logs.sessions, 'session')} ({_size(planned.logs.bytes)})"
    left += " stay"
    if done is not None:
        print(f"Removed {what}; {left}.")
    elif pieces:
        print(f"Would remove {what}; {left}. Nothing was changed: add --yes to do it.")
    else:
        print(f"Nothing to remove; {left}.")
    if planned.foreign.sessions:
        sessions = _count(planned.foreign.sessions, "session")
        print(f"{sessions} ({_size(planned.foreign.bytes)}) of another program: skipped.")


def _count(number: int, name: str) -> str:
    return f"{number:,} {name}{'s' * (number != 1)}"


def _size(size: int) -> str:
    return f"{size / MEGABYTE:,.1f} MB" if size >= MEGABYTE else f"{size / KILOBYTE:,.0f} kB"
