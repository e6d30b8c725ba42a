"""`nacre memory`: path, show and search; other commands are in their own modules."""

from __future__ import annotations

import sys

import click

from nacre.cli.memory.audit import audit
from nacre.cli.memory.confirm import confirm
from nacre.cli.memory.edit import edit
from nacre.cli.memory.forget import forget
from nacre.cli.memory.history import diff, log, undo
from nacre.cli.memory.import_memories import import_
from nacre.cli.memory.lint import lint
from nacre.cli.memory.list import INDEX, entry_json, list_
from nacre.cli.memory.move import export, move
from nacre.cli.memory.open import json_option, place, read_only, run, scope_option
from nacre.cli.memory.review import review
from nacre.cli.memory.save import save
from nacre.cli.memory.sync import sync
from nacre.cli.memory.verify import verify
from nacre.cli.memory.why import why
from nacre.cli.options import RunOptions, load_settings
from nacre.cli.output import is_terminal, print_error, print_json, print_table, printable


@click.group(short_help="Save, find, change and move memories.")
def memory() -> None:
    """Save, find, change and move memories.

    NAME is a memory's file, its name, or words that match only that memory.
    """


@memory.command()
@scope_option
@json_option
@click.pass_obj
def path(options: RunOptions, /, *, scope: str, as_json: bool) -> None:
    """Print the memory directory; --json also says why it is there."""
    from nacre.app.memory_locations import decided_by

    location = place(options, scope)
    if as_json:
        print_json({
            "path": str(location.directory),
            "source": location.source,
            "decided_by": decided_by(load_settings(options), location),
            "exists": location.directory.is_dir(),
            "history": str(location.history),
        })  # fmt: skip
    else:
        print(printable(str(location.directory)))


@memory.command(short_help="Print one memory.")
@click.argument("name")
@scope_option
@json_option
@click.pass_obj
def show(options: RunOptions, /, name: str, *, scope: str, as_json: bool) -> None:
    """Print one memory as stored; MEMORY.md is the index, and FILE:LINE a line of a daily log."""
    from nacre.memory.daily_log import find_candidate

    opened = run(read_only(options, scope))
    if name == INDEX and not as_json:
        _print_bytes((run(opened.index()).text).encode())
        return
    found = run(find_candidate(opened, name))
    entry = found.entry
    if as_json:
        print_json({
            **entry_json(entry),
            "created": entry.created.isoformat() if entry.created else None,
            "sources": [*entry.sources],
            "body": entry.body,
        })  # fmt: skip
        return
    if found.line:
        print(printable(entry.body))
        return
    _print_bytes((opened.location.directory / entry.file).read_bytes())


def _print_bytes(data: bytes) -> None:
    if is_terminal():
        # A memory may contain terminal control sequences.
        for line in data.decode(errors="replace").splitlines():
            print(printable(line))
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


@memory.command(short_help="Find memories by words.")
@click.argument("query", nargs=-1, required=True, metavar="QUERY...")
@click.option("--limit", type=click.IntRange(min=1), default=5, show_default=True, help="Maximum number.")
@scope_option
@json_option
@click.pass_obj
def search(options: RunOptions, /, query: tuple[str, ...], *, limit: int, scope: str, as_json: bool) -> int:
    """Find memories about some words; exit code 1 if there are none.

    Lines of daily logs are searched as well.
    """
    from nacre.memory.daily_log import log_files, search_logs

    words = " ".join(query)
    opened = run(read_only(options, scope))
    has_logs = bool(log_files(opened.location.directory))
    found = run((search_logs(opened, words, limit=limit)) if has_logs else opened.search(words, limit=limit))
    if as_json:
        print_json([{**entry_json(each.entry), "score": round(each.score, 3)} for each in found])
    elif found:
        print_table([
            [each.entry.file, each.entry.kind or "-", each.entry.description or each.entry.title]
            for each in found
        ])  # fmt: skip
    else:
        print_error(f"no memory matches {words!r}; `nacre memory list` shows all")
    return 0 if found else 1


for command in (
    list_,
    save,
    edit,
    forget,
    move,
    sync,
    lint,
    audit,
    log,
    diff,
    confirm,
    review,
    undo,
    why,
    verify,
    export,
    import_,
):
    memory.add_command(command)
