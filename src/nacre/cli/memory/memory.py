"""`nacre memory`: path, show and search; other commands are in their own modules."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from nacre.cli.memory.checks import audit, lint, verify
from nacre.cli.memory.forget import forget
from nacre.cli.memory.history import confirm, diff, log, undo, why
from nacre.cli.memory.import_memories import import_
from nacre.cli.memory.list import INDEX, list_
from nacre.cli.memory.move import export, move, sync
from nacre.cli.memory.open import everywhere_option, json_option, place, read_only, run, scope_option
from nacre.cli.memory.review import review
from nacre.cli.memory.save import edit, save
from nacre.cli.options import RunOptions, load_settings
from nacre.cli.output import is_terminal, print_error, print_json, print_table, printable
from nacre.inspect.memory_json import entry_json

if TYPE_CHECKING:
    from nacre.memory.similarity import ScoredEntry


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
@everywhere_option
@json_option
@click.pass_obj
def search(
    options: RunOptions, /, query: tuple[str, ...], *, limit: int, scope: str, everywhere: bool, as_json: bool
) -> int:
    """Find memories about some words; exit code 1 if there are none.

    Lines of daily logs are searched as well, with --everywhere whole logs.
    """
    from nacre.memory.daily_log import log_files, search_logs

    words = " ".join(query)
    if everywhere:
        if click.get_current_context().get_parameter_source("scope") is ParameterSource.COMMANDLINE:
            raise click.UsageError("--everywhere searches all projects; leave out --scope")
        found = run(_search_everywhere(options, words, limit=limit))
    else:
        opened = run(read_only(options, scope))
        has_logs = bool(log_files(opened.location.directory))
        searched = search_logs(opened, words, limit=limit) if has_logs else opened.search(words, limit=limit)
        found = [("", each) for each in run(searched)]
    if as_json:
        print_json([
            {
                **entry_json(each.entry),
                "score": round(each.score, 3),
                **({"project": project} if project else {}),
            }
            for project, each in found
        ])  # fmt: skip
    elif found:
        print_table([
            [
                *([project] if project else []),
                each.entry.file,
                each.entry.kind or "-",
                each.entry.description or each.entry.title,
            ]
            for project, each in found
        ])  # fmt: skip
    else:
        print_error(f"no memory matches {words!r}; `nacre memory list` shows all")
    return 0 if found else 1


async def _search_everywhere(options: RunOptions, words: str, *, limit: int) -> list[tuple[str, ScoredEntry]]:
    """Return the best entries of all projects, each with the name of its project."""
    from nacre.app.memory_locations import all_places
    from nacre.memory.memory import Memory

    found: list[tuple[str, ScoredEntry]] = []
    for location, project in all_places(load_settings(options)).items():
        memory = Memory(location, writes_cache=location.history.exists())
        found += [(project, one) for one in await memory.search(words, limit=limit)]
    return sorted(found, key=lambda one: -one[1].score)[:limit]


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
