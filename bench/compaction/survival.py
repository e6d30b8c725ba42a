"""How many of a person's rules and of the task states outlive one, two and three compactions, word for word.

Everybody is given the same sessions, the same windows and the same summary, which loses everything and
invents quotations (`lossy.py`). Every way is looked at twice more, after a fixed amount was said, because
some never ask for a summary.
"""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

from bench.compaction.judge import Verdict, judge
from bench.compaction.lossy import INVENTED
from bench.compaction.ours import by_nacre
from bench.compaction.sessions import Scripted, session
from bench.compaction.steps import VOLUMES, Moment, Seen, by_library
from bench.machine import bar
from bench.plot import bar_chart
from bench.replay.settings import PEERS
from nacre.messages.blocks import Json, JsonObject

TITLE = """# What outlives a compaction

How many of a person's rules are in the next request word for word; how many of the others stand in a file of
the person's words that it names, under the id of their record, or only in the whole log, if that is named;
how many task states are in it as they stand; `misled`: rules in view that were taken back, without what
replaced them; `invented`: quotations in it that the person never said, and how many were dropped from the
last summary. Everybody was given the same sessions, windows and summary, which loses everything and invents
three quotations (`bench/compaction/lossy.py`; one of them stands among the person's messages, a section that
nacre fills from the log anyway). The instructions file stands in the libraries' system prompt, where it
cannot be lost. A request over the window is refused: it keeps nothing.
"""
HEADINGS = {
    "compactions": "after so many summaries of its own",
    "windows said": "after so many times as much was said as makes nacre compact",
}
COLUMNS = (
    "| policy | after | sessions | too large | rules kept | by pointer | in the log | lost | states kept |"
    " misled | invented | dropped |",
    "|" + "---|" * 12,
)
Way = Callable[[Scripted, int], Iterable[Seen]]
"""Plays a session in a window."""
TOKENS_PER_TURN = 3_000
"""What a turn of a made-up session holds at least, on average."""


PROCESSES = 2


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is played."""

    sessions: int = 2
    windows: tuple[int, ...] = (60_000, 100_000)
    libraries: bool = True


FULL = Sizes()
TINY = Sizes(sessions=1, windows=(20_000,), libraries=False)


def measure(sizes: Sizes) -> JsonObject:
    """The whole table, two sessions at a time."""
    names = list(ways(libraries=sizes.libraries))
    tasks = [
        (window, name, number)
        for window in sizes.windows
        for name in names
        for number in range(sizes.sessions)
    ]
    sums: dict[tuple[int, str, Moment], _Sum] = {}
    with ProcessPoolExecutor(min(PROCESSES, sizes.sessions)) as pool:
        for (window, name, _), found in zip(tasks, pool.map(_played, tasks), strict=True):
            for verdict, moment, dropped in found:
                sums.setdefault((window, name, moment), _Sum()).add(verdict, dropped)
            print(f"\r{window // 1000}K: {name}".ljust(60), end="", file=sys.stderr)
    print(file=sys.stderr)
    cells: list[JsonObject] = [
        {"policy": name, "window": window, "what": moment.what, "after": moment.number, **sum_.figures()}
        for (window, name, moment), sum_ in sums.items()
    ]
    return {"peers": {**_peers()}, "quotations": list(INVENTED), "cells": [*cells], "bars": _bars(cells)}


def _played(task: tuple[int, str, int]) -> list[tuple[Verdict, Moment, int]]:
    """One session in one window, judged at every moment while its files are there."""
    window, name, number = task
    script = session(number, window * (VOLUMES[-1] + 1) // TOKENS_PER_TURN)
    return [
        (judge(seen.request, seen.known, script.file_rules, window=window), seen.moment, seen.dropped)
        for seen in ways(libraries=True)[name](script, window)
    ]


def ways(*, libraries: bool) -> dict[str, Way]:
    """Every way to keep a session small, by name; a library that is not installed is left out."""
    there = _peers() if libraries else {}
    ours: dict[str, Way] = {
        "nacre, by rule": partial(by_nacre, has_model=False),
        "nacre, with a model": partial(by_nacre, has_model=True),
    }
    return ours | {one.name: partial(by_library, make=one.make) for one in PEERS if one.name in there}


class _Sum:
    """Verdicts added up."""

    def __init__(self) -> None:
        self.requests = self.dropped = 0
        self.verdicts: list[Verdict] = []

    def add(self, verdict: Verdict, dropped: int) -> None:
        self.requests += 1
        self.dropped += dropped
        self.verdicts.append(verdict)

    def figures(self) -> dict[str, Json]:
        def total(name: str) -> int:
            return sum(getattr(one, name) for one in self.verdicts)

        return {
            "sessions": self.requests,
            "too_large": sum(not one.fits for one in self.verdicts),
            "rules": total("said"),
            "rules_kept": total("kept"),
            "rules_by_pointer": total("pointed"),
            "rules_in_log": total("in_log"),
            "states": total("states"),
            "states_kept": total("states_kept"),
            "misled": total("misled"),
            "invented": total("invented"),
            "invented_dropped": self.dropped,
            "lost": [*[words for one in self.verdicts for words in one.lost][:5]],
        }


def _peers() -> dict[str, str]:
    return dict(_installed())


def _installed() -> Iterator[tuple[str, str]]:
    for one in PEERS:
        try:
            yield one.name, f"{one.package} {importlib.metadata.version(one.package)}"
        except importlib.metadata.PackageNotFoundError:
            continue


def _bars(cells: Iterable[JsonObject]) -> list[Json]:
    """What nacre promises, over all its requests."""
    found: Any = [cell for cell in cells if str(cell["policy"]).startswith("nacre")]

    def total(*keys: str) -> int:
        return sum(int(cell[key]) for cell in found for key in keys)

    reached = total("rules_kept", "rules_by_pointer")
    return [
        bar(
            "rules that are neither in a request nor under their id in a file it names",
            total("rules") - reached,
            at_most=0,
        ),
        bar(
            "task states that are not in a request as they stand",
            total("states") - total("states_kept"),
            at_most=0,
        ),
        bar("rules that were taken back, in view without what replaced them", total("misled"), at_most=0),
        bar("quotations in a request that the person never said", total("invented"), at_most=0),
    ]


def pages(figures: JsonObject) -> dict[str, str]:
    return {"compaction_survival.md": page(figures), "compaction.survival.svg": picture(figures)}


def picture(figures: JsonObject) -> str:
    """What share of a person's rules each way keeps after fixed amounts were said, at all windows."""
    found: Any = figures
    kept: dict[str, list[int]] = {}
    for cell in found["cells"]:
        if cell["what"] == "windows said":
            so_far = kept.setdefault(cell["policy"], [0, 0])
            kept[cell["policy"]] = [so_far[0] + cell["rules_kept"], so_far[1] + cell["rules"]]
    return bar_chart(
        "A person's rules, still word for word in the next request",
        {policy: 100 * whole / rules for policy, (whole, rules) in kept.items()},
        x="percent, after several windows' worth was said and a bad summary",
        ours=[policy for policy in kept if policy.startswith("nacre")],
    )


def page(figures: JsonObject) -> str:
    """The figures: a table for each window, after compactions and after so much was said."""
    found: Any = figures
    parts = [TITLE]
    for window in sorted({cell["window"] for cell in found["cells"]}):
        for what, heading in HEADINGS.items():
            rows = [
                _row(cell) for cell in found["cells"] if cell["window"] == window and cell["what"] == what
            ]
            parts.append("\n".join([f"## {window // 1000}K, {heading}", "", *COLUMNS, *rows]))
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _row(cell: Any) -> str:
    rules, kept, pointed = cell["rules"], cell["rules_kept"], cell["rules_by_pointer"]
    in_log = cell["rules_in_log"]
    cells = (
        cell["policy"],
        cell["after"],
        cell["sessions"],
        cell["too_large"],
        f"{kept} of {rules} ({100 * kept / rules:.1f} %)",
        pointed,
        in_log,
        rules - kept - pointed - in_log,
        f"{cell['states_kept']} of {cell['states']}",
        cell["misled"],
        cell["invented"],
        cell["invented_dropped"],
    )
    return "| " + " | ".join(str(one) for one in cells) + " |"
