"""`nacre sessions check`: list problems of a session or a transcript file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from nacre.cli.options import RunOptions, find_session, load_settings
from nacre.cli.output import print_error, print_json, printable, progress_line
from nacre.messages.blocks import JsonObject

if TYPE_CHECKING:
    from nacre.inspect.credentials import Flagged
    from nacre.inspect.import_sessions import SessionCheck
    from nacre.messages.records import LogProblem
    from nacre.settings import Settings


@click.command(short_help="Report problems of a session or a file.")
@click.argument("target", metavar="ID|FILE")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_obj
def check(options: RunOptions, /, target: str, *, as_json: bool) -> int:
    """List problems of a session or a transcript file; exit code 1 if there are any.

    Torn, repeated or unreadable lines, broken chains, calls and results without a counterpart: the session
    loads anyway. Accepts any file that `import` does. Credentials in the log, or in a session's tool results
    and notes, are listed by kind and line, never by value.
    """
    from nacre.inspect.import_sessions import check_file

    path, session = _target(load_settings(options), target)
    with progress_line(f"checking {path.name}") as progress:
        form, found = check_file(path, session=session, progress=progress)
    secrets = _secrets(path, is_session=session is not None)
    total = sum(len(each.problems) for each in found)
    if as_json:
        ok = not total and not secrets
        print_json(
            {
                **_as_json(path, form, found),
                "ok": ok,
                "secrets": [{"path": str(one.path), "line": one.line, "kind": one.kind} for one in secrets],
            }
        )
    else:
        for each in found:
            if each.problems and len(found) > 1:
                print(f"session {each.session}")
            for problem in each.problems:
                where = f"{problem.where}: " if problem.where else ""
                print(printable(f"{where}{problem.message} [{problem.kind}]"))
        records = sum(each.records for each in found)
        messages = sum(each.messages for each in found)
        sessions = f"{len(found):,} sessions, " if len(found) > 1 else ""
        said = f"{printable(path.name)} ({form}): {sessions}{records:,} records, {messages:,} messages"
        if not records:
            print_error(f"{said}; it is empty")
        print(f"{said}, {total:,} problem{'s' * (total != 1)}" if total else f"{said}, no problems")
        for one in secrets:
            print_error(f"{one} in plain text; `nacre sessions export` removes it from exports")
    return 1 if total or secrets else 0


def _secrets(path: Path, *, is_session: bool) -> list[Flagged]:
    from nacre.inspect.credentials import Flagged, files_of, flagged_in, flagged_lines
    from nacre.inspect.sources import open_source

    with progress_line("looking for credentials") as progress, open_source(path, progress=progress) as source:
        found = [Flagged(path=path, line=line, kind=kind) for line, kind in flagged_lines(source.lines)]
    beside = [each for each in files_of(path) if each != path] if is_session else []
    return [*found, *(one for each in beside for one in flagged_in(each))]


def _target(settings: Settings, target: str) -> tuple[Path, str | None]:
    """Return the file of that name, else the session with that id."""
    from nacre.errors import SessionNotFound

    path = Path(target)
    if path.exists() or "/" in target:
        return path, None
    try:
        log = find_session(settings, target)
    except SessionNotFound as error:
        raise SessionNotFound(f"{error} (and there is no file of that name)") from None
    return log, log.stem


def problem_json(problem: LogProblem) -> JsonObject:
    return {"kind": problem.kind, "where": problem.where, "message": problem.message}


def _as_json(path: Path, form: str, found: list[SessionCheck]) -> JsonObject:
    return {
        "file": str(path),
        "format": form,
        "ok": not any(each.problems for each in found),
        "session": found[0].session if found else None,
        "records": sum(each.records for each in found),
        "messages": sum(each.messages for each in found),
        "problems": [
            {**problem_json(problem), "session": each.session} for each in found for problem in each.problems
        ],
        "sessions": [
            {
                "session": each.session,
                "records": each.records,
                "messages": each.messages,
                "problems": len(each.problems),
            }
            for each in found
        ],
    }
