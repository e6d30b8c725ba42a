"""`nacre memory why`: show the origin of a memory: author, date, reason and original words."""

from __future__ import annotations

import click

from nacre.cli.memory.history import commit_json, known_file
from nacre.cli.memory.open import json_option, read_only, run, scope_option
from nacre.cli.options import RunOptions, load_settings
from nacre.cli.output import print_json, printable
from nacre.errors import StoreError

MOST_CHANGES = 10_000
"""More changes than any memory has: the whole history is shown."""


@click.command(short_help="Show the origin of a memory.")
@click.argument("name")
@scope_option
@json_option
@click.pass_obj
def why(options: RunOptions, /, name: str, *, scope: str, as_json: bool) -> int:
    """Show who wrote a memory, when and why, and the words it came from if a log still has them."""
    from nacre.inspect.memory_origin import origin_lines
    from nacre.inspect.original_words import original_words
    from nacre.memory.files.confirm import unconfirmed_changes
    from nacre.memory.files.folder import Folder
    from nacre.memory.format.entry import read_entry

    opened = run(read_only(options, scope, picks_up=True))
    file = run(known_file(opened, name))
    commits = run(opened.log(limit=MOST_CHANGES, file=file))
    data = Folder(opened.location.directory).read(file)
    if data is None and not commits:
        raise StoreError(f"{file} is gone; `nacre memory list` shows what is there")
    entry = read_entry(file, data or b"")
    doubted = unconfirmed_changes(opened.location)
    homes = (opened.location.base, load_settings(options).home)
    words = original_words(homes, entry.sources)
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
        for line in origin_lines(entry, commits, doubted, is_there=data is not None):
            print(line)
        for said in words:
            print(printable(f"  {said.role} said: {said.text}"))
    return 0
