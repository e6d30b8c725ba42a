"""`nacre memory move` and `export`: a memory to another scope, all memories to another place."""

from __future__ import annotations

from pathlib import Path

import click

from nacre.cli.memory_opening import SCOPES, by_hand, json_option, read_only, run, scope_option, writable
from nacre.cli.options import RunOptions
from nacre.cli.output import print_error, print_json, printable

DEFAULT_EXPORT = "nacre-memory.tar.gz"


@click.command(short_help="Move a memory to the other scope.")
@click.argument("name")
@click.option("--to", "target", type=click.Choice(SCOPES), required=True, help="Where it shall hold.")
@json_option
@click.pass_obj
def move(options: RunOptions, /, name: str, *, target: str, as_json: bool) -> int:
    """Move a memory between this project and what holds everywhere: one commit on either side."""
    from nacre.memory.moving import MOVED
    from nacre.memory.moving import move as carry

    source = "project" if target == "user" else "user"
    opened = run(writable(options, source))
    there = run(writable(options, target))
    moved = run(carry(name, source=opened, target=there, change=by_hand(f"{MOVED}{source} to {target}")))
    if as_json:
        print_json({"file": moved.file, "was": moved.was, "removed": moved.removed, "added": moved.added})
        return 0
    print(printable(f"moved {moved.was} to {there.location.directory / moved.file}"))
    if not moved.added:
        print_error("the same memory was there already")
    return 0


@click.command(short_help="Copy all memories elsewhere.")
@click.argument("target", required=False, type=click.Path(path_type=Path), metavar="[DIR|FILE.tar.gz]")
@click.option("--keep-secrets", is_flag=True, help="Leave credentials in; without it they are taken out.")
@click.option("--force", is_flag=True, help="Write over what is there.")
@scope_option
@json_option
@click.pass_obj
def export(
    options: RunOptions, /, target: Path | None, *, keep_secrets: bool, force: bool, scope: str, as_json: bool
) -> int:
    """Copy every memory and the index, byte for byte, into a folder or a packed file.

    Without a target, into nacre-memory.tar.gz here. What looks like a credential is replaced by the name of
    its kind, unless --keep-secrets says otherwise.
    """
    from nacre.memory.exporting import export as write

    opened = run(read_only(options, scope))
    done = write(opened.location, target or Path(DEFAULT_EXPORT), redacts=not keep_secrets, replaces=force)
    if done.secrets:
        print_error(f"{', '.join(done.secrets)} may hold a credential, which went out with it")
    if as_json:
        print_json({
            "path": str(done.path.absolute()),
            "files": [*done.files],
            "redacted": [*done.redacted],
            "secrets": [*done.secrets],
        })  # fmt: skip
        return 0
    print(printable(f"wrote {len(done.files):,} file{'s' * (len(done.files) != 1)} to {done.path}"))
    for file in done.redacted:
        print(printable(f"redacted {file}"))
    return 0
