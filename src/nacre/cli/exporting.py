"""`nacre sessions export`: a session as Markdown for people or as the bytes of its log."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import click

from nacre.cli.options import RunOptions, load_settings


@click.command()
@click.argument("session", metavar="ID")
@click.option(
    "--format",
    "form",
    type=click.Choice(["md", "jsonl"]),
    default="md",
    show_default=True,
    help="Markdown to read, or the log's own bytes.",
)
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Where to (default: stdout)."
)
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@click.pass_obj
def export(options: RunOptions, /, session: str, *, form: str, output: Path | None, force: bool) -> None:
    """Write a session as Markdown or JSONL, to stdout or to a file."""
    from nacre.agents.exporting import log_bytes, new_file
    from nacre.cli.finding import find_session

    path = find_session(load_settings(options), session)
    pieces = log_bytes(path) if form == "jsonl" else _markdown(path)
    if output is None or str(output) == "-":
        for piece in pieces:
            sys.stdout.buffer.write(piece)
        sys.stdout.buffer.flush()
        return
    with new_file(output, replaces=force) as file:
        for piece in pieces:
            file.write(piece)


def _markdown(path: Path) -> Iterator[bytes]:
    from nacre.agents.exporting import markdown
    from nacre.agents.looking import look_back, stream
    from nacre.store.summaries import summarise

    loaded = look_back(path)
    for piece in markdown(summarise(path), loaded.records if loaded else stream(path)):
        yield piece.encode(errors="replace")
