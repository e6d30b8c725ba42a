"""`nacre verify-provider`: check the simulator's assumptions with a real key; exit code 1 if one differs."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from nacre.cli.options import RunOptions, load_settings
from nacre.cli.output import print_json, print_table
from nacre.devtools.verify import MAX_USD, Finding, Probe, open_probe, verify


@click.command(name="verify-provider", short_help="Check the simulator's assumptions against the real API.")
@click.option("--model", metavar="NAME", help="Default: the one `nacre doctor` shows.")
@click.option(
    "--max-usd",
    type=click.FloatRange(min=0, max=MAX_USD, min_open=True),
    default=MAX_USD,
    show_default=True,
    metavar="USD",
    help="Send no request that could exceed this in sum.",
)
@click.option("--wait", is_flag=True, help="Also check the lifetime of the cache; takes seven minutes.")
@click.option(
    "--record",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Write requests and responses there, without the key.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_obj
def verify_provider(
    options: RunOptions,
    /,
    *,
    model: str | None,
    max_usd: float,
    wait: bool,
    record: Path | None,
    as_json: bool,
) -> int:
    """Check with your key what the simulator assumes about a provider: cache reads and writes, the smallest
    prefix, thinking by default, bound thinking and token counts. It costs at most ten cents."""
    from nacre.cache.models import use_model_table, with_overrides
    from nacre.providers.choose import choose, require_installed

    settings = load_settings(options)
    if settings.models:
        use_model_table(with_overrides({"models": settings.models}))
    choice = choose(model or settings.model, settings.environ)
    require_installed(choice)
    probe = open_probe(choice, settings.environ, limit_usd=max_usd, record=record)
    findings = asyncio.run(_run(probe, wait=wait))
    differing = [one for one in findings if one.state == "differs"]
    if as_json:
        print_json(
            {
                "model": probe.model,
                "requests": probe.requests,
                "spent_usd": round(probe.spent_usd, 6),
                "limit_usd": max_usd,
                "differs": len(differing),
                "checks": [one.as_json() for one in findings],
            }
        )
    else:
        rows = [(one.name, one.assumed, one.found, one.state) for one in findings]
        print_table(rows, header=("check", "assumed", "found", ""))
        count = {0: "nothing differs", 1: "1 assumption differs"}.get(
            len(differing), f"{len(differing)} assumptions differ"
        )
        unchecked = sum(one.state == "not checked" for one in findings)
        count += f", {unchecked} not checked" if unchecked else ""
        print(f"\n{probe.model}: {count}; {probe.requests} requests, ${probe.spent_usd:.4f}.")
    return 1 if differing else 0


async def _run(probe: Probe, *, wait: bool) -> list[Finding]:
    try:
        return [finding async for finding in verify(probe, wait=wait)]
    finally:
        await probe.client.close()
