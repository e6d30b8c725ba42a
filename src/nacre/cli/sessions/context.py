"""`nacre context`: show context usage, cost and limits of a session (C34)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from nacre.cli.options import RunOptions, load_settings
from nacre.cli.output import print_json, print_table

if TYPE_CHECKING:
    from nacre.inspect.context_usage import Contents
    from nacre.inspect.savings import Account, Savings
    from nacre.messages.blocks import JsonObject

BAR_CHARS = 40
"""Length of a full bar."""
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

    from nacre.cli.sessions.find import find_session
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
        "thresholds": {
            "warning": limits.warning,
            "autocompact": limits.autocompact,
            "blocking": limits.blocking,
            "effective": limits.effective,
        },
        "cache": {
            "hit_rate": round(meter.usage.hit_rate, 4),
            "cost_usd": round(meter.cost_usd, 6),
            "approximate": meter.usage.approximate,
            "requests": meter.requests,
            "unpriced_requests": meter.unpriced,
            "read_tokens": meter.usage.cache_read,
            "written_tokens": meter.usage.cache_write,
            "input_tokens": meter.usage.input,
            "output_tokens": meter.usage.output,
        },
        "layers": {name: _account_json(name, account) for name, account in found.layers.items()},
        "calibration_error": round(found.calibration.error, 4) if is_known else None,
    }


def _account_json(name: str, account: Account) -> JsonObject:
    """Amounts are estimates; null without a price or if savings cannot be estimated."""
    from nacre.inspect.savings import UNTOLD

    is_told = account.has_price and name not in UNTOLD
    return {
        "times": account.times,
        "tokens": account.tokens,
        "spent_usd": round(account.spent_usd, 6) if account.has_price else None,
        "saved_usd": round(account.saved_usd, 6) if is_told else None,
        "unpriced_requests": account.unpriced,
    }


def print_contents(found: Contents) -> None:
    """Print context usage, limits and cost."""
    limits = found.thresholds
    share = found.used / limits.window
    how = "counted by the provider" if found.is_counted else "estimated"
    print(f"model {found.model}")
    print(f"{found.used:,} of {limits.window:,} tokens in use ({share:.0%}, {how})")
    print()
    rows = [(name.replace("_", " "), tokens) for name, tokens in found.parts.items() if tokens]
    rows.append(("free", found.free))
    print_table(
        (
            [name, f"{tokens:,}", f"{tokens / limits.window:.1%}", _bar(tokens, limits.window)]
            for name, tokens in rows
        ),
        right=(1, 2),
    )
    _print_out_of_view(found)
    print()
    print_table(_limit_rows(found), right=(1,))
    print()
    _print_money(found)
    print_layers(found.layers)


def _print_out_of_view(found: Contents) -> None:
    left = {name: tokens for name, tokens in found.out_of_view.items() if tokens}
    if left:
        ways = ", ".join(f"{tokens:,} {name}" for name, tokens in left.items())
        print(f"Kept out of the window: about {sum(left.values()):,} tokens ({ways}).")


def print_layers(layers: Savings) -> None:
    """Print what each active layer did, spent and saved."""
    rows = [_layer_row(name, account) for name, account in layers.items() if _has_acted(account)]
    if not rows:
        return
    print()
    print_table(rows, header=("layer", "times", "tokens", "spent", "saved (about)"), right=(1, 2, 3, 4))
    print("Savings are estimates: what the same requests would have cost without the layer.")


def _has_acted(account: Account) -> bool:
    return bool(account.times or account.spent_usd or account.unpriced)


def _layer_row(name: str, account: Account) -> list[str]:
    money = (account.spent_usd, account.saved_usd) if account.has_price else (None, None)
    return [
        name.replace("_", " "),
        f"{account.times:,}",
        f"{account.tokens:,}",
        *(_usd(each, zero="-") for each in money),
    ]


def _usd(amount: float | None, *, zero: str = "$0.00") -> str:
    """Format dollars with enough decimals that a small amount is not shown as zero."""
    if amount is None:
        return "no price"
    if amount == 0:
        return zero
    return f"${amount:,.2f}" if amount >= SMALL_USD else f"${amount:.4f}"


def _bar(tokens: int, window: int) -> str:
    length = round(BAR_CHARS * tokens / window)
    return "#" * min(BAR_CHARS, length) or ("." if tokens else "")


def _limit_rows(found: Contents) -> list[list[str]]:
    limits = found.thresholds
    rows = (
        ("warning from", limits.warning),
        ("compaction from", limits.autocompact),
        ("nothing sent from", limits.blocking),
    )
    return [
        [name, f"{tokens:,}", "reached" if found.used >= tokens else f"{tokens - found.used:,} to go"]
        for name, tokens in rows
    ]


def _print_money(found: Contents) -> None:
    meter = found.meter
    if not meter.requests:
        print("This session has sent no request yet.")
        return
    usage = meter.usage
    unknown = f" (without {meter.unpriced:,} of unknown price)" if meter.unpriced else ""
    requests = f"{meter.requests:,} request{'s' * (meter.requests != 1)}"
    print(f"{requests} cost {meter.about}{_usd(meter.cost_usd)}{unknown}.")
    print(
        f"{usage.hit_rate:.0%} of their prompts came from the cache: "
        f"{usage.cache_read:,} tokens read,\n{usage.cache_write:,} written, {usage.input:,} not cached."
    )
    error = found.calibration.error
    if round(abs(error), 2):
        word = "low" if error >= 0 else "high"
        print(f"Estimates of this session's text run {abs(error):.0%} too {word}.")
