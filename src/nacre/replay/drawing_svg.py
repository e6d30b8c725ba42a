"""A picture of a replay as SVG, written by hand: it needs no package (P7)."""

from __future__ import annotations

from collections.abc import Callable
from html import escape

from nacre.replay.drawing import ACROSS, MARKS, THOUSAND, TITLE, UP, WINDOW_COLOUR, Drawing, ticks
from nacre.replay.schema import ActionKind

WIDTH, LEFT, RIGHT, TOP = 960, 110, 930, 100
PLOT = 280
"""Height of the lines' field."""
LANE = 22
AXIS = 46
"""Between the lines' field and the first lane: numbers, and what they count."""
KEY = 44
BESIDE = 10
"""Between two marks of one request."""
ACROSS_TICKS = 10
CHAR = 7.6
"""About how wide a letter is, for laying out a row of words."""

_Place = Callable[[float, float], tuple[float, float]]


def svg(picture: Drawing) -> str:
    """The picture as text."""
    lanes = picture.lanes()
    height = TOP + PLOT + AXIS + LANE * len(lanes) + (KEY if lanes else 0)
    top, last = picture.top, max(1, picture.steps - 1)

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
    """Which line is whose, in a row over the field."""
    parts, across = [], float(LEFT)
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
    """What was done, under the request before which it was done, and what the signs mean."""
    parts = []
    down = TOP + PLOT + AXIS + LANE / 2
    for name, deeds in picture.lanes().items():
        colour = picture.colour(name)
        parts.append(f'<path d="M{LEFT} {down}H{RIGHT}" stroke="#eee"/>')
        parts.append(_text(LEFT - 8, down + 4, name, anchor="end", colour=colour))
        parts += [
            _mark(deed.kind, place(deed.index, 0)[0] + BESIDE * deed.place, down, colour) for deed in deeds
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
