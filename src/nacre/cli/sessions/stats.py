"""`nacre stats`: tokens, cost, cache hits, compactions and memory changes by day."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from nacre.cli.options import RunOptions, load_settings
from nacre.cli.output import human_count, print_json, print_table
from nacre.messages.blocks import JsonObject

if TYPE_CHECKING:
    from nacre.inspect.stats import Aside, Day, Stats
    from nacre.session.meter import Meter

DEFAULT_DAYS = 30
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
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_obj
def stats(options: RunOptions, /, *, days: int, everywhere: bool, as_json: bool) -> None:
    """Summarise cost and memory changes of the last days.

    Computed from session logs, the history of memory and its usage records; nothing is changed. The end of
    the output says what is unknown.
    """
    from nacre.cli.progress import progress_line
    from nacre.inspect.stats import gather

    settings = load_settings(options)
    with progress_line("reading sessions") as progress:
        found = gather(settings, days=days, everywhere=everywhere, progress=progress)
    if as_json:
        print_json(_as_json(found, days))
    else:
        _print_stats(found, days)


def _as_json(found: Stats, days: int) -> JsonObject:
    per_100 = found.compactions_per_100
    return {
        "days": days,
        "since": found.since.isoformat(),
        "sessions": found.sessions,
        **_meter_json(found.meter),
        "unpriced_requests": found.meter.unpriced,
        "compactions": found.compactions,
        "compactions_per_100_requests": None if per_100 is None else round(per_100, 2),
        "beside": [_aside_json(each) for each in found.asides],
        "memories": _memories_json(found),
        "by_day": [_day_json(each) for each in found.days],
        "unread_sessions": found.unread,
        "unknown": [*found.unknown],
    }


def _meter_json(meter: Meter) -> JsonObject:
    usage = meter.usage
    return {
        "requests": meter.requests,
        "input_tokens": usage.input,
        "cache_read": usage.cache_read,
        "cache_write": usage.cache_write,
        "output_tokens": usage.output,
        "cost_usd": round(meter.cost_usd, 6),
        "approximate": usage.approximate,
        "refreshes": meter.refreshes,
        "refresh_cost_usd": round(meter.refresh_usd, 6),
        "hit_rate": round(usage.hit_rate, 4) if usage.prompt else None,
    }


def _aside_json(each: Aside) -> JsonObject:
    shares = {name: round(share, 4) for name, share in each.shares.items()}
    return {
        "purpose": each.purpose,
        "forks": each.forks,
        **_meter_json(each.meter),
        "cache_shares": {**shares},
    }


def _day_json(each: Day) -> JsonObject:
    return {
        "day": each.day.isoformat(),
        **_meter_json(each.meter),
        "compactions": each.compactions,
        "saved": each.saved,
        "recalled": each.recalled,
        "forgotten": each.forgotten,
    }


def _memories_json(found: Stats) -> JsonObject:
    kept = found.kept
    shares = {name: None if share is None else round(share, 4) for name, share in _shares(found).items()}
    return {
        "saved": kept.saved.total(),
        "recalled": kept.recalled.total(),
        "forgotten": kept.forgotten.total(),
        "cited": kept.cited,
        "attached_tokens": kept.tokens,
        "undone": len(kept.undone),
        "contradicted": len(kept.contradicted),
        "rejected": len(kept.rejected),
        "shares": {**shares},
    }


def _shares(found: Stats) -> dict[str, float | None]:
    """Return the shares of saved and recalled memories of these days."""
    kept = found.kept
    return {
        "undone": kept.share(kept.undone, kept.written),
        "contradicted": kept.share(kept.contradicted, kept.attached),
        "rejected": kept.share(kept.rejected, kept.written),
        "any": kept.share(kept.amiss, kept.written | kept.attached),
    }


def _print_stats(found: Stats, days: int) -> None:
    if not found.days:
        print(f"No request and no change of memory in the last {days:,} days; --all includes the others.")
        return
    rows = [_row(each.day.isoformat(), each) for each in found.days]
    print_table([*rows, _row("in all", _total(found))], header=COLUMNS, right=range(1, len(COLUMNS)))
    print()
    _print_asides(found)
    _print_sums(found)
    print()
    for line in found.unknown:
        print(f"- {line}")


def _print_asides(found: Stats) -> None:
    """Print background requests, which the sums above include."""
    if not found.asides:
        return
    rows = [_aside_row(each) for each in found.asides]
    print_table(rows, header=BESIDE, right=range(1, len(BESIDE)))
    print()


def _aside_row(each: Aside) -> list[str]:
    usage = each.meter.usage
    return [
        each.purpose,
        f"{each.forks:,}" if each.forks else "-",
        f"{each.meter.requests:,}",
        human_count(usage.prompt),
        human_count(usage.output),
        *(f"{share:.0%}" for share in each.shares.values()),
        f"{each.meter.about}${each.meter.cost_usd:,.4f}",
    ]


def _row(name: str, each: Day) -> list[str]:
    usage = each.meter.usage
    counts = (each.compactions, each.saved, each.recalled, each.forgotten)
    return [
        name,
        f"{each.meter.requests:,}",
        human_count(usage.prompt),
        human_count(usage.output),
        f"{usage.hit_rate:.0%}" if usage.prompt else "-",
        f"{each.meter.about}${each.meter.cost_usd:,.2f}",
        *(f"{count:,}" if count else "-" for count in counts),
    ]


def _total(found: Stats) -> Day:
    from nacre.inspect.stats import Day

    kept = found.kept
    return Day(
        day=found.since,
        meter=found.meter,
        compactions=found.compactions,
        saved=kept.saved.total(),
        recalled=kept.recalled.total(),
        forgotten=kept.forgotten.total(),
    )


def _print_sums(found: Stats) -> None:
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
        shares = {name: "-" if share is None else f"{share:.0%}" for name, share in _shares(found).items()}
        print(
            f"memories: {shares['undone']} of those saved undone, {shares['rejected']} rejected, "
            f"{shares['contradicted']} of those recalled contradicted; {shares['any']} in all"
        )
    if kept.attached:
        print(f"recalled memories took {human_count(kept.tokens)} tokens and were cited {kept.cited:,} times")
