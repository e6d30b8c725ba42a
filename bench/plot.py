"""A small line chart as SVG, written by hand so that drawing one needs no package."""

from __future__ import annotations

import math
from collections.abc import Mapping
from html import escape

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 400, 70, 170, 64, 60
COLOURS = ("#1b6ca8", "#c2571a", "#3c8d40", "#8a3ea8")
TICKS = 5
"""Lines across the chart, the axis included."""

Line = Mapping[float, float]


def chart(title: str, lines: Mapping[str, Line], *, x: str, y: str) -> str:
    """Lines over a logarithmic x axis and a y axis that starts at zero."""
    xs = sorted({at for line in lines.values() for at in line})
    top = _round_up(max(value for line in lines.values() for value in line.values()))
    low, high = math.log10(xs[0]), math.log10(xs[-1])

    def place(at: float, value: float) -> tuple[float, float]:
        across = (math.log10(at) - low) / ((high - low) or 1.0)
        return (
            round(LEFT + across * (WIDTH - LEFT - RIGHT), 1),
            round(HEIGHT - BOTTOM - value / top * (HEIGHT - TOP - BOTTOM), 1),
        )

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        'font-size="13">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        _text(WIDTH / 2, 24, title, anchor="middle", size=16),
        _text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 16, x, anchor="middle"),
        _text(14, TOP - 14, y),
    ]
    for step in range(TICKS):
        value = top * step / (TICKS - 1)
        (begin, height), (end, _) = place(xs[0], value), place(xs[-1], value)
        parts.append(f'<path d="M{begin} {height}H{end}" stroke="#ddd"/>')
        parts.append(_text(begin - 8, height + 4, f"{value:g}", anchor="end"))
    parts += [_text(place(at, 0)[0], HEIGHT - BOTTOM + 20, f"{at:,.0f}", anchor="middle") for at in xs]
    for (name, line), colour in zip(lines.items(), COLOURS, strict=False):
        parts += _drawn(name, [place(at, line[at]) for at in sorted(line)], colour)
    return "\n".join([*parts, "</svg>", ""])


def _drawn(name: str, points: list[tuple[float, float]], colour: str) -> list[str]:
    path = " ".join(f"{across},{down}" for across, down in points)
    last_across, last_down = points[-1]
    return [
        f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>',
        *(f'<circle cx="{across}" cy="{down}" r="3" fill="{colour}"/>' for across, down in points),
        _text(last_across + 10, last_down + 4, name, colour=colour),
    ]


def _text(
    across: float, down: float, words: str, *, anchor: str = "start", size: int = 13, colour: str = "#222"
) -> str:
    return (
        f'<text x="{across}" y="{down}" text-anchor="{anchor}" font-size="{size}" fill="{colour}">'
        f"{escape(words)}</text>"
    )


def _round_up(value: float) -> float:
    """The next number that divides well into ticks."""
    unit: float = 10 ** math.floor(math.log10(value))
    return next(unit * step for step in (1, 2, 4, 6, 8, 10) if unit * step >= value)
