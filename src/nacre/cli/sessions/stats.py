"""`nacre stats`: tokens, cost, cache hits, compactions and memory changes by day."""

from __future__ import annotations

from contextlib import suppress
from textwrap import fill
from typing import TYPE_CHECKING

import click

from nacre.cli.options import RunOptions, load_settings
from nacre.cli.output import human_count, print_json, print_table, progress_line

if TYPE_CHECKING:
    from nacre.inspect.stats import Day, Stats
    from nacre.settings import Settings

DEFAULT_DAYS = 30
TEXT_COLUMNS = 80
MAX_DAYS = 3_650
"""Ten years, longer than any log."""
COLUMNS = (
    "day", "requests", "input", "output", "cached", "money", "compacted", "saved", "recalled", "forgotten"
)  # fmt: skip

BESIDE = ("beside", "forks", "requests", "input", "output", "read", "written", "unread", "money")
"""Shares of the input: read from the cache, written to it, neither."""


@click.command(short_help="Summarise tokens, cost, cache hits and memories by day.")
@click.option(
    "--days",
    type=click.IntRange(1, MAX_DAYS),
    default=DEFAULT_DAYS,
    show_default=True,
    metavar="N",
    help="Number of days, including today.",
)
@click.option("--all", "everywhere", is_flag=True, help="Include every directory, not only this one.")
@click.option(
    "--what-if", is_flag=True, help="Show what these sessions would have cost with other settings instead."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_obj
def stats(options: RunOptions, /, *, days: int, everywhere: bool, what_if: bool, as_json: bool) -> None:
    """Summarise cost and memory changes of the last days.

    Computed from session logs, the history of memory and its usage records; nothing is changed. The end of
    the output says what is unknown.

    With --what-if the sessions are replayed with your settings and with each setting changed, as `nacre
    replay` does: no request is sent.
    """
    from nacre.inspect.stats import gather
    from nacre.inspect.stats_json import stats_json

    settings = load_settings(options)
    if what_if:
        _what_if(settings, days=days, everywhere=everywhere, as_json=as_json)
        return
    with progress_line("reading sessions") as progress:
        found = gather(settings, days=days, everywhere=everywhere, progress=progress)
    if as_json:
        print_json(stats_json(found, days))
    else:
        _print_stats(found, days)


def _what_if(settings: Settings, *, days: int, everywhere: bool, as_json: bool) -> None:
    from nacre.cache.models import profile
    from nacre.devtools.replay import report
    from nacre.devtools.replay.recorded import priced_model, read_recorded
    from nacre.devtools.replay.run import ReplayTerms
    from nacre.devtools.replay.what_if import what_if
    from nacre.errors import TranscriptError
    from nacre.inspect.stats import logs_since

    sessions = []
    for log in logs_since(settings, days=days, everywhere=everywhere)[1]:
        with suppress(TranscriptError):  # such as a session without a reply
            sessions += read_recorded(log.path)
    if not sessions:
        raise TranscriptError(
            f"there is no session with a reply in the last {days:,} days; --all includes other directories"
        )
    model = priced_model(sessions, settings.model)
    window = min(profile(model).window, settings.max_context_tokens or profile(model).window)
    terms = ReplayTerms(model=model, window=window)
    with progress_line("replaying") as progress:
        sums = what_if(sessions, settings, terms, progress=progress)
    if as_json:
        print_json(report.as_json(sums, sessions, terms))
        return
    print(f"{len(sessions):,} session{'s' * (len(sessions) != 1)}, {model}, window {window:,}\n")
    print_table(report.what_if_rows(sums, terms), header=report.what_if_columns(terms), right=range(1, 6))
    print()
    for line in report.what_if_sentences(sums, terms):
        print(fill(line, width=TEXT_COLUMNS, break_on_hyphens=False))


def _print_stats(found: Stats, days: int) -> None:
    from nacre.inspect.stats_json import shares_of

    if not found.days:
        print(f"No request and no change of memory in the last {days:,} days; --all includes the others.")
        return
    rows = [_row(each.day.isoformat(), each) for each in found.days]
    print_table([*rows, _row("in all", found.total)], header=COLUMNS, right=range(1, len(COLUMNS)))
    print()
    if found.asides:  # included in the sums above
        asides = [
            [
                each.purpose,
                f"{each.forks:,}" if each.forks else "-",
                f"{each.meter.requests:,}",
                human_count(each.meter.usage.prompt),
                human_count(each.meter.usage.output),
                *(f"{share:.0%}" for share in each.shares.values()),
                each.meter.price(),
            ]
            for each in found.asides
        ]
        print_table(asides, header=BESIDE, right=range(1, len(BESIDE)))
        print()
    kept = found.kept
    per_100 = found.compactions_per_100
    sessions = f"{found.sessions:,} session{'s' * (found.sessions != 1)}"
    often = "" if per_100 is None else f", {per_100:.1f} compactions per 100 requests"
    print(f"{sessions}{often}")
    if found.meter.refreshes:
        print(
            f"kept the cache warm {found.meter.refreshes:,} times for ${found.meter.refresh_usd:,.4f} of that"
        )
    if kept.written or kept.attached:
        shares = {name: "-" if share is None else f"{share:.0%}" for name, share in shares_of(found).items()}
        print(
            f"memories: {shares['undone']} of those saved undone, {shares['rejected']} rejected, "
            f"{shares['contradicted']} of those recalled contradicted; {shares['any']} in all"
        )
    if kept.attached:
        print(f"recalled memories took {human_count(kept.tokens)} tokens and were cited {kept.cited:,} times")
    print()
    for line in found.unknown:
        print(f"- {line}")


def _row(name: str, each: Day) -> list[str]:
    usage = each.meter.usage
    counts = (each.compactions, each.saved, each.recalled, each.forgotten)
    return [
        name,
        f"{each.meter.requests:,}",
        human_count(usage.prompt),
        human_count(usage.output),
        f"{usage.hit_rate:.0%}" if usage.prompt else "-",
        each.meter.price(2),
        *(f"{count:,}" if count else "-" for count in counts),
    ]
