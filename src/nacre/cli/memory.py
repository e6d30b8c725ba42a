"""`nacre memory`: path, list, show and search here; what changes memory in the files beside this one."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from nacre.cli.memory_carrying import export, move
from nacre.cli.memory_confirming import confirm
from nacre.cli.memory_editing import edit
from nacre.cli.memory_forgetting import forget
from nacre.cli.memory_history import diff, log, undo
from nacre.cli.memory_importing import import_
from nacre.cli.memory_linting import lint
from nacre.cli.memory_opening import json_option, place, read_only, run, scope_option
from nacre.cli.memory_saving import save
from nacre.cli.memory_sync import sync
from nacre.cli.memory_why import why
from nacre.cli.options import RunOptions
from nacre.cli.output import (
    cut_last,
    human_age,
    human_count,
    is_terminal,
    print_error,
    print_json,
    print_table,
    printable,
)
from nacre.messages.blocks import JsonObject

if TYPE_CHECKING:
    from nacre.memory.directory import Memory
    from nacre.memory.entry import Entry
    from nacre.memory.scan import Scan

INDEX = "MEMORY.md"


@click.group(short_help="Keep, find, change and carry memories.")
def memory() -> None:
    """Keep, find, change and carry memories.

    A NAME is a memory's file, its name, or words that only it answers to.
    """


@memory.command()
@scope_option
@json_option
@click.pass_obj
def path(options: RunOptions, /, *, scope: str, as_json: bool) -> None:
    """Print where the memories are."""
    location = place(options, scope)
    if as_json:
        print_json({
            "path": str(location.directory),
            "source": location.source,
            "exists": location.directory.is_dir(),
            "history": str(location.history),
        })  # fmt: skip
    else:
        print(printable(str(location.directory)))


@memory.command("list", short_help="List the memories, newest first.")
@scope_option
@json_option
@click.pass_obj
def list_(options: RunOptions, /, *, scope: str, as_json: bool) -> None:
    """List the memories, newest first, and what of the index a conversation gets."""
    opened = run(read_only(options, scope))
    found = run(opened.scan())
    if as_json:
        print_json([entry_json(each) for each in found.entries])
    elif found.entries or found.skipped or run(opened.index()).lines:
        _print_list(found, opened)
    else:
        print("There are no memories yet. Save one with `nacre memory save TEXT`.")


def entry_json(entry: Entry) -> JsonObject:
    """An entry as programs rely on it."""
    when = entry.modified or entry.written
    return {
        "file": entry.file,
        "name": entry.title,
        "description": entry.description,
        "type": entry.kind,
        "origin": entry.origin,
        "modified": when.isoformat() if when else None,
        "bytes": entry.bytes,
        "indexed": entry.indexed,
        "pinned": entry.pinned,
    }


def _print_list(found: Scan, opened: Memory) -> None:
    from nacre.clock import SYSTEM_CLOCK

    now = SYSTEM_CLOCK.now()
    header = ["file", "type", "changed", "size", "index", "description"]
    rows = [
        [
            each.file,
            each.kind or "-",
            human_age(when, now) if (when := each.modified or each.written) else "-",
            human_count(each.bytes),
            "yes" if each.indexed else "no",
            f"(untrusted) {each.description}" if each.origin == "untrusted" else each.description or "-",
        ]
        for each in found.entries
    ]
    if is_terminal():
        cut_last(header, rows)
    print_table(rows, header=header if rows else (), right=(3,))
    index = run(opened.index())
    left = sum(not each.indexed for each in found.entries)
    unlisted = f", {left:,} of the memories not listed" if left else ""
    if rows:
        print()
    print(f"{INDEX}: {index.lines:,} lines, {index.bytes:,} bytes, loaded {_how(index.cut)}{unlisted}")
    for each in found.skipped:
        print(printable(f"left out: {each.file} {each.why}"))


def _how(cut: str) -> str:
    return f"only in part: too many {cut}; `nacre memory lint` says more" if cut else "whole"


@memory.command(short_help="Print one memory.")
@click.argument("name")
@scope_option
@json_option
@click.pass_obj
def show(options: RunOptions, /, name: str, *, scope: str, as_json: bool) -> None:
    """Print one memory as its file has it; MEMORY.md is the index."""
    opened = run(read_only(options, scope))
    if name == INDEX and not as_json:
        _print_bytes((run(opened.index()).text).encode())
        return
    entry = run(opened.find(name))
    if as_json:
        print_json({
            **entry_json(entry),
            "created": entry.created.isoformat() if entry.created else None,
            "sources": [*entry.sources],
            "body": entry.body,
        })  # fmt: skip
        return
    _print_bytes((opened.location.directory / entry.file).read_bytes())


def _print_bytes(data: bytes) -> None:
    if is_terminal():
        # A memory may hold what would repaint the terminal.
        for line in data.decode(errors="replace").splitlines():
            print(printable(line))
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


@memory.command(short_help="Find memories by words.")
@click.argument("query", nargs=-1, required=True, metavar="QUERY...")
@click.option("--limit", type=click.IntRange(min=1), default=5, show_default=True, help="At most so many.")
@scope_option
@json_option
@click.pass_obj
def search(options: RunOptions, /, query: tuple[str, ...], *, limit: int, scope: str, as_json: bool) -> int:
    """Find the memories that have to do with some words; exit code 1 when there are none."""
    words = " ".join(query)
    opened = run(read_only(options, scope))
    found = run(opened.search(words, limit=limit))
    if as_json:
        print_json([{**entry_json(each.entry), "score": round(each.score, 3)} for each in found])
    elif found:
        print_table([
            [each.entry.file, each.entry.kind or "-", each.entry.description or each.entry.title]
            for each in found
        ])  # fmt: skip
    else:
        print_error(f"no memory has to do with {words!r}; `nacre memory list` shows all")
    return 0 if found else 1


for command in (save, edit, forget, move, sync, lint, log, diff, confirm, undo, why, export, import_):
    memory.add_command(command)
