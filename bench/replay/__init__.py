"""What recorded sessions would have cost and what would have been forgotten, by nacre and by other libraries.

Every other recording, by name, was used to choose settings; the tables are about the rest. nacre compacts by
its own layers. A summary is the same text of 2,000 tokens for everybody who asks for one, without a word in
it, and asked for as each library really asks.
Retention is what counts: of what a later step used and had seen, how much was in view in a request that fits
the window (a request that does not is refused, and shows the model nothing).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from bench.replay.bound import least_usd
from bench.replay.cells import Cell, Row, peers, rows
from bench.replay.goals import OPUS, bars_of
from bench.replay.made_up import made_up
from bench.replay.pages import page
from bench.replay.picture import draw
from bench.replay.settings import OURS
from nacre.devtools.replay.recorded import read_recorded
from nacre.devtools.replay.schema import Recorded
from nacre.inspect.sources import files_in
from nacre.messages.blocks import Json, JsonObject

DATA = Path(__file__).parents[3] / "shared" / "data"
MIN_TOKENS = 60_000
"""Recordings that never came this far say nothing about any of it."""
SONNET, OPENAI = "claude-sonnet-4-6", "gpt-6.1-sol"
FIVE_MINUTES = 300.0


@dataclass(frozen=True, slots=True)
class Size:
    """How much is replayed."""

    is_tiny: bool = False


FULL, TINY = Size(), Size(is_tiny=True)
SMALL_BASE = 15_000
"""Tokens of system prompt and tools in small windows: the recorded base, 40,000, would fill most of them."""
CELLS = (
    Cell(OPUS, 200_000),
    *(Cell(OPUS, window, most_base=SMALL_BASE) for window in (100_000, 60_000)),
    *(Cell(model, 200_000) for model in (SONNET, OPENAI)),
    Cell(OPUS, 200_000, "large results"),
    Cell(OPUS, 200_000, "trajectories"),
)


def measure(size: Size) -> JsonObject:
    """The whole table, or a hint of it."""
    if size.is_tiny:
        cell = Cell(OPUS, 100_000, "large results", policies=("none", "claude-code", "nacre"))
        return _figures((cell,), {"large results": made_up(2)}, {})
    if not (DATA / "claude_code_sessions").is_dir():
        return {"skipped": "there are no recorded sessions beside the repository"}
    return _figures(CELLS, _sessions(), {})


def measure_again(policies: Sequence[str], before: JsonObject) -> JsonObject:
    """Return the figures of a run with the rows of these policies measured anew.

    The other rows are right as long as neither their code nor the recordings changed. Append-only shows it:
    it is measured, too, and must come out equal.
    """
    cells = [replace(cell, policies=("none", *policies)) for cell in CELLS]
    return _figures(cells, _sessions(), before)


def _sessions() -> dict[str, Sequence[Recorded]]:
    return {"recorded": recordings()[1::2], "large results": made_up(), "trajectories": trajectories()}


def _figures(cells: Sequence[Cell], sessions: dict[str, Sequence[Recorded]], before: Any) -> JsonObject:
    """Return all figures; what is not measured now is taken from the run before."""
    table = rows(cells, sessions)
    earlier = {cell["title"]: cell["policies"] for cell in before.get("cells", ())}
    main = cells[0]
    pauses = _pauses(table[main], sessions[main.sessions])
    found: Any = {
        "peers": dict(peers()),
        "sessions": {name: len(some) for name, some in sessions.items()},
        "cells": [_cell(cell, some, earlier.get(cell.title, ())) for cell, some in table.items()],
        "pauses": pauses,
        "bound": before.get("bound"),
    }
    if before:
        if found["peers"].items() - before["peers"].items():
            raise ValueError("other libraries or versions than before: measure all rows")
        found["peers"] = before["peers"]
        pauses["input_usd"] = before["pauses"]["input_usd"] | pauses["input_usd"]
        measured = {name for some in table.values() for name in some}
        dates = before.get("measured_before", {})
        names = [row["policy"] for row in before["cells"][0]["policies"] if row["policy"] not in measured]
        found["measured_before"] = {name: dates.get(name, before["date"]) for name in names}
    if "nacre" in table[main]:
        found["bound"] = _bound(table[main], sessions[main.sessions])
    found["bars"] = bars_of(found, [one.name for one in OURS])
    return found


def recordings() -> list[Recorded]:
    """All that are long enough, by name."""
    found = [
        one for path in files_in(DATA / "claude_code_sessions" / "sessions") for one in read_recorded(path)
    ]
    return sorted((one for one in found if one.peak_tokens >= MIN_TOKENS), key=lambda one: one.name)


def trajectories() -> list[Recorded]:
    """Runs of other agents, which hold no times; the longest of each set."""
    found: list[Recorded] = []
    for folder in ("swe_agent_trajs", "openhands_style_trajs"):
        some = [one for path in files_in(DATA / folder) for one in read_recorded(path)]
        found += sorted(some, key=lambda one: -len(one.steps))[:20]
    return found


def _cell(cell: Cell, found: dict[str, Row], earlier: Sequence[Any]) -> JsonObject:
    none = found["none"].tally.input_usd
    now = {row.policy: row.figures(none) for row in found.values()}
    known = {row["policy"]: row for row in earlier}
    for key in ("input_usd", "usable_pairs", "usable_edits"):
        if known and known["none"][key] != now["none"][key]:
            raise ValueError(f"append-only changed in {cell.title!r}: measure all rows")
    return {
        "title": cell.title,
        "sessions": cell.sessions,
        "model": cell.model,
        "window": cell.window,
        "most_base": cell.most_base,
        "policies": list((known | now).values()),
    }


def _pauses(found: dict[str, Row], sessions: Sequence[Recorded]) -> dict[str, Any]:
    """Only the sessions in which somebody was away for longer than the cache lives."""
    away = [
        one.name
        for one in sessions
        if any((after.at - before.at).total_seconds() > FIVE_MINUTES for before, after in pairwise(one.steps))
    ]
    sums: dict[str, Json] = {
        name: round(sum(row.cost_of_each[one] for one in away), 2) for name, row in found.items()
    }
    return {"sessions": len(away), "input_usd": sums}


def _bound(found: dict[str, Row], sessions: Sequence[Recorded]) -> JsonObject:
    """How far above the best clearing, though nacre also leaves out what clearing does not."""
    none, ours = found["none"].tally.input_usd, found["nacre"].tally.input_usd
    least = sum(least_usd(one, OPUS) for one in sessions) - found["none"].tally.reply_usd
    return {
        "clairvoyant_usd": round(least, 2),
        "of_append_only": round(least / none, 4),
        "nacre_over_it": round(ours / least, 3),
    }


def plot(figures: JsonObject) -> str:
    return draw(figures)


def pages(figures: JsonObject) -> dict[str, str]:
    return {"replay.md": page(figures)}
