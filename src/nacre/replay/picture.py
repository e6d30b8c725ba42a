"""A picture of the context over time, one line a policy, with what each layer did marked under it (P7).

SVG is written by hand and needs no package; PNG needs the extra `plot`.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from nacre.errors import ConfigError, StoreError
from nacre.plain import how_to_install
from nacre.replay.drawing import ACROSS, MARKS, THOUSAND, TITLE, UP, WINDOW_COLOUR, Drawing, drawing
from nacre.replay.drawing_svg import svg
from nacre.replay.run import Replayed, Terms
from nacre.store import disk

if TYPE_CHECKING:
    from typing import Any

    Axes = Any
    """Of matplotlib, which need not be there."""

INCHES_WIDE, INCHES_HIGH, INCHES_A_LANE = 12, 6, 0.35
BELOW = 0.25
"""Of a lane: between two marks of one request."""
SIZE = 30
"""Of a mark, in matplotlib's square points."""


def check(path: Path) -> None:
    """Raise before any work is done when a picture could not be drawn there."""
    suffix = path.suffix.lower()
    if suffix not in {".svg", ".png"}:
        raise ConfigError(f"a picture ends in .svg or .png, not in {suffix!r}; rename {path.name}")
    if not path.absolute().parent.is_dir():
        raise ConfigError(f"there is no folder {path.absolute().parent} for the picture; make it first")
    if suffix == ".png":
        _figures()


def draw(replayed: Sequence[Replayed], path: Path, terms: Terms) -> None:
    """Write a picture of sessions one after another; the ending of the path says in which form."""
    check(path)
    picture = drawing(replayed, terms)
    data = svg(picture).encode() if path.suffix.lower() == ".svg" else _png(picture)
    try:
        path.write_bytes(data)
    except OSError as error:
        raise StoreError(disk.explain(error, path)) from error


def _figures() -> ModuleType:
    try:
        # By name, so that neither the type checker nor an import at start-up asks for the package.
        return importlib.import_module("matplotlib.figure")
    except ImportError:
        raise ConfigError(f"a PNG needs matplotlib, or name a .svg file; {how_to_install('plot')}") from None


def _png(picture: Drawing) -> bytes:
    lanes = picture.lanes()
    strip = max(1, len(lanes)) * INCHES_A_LANE
    figure = _figures().Figure(figsize=(INCHES_WIDE, INCHES_HIGH + strip), layout="constrained")
    axes, below = figure.subplots(2, sharex=True, height_ratios=[INCHES_HIGH, strip])
    for name, points in picture.lines.items():
        heights = [point.tokens / THOUSAND for point in points]
        axes.plot(range(1, len(points) + 1), heights, label=name, color=picture.colour(name), linewidth=1.4)
    axes.axhline(picture.window / THOUSAND, color=WINDOW_COLOUR, linestyle="--", linewidth=1, label="window")
    for end in picture.ends:
        axes.axvline(end + 0.5, color="#eeeeee", linewidth=0.8, zorder=0)
    axes.set(title=f"{TITLE}\n{picture.subtitle}", ylabel=UP)
    axes.set_ylim(0, picture.top / THOUSAND)
    axes.legend(loc="best")
    _png_lanes(picture, below)
    if lanes:
        handles = below.get_legend_handles_labels()[0]
        figure.legend(handles=handles, loc="outside lower center", ncols=len(MARKS))
    data = BytesIO()
    figure.savefig(data, format="png")
    return data.getvalue()


def _png_lanes(picture: Drawing, axes: Axes) -> None:
    lanes = picture.lanes()
    axes.set(xlabel=ACROSS, yticks=range(len(lanes)), yticklabels=list(lanes))
    axes.set_ylim(len(lanes) - 0.5, -0.5)
    for lane, (name, deeds) in enumerate(lanes.items()):
        for deed in deeds:
            spot = ([deed.index + 1], [lane + BELOW * deed.place])
            axes.scatter(*spot, marker=MARKS[deed.kind].marker, color=picture.colour(name), s=SIZE)
    for kind in picture.kinds():
        axes.scatter([], [], marker=MARKS[kind].marker, color="#222222", label=MARKS[kind].words)
