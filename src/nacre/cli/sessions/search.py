"""`nacre sessions search`: find text in sessions, by the numbers that `show` prints (T7)."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nacre.cli.options import RunOptions, load_settings
from nacre.cli.output import print_error, print_json, printable
from nacre.messages.blocks import JsonObject

if TYPE_CHECKING:
    from nacre.store.sessions import Hit

SHORT_ID = 8
"""Characters of a session id in output."""
NUMBERED_BYTES = 16_777_216
"""Maximum size of a log after its last compaction whose messages are numbered; more would take longer than
the search."""


@click.command(short_help="Find text in sessions.")
@click.argument("text")
@click.option("--regex", is_flag=True, help="TEXT is a regular expression.")
@click.option("--case", "with_case", is_flag=True, help="Match case.")
@click.option("--all", "everywhere", is_flag=True, help="Search sessions of every directory.")
@click.option("--added", is_flag=True, help="Also search attached text, such as memories.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_obj
def search(options: RunOptions, /, text: str, *, everywhere: bool, as_json: bool, **how: bool) -> int:
    """Find TEXT in the sessions of this directory; exit code 1 if it does not occur.

    A hit is shown with its session and message number, as `nacre sessions show` prints it and `nacre compact
    --from` accepts it. A message that is no longer in view has only a line number in the log.
    """
    from nacre.store.sessions import Sessions

    settings = load_settings(options)
    cwd: Path | None = None if everywhere else settings.cwd
    hits = Sessions(settings.home).search(
        text, regex=how["regex"], ignore_case=not how["with_case"], cwd=cwd, with_added=how["added"]
    )
    rows: list[JsonObject] = []
    count = 0
    numbers = _Numbers()
    for hit in hits:
        count += 1
        number = numbers.of(hit)
        if as_json:
            rows.append(
                {
                    "session": hit.session,
                    "number": number,
                    "line": hit.line,
                    "role": hit.role,
                    "snippet": hit.snippet,
                    "path": str(hit.path),
                }
            )
        else:
            place = f"#{number}" if number else f"line {hit.line}"
            print(f"{hit.session[:SHORT_ID]} {place}  {hit.role or '-'}: {printable(hit.snippet)}")
    if as_json:
        print_json([*rows])
    elif not count:
        hint = "" if everywhere else " of this directory; --all looks in every directory"
        print_error(f"{text!r} occurs in none of the sessions{hint}")
    return 0 if count else 1


@dataclass(slots=True)
class _Numbers:
    """Message numbers of the log that is being searched; hits arrive log by log."""

    path: Path | None = None
    by_record: dict[str, int] = field(default_factory=dict)

    def of(self, hit: Hit) -> int | None:
        if hit.path != self.path:
            self.path, self.by_record = hit.path, _numbered(hit.path)
        return self.by_record.get(hit.record or "")


def _numbered(path: Path) -> dict[str, int]:
    from nacre.errors import NacreError
    from nacre.session.read_session import read_view

    try:
        looked = read_view(path, most=NUMBERED_BYTES)
    except (NacreError, OSError):  # gone since it was searched, or hardly readable: it has its lines
        return {}
    return {item.record_id: number for number, item in enumerate(looked.view.items, 1)} if looked else {}
