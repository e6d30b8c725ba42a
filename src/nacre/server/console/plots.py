"""Plots as SVG for a template: shapes with numbers only, so that no style has to be inline."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

WIDTH = 640
HEIGHT = 150
TOP = 12
BOTTOM = 2
LEFT = 4
MIN_BAR = 1.5


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar of a plot."""

    x: float
    y: float
    width: float
    height: float
    label: str
    """What a reader of the bar learns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """Bars over time."""

    title: str
    bars: tuple[Bar, ...]
    first: str
    last: str
    most: str
    """The value of the highest bar."""
    width: int = WIDTH
    height: int = HEIGHT
    base: int = HEIGHT - BOTTOM


def bars(title: str, rows: Sequence[tuple[str, float, str]], *, most: str) -> Plot:
    """Return a plot of rows with a name, a value and the value as text; missing values are 0."""
    highest = max((value for _, value, _ in rows), default=0.0) or 1.0
    step = (WIDTH - 2 * LEFT) / max(1, len(rows))
    width = min(28.0, step * 0.72)
    room = HEIGHT - TOP - BOTTOM
    found = []
    for n, (name, value, text) in enumerate(rows):
        height = max(MIN_BAR, value / highest * room) if value > 0 else 0.0
        x = LEFT + n * step + (step - width) / 2
        y = HEIGHT - BOTTOM - height
        found.append(Bar(round(x, 1), round(y, 1), round(width, 1), round(height, 1), f"{name}: {text}"))
    names = [name for name, _, _ in rows]
    return Plot(
        title=title, bars=tuple(found), first=names[0] if names else "", last=names[-1] if names else "",
        most=most,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Dot:
    """A memory in the graph."""

    x: float
    y: float
    name: str
    file: str
    kind: str
    links: int
    anchor: str
    """Side of the label: start or end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """Memories and the links between them, on a circle."""

    dots: tuple[Dot, ...]
    lines: tuple[tuple[float, float, float, float], ...]
    width: int
    height: int


def circle(names: Sequence[tuple[str, str, str]], links: Sequence[tuple[str, str]]) -> Graph:
    """Return memories (file, name, type) on a circle, each link as a line."""
    height = min(900, max(320, 24 * len(names)))
    width = 760
    radius_x, radius_y = width / 2 - 210, height / 2 - 28
    count = {file: sum(file in pair for pair in links) for file, _, _ in names}
    places: dict[str, tuple[float, float]] = {}
    dots = []
    for n, (file, name, kind) in enumerate(names):
        angle = 2 * math.pi * n / max(1, len(names)) - math.pi / 2
        x = round(width / 2 + radius_x * math.cos(angle), 1)
        y = round(height / 2 + radius_y * math.sin(angle), 1)
        places[file] = x, y
        dots.append(Dot(x, y, name, file, kind, count[file], "start" if x >= width / 2 else "end"))
    lines = tuple((*places[one], *places[two]) for one, two in links if one in places and two in places)
    return Graph(dots=tuple(dots), lines=lines, width=width, height=height)
