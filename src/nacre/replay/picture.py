"""A picture of the context over time, one line a policy, with what each layer did marked on it (P7).

SVG is written by hand and needs no package; PNG needs the extra `plot`.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from html import escape
from io import BytesIO
from pathlib import Path
from types import ModuleType

from nacre.errors import ConfigError, StoreError
from nacre.replay.run import Replayed
from nacre.replay.schema import ActionKind, Point
from nacre.store import disk

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 960, 480, 80, 170, 64, 84
COLOURS = ("#888888", "#c2571a", "#8a3ea8", "#1b6ca8", "#3c8d40")
MARKS: Mapping[ActionKind, tuple[str, str]] = {
    "offload": ("▾", "offloaded"),
    "clear": ("◆", "cleared"),
    "compact": ("●", "compacted"),
    "truncate": ("✂", "cut off"),
    "refresh": ("·", "kept warm"),
}
"""A sign and a word for each thing a layer does."""
TICKS = 5
"""Lines across the picture, the axis included."""
THOUSAND = 1_000


def check(path: Path) -> None:
    """Raise before any work is done when a picture could not be drawn there."""
    suffix = path.suffix.lower()
    if suffix == ".png":
        _figures()
    elif suffix != ".svg":
        raise ConfigError(f"a picture ends in .svg or .png, not in {suffix!r}; rename {path.name}")


def draw(replayed: Sequence[Replayed], path: Path, *, window: int) -> None:
    """Write a picture of sessions one after another; the ending of the path says in which form."""
    check(path)
    lines = _lines(replayed)
    is_svg = path.suffix.lower() == ".svg"
    data = svg(lines, window=window).encode() if is_svg else _png(lines, window)
    try:
        path.write_bytes(data)
    except OSError as error:
        raise StoreError(disk.explain(error, path)) from error


def svg(lines: Mapping[str, Sequence[Point]], *, window: int) -> str:
    """The picture as text."""
    most = max((point.tokens for points in lines.values() for point in points), default=0)
    top = max(most, window) * 1.05
    steps = max((len(points) for points in lines.values()), default=1)

    def place(index: int, tokens: float) -> tuple[float, float]:
        across = LEFT + index / max(1, steps - 1) * (WIDTH - LEFT - RIGHT)
        return round(across, 1), round(HEIGHT - BOTTOM - tokens / top * (HEIGHT - TOP - BOTTOM), 1)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        'font-size="13">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        _text(WIDTH / 2, 24, "Context of each request", anchor="middle", size=16),
        _text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 40, "requests", anchor="middle"),
        _text(14, TOP - 14, "thousand tokens"),
    ]
    for step in range(TICKS):
        begin, down = place(0, top * step / (TICKS - 1))
        parts.append(f'<path d="M{begin} {down}H{WIDTH - RIGHT}" stroke="#ddd"/>')
        parts.append(_text(begin - 8, down + 4, f"{top * step / (TICKS - 1) / THOUSAND:,.0f}", anchor="end"))
    begin, down = place(0, window)
    parts.append(f'<path d="M{begin} {down}H{WIDTH - RIGHT}" stroke="#c00" stroke-dasharray="6 4"/>')
    parts.append(_text(WIDTH - RIGHT + 8, down + 4, "window", colour="#c00"))
    for number, (name, points) in enumerate(lines.items()):
        colour = COLOURS[number % len(COLOURS)]
        spots = [place(index, point.tokens) for index, point in enumerate(points)]
        parts += _drawn(points, spots, colour)
        parts.append(_text(WIDTH - RIGHT + 8, TOP + 20 * number, name, colour=colour))
    key = "   ".join(f"{sign} {words}" for sign, words in MARKS.values())
    return "\n".join([*parts, _text(LEFT, HEIGHT - 14, key), "</svg>", ""])


def _drawn(points: Sequence[Point], spots: Sequence[tuple[float, float]], colour: str) -> list[str]:
    path = " ".join(f"{across},{down}" for across, down in spots)
    marks = [
        _text(across, down - 3, sign, anchor="middle", colour=colour)
        for point, (across, down) in zip(points, spots, strict=True)
        for sign in dict.fromkeys(MARKS[action.kind][0] for action in point.actions if action.kind in MARKS)
    ]
    return [f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>', *marks]


def _text(
    across: float, down: float, words: str, *, anchor: str = "start", size: int = 13, colour: str = "#222"
) -> str:
    return (
        f'<text x="{across}" y="{down}" text-anchor="{anchor}" font-size="{size}" fill="{colour}">'
        f"{escape(words)}</text>"
    )


def _lines(replayed: Sequence[Replayed]) -> dict[str, list[Point]]:
    lines: dict[str, list[Point]] = {}
    for one in replayed:
        lines.setdefault(one.policy, []).extend(one.points)
    return lines


def _figures() -> ModuleType:
    try:
        # By name, so that neither the type checker nor an import at start-up asks for the package.
        return importlib.import_module("matplotlib.figure")
    except ImportError:
        raise ConfigError("a PNG needs matplotlib: pip install 'nacre[plot]', or name a .svg file") from None


def _png(lines: Mapping[str, Sequence[Point]], window: int) -> bytes:
    figure = _figures().Figure(figsize=(12, 6), layout="tight")
    axes = figure.subplots()
    for name, points in lines.items():
        (line,) = axes.plot([point.tokens / THOUSAND for point in points], label=name, linewidth=1)
        for index, point in enumerate(points):
            for kind in dict.fromkeys(action.kind for action in point.actions if action.kind in MARKS):
                at = (index, point.tokens / THOUSAND)
                axes.annotate(MARKS[kind][0], at, color=line.get_color(), ha="center")
    axes.axhline(window / THOUSAND, color="#c00", linestyle="--", label="window")
    axes.set(title="Context of each request", xlabel="requests", ylabel="thousand tokens")
    axes.legend()
    data = BytesIO()
    figure.savefig(data, format="png")
    return data.getvalue()
