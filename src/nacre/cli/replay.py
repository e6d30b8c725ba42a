"""`nacre replay`: estimate what recorded sessions would have cost under policies (P7)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from nacre.cli.options import LATEST, RunOptions, find_session, load_settings
from nacre.cli.output import print_json, print_table, printable, progress_line
from nacre.errors import ConfigError

if TYPE_CHECKING:
    from nacre.devtools.replay.run import ReplayTerms
    from nacre.devtools.replay.schema import Recorded
    from nacre.settings import Settings

NAMES = ("none", "truncate", "claude-code", "nacre", "nacre-model", "nacre-tools", "nacre-chat")
DEFAULT_WINDOW = 200_000
"""Window of most recorded sessions; a model with a smaller one lowers it."""
MIN_WINDOW = 8_000
"""No agent's system prompt fits in less."""

Progress = Callable[[int, int], None]
"""Called with the number done and the total."""


@click.command(short_help="Compare the cost of recorded sessions under policies.")
@click.argument("recordings", nargs=-1, required=True, metavar="FILE|FOLDER|ID...")
@click.option(
    "--policy",
    "policies",
    multiple=True,
    type=click.Choice(NAMES),
    help="Policy to compare; may be repeated. Default: all.",
)
@click.option("--model", default=None, metavar="MODEL", help="Model whose prices and cache rules apply.")
@click.option(
    "--window",
    type=click.IntRange(min=MIN_WINDOW),
    default=None,
    metavar="N",
    help=f"Tokens that fit; {DEFAULT_WINDOW:,} without it, or what the model takes.",
)
@click.option(
    "--ttl",
    type=click.Choice(["5m", "1h", "mixed", "auto"]),
    default="5m",
    show_default=True,
    help="Cache TTL.",
)
@click.option("--no-base", is_flag=True, help="Leave out system prompt and tools.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.option("--plot", type=click.Path(path_type=Path), metavar="FILE", help="Write a chart (.svg or .png).")
@click.pass_obj
def replay(
    options: RunOptions,
    /,
    *,
    recordings: tuple[str, ...],
    plot: Path | None,
    as_json: bool,
    **given: str | int | bool | tuple[str, ...] | None,
) -> None:
    """Show what recorded sessions would have cost under policies, and what would have stayed in view.

    Accepts Claude Code logs and every other format of `nacre sessions import`, compressed or not, folders of
    them, and nacre's own sessions by id or as `latest`. No request is sent, and nothing is changed.

    A policy that removes content is charged for fetching it again: that is part of its cost, and is also
    shown in a separate column.
    """
    from nacre.devtools.replay import chart as picture
    from nacre.devtools.replay import report, run
    from nacre.devtools.replay.policies import policy

    settings = load_settings(options)
    if plot is not None:
        picture.check(plot)
    with progress_line("reading") as progress:
        sessions = _read(recordings, settings, progress)
    wanted = _Wanted(**given)  # type: ignore[arg-type]  # click has checked every value
    terms = _terms(wanted, sessions, settings)
    chosen = [name for name in NAMES if not wanted.policies or name in wanted.policies]
    makers = [policy(name, lifetime=wanted.ttl) for name in chosen]
    with progress_line("replaying") as progress:
        done = run.replay(sessions, makers, terms, progress=progress)
    sums = run.totals(done)
    if plot is not None:
        picture.draw(done, plot, terms)
    if as_json:
        print_json(report.as_json(sums, sessions, terms))
        return
    print(f"{len(sessions):,} session{'s' * (len(sessions) != 1)}, {terms.model}, window {terms.window:,}\n")
    for rows, header in (
        (report.rows(sums, terms), report.columns(terms)),
        (report.kept_rows(sums, terms), report.KEPT_COLUMNS),
    ):
        print_table(rows, header=header, right=range(1, len(header)))
        print()
    for line in report.sentences(sums, sessions, terms):
        print(line)
    if plot is not None:
        print(f"The chart is in {printable(str(plot))}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    """Options that set the terms."""

    policies: tuple[str, ...]
    model: str | None
    window: int | None
    ttl: Literal["5m", "1h", "mixed", "auto"]
    no_base: bool


def _terms(wanted: _Wanted, sessions: Sequence[Recorded], settings: Settings) -> ReplayTerms:
    from nacre.cache.models import profile
    from nacre.devtools.replay.recorded import priced_model
    from nacre.devtools.replay.run import ReplayTerms

    model = wanted.model or priced_model(sessions, settings.model)
    window = min(wanted.window or DEFAULT_WINDOW, profile(model).window)
    if not wanted.no_base:
        # Refuse a window that the system prompt alone would fill.
        least = min(one.base_tokens for one in sessions)
        if least >= window:
            raise ConfigError(
                f"system prompt and tools of these sessions take {least:,} tokens, more than a window of "
                f"{window:,}; name a larger --window, or leave them out with --no-base"
            )
    return ReplayTerms(model=model, window=window, with_base=not wanted.no_base)


def _read(recordings: Sequence[str], settings: Settings, progress: Progress | None) -> list[Recorded]:
    """Read every named session; other files of a folder are skipped and counted."""
    from nacre.devtools.replay.recorded import read_recorded
    from nacre.inspect.sources import files_in

    found: list[Recorded] = []
    for name in dict.fromkeys(recordings):
        path = Path(name)
        if path.is_dir():
            found += _in_folder(path, files_in(path), progress)
        else:
            found += read_recorded(path if path.exists() else _kept(name, settings))
    return found


def _in_folder(folder: Path, files: Sequence[Path], progress: Progress | None) -> list[Recorded]:
    from nacre.devtools.replay.recorded import read_recorded
    from nacre.errors import TranscriptError

    found: list[Recorded] = []
    passed: list[str] = []
    for number, path in enumerate(files):
        if progress is not None:
            progress(number, len(files))
        try:
            found += read_recorded(path)
        except TranscriptError as error:
            passed.append(str(error))
    if not found:
        raise TranscriptError(
            passed[0] if passed else f"there is no transcript in {folder}; name another folder"
        )
    if passed:
        more = f" (and {len(passed) - 1:,} more like it)" if len(passed) > 1 else ""
        print(f"skipped: {printable(passed[0])}{more}", file=sys.stderr)
    return found


def _kept(name: str, settings: Settings) -> Path:
    from nacre.errors import SessionNotFound

    try:
        return find_session(settings, name)
    except SessionNotFound as error:
        if name == LATEST:
            raise
        raise SessionNotFound(f"there is no file {name}, and {error}") from None
