"""`nacre memory move`, `export` and `sync`: move a memory, copy all, synchronise them (M18, M18b)."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nacre.cli.memory.open import SCOPES, by_hand, json_option, place, read_only, run, scope_option, writable
from nacre.cli.options import RunOptions, load_settings
from nacre.cli.output import print_error, print_json, printable
from nacre.errors import StoreError

if TYPE_CHECKING:
    from nacre.memory.team.sync import SyncReport

DEFAULT_EXPORT = "nacre-memory.tar.gz"
TEAM = "team"


@click.command(short_help="Move a memory to another scope.")
@click.argument("name")
@click.option("--to", "target", type=click.Choice(SCOPES), required=True, help="Target scope.")
@click.option(
    "--from", "source", type=click.Choice(SCOPES), help="Current scope (default: where it is found)."
)
@click.option("--trust", is_flag=True, help="Confirm an untrusted memory, so that the team may get it.")
@json_option
@click.pass_obj
def move(
    options: RunOptions, /, name: str, *, target: str, source: str | None, trust: bool, as_json: bool
) -> int:
    """Move a memory between this project, all projects and the team: one commit in each place."""
    from nacre.memory.transfer.move import MOVED
    from nacre.memory.transfer.move import move as carry

    source = source or run(_where(options, name, target))
    if source == target:
        raise click.UsageError(f"it is already in {target} memory; name another scope")
    change = by_hand(f"{MOVED}{source} to {target}")
    opened = run(writable(options, source))
    there = run(writable(options, target))
    moved = run(carry(name, source=opened, target=there, change=change, is_trusted=trust))
    if as_json:
        print_json({"file": moved.file, "was": moved.was, "removed": moved.removed, "added": moved.added})
        return 0
    print(printable(f"moved {moved.was} to {there.location.directory / moved.file}"))
    if not moved.added:
        print_error("the same memory already existed there")
    if TEAM in {source, target}:
        print(f"`nacre memory sync` {'removes it for' if source == TEAM else 'shares it with'} all members.")
    return 0


async def _where(options: RunOptions, name: str, target: str) -> str:
    """Return the one scope that has it, by exact name, else by words; several are an error."""
    from nacre.memory.memory import entries_named, single_match

    memories = {scope: await read_only(options, scope) for scope in SCOPES if scope != target}
    entries = {scope: await one.list() for scope, one in memories.items()}
    found = [scope for scope, there in entries.items() if entries_named(name, there)]
    for scope, there in entries.items() if not found else ():
        with suppress(StoreError):
            single_match(name, there)
            found.append(scope)
    if not found:
        raise StoreError(
            f"no memory matches {name!r} in {' or '.join(entries)} memory; see `nacre memory list`"
        )
    if len(found) > 1:
        raise StoreError(f"{name!r} is in {' and '.join(found)} memory; choose with --from")
    return found[0]


@click.command(short_help="Copy all memories to a folder or file.")
@click.argument("target", required=False, type=click.Path(path_type=Path), metavar="[DIR|FILE.tar.gz]")
@click.option("--keep-secrets", is_flag=True, help="Keep credentials, which are otherwise removed.")
@click.option("--force", is_flag=True, help="Overwrite existing files.")
@scope_option
@json_option
@click.pass_obj
def export(
    options: RunOptions, /, target: Path | None, *, keep_secrets: bool, force: bool, scope: str, as_json: bool
) -> int:
    """Copy every memory and the index, byte for byte, into a folder or a compressed file.

    Without a target, into nacre-memory.tar.gz here. Credentials are replaced by the name of their kind,
    unless --keep-secrets is given.
    """
    from nacre.memory.transfer.export import export as write

    opened = run(read_only(options, scope))
    done = write(opened.location, target or Path(DEFAULT_EXPORT), redacts=not keep_secrets, replaces=force)
    if done.secrets:
        print_error(f"{', '.join(done.secrets)} may contain a credential, which was exported")
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


@click.command(short_help="Synchronise memory with a team or your other machines.")
@click.option(
    "--scope",
    type=click.Choice(SCOPES),
    help="The team's memory, or your own of all projects or of this one; by default the team's if "
    "memory.teamRemote is set, else yours of all projects.",
)
@click.option("--remote", metavar="URL", help="Where, in place of the setting.")
@click.option("--name", default="", help="What your other machines call this project; by default its origin.")
@click.option("--dry-run", is_flag=True, help="Show what would be done without doing it.")
@json_option
@click.pass_obj
def sync(
    options: RunOptions, /, *, scope: str | None, remote: str | None, name: str, dry_run: bool, as_json: bool
) -> int:
    """Merge what was saved and forgotten elsewhere, and send your changes.

    The place is the setting memory.teamRemote for the team: a git remote of the project by name, an address,
    or folder:/path; for your own memories memory.syncRemote: the address of a private git repository,
    folder:/path, or server:https://… with the key in NACRE_SERVER_KEY. If both sides changed a memory, both
    texts are kept; memories with a credential and local-only ones are not sent. Exit code 1 if something
    needs your attention.
    """
    given = load_settings(options).memory
    scope = scope or (TEAM if given.team_remote or not (remote or given.sync_remote) else "user")
    if name and scope != "project":
        raise click.UsageError("--name is for --scope project")
    report = run(_synced(options, scope, remote=remote, name=name, is_dry=dry_run))
    if as_json:
        print_json(
            {
                "pulled": [*report.pulled],
                "pushed": [*report.pushed],
                "deleted": [*report.deleted],
                "withdrawn": [*report.withdrawn],
                "merged": [*report.merged],
                "conflicts": [
                    {"file": each.file, "copy": each.copy or None, "why": each.why}
                    for each in report.conflicts
                ],
                "refused": [{"file": each.file, "why": each.why} for each in report.refused],
                "stayed": [*report.stayed],
                "commit": report.commit,
                "dry_run": dry_run,
            }
        )
    else:
        _print_report(report, scope, would="would be " if dry_run else "")
    for conflict in report.conflicts:
        print_error(f"conflict: {conflict.file} was {conflict.why}")
    for each in report.refused:
        print_error(f"refused: {each.file} {each.why}")
    return 1 if report.conflicts or report.refused else 0


def _print_report(report: SyncReport, scope: str, *, would: str) -> None:
    others = "for all members" if scope == TEAM else "for your other machines"
    for what, files in (
        ("pulled", report.pulled),
        ("pushed", report.pushed),
        ("forgotten here, as by others" if scope == TEAM else "forgotten here, as there", report.deleted),
        (f"forgotten {others}", report.withdrawn),
        ("kept on this machine (local-only)", report.stayed),
    ):
        for file in files:
            print(printable(f"{would}{what}: {file}"))
    if not (report.pulled or report.pushed or report.deleted or report.withdrawn):
        print("Nothing to do: both sides are the same.")
    if report.commit:
        reach = "" if scope == "project" else f" --scope {scope}"
        print(f"`nacre memory undo{reach} {report.commit[:10]}` undoes the changes received.")


async def _synced(
    options: RunOptions, scope: str, *, remote: str | None, name: str, is_dry: bool
) -> SyncReport:
    from nacre.app.sync_memory import memory_remote
    from nacre.memory.team.sync import sync as bring_in_step

    given = load_settings(options).memory
    setting = remote or (given.team_remote if scope == TEAM else given.sync_remote)
    shared = await memory_remote(setting, place(options, scope), name=name)
    opened = await (read_only(options, scope) if is_dry else writable(options, scope))
    return await bring_in_step(opened.location, shared, is_dry=is_dry)
