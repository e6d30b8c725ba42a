"""What a picture of a replay shows, before it is drawn in one form or another (P7)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import floor, log10

from nacre.replay.run import Replayed, Terms
from nacre.replay.schema import ActionKind, Point

TITLE = "Context of each request"
ACROSS = "requests, one after another"
UP = "thousand tokens"
COLOURS = ("#888888", "#c2571a", "#8a3ea8", "#1b6ca8", "#3c8d40")
"""One a policy, in their order; told apart by people who do not see red and green."""
WINDOW_COLOUR = "#cc0000"
NICE = (1, 2, 5, 10)
"""Steps of an axis are one of these times a power of ten."""
TICKS = 5
"""About so many on an axis."""
THOUSAND = 1_000
HEADROOM = 1.05
"""The highest line stays off the edge."""


@dataclass(frozen=True, slots=True)
class Mark:
    """How one kind of deed is shown."""

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
class Deed:
    """Something that was done before a request."""

    index: int
    kind: ActionKind
    place: int
    """Which of the deeds before this request it is, so that they do not cover each other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """Lines, and the deeds in a lane of its own for each policy that did any."""

    lines: Mapping[str, Sequence[Point]]
    window: int
    subtitle: str = ""
    ends: tuple[int, ...] = ()
    """Where one session ends and the next begins."""

    @property
    def steps(self) -> int:
        return max((len(points) for points in self.lines.values()), default=0)

    @property
    def top(self) -> float:
        most = max((point.tokens for points in self.lines.values() for point in points), default=0)
        return max(most, self.window) * HEADROOM

    def colour(self, name: str) -> str:
        return COLOURS[list(self.lines).index(name) % len(COLOURS)]

    def lanes(self) -> dict[str, list[Deed]]:
        """What each policy did that did anything."""
        lanes = {
            name: [
                Deed(index, kind, place)
                for index, point in enumerate(points)
                for place, kind in enumerate(kind for kind in MARKS if _does(point, kind))
            ]
            for name, points in self.lines.items()
        }
        return {name: deeds for name, deeds in lanes.items() if deeds}

    def kinds(self) -> list[ActionKind]:
        """The deeds there are, in the order of the key."""
        seen = {deed.kind for deeds in self.lanes().values() for deed in deeds}
        return [kind for kind in MARKS if kind in seen]


def drawing(replayed: Sequence[Replayed], terms: Terms) -> Drawing:
    """The sessions one after another, one line a policy."""
    lines: dict[str, list[Point]] = {}
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
    """Round numbers from 0 up to the most there is."""
    rough = most / about
    power = 10 ** floor(log10(rough)) if rough >= 1 else 1
    step = int(next(nice * power for nice in NICE if nice * power >= rough))
    return list(range(0, floor(most) + 1, step))


def _does(point: Point, kind: ActionKind) -> bool:
    return any(action.kind == kind for action in point.actions)
