"""`nacre memory review`: accept, edit or reject proposed memories (E7)."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from nacre.app.editor import edited_by_hand
from nacre.cli.memory.open import json_option, place, run, scope_option, writable
from nacre.cli.options import RunOptions
from nacre.cli.output import has_colour, is_terminal, print_error, print_json, print_table, printable
from nacre.errors import StoreError
from nacre.inspect.memory_origin import SHORT_COMMIT
from nacre.messages.blocks import JsonObject

if TYPE_CHECKING:
    from nacre.memory.checks.review import Proposal
    from nacre.memory.memory import Memory

ASK = "  [a]ccept, [e]dit, [r]eject, [S]kip, [q]uit: "
_COLOURS = {"+": "green", "-": "red"}


@dataclass(frozen=True, slots=True)
class _Done:
    """The results so far."""

    accepted: list[tuple[str, str, str]] = field(default_factory=list)
    """Id, file and commit."""
    rejected: list[tuple[str, str]] = field(default_factory=list)


@click.command(short_help="Accept or reject proposed memories.")
@click.option("--accept", "accepts", metavar="ID", multiple=True, help="Make this proposal a memory.")
@click.option("--reject", "rejects", metavar="ID", multiple=True, help="Drop this proposal.")
@click.option("--all", "everything", is_flag=True, help="Accept all proposals.")
@click.option("--rebase", is_flag=True, help="Also if the memory has changed since the proposal.")
@scope_option
@json_option
@click.pass_obj
def review(options: RunOptions, /, **given: str | bool | tuple[str, ...]) -> int:
    """Review proposed memories; one by one in a terminal, else as a list.

    Memories are proposed instead of saved if the setting `extract.mode` is `suggest`.
    """
    from nacre.memory.checks.review import waiting

    scope = str(given["scope"])
    as_json = bool(given["as_json"])
    rebase = bool(given["rebase"])
    found = waiting(place(options, scope))
    accepts = [one.id for one in found] if given["everything"] else list(_ids(given["accepts"]))
    rejects = list(_ids(given["rejects"]))
    if accepts or rejects:
        done = run(_by_id(options, scope, accepts, rejects, rebase=rebase))
        _print_result(done, as_json=as_json)
        return 0
    if as_json:
        print_json([one.as_json() for one in found])
    elif not found:
        print_error("there are no proposals to review")
    elif is_terminal(sys.stdin) and is_terminal():
        _one_by_one(options, scope, found, rebase=rebase)
    else:
        _list(found)
    return 0


def _ids(given: str | bool | tuple[str, ...]) -> tuple[str, ...]:
    return cast("tuple[str, ...]", given)


async def _by_id(
    options: RunOptions, scope: str, accepts: Sequence[str], rejects: Sequence[str], *, rebase: bool
) -> _Done:
    from nacre.memory.checks.review import accept, find, reject

    opened = await writable(options, scope)
    done = _Done()
    for wanted in rejects:
        one = reject(opened.location, wanted)
        done.rejected.append((one.id, one.file))
    for wanted in accepts:
        one = find(opened.location, wanted)
        commit = await accept(opened, one.id, rebase=rebase)
        done.accepted.append((one.id, one.file, commit))
    return done


def _one_by_one(options: RunOptions, scope: str, found: Sequence[Proposal], *, rebase: bool) -> None:
    from nacre.memory.checks.review import accept, reject

    opened = run(writable(options, scope))
    done = _Done()
    for number, one in enumerate(found, 1):
        _show(one, f"{number} of {len(found)}")
        word = _answer()
        try:
            if word == "a":
                done.accepted.append((one.id, one.file, run(accept(opened, one.id, rebase=rebase))))
            elif word == "e":
                done.accepted.append((one.id, one.file, _edited(opened, one)))
            elif word == "r":
                reject(opened.location, one.id)
                done.rejected.append((one.id, one.file))
        except StoreError as error:
            print_error(str(error))
        if word == "q":
            break
    _print_result(done, as_json=False)


def _answer() -> str:
    try:
        return input(ASK).strip().lower()[:1] or "s"
    except EOFError:
        print()
        return "q"


def _edited(opened: Memory, one: Proposal) -> str:
    from nacre.memory.checks.review import accept

    with tempfile.TemporaryDirectory(prefix="nacre-") as folder:
        copy = Path(folder) / Path(one.file).name
        copy.write_bytes(one.after or b"")
        edited_by_hand(copy)
        return run(accept(opened, one.id, edited=copy.read_bytes()))


def _show(one: Proposal, where: str) -> None:
    print(printable(f"{one.id}  {one.file}  ({one.what}, {one.author}, {where})"))
    colour = has_colour()
    for line in one.diff():
        click.secho(f"  {printable(line)}", fg=_COLOURS.get(line[:1]) if colour else None, color=colour)


def _list(found: Sequence[Proposal]) -> None:
    rows = []
    for one in found:
        when = one.made_at.astimezone().strftime("%Y-%m-%d %H:%M") if one.made_at else "-"
        rows.append([one.id, when, one.what, one.author, one.file])
    print_table(rows, header=["id", "when", "what", "author", "file"])
    print("`nacre memory review --accept ID` keeps one, `--reject ID` drops it, `--all` keeps all")


def _print_result(done: _Done, *, as_json: bool) -> None:
    if as_json:
        accepted: list[JsonObject] = [
            {"id": one, "file": file, "commit": commit} for one, file, commit in done.accepted
        ]
        rejected: list[JsonObject] = [{"id": one, "file": file} for one, file in done.rejected]
        print_json({"accepted": [*accepted], "rejected": [*rejected]})
        return
    for _, file, commit in done.accepted:
        print(printable(f"saved {file} (undo: nacre memory undo {commit[:SHORT_COMMIT]})"))
    for _, file in done.rejected:
        print(printable(f"rejected what was proposed for {file}"))
