"""Cost against retention, a panel for each window, as an SVG written by hand."""

from __future__ import annotations

from html import escape
from typing import Any

from nacre.messages.blocks import JsonObject

PANEL, GAP, TOP, LEFT, ROW, COLUMN = 300, 60, 70, 60, 18, 330
OURS, REFERENCE, PEER = "#1b6ca8", "#777777", "#c2571a"
REFERENCES = frozenset({"none", "truncate", "claude-code"})
CHEAPEST, DEAREST = 0.5, 1.2
"""Of the append-only bill; what lies beyond stands at the edge."""
LOWEST = 40.0
"""Percent kept below which a policy stands at the edge."""


def draw(figures: JsonObject) -> str:
    """The panels of the main model, side by side, with a number for each policy."""
    found: Any = figures
    cells = [cell for cell in found["cells"] if cell["model"] == "claude-opus-5-5"]
    cells = [cell for cell in cells if cell["sessions"] == "recorded"] or cells
    names = [row["policy"] for row in cells[0]["policies"]]
    rows = -(-len(names) // 4)
    width, height = LEFT + max(4, len(cells)) * (PANEL + GAP), TOP + PANEL + 70 + rows * ROW
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="11">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="{LEFT}" y="24" font-size="15">What recorded sessions cost, and what is kept of what is '
        "needed later (up and to the left is better)</text>",
    ]
    for number, cell in enumerate(cells):
        parts += _panel(cell, LEFT + number * (PANEL + GAP), names)
    for number, name in enumerate(names):
        x, y = LEFT + 8 + number // rows * COLUMN, TOP + PANEL + 60 + number % rows * ROW
        parts += [_dot(x, y, number, name), f'<text x="{x + 14}" y="{y + 4}">{escape(name)}</text>']
    return "\n".join([*parts, "</svg>"]) + "\n"


def _panel(cell: Any, x: int, names: list[str]) -> list[str]:
    lowest = min(
        (row["usable_pairs"] for row in cell["policies"] if row["usable_pairs"] >= LOWEST), default=0
    )
    floor = int(lowest // 10 * 10)
    parts = [
        f'<text x="{x}" y="{TOP - 14}" font-size="12">{escape(cell["title"])}</text>',
        f'<rect x="{x}" y="{TOP}" width="{PANEL}" height="{PANEL}" fill="none" stroke="#cccccc"/>',
    ]
    for tick in range(floor, 101, 10):
        y = TOP + PANEL - (tick - floor) / (100 - floor) * PANEL
        parts.append(f'<line x1="{x}" x2="{x + PANEL}" y1="{y:.0f}" y2="{y:.0f}" stroke="#eeeeee"/>')
        parts.append(f'<text x="{x - 6}" y="{y + 4:.0f}" text-anchor="end">{tick}</text>')
    for tick in (0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1):
        parts.append(
            f'<text x="{_across(tick, x):.0f}" y="{TOP + PANEL + 16}" text-anchor="middle">{tick:g}</text>'
        )
    parts.append(
        f'<text x="{x + PANEL / 2:.0f}" y="{TOP + PANEL + 34}" text-anchor="middle">'
        "cost, of the append-only bill; height: percent of pairs kept</text>"
    )
    for row in cell["policies"]:
        kept = max(row["usable_pairs"], floor)
        y = TOP + PANEL - (kept - floor) / (100 - floor) * PANEL
        name = row["policy"]
        parts.append(_dot(_across(row["of_append_only"], x), y, names.index(name), name))
    return parts


def _across(share: float, x: int) -> float:
    return x + (min(max(share, CHEAPEST), DEAREST) - CHEAPEST) / (DEAREST - CHEAPEST) * PANEL


def _dot(x: float, y: float, number: int, name: str) -> str:
    colour = OURS if name.startswith("nacre") else REFERENCE if name in REFERENCES else PEER
    return (
        f'<circle cx="{x:.0f}" cy="{y:.0f}" r="8" fill="{colour}" fill-opacity="0.85"/>'
        f'<text x="{x:.0f}" y="{y + 3:.0f}" text-anchor="middle" font-size="9" fill="white">'
        f"{number + 1}</text>"
    )
