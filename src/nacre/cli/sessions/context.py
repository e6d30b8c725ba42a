"""`nacre context`: show context usage, cost and limits of a session (C34)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

import click

from nacre.cli.options import RunOptions, find_session, load_settings
from nacre.cli.output import print_json, print_table, printable

if TYPE_CHECKING:
    from nacre.inspect.context_usage import Contents
    from nacre.inspect.savings import Savings
    from nacre.messages.blocks import JsonObject
    from nacre.session.meter import Meter

BAR_CHARS = 40
"""Length of the longest bar: bars are scaled to what is used, not to the window."""
SMALL_USD = 0.1
"""Smaller amounts are shown to the hundredth of a cent."""


@click.command()
@click.argument("session", metavar="[ID]", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_obj
def context(options: RunOptions, /, session: str | None, *, as_json: bool) -> None:
    """Show the context usage of a session (default: the newest of this directory).

    Nothing is sent and nothing is changed; the session may be open elsewhere.
    """
    import asyncio

    from nacre.inspect.context_usage import contents
    from nacre.store.sessions import Sessions

    settings = load_settings(options)
    path = find_session(settings, session) if session else Sessions(settings.home).latest(settings.cwd)
    found = asyncio.run(contents(settings, path))
    if as_json:
        print_json(_as_json(found))
        return
    print(f"session {found.session}" if path else "No session here yet: this is what a new one starts with.")
    print_contents(found)


def _as_json(found: Contents) -> JsonObject:
    from nacre.inspect.savings import WITHOUT_ESTIMATE

    limits = found.thresholds
    meter = found.meter
    is_known = found.calibration.estimated > 0
    return {
        "session": found.session,
        "model": found.model,
        "window": limits.window,
        "used": found.used,
        "counted": found.is_counted,
        "parts": {**found.parts, "free": found.free},
        "out_of_view": {**found.out_of_view},
        "deferred_tools": {"count": found.deferred_tools, "tokens": found.deferred_tokens},
        "thresholds": {
            "warning": limits.warning,
            "autocompact": limits.autocompact,
            "blocking": limits.blocking,
            "effective": limits.effective,
        },
        "cache": {
            "hit_rate": round(meter.usage.hit_rate, 4),
            "cost_usd": None if meter.usd is None else round(meter.usd, 6),
            "approximate": meter.usage.approximate,
            "requests": meter.requests,
            "unpriced_requests": meter.unpriced,
            "read_tokens": meter.usage.cache_read,
            "written_tokens": meter.usage.cache_write,
            "input_tokens": meter.usage.input,
            "output_tokens": meter.usage.output,
        },
        "teammates": None
        if found.teammates is None
        else {
            "requests": found.teammates.requests,
            "tokens": found.teammates.usage.total,
            "cost_usd": None if found.teammates.usd is None else round(found.teammates.usd, 6),
        },
        # Amounts are estimates; null without a price or if savings cannot be estimated.
        "layers": {
            name: {
                "times": one.times,
                "tokens": one.tokens,
                "spent_usd": round(one.spent_usd, 6) if one.has_price else None,
                "saved_usd": round(one.saved_usd, 6)
                if one.has_price and name not in WITHOUT_ESTIMATE
                else None,
                "unpriced_requests": one.unpriced,
            }
            for name, one in found.layers.items()
        },
        "calibration_error": round(found.calibration.error, 4) if is_known else None,
    }


def print_contents(found: Contents) -> None:
    """Print context usage, limits and cost."""
    limits = found.thresholds
    window = limits.window
    how = "counted by the provider" if found.is_counted else "estimated"
    print(printable(f"model {found.model}"))
    print(f"{found.used:,} of {window:,} tokens in use ({found.used / window:.0%}, {how})")
    print()
    parts = [(name.replace("_", " "), tokens) for name, tokens in found.parts.items() if tokens]
    rows = []
    largest = max((tokens for _, tokens in parts), default=1)
    for name, tokens in parts:
        bar = "█" * max(1, round(BAR_CHARS * tokens / largest))
        rows.append([name, f"{tokens:,}", f"{tokens / window:.1%}", bar])
    rows.append(["free", f"{found.free:,}", f"{found.free / window:.1%}", ""])
    print_table(rows, right=(1, 2))
    left = {name: tokens for name, tokens in found.out_of_view.items() if tokens}
    if left:
        ways = ", ".join(f"{tokens:,} {name}" for name, tokens in left.items())
        print(f"Kept out of the window: about {sum(left.values()):,} tokens ({ways}).")
    if found.deferred_tools:
        print(
            f"Deferred: {found.deferred_tools} tools of about {found.deferred_tokens:,} tokens, "
            "which the model loads with ToolSearch."
        )
    print()
    marks = {
        "warning from": limits.warning,
        "compaction from": limits.autocompact,
        "hard limit": limits.blocking,
    }
    to_go = {name: f"{tokens - found.used:,} to go" for name, tokens in marks.items() if tokens > found.used}
    print_table(
        [[name, f"{tokens:,}", to_go.get(name, "reached")] for name, tokens in marks.items()], right=(1,)
    )
    print()
    _print_cost(found)
    print_layers(found.layers)


def _print_cost(found: Contents) -> None:
    meter = found.meter
    if not meter.requests:
        print("This session has sent no request yet.")
        return
    usage = meter.usage
    unknown = f" (without {meter.unpriced:,} of unknown price)" if meter.unpriced else ""
    requests = f"{meter.requests:,} request{'s' * (meter.requests != 1)}"
    if meter.usd is None:
        print(f"{requests}, cost unknown: no price of the model is known.")
    else:
        print(f"{requests} cost {meter.about}{_usd(meter.cost_usd)}{unknown}.")
    if found.teammates is not None:
        print(", ".join(f"{name} {value}" for name, value in teammate_rows(meter, found.teammates)) + ".")
    print(
        f"{usage.hit_rate:.0%} of their prompts came from the cache: "
        f"{usage.cache_read:,} tokens read,\n{usage.cache_write:,} written, {usage.input:,} not cached."
    )
    error = found.calibration.error
    if round(abs(error), 2):
        word = "low" if error >= 0 else "high"
        print(f"Estimates of this session's text run {abs(error):.0%} too {word}.")


def teammate_rows(meter: Meter, teammates: Meter | None) -> list[tuple[str, str]]:
    """Return what teammates in their own processes cost, and the sum with the session's own requests."""
    if teammates is None:
        return []
    requests = f"{teammates.requests:,} request{'s' * (teammates.requests != 1)}"
    return [
        (f"teammates ({requests})", teammates.price()),
        ("session and teammates", (meter + teammates).price()),
    ]


def print_spending(found: Contents) -> None:
    """Print the cost by part and over time, where there is more than one; tokens where no price is known."""
    from nacre.inspect.cost_history import by_part, over_time, paid_requests

    paid = paid_requests(found.booked)
    parts = by_part(paid)
    is_priced = any(meter.cost_usd for _, meter in parts)

    def rows(sums: Sequence[tuple[str, Meter]]) -> list[list[str]]:
        amounts = [meter.cost_usd if is_priced else meter.usage.total for _, meter in sums]
        largest = max(amounts, default=0) or 1
        return [
            [
                name,
                f"{meter.requests:,}",
                meter.price() if is_priced else f"{meter.usage.total:,} tokens",
                bar,
            ]
            for (name, meter), amount in zip(sums, amounts, strict=True)
            for bar in ["█" * max(1, round(BAR_CHARS * amount / largest)) if amount else ""]
        ]

    if len(parts) > 1:
        print()
        named = [(name.replace("_", " "), meter) for name, meter in parts]
        print_table(rows(named), header=("part", "requests", "cost", ""), right=(1, 2))
    times = over_time(paid)
    if len(times) > 1:
        is_long = times[-1][0] - times[0][0] >= timedelta(days=1)
        form = "%a %d %b %H:%M" if is_long else "%H:%M"
        print()
        shown = [(f"{at.astimezone():{form}}", meter) for at, meter in times]
        print_table(rows(shown), header=("from", "requests", "cost", ""), right=(1, 2))


def print_layers(layers: Savings) -> None:
    """Print what each active layer did, spent and saved."""
    rows = []
    for name, one in layers.items():
        if one.times or one.spent_usd or one.unpriced:
            money = (one.spent_usd, one.saved_usd) if one.has_price else (None, None)
            counts = (f"{one.times:,}", f"{one.tokens:,}")
            by = f" ({', '.join(one.models)})" if one.models else ""
            rows.append([name.replace("_", " ") + by, *counts, *(_usd(each, zero="-") for each in money)])
    if rows:
        print()
        print_table(rows, header=("layer", "times", "tokens", "spent", "saved (about)"), right=(1, 2, 3, 4))
        print("Savings are estimates: what the same requests would have cost without the layer.")


def _usd(amount: float | None, *, zero: str = "$0.00") -> str:
    """Format dollars with enough decimals that a small amount is not shown as zero."""
    if amount is None:
        return "no price"
    if amount == 0:
        return zero
    return f"${amount:,.2f}" if amount >= SMALL_USD else f"${amount:.4f}"
