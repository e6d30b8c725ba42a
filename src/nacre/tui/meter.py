"""The two status lines: context usage, cache, cost, background work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from textual.content import Content
from textual.widgets import Static

from nacre.formatting import human_count, printable, shorten
from nacre.tui.commands import coloured_help

if TYPE_CHECKING:
    from nacre.inspect.context_usage import Contents
    from nacre.inspect.savings import Savings

GROUPS: Mapping[str, tuple[str, ...]] = {
    "system": ("system", "tools"),
    "memory": ("instructions", "memory", "surroundings", "skills", "plan"),
    "words": ("user_text", "assistant_text", "thinking", "summary", "notes", "agents", "mail"),
    "results": ("tool_calls", "tool_results", "offloaded", "cleared"),
    "other": ("other", "unattributed"),
}
"""Short names of the kinds of content; `/context` has the full ones."""
COLOURS = {
    "system": "$primary",
    "memory": "$success",
    "words": "$secondary",
    "results": "$results",
    "other": "dim",
}
BAR_CELLS = 16
LEAST_CELLS = 6
"""Length of the bar with and without enough room."""
PILL_CHARS = 38
"""Columns for background work: half of a narrow line."""
FULL = "█"
EMPTY = "░"


def grouped(contents: Contents) -> dict[str, int]:
    """Return tokens by group, without empty ones."""
    found = {name: sum(contents.parts.get(each, 0) for each in each_of) for name, each_of in GROUPS.items()}
    return {name: tokens for name, tokens in found.items() if tokens}


def bar(groups: Mapping[str, int], window: int, cells: int = BAR_CELLS) -> list[tuple[str, int]]:
    """Return the cells of the bar per group; a group that is not empty gets at least one."""
    filled = 0
    done = 0
    shares = []
    for name, tokens in groups.items():
        done += tokens
        upto = min(cells, -(-done * cells // window)) if window else 0
        shares.append((name, upto - filled))
        filled = upto
    return [*shares, ("", cells - filled)]


def coloured_bars(text: str) -> Content:
    """Return a command's output; bars have the colour of the kind of content that the line begins with."""
    lines = []
    for line in text.split("\n"):
        begin = line.find(FULL)
        name = "_".join(line[:begin].split("  ")[0].split()) if begin >= 0 else ""
        group = next((each for each, of_it in GROUPS.items() if name in of_it), "")
        is_bar = begin >= 0
        lines.append(
            Content(line).stylize(COLOURS.get(group, "$accent"), begin) if is_bar else coloured_help(line)
        )
    return Content("\n").join(lines)


def meter_line(contents: Contents, width: int) -> Content:
    """Return bar, tokens, cache, cost and savings, as far as there is room."""
    used = contents.used
    window = contents.thresholds.window
    meter = contents.meter
    price = meter.price()
    words = f" {human_count(used)}/{human_count(window)} ({used / window:.0%})"
    cache = f" · cache {meter.usage.hit_rate:.0%}"
    if LEAST_CELLS + len(f"{words}{cache} · {price}") <= width:
        words += cache
    room = width - len(words) - len(f" · {price}")
    rest = next(
        (f" · {each}" for each in saved_words(contents.layers) if len(each) + 3 + LEAST_CELLS <= room), ""
    )
    cells = max(LEAST_CELLS, min(BAR_CELLS, room - len(rest)))
    shares = bar(grouped(contents), window, cells)
    drawn = [((FULL if name else EMPTY) * cells, COLOURS.get(name, "dim")) for name, cells in shares]
    warning = "$error" if used >= contents.thresholds.warning else "dim"
    return Content.assemble(*drawn, (words, warning), (f" · {price}{rest}", "dim"))


def saved_words(layers: Savings) -> list[str]:
    """Return savings by layer, in money or else in tokens; each variant is shorter."""
    from nacre.inspect.savings import WITHOUT_ESTIMATE

    acted = {
        name.replace("_", " "): one
        for name, one in layers.items()
        if name not in WITHOUT_ESTIMATE and one.times
    }
    money = {name: one.saved_usd - one.spent_usd for name, one in acted.items() if one.has_price}
    if sum(money.values()) > 0:
        total = f"saved ≈${sum(money.values()):.4f}"
        each = {name: f" ${usd:.4f}" for name, usd in money.items()}
        names = sorted(acted, key=lambda name: -money.get(name, 0.0))
    elif tokens := sum(one.tokens for one in acted.values()):
        total = f"{human_count(tokens)} tokens kept out"
        each = {}
        names = sorted(acted, key=lambda name: -acted[name].tokens)
    else:
        return []
    more = f" +{len(names) - 1}" if len(names) > 1 else ""
    by_layer = ", ".join(name + each.get(name, "") for name in names)
    return [
        *([f"{total} ({by_layer})"] if more else []),
        f"{total} ({', '.join(names)})",
        f"{total} ({names[0]}{more})",
        total,
    ]


def groups_line(groups: Mapping[str, int], pill: str, width: int) -> Content:
    """Return the legend of the bar and, at the end of the line, background work."""
    beside = Content(pill).cell_length
    room = width - beside - 1
    parts: list[tuple[str, str]] = []
    taken = 0
    for name, tokens in groups.items():
        word = f"{name} {human_count(tokens)}  "
        if taken + len(word) + 1 > room:
            break
        parts += [(FULL, COLOURS[name]), (f" {word}"[:-1], "dim")]
        taken += len(word) + 1
    space = " " * max(1, width - taken - beside)
    return Content.assemble(*parts, space, (pill, "bold $accent"))


def pill_words(pills: Sequence[str], turn: str = "", limit: int = PILL_CHARS) -> str:
    """`working · notes, reader: Grep… F4`: background work and the key that shows more."""
    what = shorten(printable(", ".join(pills)), limit - len(turn) - 8).removesuffix("…")
    beside = f"{what}… F4" if pills else ""
    return " · ".join(part for part in (turn, beside) if part)


class StatusLines(Static):
    """Displays both lines."""

    def __init__(self) -> None:
        super().__init__(id="meter", markup=False)
        self._contents: Contents | None = None
        self._pill = ""

    def show(self, contents: Contents | None = None, pill: str | None = None) -> None:
        """Update the given values; others stay."""
        before = (self._contents, self._pill)
        self._contents = contents or self._contents
        self._pill = self._pill if pill is None else pill
        if (self._contents, self._pill) != before:
            self._draw()

    def on_resize(self) -> None:
        self._draw()

    def _draw(self) -> None:
        if self._contents is not None:
            width = max(1, self.size.width)
            groups = groups_line(grouped(self._contents), self._pill, width)
            self.update(Content("\n").join([meter_line(self._contents, width), groups]))
