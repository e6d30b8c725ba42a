"""`nacre sessions show`: who said what, as a person reads it; streams, so that size does not matter (T9)."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nacre.cli.options import RunOptions, load_settings
from nacre.cli.output import human_count, print_error, print_json, printable
from nacre.messages.blocks import Json, JsonObject

if TYPE_CHECKING:
    from nacre.cli.telling import Entry
    from nacre.messages.records import Record


@click.command(short_help="Show who said what in a session.")
@click.argument("session", metavar="ID")
@click.option(
    "--full", is_flag=True, help="Everything ever recorded, uncut: also what a compaction replaced."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_obj
def show(options: RunOptions, /, session: str, *, full: bool, as_json: bool) -> None:
    """Show a session: what the model would see if it went on, long results shortened.

    With --full: everything that was ever recorded, in order and whole, with sub-agents, branches left behind
    and the decisions of the layers. With --json the messages as a request carries them, or all records.
    """
    from nacre.cli.finding import find_session

    path = find_session(load_settings(options), session)
    if as_json:
        _print_document(path, full=full)
        return
    _print_head(path)
    from nacre.cli.telling import tell

    for line in tell(_entries(path, full=full), full=full):
        print(line)


def _print_head(path: Path) -> None:
    from nacre.agents.exporting import moment
    from nacre.store.summaries import summarise

    summary = summarise(path)
    facts = [
        summary.cwd or "",
        moment(summary.started) if summary.started else "",
        f"{summary.messages:,} messages",
        f"{human_count(summary.tokens)} tokens" if summary.tokens else "",
        f"compacted {summary.compactions}x" if summary.compactions else "",
    ]
    print(f"session {summary.session}")
    print(printable("  ".join(fact for fact in facts if fact)))


def _entries(path: Path, *, full: bool) -> Iterator[Entry]:
    from nacre.agents.looking import look, look_back, stream
    from nacre.cli.telling import from_record, from_view

    if not full and (looked := look(path)) is not None:
        before = looked.view.epochs.count("compact")
        yield from from_view(looked.view)
        if before:
            print_error(f"what {before} compaction{'s' * (before > 1)} replaced is left out; --full shows it")
        return
    loaded = look_back(path) if full else None
    if loaded is None:
        print_error("this log is too large to be folded: it is shown as it was written")
    for record in loaded.records if loaded else stream(path):
        entry = from_record(record)
        if full or entry.is_message:
            yield entry


def _print_document(path: Path, *, full: bool) -> None:
    from nacre.agents.looking import look, look_back, stream
    from nacre.errors import TranscriptError

    if full:
        loaded = look_back(path)
        _print_records(path.stem, iter(loaded.records) if loaded else stream(path))
        return
    looked = look(path)
    if looked is None:
        raise TranscriptError(
            f"session {path.stem} is too large to be folded; use --full, or `nacre sessions export`"
        )
    messages: list[Json] = [*looked.view.messages]
    print_json({"session": path.stem, "tokens": looked.view.count(), "messages": messages})


def _print_records(session: str, records: Iterator[Record]) -> None:
    """One document, written record by record: all of them at once might not fit in memory."""
    from nacre.cli.telling import record_json

    print(f'{{"session": {json.dumps(session)}, "records": [', end="")
    for number, record in enumerate(records):
        line: JsonObject = record_json(record)
        sys.stdout.write((",\n" if number else "\n") + json.dumps(line))
    print("\n]}")
