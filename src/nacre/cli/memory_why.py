"""`nacre memory why`: where a memory comes from: who wrote it, when, why, and from which words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from nacre.cli.memory_history import SHORT_COMMIT, author_shown, commit_json, known_file
from nacre.cli.memory_opening import json_option, read_only, run, scope_option
from nacre.cli.options import RunOptions, load_settings
from nacre.cli.output import print_json, printable
from nacre.errors import StoreError

if TYPE_CHECKING:
    from nacre.memory.confirming import Doubts
    from nacre.memory.entry import Entry
    from nacre.store.history import Commit

MOST_CHANGES = 10_000
"""No memory was changed so often; the whole history of one is wanted."""


@click.command(short_help="Say where a memory comes from.")
@click.argument("name")
@scope_option
@json_option
@click.pass_obj
def why(options: RunOptions, /, name: str, *, scope: str, as_json: bool) -> int:
    """Say who wrote a memory, when and why, and show the words it came from if a log still has them."""
    from nacre.agents.original_words import original_words
    from nacre.memory.confirming import doubts
    from nacre.memory.entry import read_entry
    from nacre.memory.folder import Folder

    opened = run(read_only(options, scope, picks_up=True))
    file = run(known_file(opened, name))
    commits = run(opened.log(limit=MOST_CHANGES, file=file))
    data = Folder(opened.location.directory).read(file)
    if data is None and not commits:
        raise StoreError(f"{file} is gone; `nacre memory list` shows what is there")
    entry = read_entry(file, data or b"")
    doubted = doubts(opened.location)
    words = original_words(load_settings(options).home, entry.sources)
    if as_json:
        print_json({
            "file": file,
            "name": entry.title,
            "exists": data is not None,
            "origin": entry.origin,
            "sources": [*entry.sources],
            "unconfirmed": [*doubted.files.get(file, ())],
            "history": [commit_json(each, doubted.confirmed) for each in commits],
            "words": [
                {"session": each.session, "message": each.message, "role": each.role, "text": each.text}
                for each in words
            ],
        })  # fmt: skip
    else:
        _print_origin(entry, commits, doubted, is_there=data is not None)
        for said in words:
            print(printable(f"  {said.role} said: {said.text}"))
    return 0


def _print_origin(entry: Entry, commits: list[Commit], doubted: Doubts, *, is_there: bool) -> None:
    state = "untrusted: it came from outside" if entry.origin == "untrusted" else f"said by: {entry.origin}"
    print(printable(f"{entry.file}  ({state if is_there else 'forgotten'})"))
    for each in commits:
        when = each.at.astimezone().strftime("%Y-%m-%d %H:%M")
        session = f", session {each.session}" if each.session else ""
        author = author_shown(each, doubted.confirmed)
        print(printable(f"  {when}  {each.id[:SHORT_COMMIT]}  {author}: {each.reason}{session}"))
    if ids := doubted.files.get(entry.file):
        short = " ".join(each[:SHORT_COMMIT] for each in ids)
        print(
            "  unconfirmed: it changed while an agent was at work, and an agent's shell could have done it;"
        )
        print(f"  `nacre memory confirm {short}` if that was you")
    if not commits:
        print("  no change of it is on record: it was there before nacre")
    if entry.sources:
        print(printable(f"  from: {', '.join(entry.sources)}"))
