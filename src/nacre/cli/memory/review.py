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

MAX_SHOWN_LINES = 20
"""Lines of each proposal in a list."""
ASK = "  [a]ccept, [e]dit, [r]eject, [S]kip, [q]uit: "
_COLOURS = {"+": "green", "-": "red"}


@dataclass(frozen=True, slots=True)
class _Done:
    """The results so far."""

    accepted: list[tuple[Proposal, str]] = field(default_factory=list)
    """Each with its commit."""
    rejected: list[Proposal] = field(default_factory=list)


@click.command(short_help="Accept or reject proposed and unverified memories.")
@click.option(
    "--accept",
    "accepts",
    metavar="ID",
    multiple=True,
    help="Save this proposal, or confirm this memory.",
)
@click.option(
    "--reject", "rejects", metavar="ID", multiple=True, help="Drop this proposal, or forget this one."
)
@click.option("--all", "everything", is_flag=True, help="Accept all of them.")
@click.option("--rebase", is_flag=True, help="Also if the memory has changed since the proposal.")
@scope_option
@json_option
@click.pass_obj
def review(options: RunOptions, /, **given: str | bool | tuple[str, ...]) -> int:
    """Review proposed and unverified memories; one by one in a terminal, else as a list.

    Memories are proposed instead of saved if the setting `extract.mode` is `suggest`. A memory is unverified
    if an agent saved it after it had read text from outside, and nothing you typed says so: to accept it
    confirms it, to reject it forgets it.
    """
    from nacre.memory.checks.review import accept, find, reject, waiting

    scope = str(given["scope"])
    as_json = bool(given["as_json"])
    rebase = bool(given["rebase"])
    found = waiting(place(options, scope))
    accepts = (
        [one.id for one in found] if given["everything"] else list(cast("tuple[str, ...]", given["accepts"]))
    )
    rejects = cast("tuple[str, ...]", given["rejects"])
    done = _Done()
    if accepts or rejects:
        opened = run(writable(options, scope))
        for wanted in rejects:
            done.rejected.append(run(reject(opened, wanted)))
        for wanted in accepts:
            one = find(opened.location, wanted)
            done.accepted.append((one, run(accept(opened, one.id, rebase=rebase))))
        _print_result(done, as_json=as_json)
    elif as_json:
        print_json([one.as_json() for one in found])
    elif not found:
        print_error("there are no proposals to review")
    elif is_terminal(sys.stdin) and is_terminal():
        opened = run(writable(options, scope))
        for number, one in enumerate(found, 1):
            _show(one, f"{number} of {len(found)}")
            if not _decided(opened, one, done, rebase=rebase):
                break
        _print_result(done, as_json=False)
    else:
        _print_list(found)
    return 0


def _print_list(found: Sequence[Proposal]) -> None:
    rows = []
    for one in found:
        when = one.made_at.astimezone().strftime("%Y-%m-%d %H:%M") if one.made_at else "-"
        rows.append([one.id, when, one.what, one.author, one.file])
    print_table(rows, header=["id", "when", "what", "author", "file"])
    for one in found:
        print(printable(f"\n{one.id} {one.file}"))
        for line in one.diff()[:MAX_SHOWN_LINES]:
            print(printable(f"  {line}"))
    print()
    print("`nacre memory review --accept ID` keeps one, `--reject ID` drops it, `--all` keeps all")


def _decided(opened: Memory, one: Proposal, done: _Done, *, rebase: bool) -> bool:
    """Ask about a proposal and do it; returns False if the user quits."""
    from nacre.memory.checks.review import accept, reject

    try:
        word = input(ASK).strip().lower()[:1] or "s"
    except EOFError:
        print()
        word = "q"
    try:
        if word == "a":
            done.accepted.append((one, run(accept(opened, one.id, rebase=rebase))))
        elif word == "e":
            done.accepted.append((one, _edited(opened, one)))
        elif word == "r":
            done.rejected.append(run(reject(opened, one.id)))
    except StoreError as error:
        print_error(str(error))
    return word != "q"


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


def _print_result(done: _Done, *, as_json: bool) -> None:
    if as_json:
        accepted: list[JsonObject] = [
            {"id": one.id, "file": one.file, "commit": commit} for one, commit in done.accepted
        ]
        rejected: list[JsonObject] = [{"id": one.id, "file": one.file} for one in done.rejected]
        print_json({"accepted": [*accepted], "rejected": [*rejected]})
        return
    from nacre.memory.checks.review import rejected_line

    for one, commit in done.accepted:
        did = "confirmed" if one.what == "confirm" else "saved"
        print(printable(f"{did} {one.file} (undo: nacre memory undo {commit[:SHORT_COMMIT]})"))
    for one in done.rejected:
        print(printable(rejected_line(one)))
