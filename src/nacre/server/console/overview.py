"""The first page: what is remembered, what sessions cost, what layers saved (W2)."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from starlette.responses import Response

from nacre.app.memory_locations import memory_paths
from nacre.errors import TranscriptError
from nacre.inspect.savings import LAYERS, WITHOUT_ESTIMATE, Account, booked, savings
from nacre.memory.files.location import memory_base
from nacre.memory.format.entry import Entry
from nacre.server.console.memory_pages import visible_entries
from nacre.server.console.page import Page
from nacre.server.console.plots import Plot, bars
from nacre.server.console.rendering import usd
from nacre.store.sessions import Sessions

DAYS = 30
NEWEST = 5
MAX_LOGS = 40
MAX_LOG_BYTES = 40_000_000
"""Newest logs from which the savings by layer are read."""
LAYER_WORDS = {
    "offload": "Offload", "microcompact": "Clear old results", "notes": "Session notes",
    "compact": "Compact", "extract": "Extract memories", "keep_warm": "Keep the cache warm",
    "recall": "Choose memories with a model",
}  # fmt: skip


async def overview(page: Page) -> Response:
    """Show counts and plots."""
    entries = await visible_entries(page)
    usage = await _usage(page) if page.may("getUsage") else None
    recent = (await page.call("listSessions", limit=5))["sessions"] if page.may("listSessions") else []
    waiting = (await page.call("listProposals"))["proposals"]
    # The home of a server with a database belongs to no tenant.
    has_layers = usage is not None and page.parts.has_home
    layers = await asyncio.to_thread(_layers, page.parts.settings.home) if has_layers else []
    today = page.parts.clock.now().astimezone().date()
    return await page.html(
        "overview.html",
        total=len(entries),
        kinds=Counter(one.kind or "none" for one in entries),
        doubtful=sum(not one.is_trusted for one in entries),
        newest=list(entries[:NEWEST]),
        usage=usage,
        days=DAYS,
        recent=recent,
        waiting=len(waiting),
        layers=layers,
        saved=sum(one["saved"] for one in layers),
        plots=_plots(usage, today) if usage else [],
        growth=await _growth(page, today),
    )


def _plots(usage: dict[str, Any], today: date) -> list[Plot]:
    days = {one["day"]: one for one in usage["by_day"]}
    names = [(today - timedelta(days=n)).isoformat() for n in reversed(range(DAYS))]
    none: dict[str, Any] = {}

    def plot(title: str, field: str, *, is_money: bool = False) -> Plot:
        values = [days.get(name, none).get(field) or 0 for name in names]
        rows = [
            (name[5:], float(value), usd(value) if is_money else f"{value:,}")
            for name, value in zip(names, values, strict=True)
        ]
        most = usd(max(values)) if is_money else f"{max(values):,}"
        return bars(title, rows, most=most)

    return [plot("Cost per day", "cost_usd", is_money=True), plot("Memories attached per day", "recalled")]


async def _usage(page: Page) -> dict[str, Any]:
    """Return the usage of the last days, read again only after a log or a memory has changed."""
    if not page.parts.has_home:  # what is kept here is one person's
        found: dict[str, Any] = await page.call("getUsage", days=DAYS)
        return found
    stamp = await asyncio.to_thread(_usage_stamp, page)
    if _USAGE.get("stamp") != stamp:
        _USAGE["found"] = await page.call("getUsage", days=DAYS)
        _USAGE["stamp"] = stamp
    kept: dict[str, Any] = _USAGE["found"]
    return kept


def _usage_stamp(page: Page) -> tuple[object, ...]:
    settings = page.parts.settings
    base = memory_base(memory_paths(settings))
    listed = Sessions(settings.home).list(None)
    changed = [*(base / "history").glob("*.git/refs/heads/*"), *(base / "cache").glob("*/usage/*")]
    return (
        settings.home,
        page.parts.clock.now().astimezone().date(),
        *((one.path, one.bytes, one.modified) for one in listed),
        *((one, one.stat().st_mtime_ns) for one in changed if one.is_file()),
    )


async def _growth(page: Page, today: date) -> Plot:
    """Return how many memories there were at the end of each day, of those that there are now."""

    def days_of(entries: Sequence[Entry]) -> Counter[date]:
        times = (one.created or one.changed for one in entries if page.key.local or not one.local_only)
        return Counter(one.astimezone().date() if one else date.min for one in times)

    counts = await (await page.space()).listed.derived(f"days, local {page.key.local}", days_of)
    days = [today - timedelta(days=n) for n in reversed(range(DAYS))]
    first = sum(number for day, number in counts.items() if day < days[0])
    rows = []
    for day in days:
        first += counts[day]
        rows.append((day.isoformat()[5:], float(first), f"{first:,}"))
    return bars("Memories", rows, most=f"{counts.total():,}")


_USAGE: dict[str, Any] = {}
"""The usage of the last days that was read last, and the state of what it was read from."""
_KNOWN: dict[Path, tuple[tuple[int, int], dict[str, Account]]] = {}
"""The accounts of logs that were read, with size and time of each."""


def _layers(home: Path) -> list[dict[str, Any]]:
    """Return what each layer spent and saved in the newest sessions."""
    sums = {name: Account() for name in LAYERS}
    room = MAX_LOG_BYTES
    listed = Sessions(home).list(None)[:MAX_LOGS]
    for one in listed:
        room -= one.bytes
        if room < 0:
            break
        for name, account in _accounts(one.path).items():
            old = sums[name]
            sums[name] = replace(
                old, times=old.times + account.times, tokens=old.tokens + account.tokens,
                spent_usd=old.spent_usd + account.spent_usd, saved_usd=old.saved_usd + account.saved_usd,
            )  # fmt: skip
    for gone in _KNOWN.keys() - {one.path for one in listed}:
        _KNOWN.pop(gone, None)
    highest = max((max(one.saved_usd, one.spent_usd) for one in sums.values()), default=0.0) or 1.0
    return [
        {
            "name": LAYER_WORDS[name],
            "times": one.times,
            "tokens": one.tokens,
            "spent": one.spent_usd,
            "saved": one.saved_usd,
            "has_saving": name not in WITHOUT_ESTIMATE,
            "saved_share": round(max(0.0, one.saved_usd) / highest * 100, 1),
            "spent_share": round(max(0.0, one.spent_usd) / highest * 100, 1),
        }
        for name, one in sums.items()
    ]


def _accounts(path: Path) -> dict[str, Account]:
    try:
        found = path.stat()
        stamp = found.st_size, found.st_mtime_ns
        known = _KNOWN.get(path)
        if known is None or known[0] != stamp:
            known = _KNOWN[path] = stamp, dict(savings(booked(path)))
    except (OSError, TranscriptError):  # deleted since it was listed
        return {}
    return known[1]


ROUTES = (("GET", "/", overview),)
