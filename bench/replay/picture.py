"""Cost against retention, a panel for each window, as an SVG written by hand."""

from __future__ import annotations

from html import escape
from typing import Any

from nacre.messages.blocks import JsonObject

PANEL, GAP, TOP, LEFT, BOTTOM = 300, 60, 70, 60, 110
OURS, REFERENCE, PEER = "#1b6ca8", "#777777", "#c2571a"
MOST = 1.6
"""What costs more of the append-only bill stands at the edge."""


def draw(figures: JsonObject) -> str:
    """The panels of the main model, side by side."""
    found: Any = figures
    cells = [cell for cell in found["cells"] if cell["model"] == "claude-opus-5-5"]
    cells = [cell for cell in cells if cell["sessions"] == "recorded"] or cells
    width = LEFT + len(cells) * (PANEL + GAP)
    height = TOP + PANEL + BOTTOM
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="11">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="{LEFT}" y="24" font-size="15">What recorded sessions cost, and what is kept of what is '
        "needed later (up and to the left is better)</text>",
        *_legend(height),
    ]
    for number, cell in enumerate(cells):
        parts += _panel(cell, LEFT + number * (PANEL + GAP))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _legend(height: int) -> list[str]:
    known = ((OURS, "nacre's settings"), (PEER, "other libraries"), (REFERENCE, "append-only, published"))
    return [
        f'<circle cx="{LEFT + 200 * n}" cy="{height - 18}" r="5" fill="{colour}"/>'
        f'<text x="{LEFT + 200 * n + 10}" y="{height - 14}">{escape(text)}</text>'
        for n, (colour, text) in enumerate(known)
    ]


def _panel(cell: Any, x: int) -> list[str]:
    parts = [
        f'<text x="{x}" y="{TOP - 14}" font-size="12">{escape(cell["title"])}</text>',
        f'<rect x="{x}" y="{TOP}" width="{PANEL}" height="{PANEL}" fill="none" stroke="#cccccc"/>',
    ]
    for tick in range(0, 101, 20):
        y = TOP + PANEL - tick / 100 * PANEL
        parts.append(f'<text x="{x - 6}" y="{y + 4:.0f}" text-anchor="end">{tick}</text>')
    for tick in (0.0, 0.4, 0.8, 1.2, 1.6):
        at = x + tick / MOST * PANEL
        parts.append(f'<text x="{at:.0f}" y="{TOP + PANEL + 16}" text-anchor="middle">{tick:g}</text>')
    parts.append(
        f'<text x="{x + PANEL / 2:.0f}" y="{TOP + PANEL + 36}" text-anchor="middle">'
        "cost, of the append-only bill; height: percent of pairs kept</text>"
    )
    return [*parts, *_points(cell["policies"], x)]


def _points(policies: Any, x: int) -> list[str]:
    parts: list[str] = []
    taken: list[float] = []
    for row in sorted(policies, key=lambda one: -one["usable_pairs"]):
        at = x + min(row["of_append_only"], MOST) / MOST * PANEL
        y = TOP + PANEL - row["usable_pairs"] / 100 * PANEL
        label = y
        while any(abs(label - other) < 11 for other in taken):
            label += 3
        taken.append(label)
        name = row["policy"]
        colour = OURS if name.startswith("nacre") else REFERENCE if name.islower() else PEER
        is_right = at > x + PANEL * 0.6
        anchor, shift = ("end", -8) if is_right else ("start", 8)
        parts.append(f'<circle cx="{at:.0f}" cy="{y:.0f}" r="4.5" fill="{colour}"/>')
        parts.append(
            f'<text x="{at + shift:.0f}" y="{label + 4:.0f}" text-anchor="{anchor}" font-size="9" '
            f'fill="{colour}">{escape(name)}</text>'
        )
    return parts
