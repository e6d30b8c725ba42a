"""`nacre memory forget`: remove a memory so that it can be brought back, or erase it for good (M14b)."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

import click

from nacre.cli.memory_history import known_file
from nacre.cli.memory_opening import by_hand, json_option, read_only, run, scope_option, writable
from nacre.cli.options import RunOptions, load_settings
from nacre.cli.output import is_terminal, print_error, print_json, printable
from nacre.errors import StoreError

if TYPE_CHECKING:
    from nacre.memory.directory import Memory

REASON = "forgotten by hand"


@click.command(short_help="Remove a memory.")
@click.argument("name")
@click.option("--purge", is_flag=True, help="Erase it from the history too; this cannot be undone.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@scope_option
@json_option
@click.pass_obj
def forget(options: RunOptions, /, name: str, *, purge: bool, yes: bool, scope: str, as_json: bool) -> int:
    """Remove a memory and its line in the index; the history keeps it unless --purge."""
    if purge and not yes and not is_terminal(sys.stdin):
        raise click.UsageError("--purge cannot be undone; add --yes where nobody can be asked")
    opened = run(writable(options, scope))
    if purge:
        file = run(_exact(opened, name))
        if not yes and not click.confirm(f"Erase {printable(file)} for good?", err=True):
            print_error("nothing was erased")
            return 1
        return _purge(options, opened, file, scope=scope, as_json=as_json)
    entry, commit = run(opened.forget(name, by_hand(REASON)))
    if as_json:
        print_json({"file": entry.file, "commit": commit})
    else:
        print(printable(f"forgot {entry.file}: {entry.description or entry.title}"))
        print(f"`nacre memory undo {commit[:10]}` brings it back.")
    return 0


async def _exact(opened: Memory, name: str) -> str:
    """The file that is meant, there or forgotten already; what cannot be undone is never guessed."""
    file = await known_file(opened, name)
    if file.removesuffix(".md") == name.removesuffix(".md"):
        return file
    entry = await opened.find(name)
    if entry.title.casefold() != name.casefold():
        raise StoreError(f"{name!r} may mean {file}; name the file, because this cannot be undone")
    return file


def _purge(options: RunOptions, opened: Memory, file: str, *, scope: str, as_json: bool) -> int:
    from nacre.memory.purging import erase

    other = run(read_only(options, "project" if scope == "user" else "user"))
    erased = run(erase(opened, file, by_hand(REASON), others=[other]))
    sessions = _mentions(options, file, everywhere=scope == "user")
    if as_json:
        print_json({
            "file": file,
            "commits": erased.commits,
            "files": [*erased.files],
            "left": [*erased.left],
            "sessions": [*sessions],
        })  # fmt: skip
    else:
        been = f"it had been in {erased.commits:,} commit{'s' * (erased.commits != 1)}"
        print(printable(f"erased {file}: {been}"))
        if erased.left:
            print_error(f"still named in {', '.join(erased.left)}; edit those by hand")
        if sessions:
            print_error(
                f"the logs of these sessions name it: {', '.join(sessions)}; see `nacre sessions show`"
            )
        if not erased.left and not sessions:
            print("Nothing of it is left.")
    return 1 if erased.left or sessions else 0


def _mentions(options: RunOptions, file: str, *, everywhere: bool) -> list[str]:
    """The sessions whose logs name the file."""
    from nacre.store.sessions import Sessions

    settings = load_settings(options)
    cwd = None if everywhere else settings.cwd
    # `tea.md` is not named where `green_tea.md` is.
    hits = Sessions(settings.home).search(rf"(?<![\w.-]){re.escape(file)}", regex=True, cwd=cwd)
    return list(dict.fromkeys(hit.session for hit in hits))
