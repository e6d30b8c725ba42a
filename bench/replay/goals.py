"""What was to be reached, beside the figures of a replay."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bench.machine import bar
from nacre.messages.blocks import Json, JsonObject

OPUS = "claude-opus-5-5"
GOALS = {200_000: (0.68, 98.0, 97.0), 100_000: (0.60, 95.0, 92.0), 60_000: (0.50, 0.0, 0.0)}
"""By window: share of the append-only bill at most, percent of pairs and of edits at least."""
WORK_SHARE = 0.05
"""Cost of notes and memories as a share of the conversation."""
BELOW_PEERS = 0.9
SHORT_SHARE = 1.01
"""Cost of a chat whose sessions are short, as a share of the append-only bill."""
KEPT = ("usable_pairs", "usable_edits")


def bars_of(figures: JsonObject, ours: Sequence[str]) -> list[Json]:
    """Return every bar; `ours` are the names of nacre's policies."""
    data: Any = figures
    cells = data["cells"]
    mine = [row for cell in cells for row in cell["policies"] if row["policy"] in ours]
    found: list[Json] = [
        bar("requests of ours that would be refused", sum(row["refused"] for row in mine), at_most=0),
        bar("unannounced prefix breaks", sum(row["unannounced"] for row in mine), at_most=0),
    ]
    for cell in cells:
        if cell["sessions"] == "recorded" and cell["model"] == OPUS:
            for peer in data["peers"]:
                what = f"settings that cost no more and keep more than {peer} ({cell['title']})"
                found.append(bar(what, len(beaten_by(cell, peer, ours)), at_least=1))
    first = _rows(cells[0])
    found.append(bar("own time of a request, p50 ms", first["nacre"]["cpu_ms_p50"], at_most=1.0))
    if "pauses" in data:
        cost = data["pauses"]["input_usd"]
        share = round(cost["nacre"] / cost["none"], 4)
        found.append(bar("of the append-only bill, sessions with pauses", share, at_most=0.9))
    for cell in cells:
        if cell["sessions"] == "recorded":
            found += _recorded(cell, data["peers"])
        elif "nacre-chat" in _rows(cell) and cell["sessions"] == "trajectories":
            share = _rows(cell)["nacre-chat"]["of_append_only"]
            found.append(bar(f"of append-only: nacre-chat ({cell['title']})", share, at_most=SHORT_SHARE))
    return found


def beaten_by(cell: Any, peer: str, ours: Sequence[str]) -> list[str]:
    """Return which of our settings cost no more than a peer and keep more, of pairs and of edits."""
    rows = _rows(cell)
    if peer not in rows:
        return []
    theirs = rows[peer]
    found = []
    for name in ours:
        if name in rows and rows[name]["input_usd"] <= theirs["input_usd"]:
            more = [rows[name][key] - theirs[key] for key in KEPT]
            if min(more) >= 0 and max(more) > 0:
                found.append(name)
    return found


def _recorded(cell: Any, peers: Sequence[str]) -> list[Json]:
    """Return the bars of the whole bill, for recorded results and for those of nacre's own tools."""
    rows = _rows(cell)
    found: list[Json] = []
    for name in ("nacre-chat", "nacre-tools"):
        mine = rows[name]
        label = f"{name} ({cell['title']})"
        if cell["model"] == OPUS:
            share, pairs, edits = GOALS[cell["window"]]
            found.append(bar(f"of append-only: {label}", mine["of_append_only"], at_most=share))
            found.append(bar(f"percent of pairs: {label}", mine["usable_pairs"], at_least=pairs))
            found.append(bar(f"percent of edits: {label}", mine["usable_edits"], at_least=edits))
        elif there := [rows[peer] for peer in peers if peer in rows]:
            cheapest = min(there, key=lambda row: row["of_append_only"])
            ratio = round(mine["of_append_only"] / cheapest["of_append_only"], 4)
            found.append(bar(f"of the cheapest peer: {label}", ratio, at_most=BELOW_PEERS))
            for key in KEPT:
                what = f"{key} beside the cheapest peer: {label}"
                found.append(bar(what, mine[key], at_least=cheapest[key]))
    work = round(rows["nacre-chat"]["input_usd"] / rows["nacre-model"]["input_usd"] - 1, 4)
    found.append(bar(f"notes and memories, of the conversation ({cell['title']})", work, at_most=WORK_SHARE))
    return found


def _rows(cell: Any) -> dict[str, Any]:
    return {row["policy"]: row for row in cell["policies"]}
