"""Chart of the context over time, one line per policy, with the actions of each layer marked below (P7).

SVG is written directly and needs no package; PNG needs the extra `plot`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from io import BytesIO
from math import floor, log10
from pathlib import Path
from types import ModuleType

from nacre.devtools.replay.run import Replayed, ReplayTerms
from nacre.devtools.replay.schema import ActionKind, ChartPoint
from nacre.errors import ConfigError, StoreError
from nacre.formatting import how_to_install
from nacre.store import disk

INCHES_WIDE = 12
INCHES_HIGH = 6
INCHES_A_LANE = 0.35
BELOW = 0.25
"""Distance between two marks of one request, as a share of a lane."""
SIZE = 30
"""Size of a mark, in matplotlib's square points."""


def check(path: Path) -> None:
    """Raise before any work is done if a chart cannot be written to this path."""
    suffix = path.suffix.lower()
    if suffix not in {".svg", ".png"}:
        raise ConfigError(f"a picture ends in .svg or .png, not in {suffix!r}; rename {path.name}")
    if not path.absolute().parent.is_dir():
        raise ConfigError(f"there is no folder {path.absolute().parent} for the picture; make it first")
    if suffix == ".png":
        _figures()


def draw(replayed: Sequence[Replayed], path: Path, terms: ReplayTerms) -> None:
    """Write a chart of sessions one after another; the suffix of the path selects the format."""
    check(path)
    picture = drawing(replayed, terms)
    data = svg(picture).encode() if path.suffix.lower() == ".svg" else _png(picture)
    try:
        path.write_bytes(data)
    except OSError as error:
        raise StoreError(disk.explain(error, path)) from error


def _figures() -> ModuleType:
    try:
        # By name, so that neither the type checker nor an import at start-up needs the package.
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
    below.set(xlabel=ACROSS, yticks=range(len(lanes)), yticklabels=list(lanes))
    below.set_ylim(len(lanes) - 0.5, -0.5)
    for lane, (name, actions) in enumerate(lanes.items()):
        for action in actions:
            spot = ([action.index + 1], [lane + BELOW * action.place])
            below.scatter(*spot, marker=MARKS[action.kind].marker, color=picture.colour(name), s=SIZE)
    for kind in picture.kinds():
        below.scatter([], [], marker=MARKS[kind].marker, color="#222222", label=MARKS[kind].words)
    if lanes:
        handles = below.get_legend_handles_labels()[0]
        figure.legend(handles=handles, loc="outside lower center", ncols=len(MARKS))
    data = BytesIO()
    figure.savefig(data, format="png")
    return data.getvalue()


TITLE = "Context of each request"
ACROSS = "requests, one after another"
UP = "thousand tokens"
COLOURS = ("#888888", "#c2571a", "#8a3ea8", "#1b6ca8", "#3c8d40")
"""One per policy, in their order; distinguishable for people with red-green colour blindness."""
WINDOW_COLOUR = "#cc0000"
NICE = (1, 2, 5, 10)
"""Steps of an axis are one of these times a power of ten."""
TICKS = 5
"""Approximate number of ticks on an axis."""
THOUSAND = 1_000
HEADROOM = 1.05
"""Keeps the highest line off the edge."""


@dataclass(frozen=True, slots=True)
class Mark:
    """Symbol of one kind of action."""

    words: str
    outline: str
    """An SVG path around 0,0."""
    marker: str
    """The same for matplotlib."""
    is_filled: bool = True


MARKS: Mapping[ActionKind, Mark] = {
    "offload": Mark("offloaded, or referred to", "M-5 -4H5L0 5Z", "v"),
    "clear": Mark("old results cleared", "M0 -6L6 0L0 6L-6 0Z", "D"),
    "compact": Mark("compacted", "M-5 0A5 5 0 1 0 5 0A5 5 0 1 0 -5 0Z", "o"),
    "truncate": Mark("cut off", "M-4 -4L4 4M4 -4L-4 4", "x", is_filled=False),
    "refresh": Mark("cache kept warm", "M-3 0A3 3 0 1 0 3 0A3 3 0 1 0 -3 0Z", "$\\circ$", is_filled=False),
}


@dataclass(frozen=True, slots=True)
class ChartAction:
    """An action before a request."""

    index: int
    kind: ActionKind
    place: int
    """Its index among the actions before this request, so that marks do not overlap."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """Lines, and a lane of actions for each policy that has any."""

    lines: Mapping[str, Sequence[ChartPoint]]
    window: int
    subtitle: str = ""
    ends: tuple[int, ...] = ()
    """Indexes at which one session ends and the next begins."""

    @property
    def steps(self) -> int:
        return max((len(points) for points in self.lines.values()), default=0)

    @property
    def top(self) -> float:
        most = max((point.tokens for points in self.lines.values() for point in points), default=0)
        return max(most, self.window) * HEADROOM

    def colour(self, name: str) -> str:
        return COLOURS[list(self.lines).index(name) % len(COLOURS)]

    def lanes(self) -> dict[str, list[ChartAction]]:
        """Actions of each policy that has any."""
        lanes = {
            name: [
                ChartAction(index, kind, place)
                for index, point in enumerate(points)
                for place, kind in enumerate(k for k in MARKS if any(one.kind == k for one in point.actions))
            ]
            for name, points in self.lines.items()
        }
        return {name: actions for name, actions in lanes.items() if actions}

    def kinds(self) -> list[ActionKind]:
        """The kinds of actions, in the order of the legend."""
        seen = {action.kind for actions in self.lanes().values() for action in actions}
        return [kind for kind in MARKS if kind in seen]


def drawing(replayed: Sequence[Replayed], terms: ReplayTerms) -> Drawing:
    """Return the sessions one after another, one line per policy."""
    lines: dict[str, list[ChartPoint]] = {}
    ends: dict[str, list[int]] = {}
    for one in replayed:
        points = lines.setdefault(one.policy, [])
        points.extend(one.points)
        ends.setdefault(one.policy, []).append(len(points))
    sessions = next(iter(ends.values()), [])
    count = f"{len(sessions):,} session{'s' * (len(sessions) != 1)}"
    subtitle = f"{count}, {terms.model}, window {terms.window:,} tokens"
    return Drawing(lines=lines, window=terms.window, subtitle=subtitle, ends=tuple(sessions[:-1]))


def ticks(most: float, *, about: int = TICKS) -> list[int]:
    """Return round numbers from 0 up to the maximum."""
    rough = most / about
    power = 10 ** floor(log10(rough)) if rough >= 1 else 1
    step = int(next(nice * power for nice in NICE if nice * power >= rough))
    return list(range(0, floor(most) + 1, step))


WIDTH = 960
LEFT = 110
RIGHT = 930
TOP = 100
PLOT = 280
"""Height of the plot area."""
LANE = 22
AXIS = 46
"""Height between the plot area and the first lane: numbers and their label."""
KEY = 44
BESIDE = 10
"""Distance between two marks of one request."""
ACROSS_TICKS = 10
CHAR = 7.6
"""Approximate width of a letter, for the layout of a row of text."""

_Place = Callable[[float, float], tuple[float, float]]


def svg(picture: Drawing) -> str:
    """Return the chart as SVG text."""
    lanes = picture.lanes()
    height = TOP + PLOT + AXIS + LANE * len(lanes) + (KEY if lanes else 0)
    top = picture.top
    last = max(1, picture.steps - 1)

    def place(index: float, tokens: float) -> tuple[float, float]:
        across = LEFT + index / last * (RIGHT - LEFT)
        return round(across, 1), round(TOP + PLOT - tokens / top * PLOT, 1)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" '
        'font-size="13">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        _text(WIDTH / 2, 26, TITLE, anchor="middle", size=17),
        _text(WIDTH / 2, 46, picture.subtitle, anchor="middle", colour="#555"),
        *_names(picture),
        *_axes(picture, place),
        *_lines(picture, place),
        *_lanes(picture, place),
    ]
    return "\n".join([*parts, "</svg>", ""])


def _names(picture: Drawing) -> list[str]:
    """Return the legend of the lines, in a row above the plot area."""
    parts = []
    across = float(LEFT)
    for name in picture.lines:
        colour = picture.colour(name)
        parts.append(f'<path d="M{across:.1f} 69h22" stroke="{colour}" stroke-width="3"/>')
        parts.append(_text(across + 28, 73, name, colour=colour))
        across += 28 + CHAR * len(name) + 26
    return parts


def _axes(picture: Drawing, place: _Place) -> list[str]:
    bottom = TOP + PLOT
    parts = [
        _text(14, TOP - 10, UP, colour="#555"),
        _text((LEFT + RIGHT) / 2, bottom + 36, ACROSS, anchor="middle", colour="#555"),
    ]
    for tokens in ticks(picture.top):
        _, down = place(0, tokens)
        parts.append(f'<path d="M{LEFT} {down}H{RIGHT}" stroke="#ddd"/>')
        parts.append(_text(LEFT - 8, down + 4, f"{tokens / THOUSAND:,g}", anchor="end"))
    for number in ticks(picture.steps, about=ACROSS_TICKS):
        across, _ = place(max(0, number - 1), 0)
        if number:
            parts.append(f'<path d="M{across} {bottom}v5" stroke="#888"/>')
            parts.append(_text(across, bottom + 19, f"{number:,}", anchor="middle"))
    for end in picture.ends:
        across, _ = place(end - 0.5, 0)
        parts.append(f'<path d="M{across} {TOP}V{bottom}" stroke="#eee"/>')
    _, down = place(0, picture.window)
    parts.append(f'<path d="M{LEFT} {down}H{RIGHT}" stroke="{WINDOW_COLOUR}" stroke-dasharray="6 4"/>')
    return [*parts, _text(LEFT + 6, down - 5, "window", colour=WINDOW_COLOUR)]


def _lines(picture: Drawing, place: _Place) -> list[str]:
    parts = []
    for name, points in picture.lines.items():
        spots = (place(index, point.tokens) for index, point in enumerate(points))
        path = " ".join(f"{across},{down}" for across, down in spots)
        parts.append(
            f'<polyline points="{path}" fill="none" stroke="{picture.colour(name)}" stroke-width="1.8" '
            'stroke-opacity="0.85"/>'
        )
    return parts


def _lanes(picture: Drawing, place: _Place) -> list[str]:
    """Return the actions, each under the request it precedes, and the legend of the symbols."""
    parts = []
    down = TOP + PLOT + AXIS + LANE / 2
    for name, actions in picture.lanes().items():
        colour = picture.colour(name)
        parts.append(f'<path d="M{LEFT} {down}H{RIGHT}" stroke="#eee"/>')
        parts.append(_text(LEFT - 8, down + 4, name, anchor="end", colour=colour))
        parts += [
            _mark(one.kind, place(one.index, 0)[0] + BESIDE * one.place, down, colour) for one in actions
        ]
        down += LANE
    across = float(LEFT)
    for kind in picture.kinds():
        parts.append(_mark(kind, across + 6, down + 14, "#222", role="key"))
        parts.append(_text(across + 18, down + 18, MARKS[kind].words))
        across += 18 + CHAR * len(MARKS[kind].words) + 26
    return parts


def _mark(kind: ActionKind, across: float, down: float, colour: str, *, role: str = "deed") -> str:
    mark = MARKS[kind]
    fill = colour if mark.is_filled else "none"
    return (
        f'<path class="{role} {kind}" d="{mark.outline}" transform="translate({across:.1f} {down:.1f})" '
        f'fill="{fill}" stroke="{colour}" stroke-width="1.5"/>'
    )


def _text(
    across: float, down: float, words: str, *, anchor: str = "start", size: int = 13, colour: str = "#222"
) -> str:
    return (
        f'<text x="{across:.1f}" y="{down:.1f}" text-anchor="{anchor}" font-size="{size}" fill="{colour}">'
        f"{escape(words)}</text>"
    )
