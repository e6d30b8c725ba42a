"""`nacre gateway`: pass requests of any agent on to its provider, and report what they cost (G1 to G5)."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from nacre.cli.options import RunOptions, load_settings
from nacre.cli.output import print_json, print_table, printable
from nacre.errors import ConfigError
from nacre.formatting import how_to_install, usd_text

if TYPE_CHECKING:
    from nacre.server.gateway.changes import Shrinker
    from nacre.server.gateway.report import SessionReport
    from nacre.settings import Settings

MAX_PORT = 65_535
DAY_USD = 5.0
SHOWN_SESSIONS = 20
MIN_WINDOW = 4_000
RESULTS = Path("cache") / "gateway" / "results"
"""Below the home: long results of clients whose histories are shrunk."""


@click.group(invoke_without_command=True, short_help="Pass an agent's requests on to its provider.")
@click.option(
    "--port", type=click.IntRange(0, MAX_PORT), default=0, metavar="N", help="Port; default: any free port."
)
@click.option("--upstream", metavar="URL", help="Provider; default: Anthropic or OpenAI, by the request.")
@click.option("--keep-warm", is_flag=True, help="Refresh the cache of idle sessions where that pays.")
@click.option(
    "--keep-warm-subscription", is_flag=True, help="Also for clients that sign in with a subscription."
)
@click.option(
    "--keep-warm-usd",
    type=click.FloatRange(min=0),
    default=DAY_USD,
    show_default=True,
    metavar="USD",
    help="Limit of the refreshes of a day.",
)
@click.option("--memory", is_flag=True, help="Attach your memories to prompts and extract new ones.")
@click.option("--shrink", is_flag=True, help="Shrink long histories of clients that never do.")
@click.option(
    "--shrink-window",
    type=click.IntRange(min=MIN_WINDOW),
    metavar="TOKENS",
    help="Window to shrink to, if the model's own is unknown or should not be used up.",
)
@click.option(
    "--record",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Write whole sessions, with all text, for `nacre replay`.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the address as one JSON document.")
@click.pass_context
def gateway(
    ctx: click.Context,
    /,
    *,
    port: int,
    upstream: str | None,
    record: Path | None,
    as_json: bool,
    **given: bool | float | None,
) -> None:
    """Pass requests of any agent on to its provider, unchanged, on a loopback port until Ctrl-C.

    Set ANTHROPIC_BASE_URL (or OPENAI_BASE_URL, with /v1) of the agent to the printed address. Its key is
    passed on and not stored. `nacre gateway report` shows what each session cost and what broke its cache.
    """
    if ctx.invoked_subcommand is not None:
        return
    if find_spec("uvicorn") is None:
        raise ConfigError(f"nacre gateway needs uvicorn; install it with: {how_to_install('server')}")
    from nacre.asgi import bound
    from nacre.server.gateway.keep_warm import KeepWarmLimits
    from nacre.server.gateway.run import HOST, GatewayOptions, build_gateway, serve_gateway
    from nacre.server.gateway.upstream import Upstream

    _check_options(ctx, given)
    options: RunOptions = ctx.obj
    limits = KeepWarmLimits(
        day_usd=float(given["keep_warm_usd"] or 0), subscriptions=bool(given["keep_warm_subscription"])
    )
    settings = load_settings(options)
    asked = GatewayOptions(
        home=settings.home,
        memory=settings if given["memory"] else None,
        shrinker=request_shrinker(settings, given["shrink_window"]) if given["shrink"] else None,
        upstream=Upstream(upstream),
        record=record,
        keep_warm=limits if given["keep_warm"] or given["keep_warm_subscription"] else None,
    )
    with bound(HOST, port) as listening, contextlib.suppress(KeyboardInterrupt):
        port = listening.getsockname()[1]
        built = build_gateway(asked, port)
        url = f"http://{HOST}:{port}"
        if as_json:
            print(json.dumps({"url": url, "pid": os.getpid()}), flush=True)
        else:
            print(f"{url}\n\n  ANTHROPIC_BASE_URL={url}\n  OPENAI_BASE_URL={url}/v1", flush=True)
        asyncio.run(serve_gateway(built, listening))


def _check_options(ctx: click.Context, given: Mapping[str, bool | float | None]) -> None:
    """Refuse options that would do nothing, and a limit that is no number."""
    if given["shrink_window"] is not None and not given["shrink"]:
        raise click.UsageError("--shrink-window needs --shrink")
    is_warm = given["keep_warm"] or given["keep_warm_subscription"]
    has_limit = ctx.get_parameter_source("keep_warm_usd") is not ParameterSource.DEFAULT
    if has_limit and not is_warm:
        raise click.UsageError("--keep-warm-usd needs --keep-warm")
    if math.isnan(given["keep_warm_usd"] or 0):
        raise click.UsageError("--keep-warm-usd takes an amount in USD")


def request_shrinker(settings: Settings, window: float | None) -> Shrinker:
    """Return what shrinks requests; long results are kept below the home."""
    from nacre.integrations.framework_session import Layers
    from nacre.integrations.request_shrinker import RequestShrinker

    layers = Layers(window=None if window is None else int(window))
    return RequestShrinker(settings.home / RESULTS, layers)


@gateway.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_obj
def report(options: RunOptions, /, *, as_json: bool) -> None:
    """Show for each session what it cost, what the cache saved, and what pauses and changes lost."""
    from nacre.server.gateway.records import read_records
    from nacre.server.gateway.report import report as sum_up

    sessions = sum_up(read_records(load_settings(options).home))
    if as_json:
        print_json({"sessions": [one.as_json() for one in sessions]})
        return
    if not sessions:
        print("No requests were recorded yet; `nacre gateway` prints the address for your agent.")
        return
    header = (
        "client",
        "requests",
        "cost",
        "from cache",
        "pauses",
        "changes",
        "refreshes",
        "saved",
        "changed block",
    )
    rows = [_row(one) for one in sessions[:SHOWN_SESSIONS]]
    print_table(rows, header=header, right=range(1, 8))
    if more := len(sessions) - SHOWN_SESSIONS:
        print(f"\nand {more:,} older; --json shows all" if more > 0 else "", end="\n" if more > 0 else "")
    for reason in dict.fromkeys(one.no_refresh for one in sessions if one.no_refresh):
        print(f"Not kept warm: {printable(reason)}.")
    if recalled := sum(one.recalled for one in sessions):
        print(f"{recalled:,} memories were attached to prompts.")
    if remembered := sum(one.remembered for one in sessions):
        print(f"{remembered:,} memories were extracted; `nacre memory list` shows them.")
    if shrunk := sum(one.shrunk_bytes for one in sessions):
        print(f"{shrunk:,} bytes of old history were not sent.")
    for problem in dict.fromkeys(problem for one in sessions for problem in one.problems):
        print(f"Problem: {printable(problem)}.")
    if blind := sum(one.without_usage for one in sessions):
        print(f"{blind:,} replies report no usage; OpenAI's streams need stream_options.include_usage.")


def _row(one: SessionReport) -> tuple[str, ...]:
    facts = one.as_json()
    return (
        printable(one.client),
        f"{one.requests:,}",
        usd_text(one.cost_usd) + "+" * bool(one.unpriced),
        f"{one.usage.hit_rate:.0%}",
        usd_text(one.pauses_usd),
        usd_text(sum(one.broken.values()) / 1_000_000),
        f"{one.refreshes:,} for {usd_text(one.refreshes_usd)}" if one.refreshes else "0",
        usd_text(one.saved_usd),
        printable(str(facts["broken_by"] or "")),
    )
