"""`nacre sessions import` and `export`: import recordings of other programs, write a session out."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nacre.cli.options import RunOptions, find_session, load_settings
from nacre.cli.output import is_terminal, print_error, print_json, printable, progress_line
from nacre.cli.sessions.check import problem_json
from nacre.errors import ForeignTranscript, NacreError
from nacre.formatting import visible
from nacre.messages.blocks import JsonObject

if TYPE_CHECKING:
    from nacre.inspect.import_sessions import ImportDestination, ImportedSession

SHOWN_SESSIONS = 10
"""Sessions of one import listed individually."""
SHOWN_FILES = 3
"""Files without a session that are named."""


@dataclass(slots=True)
class _ImportReport:
    """Results so far."""

    imported: list[ImportedSession] = field(default_factory=list)
    errors: list[JsonObject] = field(default_factory=list)
    passed: list[str] = field(default_factory=list)
    """Files of a folder in another format."""
    apart: int = 0
    """Logs of sub-agents in a folder, which would be sessions beside their parent."""


@click.command("import")
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path(path_type=Path))
@click.option(
    "--cwd",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Directory of the sessions (default: the one they name, else this one).",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_obj
def import_(options: RunOptions, /, files: tuple[Path, ...], *, cwd: Path | None, as_json: bool) -> int:
    """Import recorded sessions, gzipped or not.

    Reads Claude Code logs (copied byte for byte), lists of Anthropic or OpenAI messages, and recorded runs of
    tau-bench, SWE-agent and OpenHands. Nothing is overwritten. FILE may be a folder: all transcripts in and
    below it are imported, except those of sub-agents, which can be named individually.
    """
    from nacre.inspect.import_sessions import ImportDestination

    settings = load_settings(options)
    place = ImportDestination(home=settings.home, here=settings.cwd, cwd=cwd.absolute() if cwd else None)
    report = _ImportReport()
    wanted = list(_wanted(files, report))
    for number, (path, is_named) in enumerate(wanted, start=1):
        label = f"importing {path.name}" + f" ({number:,} of {len(wanted):,})" * (len(wanted) > 1)
        _take(path, place, report, label=label, is_named=is_named)
    if report.imported and as_json:
        imported = report.imported
        print_json(
            {
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
                "errors": [*report.errors],
                "passed_over": [*report.passed],
                "subagents_left_out": report.apart,
            }
        )
    elif report.imported:
        _print_imported(report.imported)
    if not as_json:
        if report.passed:
            names = ", ".join(Path(one).name for one in report.passed[:SHOWN_FILES])
            more = f" and {len(report.passed) - SHOWN_FILES:,} more" * (len(report.passed) > SHOWN_FILES)
            print_error(f"skipped, because they contain no transcript: {printable(names)}{more}")
        if report.apart:
            logs = f"{report.apart:,} log{'s' * (report.apart != 1)} of sub-agents"
            print_error(f"skipped: {logs}; name one to import it")
    return 1 if report.errors else 0


def _wanted(files: Iterable[Path], report: _ImportReport) -> Iterator[tuple[Path, bool]]:
    """Yield every file that may hold a session, and whether it was named explicitly."""
    from nacre.inspect.import_sessions import SUBAGENT_PREFIX
    from nacre.inspect.sources import files_in

    for path in files:
        if not path.is_dir():
            yield path, True
            continue
        inside = files_in(path)
        sessions = [one for one in inside if not one.name.startswith(SUBAGENT_PREFIX)]
        report.apart += len(inside) - len(sessions)
        if not sessions:
            _fail(report, path, f"{path} holds no transcript; name a folder with .jsonl or .json files")
        yield from ((one, False) for one in sessions)


def _take(path: Path, place: ImportDestination, report: _ImportReport, *, label: str, is_named: bool) -> None:
    from nacre.inspect.import_sessions import import_file

    try:
        with progress_line(label) as progress:
            report.imported += import_file(path, place, progress=progress)
    except NacreError as error:
        # One bad file among many must not stop the others.
        if isinstance(error, ForeignTranscript) and not is_named:
            report.passed.append(str(path))
        else:
            _fail(report, path, str(error))


def _fail(report: _ImportReport, path: Path, why: str) -> None:
    print_error(why)
    report.errors.append({"file": str(path), "message": why})


def _print_imported(imported: list[ImportedSession]) -> None:
    for each in imported[:SHOWN_SESSIONS]:
        word = "unchanged" if each.status == "unchanged" else "imported"
        print(printable(f"{word} {each.session}  {each.messages:,} messages  {each.cwd}  ({each.form})"))
        for notice in each.notices:
            print(printable(f"  {notice}"))
    if len(imported) > SHOWN_SESSIONS:
        print(f"... and {len(imported) - SHOWN_SESSIONS:,} more sessions")
    if len(imported) > 1:
        old = sum(each.status == "unchanged" for each in imported)
        print(f"{len(imported) - old:,} imported" + f", {old:,} already existed" * bool(old))
    kinds = Counter(problem.kind for each in imported for problem in each.problems)
    if kinds:
        counted = ", ".join(f"{count:,} {kind}" for kind, count in kinds.most_common())
        total = f"{kinds.total():,} problem{'s' * (kinds.total() != 1)}"
        print(f"{total}: {counted}  (`nacre sessions check FILE` lists them)")
    new = next((each for each in imported if each.status != "unchanged"), imported[0])
    print(f"See one with `nacre sessions show {new.session[:8]}`.")


@click.command()
@click.argument("session", metavar="ID")
@click.option(
    "--format",
    "form",
    type=click.Choice(["md", "jsonl"]),
    default="md",
    show_default=True,
    help="Markdown, or the bytes of the log.",
)
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Output file (default: stdout)."
)
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@click.option("--keep-secrets", is_flag=True, help="Keep credentials, which are otherwise removed.")
@click.pass_obj
def export(
    options: RunOptions, /, session: str, *, output: Path | None, force: bool, **how: str | bool
) -> None:
    """Write a session as Markdown or JSONL, to stdout or to a file.

    Credentials are replaced by the name of their kind, unless --keep-secrets is given.
    """
    from nacre.inspect.export import new_file

    path = find_session(load_settings(options), session)
    pieces = _pieces(path, form=str(how["form"]), keeps_secrets=bool(how["keep_secrets"]))
    if output is None or str(output) == "-":
        if is_terminal():
            print(visible(b"".join(pieces).decode(errors="replace")))
            return
        for piece in pieces:
            sys.stdout.buffer.write(piece)
        sys.stdout.buffer.flush()
        return
    with new_file(output, replaces=force) as file:
        for piece in pieces:
            file.write(piece)
    print(printable(f"wrote {output} ({output.stat().st_size:,} bytes)"))


def _pieces(path: Path, *, form: str, keeps_secrets: bool) -> Iterator[bytes]:
    from nacre.inspect.export import log_bytes, redacted_bytes

    if form == "jsonl":
        return log_bytes(path) if keeps_secrets else redacted_bytes(path)
    return _markdown(path, keeps_secrets=keeps_secrets)


def _markdown(path: Path, *, keeps_secrets: bool) -> Iterator[bytes]:
    from nacre.inspect.export import markdown
    from nacre.memory.secrets import redact
    from nacre.session.read_session import read_log, stream
    from nacre.store.summaries import summarise

    loaded = read_log(path)
    for piece in markdown(summarise(path), loaded.records if loaded else stream(path)):
        yield (piece if keeps_secrets else redact(piece)).encode(errors="replace")
