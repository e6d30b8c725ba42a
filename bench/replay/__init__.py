"""What recorded sessions would have cost and what would have been forgotten, by nacre and by other libraries.

Every other recording, by name, was used to choose settings; the tables are about the rest. nacre compacts by
its own layers. A summary is the same text of 2,000 tokens for everybody who asks for one, without a word in
it, and asked for as each library really asks.
Retention is what counts: of what a later step used and had seen, how much was in view in a request that fits
the window (a request that does not is refused, and shows the model nothing).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from bench.machine import bar
from bench.replay.bound import least_usd
from bench.replay.cells import Cell, Row, peers, rows
from bench.replay.made_up import made_up
from bench.replay.pages import page
from bench.replay.picture import draw
from bench.replay.settings import OURS, PEERS
from nacre.devtools.replay.recorded import read_recorded
from nacre.devtools.replay.schema import Recorded
from nacre.inspect.sources import files_in
from nacre.messages.blocks import Json, JsonObject

DATA = Path(__file__).parents[3] / "shared" / "data"
MIN_TOKENS = 60_000
"""Recordings that never came this far say nothing about any of it."""
OPUS, SONNET, OPENAI = "claude-opus-5-5", "claude-sonnet-4-6", "gpt-6.1-sol"
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
        sessions: dict[str, Sequence[Recorded]] = {"large results": made_up(2)}
        cells: tuple[Cell, ...] = (
            Cell(OPUS, 100_000, "large results", policies=("none", "claude-code", "nacre")),
        )
    else:
        if not (DATA / "claude_code_sessions").is_dir():
            return {"skipped": "there are no recorded sessions beside the repository"}
        recorded = recordings()
        sessions = {
            "recorded": recorded[1::2],
            "large results": made_up(),
            "trajectories": trajectories(),
        }
        cells = CELLS
    table = rows(cells, sessions)
    figures: JsonObject = {
        "peers": dict(peers()),
        "sessions": {name: len(found) for name, found in sessions.items()},
        "cells": [_cell(cell, found) for cell, found in table.items()],
    }
    main = cells[0]
    figures["pauses"] = _pauses(table[main], sessions[main.sessions])
    figures["bound"] = _bound(table[main], sessions[main.sessions])
    figures["bars"] = _bars(table, figures)
    return figures


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


def _cell(cell: Cell, found: dict[str, Row]) -> JsonObject:
    none = found["none"].tally.input_usd
    return {
        "title": cell.title,
        "sessions": cell.sessions,
        "model": cell.model,
        "window": cell.window,
        "most_base": cell.most_base,
        "policies": [row.figures(none) for row in found.values()],
    }


def _pauses(found: dict[str, Row], sessions: Sequence[Recorded]) -> JsonObject:
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


def _bars(table: dict[Cell, dict[str, Row]], figures: JsonObject) -> list[Json]:
    found: list[Json] = []
    names = {one.name for one in OURS}
    ours = [row for rows_ in table.values() for name, row in rows_.items() if name in names]
    found.append(bar("requests of ours that would be refused", sum(r.tally.invalid for r in ours), at_most=0))
    found.append(bar("unannounced prefix breaks", sum(r.tally.unannounced for r in ours), at_most=0))
    for cell, rows_ in table.items():
        for one in PEERS:
            if one.name in rows_ and cell.sessions == "recorded" and cell.model == OPUS:
                beaten = _beaten(rows_[one.name], [rows_[name] for name in names if name in rows_])
                what = f"settings that cost no more and keep more than {one.name} ({cell.title})"
                found.append(bar(what, beaten, at_least=1))
    nacre = table[next(iter(table))]["nacre"].figures(0.0)
    found.append(bar("own time of a request, p50 ms", float(str(nacre["cpu_ms_p50"])), at_most=1.0))
    pauses = figures["pauses"]
    assert isinstance(pauses, dict) and isinstance(pauses["input_usd"], dict)
    cost = pauses["input_usd"]
    share = round(float(str(cost["nacre"])) / float(str(cost["none"])), 4)
    found.append(bar("of the append-only bill, sessions with pauses", share, at_most=0.9))
    return [*found, *_goals(table)]


def _beaten(peer: Row, ours: Sequence[Row]) -> int:
    """How many of our settings cost no more and keep more, of pairs and of edits."""
    theirs = peer.figures(0.0)
    count = 0
    for row in ours:
        mine = row.figures(0.0)
        keeps = [float(str(mine[key])) - float(str(theirs[key])) for key in ("usable_pairs", "usable_edits")]
        is_better = min(keeps) >= 0 and max(keeps) > 0
        count += is_better and row.tally.input_usd <= peer.tally.input_usd
    return count


GOALS = {200_000: (0.68, 98.0, 97.0), 100_000: (0.60, 95.0, 92.0), 60_000: (0.50, 0.0, 0.0)}
"""By window: share of the append-only bill at most, percent of pairs and of edits at least."""
WORK_SHARE = 0.05
"""Cost of notes and memories as a share of the conversation."""
BELOW_PEERS = 0.9


def _goals(table: dict[Cell, dict[str, Row]]) -> list[Json]:
    """Return the bars of the whole bill, for recorded results and for those of nacre's own tools."""
    found: list[Json] = []
    for cell, rows_ in table.items():
        if cell.sessions != "recorded":
            continue
        none = rows_["none"].tally.input_usd
        there = {name: row.figures(none) for name, row in rows_.items()}
        for name in ("nacre-chat", "nacre-tools"):
            mine = {key: float(str(there[name][key])) for key in KEYS}
            label = f"{name} ({cell.title})"
            if cell.model == OPUS:
                share, pairs, edits = GOALS[cell.window]
                found.append(bar(f"of append-only: {label}", mine["of_append_only"], at_most=share))
                found.append(bar(f"percent of pairs: {label}", mine["usable_pairs"], at_least=pairs))
                found.append(bar(f"percent of edits: {label}", mine["usable_edits"], at_least=edits))
            elif peers_ := [there[one.name] for one in PEERS if one.name in there]:
                cheapest = min(peers_, key=lambda row: float(str(row["of_append_only"])))
                theirs = {key: float(str(cheapest[key])) for key in KEYS}
                ratio = round(mine["of_append_only"] / theirs["of_append_only"], 4)
                found.append(bar(f"of the cheapest peer: {label}", ratio, at_most=BELOW_PEERS))
                for key in KEYS[1:]:
                    what = f"{key} beside the cheapest peer: {label}"
                    found.append(bar(what, mine[key], at_least=theirs[key]))
        alone = rows_["nacre-model"].tally.input_usd
        work = round(rows_["nacre-chat"].tally.input_usd / alone - 1, 4)
        found.append(bar(f"notes and memories, of the conversation ({cell.title})", work, at_most=WORK_SHARE))
    return found


KEYS = ("of_append_only", "usable_pairs", "usable_edits")


def plot(figures: JsonObject) -> str:
    return draw(figures)


def pages(figures: JsonObject) -> dict[str, str]:
    return {"replay.md": page(figures)}
