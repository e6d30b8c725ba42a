"""`nacre sessions`: list sessions; other commands are in their own modules."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from nacre.cli.options import RunOptions, load_settings
from nacre.cli.output import (
    cut_last,
    human_age,
    human_count,
    is_terminal,
    print_json,
    print_table,
    printable,
)
from nacre.cli.sessions.check import check
from nacre.cli.sessions.search import search
from nacre.cli.sessions.show import show
from nacre.cli.sessions.transfer import export, import_
from nacre.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from nacre.store.summaries import SessionSummary

SHORT_ID = 8
"""Characters of an id in output; more if two would look the same."""


@click.group()
def sessions() -> None:
    """List, show, search, check, import and export sessions.

    An ID may be shortened to its beginning; `latest` is the newest session of this directory.
    """


@sessions.command("list")
@click.option("--all", "everywhere", is_flag=True, help="Include every directory, not only this one.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_obj
def list_(options: RunOptions, /, *, everywhere: bool, as_json: bool) -> None:
    """List the sessions of this directory, newest first."""
    from nacre.store.sessions import Sessions

    settings = load_settings(options)
    found = Sessions(settings.home).list(None if everywhere else settings.cwd)
    if as_json:
        print_json(
            [
                {
                    "session": each.session,
                    "cwd": each.cwd,
                    "started": each.started.isoformat() if each.started else None,
                    "messages": each.messages,
                    "tokens": each.tokens,
                    "compactions": each.compactions,
                    "modified": each.modified.isoformat(),
                    "title": each.title,
                    "bytes": each.bytes,
                    "path": str(each.path),
                }
                for each in found
            ]
        )
    elif found:
        _print_list(found, everywhere=everywhere)
    elif everywhere:
        print("There are no sessions yet. Start one with `nacre chat`, or `nacre sessions import FILE`.")
    else:
        print(f"There are no sessions in {printable(str(settings.cwd))} yet; --all lists the others.")


def _print_list(found: list[SessionSummary], *, everywhere: bool) -> None:
    now = SYSTEM_CLOCK.now()
    short = _short_length([each.session for each in found])
    header = ["session", "used", "messages", "tokens", "compacted", *["directory"] * everywhere, "title"]
    rows = [
        [
            each.session[:short],
            human_age(each.modified, now),
            f"{each.messages:,}",
            human_count(each.tokens) if each.tokens else "-",
            f"{each.compactions}x" if each.compactions else "-",
            *[each.cwd or "-"] * everywhere,
            each.title or "-",
        ]
        for each in found
    ]
    if is_terminal():
        cut_last(header, rows)
    print_table(rows, header=header, right=(2, 3, 4))


def _short_length(ids: list[str]) -> int:
    """Return the number of characters that tell all ids apart."""
    length = SHORT_ID
    while len({each[:length] for each in ids}) < len(set(ids)):
        length += 1
    return length


for command in (show, search, check, import_, export):
    sessions.add_command(command)
