"""`nacre memory log`, `diff`, `undo`, `why` and `confirm`: show, undo and confirm changes (M15)."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

import click

from nacre.cli.memory.open import by_hand, json_option, read_only, run, scope_option, writable
from nacre.cli.options import RunOptions, load_settings
from nacre.cli.output import has_colour, print_error, print_json, print_table, printable
from nacre.errors import StoreError, VersionConflict
from nacre.inspect.memory_json import commit_json
from nacre.inspect.memory_origin import SHORT_COMMIT, author_shown, origin_lines
from nacre.messages.blocks import JsonObject

if TYPE_CHECKING:
    from nacre.memory.files.undo import ConfirmResult
    from nacre.memory.memory import Memory
    from nacre.store.history import Commit

SHOWN_FILES = 3
_COLOURS = {"+": "green", "-": "red", "@": "cyan"}


@click.command(short_help="List changes, newest first.")
@click.argument("name", required=False)
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="Maximum number.")
@click.option("--unconfirmed", is_flag=True, help="Only unconfirmed edits.")
@scope_option
@json_option
@click.pass_obj
def log(options: RunOptions, /, name: str | None, **given: str | int | bool) -> int:
    """List changes of memory with author and reason, newest first; with NAME only those of that memory.

    An edit made outside of nacre while an agent was running is `unconfirmed` until `nacre memory confirm`.
    """
    from nacre.memory.files.undo import unconfirmed_changes, unconfirmed_commits

    opened = run(read_only(options, str(given["scope"]), picks_up=True))
    file = run(known_file(opened, name)) if name else None
    limit = int(given["limit"])
    only = bool(given["unconfirmed"])
    if only:
        found = unconfirmed_commits(opened.location)
        commits = [each for each in found if file is None or file in each.files][:limit]
    else:
        commits = run(opened.log(limit=limit, file=file))
    confirmed = unconfirmed_changes(opened.location).confirmed
    if given["as_json"]:
        print_json([commit_json(each, confirmed) for each in commits])
    elif commits:
        header = ["commit", "when", "author", "reason", "files"]
        print_table([_row(each, confirmed) for each in commits], header=header)
    else:
        print_error("nothing is unconfirmed" if only else "nothing was changed yet")
    return 0


async def known_file(opened: Memory, name: str) -> str:
    """Return the file of an existing or deleted memory."""
    for file in (name, f"{name}.md"):
        if await opened.log(limit=1, file=file):
            return file
    return (await opened.find(name)).file


def _row(each: Commit, confirmed: Collection[str]) -> list[str]:
    more = f" and {len(each.files) - SHOWN_FILES} more" if len(each.files) > SHOWN_FILES else ""
    when = each.at.astimezone().strftime("%Y-%m-%d %H:%M")
    files = ", ".join(each.files[:SHOWN_FILES]) + more
    reason = each.reason.partition("\n")[0]
    return [each.id[:SHORT_COMMIT], when, author_shown(each, confirmed), reason, files]


@click.command(short_help="Show what a commit changed.")
@click.argument("commit", required=False)
@scope_option
@json_option
@click.pass_obj
def diff(options: RunOptions, /, commit: str | None, *, scope: str, as_json: bool) -> int:
    """Show what a commit of `nacre memory log` changed; without one, the newest."""
    opened = run(read_only(options, scope, picks_up=True))
    newest = run(opened.log(limit=1))
    if not newest:
        raise StoreError("nothing was changed yet, so there is nothing to compare")
    wanted = commit or newest[0].id
    changed = run(opened.diff(wanted))
    if as_json:
        rows: list[JsonObject] = [{"file": each.file, "diff": each.text} for each in changed]
        print_json({"commit": wanted, "files": [*rows]})
        return 0
    colour = has_colour()
    for each in changed:
        for line in each.text.splitlines():
            style = _COLOURS.get(line[:1]) if colour else None
            click.secho(printable(line), fg=style, color=colour)
    return 0


@click.command(short_help="Undo a change.")
@click.argument("commit", required=False)
@scope_option
@json_option
@click.pass_obj
def undo(options: RunOptions, /, commit: str | None, *, scope: str, as_json: bool) -> int:
    """Undo a commit of `nacre memory log`; without one, the newest that is not undone.

    Repeat it to go further back; to undo an undo, name its commit. Later changes stay, and a move is undone
    in both places.
    """
    return run(_undo(options, commit, scope=scope, as_json=as_json))


async def _undo(options: RunOptions, commit: str | None, *, scope: str, as_json: bool) -> int:
    from nacre.memory.files.transaction import pick_up
    from nacre.memory.files.undo import newest_in_force
    from nacre.store.history import History

    opened = await writable(options, scope)
    # Edits made outside of nacre are the newest change.
    newest = await pick_up(opened.location)
    history = History(opened.location.history)
    undone = history.one(commit) if commit and newest else newest_in_force(opened.location)
    made = await _taken_back(options, opened, undone, scope=scope)
    if as_json:
        print_json({"undone": undone.id, "commit": made, "files": [*undone.files]})
    elif made == newest:
        print_error(f"{undone.id[:SHORT_COMMIT]} is undone already")
    else:
        reason = undone.reason.partition("\n")[0]
        files = f": {', '.join(undone.files)}" if undone.files else ""
        print(printable(f"undid {undone.id[:SHORT_COMMIT]} ({reason}){files}"))
        if undone.files:
            where = "" if scope == "project" else f" --scope {scope}"
            print(printable(f"`nacre memory undo {made[:SHORT_COMMIT]}{where}` brings it back."))
    return 0


async def _taken_back(options: RunOptions, opened: Memory, undone: Commit, *, scope: str) -> str:
    """Undo a change, a move in both places; returns the commit."""
    from nacre.memory.transfer.move import move_scopes, other_side

    sides = move_scopes(undone)
    if sides is None or scope not in {sides.source, sides.target}:
        return await _reversed(opened, undone)
    other = sides.other(scope)
    there = await writable(options, other)
    twin = other_side(undone, opened.location, there.location)
    # The place it returns to comes first: a failure in between leaves it twice, never nowhere.
    comes_back = sides.target if sides.is_back else sides.source
    if twin is not None and other == comes_back:
        await _reversed(there, twin)
    made = await _reversed(opened, undone)
    if twin is not None and other != comes_back:
        try:
            await _reversed(there, twin)
        except VersionConflict:
            print_error(
                f"its copy in {other} memory changed since and stays; see `nacre memory list --scope {other}`"
            )
    return made


async def _reversed(opened: Memory, undone: Commit) -> str:
    from nacre.memory.files.undo import undo as take_back

    change = by_hand(f"undo {undone.id[:SHORT_COMMIT]}: {undone.reason}")
    return await take_back(opened.location, undone.id, change=change)


MOST_CHANGES = 10_000
"""More changes than any memory has: the whole history is shown."""


@click.command(short_help="Show the origin of a memory.")
@click.argument("name")
@scope_option
@json_option
@click.pass_obj
def why(options: RunOptions, /, name: str, *, scope: str, as_json: bool) -> int:
    """Show who wrote a memory, when and why, and the words it came from if a log still has them."""
    from nacre.inspect.original_words import original_words
    from nacre.memory.files.folder import Folder
    from nacre.memory.files.undo import unconfirmed_changes
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


@click.command(short_help="Confirm memories and edits.")
@click.argument("wanted", nargs=-1, metavar="[MEMORY|COMMIT]...")
@click.option("--all", "everything", is_flag=True, help="All unverified memories and unconfirmed edits.")
@scope_option
@json_option
@click.pass_obj
def confirm(
    options: RunOptions, /, wanted: tuple[str, ...], *, everything: bool, scope: str, as_json: bool
) -> int:
    """Confirm unverified memories and unconfirmed edits; the name of a memory confirms both.

    A memory is unverified if an agent saved it after it had read text from outside, and nothing you typed
    says so; `nacre memory review` shows those. An edit is unconfirmed if it was made outside of nacre while
    an agent was running; `nacre memory log --unconfirmed` lists those, `nacre memory diff COMMIT` shows one,
    `nacre memory undo COMMIT` undoes one instead.
    """
    if everything == bool(wanted) or not all(wanted):
        raise click.UsageError("name the memories or commits to confirm, or use --all alone")
    files, done = run(_confirm(options, wanted, scope))
    if as_json:
        confirmed = [one.id for one in done.commits]
        print_json({"confirmed": [*confirmed], "commit": done.commit, "memories": [*files]})
        return 0
    if not done.commits and not files:
        nothing = "no memory is unverified, and no edit is unconfirmed"
        print_error(nothing if everything else "that was confirmed already")
    for file in files:
        print(printable(f"confirmed {file}: recall may attach it from now on"))
    for one in done.commits:
        print(printable(f"confirmed {one.id[:SHORT_COMMIT]}: {', '.join(one.files)}"))
    return 0


async def _confirm(
    options: RunOptions, wanted: tuple[str, ...], scope: str
) -> tuple[list[str], ConfirmResult]:
    """Confirm memories by name and commits by id, or all of both."""
    from nacre.memory.checks.review import confirm as confirm_memory
    from nacre.memory.checks.review import unverified
    from nacre.memory.files.undo import ConfirmResult, unconfirmed_changes
    from nacre.memory.files.undo import confirm as confirm_commits
    from nacre.memory.memory import entries_named

    opened = await writable(options, scope)
    entries = (await opened.scan()).entries
    edits = unconfirmed_changes(opened.location)
    lines = [one.file for one in unverified(opened.location)]
    named = {one: found[0] for one in wanted if (found := entries_named(one, entries))}
    doubtful = [one.file for one in named.values() if not one.is_trusted] if wanted else lines
    doubtful += [one for one in wanted if one in lines and one not in named]
    commits = [each for one in named.values() for each in edits.files.get(one.file, ())]
    for one in wanted:
        if one in named or one in lines:
            continue
        if not _is_commit(opened, one):
            raise StoreError(
                f"no memory and no edit is named {one!r}; `nacre memory review` and `nacre memory log "
                "--unconfirmed` list what can be confirmed"
            )
        commits.append(one)
    for file in doubtful:
        await confirm_memory(opened, file, by_hand("confirmed"))
    if wanted and not commits:
        return doubtful, ConfirmResult(commits=(), commit="")
    return doubtful, await confirm_commits(opened.location, commits)


def _is_commit(opened: Memory, wanted: str) -> bool:
    from nacre.store.history import History

    try:
        History(opened.location.history).one(wanted)
    except StoreError:
        return False
    return True
