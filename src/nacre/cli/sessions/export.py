"""`nacre sessions export`: write a session as Markdown or as the bytes of its log."""

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
    help="Markdown, or the bytes of the log.",
)
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Output file (default: stdout)."
)
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@click.option("--keep-secrets", is_flag=True, help="Keep credentials, which are otherwise removed.")
@click.pass_obj
def export(
    options: RunOptions, /, session: str, *, output: Path | None, force: bool, **how: str | bool
) -> None:
    """Write a session as Markdown or JSONL, to stdout or to a file.

    Credentials are replaced by the name of their kind, unless --keep-secrets is given.
    """
    from nacre.cli.sessions.find import find_session
    from nacre.inspect.export import new_file

    path = find_session(load_settings(options), session)
    pieces = _pieces(path, form=str(how["form"]), keeps_secrets=bool(how["keep_secrets"]))
    if output is None or str(output) == "-":
        for piece in pieces:
            sys.stdout.buffer.write(piece)
        sys.stdout.buffer.flush()
        return
    with new_file(output, replaces=force) as file:
        for piece in pieces:
            file.write(piece)


def _pieces(path: Path, *, form: str, keeps_secrets: bool) -> Iterator[bytes]:
    from nacre.inspect.export import log_bytes, redacted_bytes

    if form == "jsonl":
        return log_bytes(path) if keeps_secrets else redacted_bytes(path)
    return _markdown(path, keeps_secrets=keeps_secrets)


def _markdown(path: Path, *, keeps_secrets: bool) -> Iterator[bytes]:
    from nacre.inspect.export import markdown
    from nacre.memory.secrets import redact
    from nacre.session.read_session import read_log, stream
    from nacre.store.summaries import summarise

    loaded = read_log(path)
    for piece in markdown(summarise(path), loaded.records if loaded else stream(path)):
        yield (piece if keeps_secrets else redact(piece)).encode(errors="replace")
