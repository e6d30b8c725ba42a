"""`nacre memory edit`: edit a memory in the user's editor; the result is a commit."""

from __future__ import annotations

import tempfile
from pathlib import Path

import click

from nacre.app.editor import edited_by_hand, editor, put_aside
from nacre.cli.memory.open import by_hand, run, scope_option, writable
from nacre.cli.options import RunOptions
from nacre.cli.output import print_error, printable
from nacre.errors import StoreError

INDEX = "MEMORY.md"


@click.command(short_help="Edit a memory in your editor.")
@click.argument("name")
@click.option("--allow-secret", is_flag=True, help="Save even if it seems to contain a credential.")
@scope_option
@click.pass_obj
def edit(options: RunOptions, /, name: str, *, allow_secret: bool, scope: str) -> int:
    """Open a memory, or MEMORY.md, in $VISUAL or $EDITOR; the result is one commit."""
    from nacre.memory.files.folder import Folder, version_of

    editor()  # whoever has none is told before anything else happens
    opened = run(writable(options, scope))
    file = INDEX if name == INDEX else run(opened.find(name)).file
    data = Folder(opened.location.directory).read(file)
    with tempfile.TemporaryDirectory(prefix="nacre-") as folder:
        copy = Path(folder) / Path(file).name
        copy.write_bytes(data or b"")
        edited_by_hand(copy)
        new = copy.read_bytes()
        if new == (data or b""):
            print_error(f"{file} is unchanged")
            return 0
        change = by_hand("edited by hand")
        try:
            version = version_of(data)
            commit = run(opened.put(file, new, change, if_version=version, allow_secret=allow_secret))
        except StoreError as error:
            kept = put_aside(new, file)
            raise StoreError(f"{error}; your text is in {kept}") from error
    print(printable(f"updated {file} ({commit[:10]})"))
    return 0
