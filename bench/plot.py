"""Small charts as SVG, lines and bars, written by hand so that drawing one needs no package."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from html import escape

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 400, 70, 170, 64, 60
COLOURS = ("#1b6ca8", "#c2571a", "#3c8d40", "#8a3ea8", "#6b6b6b")
LABEL_HEIGHT = 15
"""Least space between the names of two lines."""
BAR, BAR_LEFT, BAR_RIGHT = 26, 250, 90
"""Height of a bar with its space; room for names on the left, for figures on the right."""
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
    drawn = {name: [place(at, line[at]) for at in sorted(line)] for name, line in lines.items()}
    labels = _apart({name: points[-1][1] for name, points in drawn.items()})
    for (name, points), colour in zip(drawn.items(), COLOURS, strict=False):
        parts += _drawn(points, colour)
        parts.append(_text(points[-1][0] + 10, labels[name] + 4, name, colour=colour))
    return "\n".join([*parts, "</svg>", ""])


def bar_chart(title: str, values: Mapping[str, float], *, x: str, ours: Collection[str] = ()) -> str:
    """One bar a name, from zero to a hundred; ours stand out."""
    height = TOP + BAR * len(values) + BOTTOM
    span = WIDTH - BAR_LEFT - BAR_RIGHT
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" '
        'font-size="13">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        _text(WIDTH / 2, 24, title, anchor="middle", size=16),
        _text(BAR_LEFT + span / 2, height - 16, x, anchor="middle"),
    ]
    for step in range(TICKS):
        across = round(BAR_LEFT + span * step / (TICKS - 1), 1)
        parts.append(f'<path d="M{across} {TOP - 8}V{height - BOTTOM}" stroke="#ddd"/>')
        parts.append(_text(across, height - BOTTOM + 18, f"{100 * step / (TICKS - 1):g}", anchor="middle"))
    for place, (name, value) in enumerate(values.items()):
        down, colour = TOP + BAR * place, COLOURS[0] if name in ours else COLOURS[1]
        long = round(span * value / 100, 1)
        parts += [
            f'<rect x="{BAR_LEFT}" y="{down}" width="{long}" height="{BAR - 8}" fill="{colour}"/>',
            _text(BAR_LEFT - 8, down + 14, name, anchor="end"),
            _text(BAR_LEFT + long + 6, down + 14, f"{value:.0f}"),
        ]
    return "\n".join([*parts, "</svg>", ""])


def _apart(wanted: Mapping[str, float]) -> dict[str, float]:
    """Places for names that no two share, from the lowest line up: what is too near moves up."""
    placed: dict[str, float] = {}
    last = math.inf
    for name, down in sorted(wanted.items(), key=lambda one: -one[1]):
        last = placed[name] = round(min(down, last - LABEL_HEIGHT), 1)
    return placed


def _drawn(points: list[tuple[float, float]], colour: str) -> list[str]:
    path = " ".join(f"{across},{down}" for across, down in points)
    return [
        f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>',
        *(f'<circle cx="{across}" cy="{down}" r="3" fill="{colour}"/>' for across, down in points),
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
