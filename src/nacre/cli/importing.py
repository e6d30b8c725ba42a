"""`nacre sessions import`: recordings of Claude Code and other programs become sessions of ours."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nacre.cli.checking import problem_json
from nacre.cli.options import RunOptions, load_settings
from nacre.cli.output import print_error, print_json, printable
from nacre.cli.progress import progress_line
from nacre.errors import NacreError
from nacre.messages.blocks import JsonObject

if TYPE_CHECKING:
    from nacre.agents.importing import Imported

SHOWN_SESSIONS = 10
"""So many sessions of one import are listed one by one."""


@click.command("import")
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path(path_type=Path))
@click.option(
    "--cwd",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="The directory the sessions belong to (default: the one they name, else this one).",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_obj
def import_(options: RunOptions, /, files: tuple[Path, ...], *, cwd: Path | None, as_json: bool) -> int:
    """Take recorded sessions into nacre, gzipped or not.

    Reads Claude Code logs (kept byte for byte), lists of Anthropic or OpenAI messages, and recorded runs of
    tau-bench, SWE-agent and OpenHands. Nothing that is there already is overwritten.
    """
    from nacre.agents.importing import Place, import_file

    settings = load_settings(options)
    place = Place(home=settings.home, here=settings.cwd, cwd=cwd.absolute() if cwd else None)
    imported: list[Imported] = []
    errors: list[JsonObject] = []
    for number, path in enumerate(files, start=1):
        label = f"importing {path.name}" + f" ({number} of {len(files)})" * (len(files) > 1)
        try:
            with progress_line(label) as progress:
                imported += import_file(path, place, progress=progress)
        except NacreError as error:
            # One bad file among many is no reason to leave the others out.
            print_error(str(error))
            errors.append({"file": str(path), "message": str(error)})
    if imported and as_json:
        print_json(_as_json(imported, errors))
    elif imported:
        _print_imported(imported)
    return 1 if errors else 0


def _as_json(imported: list[Imported], errors: list[JsonObject]) -> JsonObject:
    return {
        "session": imported[0].session,
        "records": sum(each.records for each in imported),
        "messages": sum(each.messages for each in imported),
        "problems": [
            {**problem_json(problem), "session": each.session}
            for each in imported
            for problem in each.problems
        ],
        "sessions": [
            {
                "session": each.session,
                "records": each.records,
                "messages": each.messages,
                "problems": [problem_json(problem) for problem in each.problems],
                "status": each.status,
                "notices": [*each.notices],
                "format": each.form,
                "cwd": each.cwd,
                "path": str(each.path),
            }
            for each in imported
        ],
        "errors": [*errors],
    }


def _print_imported(imported: list[Imported]) -> None:
    for each in imported[:SHOWN_SESSIONS]:
        word = "unchanged" if each.status == "unchanged" else "imported"
        print(printable(f"{word} {each.session}  {each.messages:,} messages  {each.cwd}  ({each.form})"))
        for notice in each.notices:
            print(printable(f"  {notice}"))
    if len(imported) > SHOWN_SESSIONS:
        print(f"... and {len(imported) - SHOWN_SESSIONS:,} more sessions")
    kinds = Counter(problem.kind for each in imported for problem in each.problems)
    if kinds:
        counted = ", ".join(f"{count:,} {kind}" for kind, count in kinds.most_common())
        total = f"{kinds.total():,} problem{'s' * (kinds.total() != 1)}"
        print(f"{total}: {counted}  (`nacre sessions check FILE` lists them)")
    new = next((each for each in imported if each.status != "unchanged"), imported[0])
    print(f"See one with `nacre sessions show {new.session[:8]}`.")
