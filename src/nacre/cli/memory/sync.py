"""`nacre memory sync`: synchronise the team's memory (M18)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from nacre.cli.memory.open import json_option, place, read_only, run, writable
from nacre.cli.options import RunOptions, load_settings
from nacre.cli.output import print_error, print_json, printable
from nacre.messages.blocks import JsonObject

if TYPE_CHECKING:
    from nacre.memory.team.sync import SyncReport


@click.command(short_help="Synchronise the team's memory.")
@click.option("--dry-run", is_flag=True, help="Show what would be done without doing it.")
@json_option
@click.pass_obj
def sync(options: RunOptions, /, *, dry_run: bool, as_json: bool) -> int:
    """Merge what others saved and forgot in the team's memory, and send your changes.

    The place is the setting memory.teamRemote: a git remote of the project by name, an address, or
    folder:/path. If both sides changed a memory, both texts are kept; memories with a credential are not
    sent. Exit code 1 if something needs your attention.
    """
    report = run(_synced(options, is_dry=dry_run))
    if as_json:
        print_json(_as_json(report, is_dry=dry_run))
    else:
        _print_report(report, is_dry=dry_run)
    for conflict in report.conflicts:
        print_error(f"conflict: {conflict.file} was {conflict.why}")
    for each in report.refused:
        print_error(f"refused: {each.file} {each.why}")
    return 1 if report.conflicts or report.refused else 0


async def _synced(options: RunOptions, *, is_dry: bool) -> SyncReport:
    from nacre.memory.team.choice import remote_of
    from nacre.memory.team.sync import sync as bring_in_step

    setting = load_settings(options).memory.team_remote
    remote = await remote_of(setting, place(options, "team"))
    opened = await (read_only(options, "team") if is_dry else writable(options, "team"))
    return await bring_in_step(opened.location, remote, is_dry=is_dry)


def _as_json(report: SyncReport, *, is_dry: bool) -> JsonObject:
    return {
        "pulled": [*report.pulled],
        "pushed": [*report.pushed],
        "deleted": [*report.deleted],
        "withdrawn": [*report.withdrawn],
        "conflicts": [
            {"file": each.file, "copy": each.copy or None, "why": each.why} for each in report.conflicts
        ],
        "refused": [{"file": each.file, "why": each.why} for each in report.refused],
        "stayed": [*report.stayed],
        "commit": report.commit,
        "dry_run": is_dry,
    }


def _print_report(report: SyncReport, *, is_dry: bool) -> None:
    would = "would be " if is_dry else ""
    for what, files in (
        ("pulled", report.pulled),
        ("pushed", report.pushed),
        ("forgotten here, as by others", report.deleted),
        ("forgotten for everybody", report.withdrawn),
        ("kept on this machine (local-only)", report.stayed),
    ):
        for file in files:
            print(printable(f"{would}{what}: {file}"))
    if not (report.pulled or report.pushed or report.deleted or report.withdrawn):
        print("Nothing to do: both sides are the same.")
    if report.commit:
        print(f"`nacre memory undo --scope team {report.commit[:10]}` undoes the changes received.")
