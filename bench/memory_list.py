"""What listing memories costs beside a bare look at the same directory: `os.scandir` and a stat of each file.

`cold` reads the head of every file, as the first listing does; `warm` has what a listing before it kept in
the location's cache and reads only what changed since. All three take turns in one run, so that other load
falls on all of them. Files are in the page cache for all three.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench.machine import bar, middle_us
from nacre.cli.memory.open import run
from nacre.memory.files.location import Location
from nacre.memory.files.scan import scan
from nacre.memory.memory import Memory
from nacre.messages.blocks import JsonObject
from nacre.store.derived import DerivedCache

MOST_TIMES = 3.0
"""A listing warm may cost so many times what the bare look costs."""
UNTIL_OLD = 0.3
"""Seconds until every stamp is old enough to be believed."""


def measure(count: int, rounds: int) -> tuple[JsonObject, JsonObject]:
    """The figures and the bar."""
    with tempfile.TemporaryDirectory(prefix="nacre-bench-") as base:
        memory = asyncio.run(_opened(Path(base), count))
        where = memory.location
        acts: dict[str, Callable[[], object]] = {
            "scandir_and_stat": lambda: _bare(where.directory),
            "cold": lambda: scan(where.directory),
            "warm": lambda: run(memory.scan()),
        }
        times: dict[str, list[tuple[int, int]]] = {name: [] for name in acts}
        for _ in range(rounds):
            for name, act in acts.items():
                times[name].append(_timed(act))
        found = len(run(memory.scan()).entries)
        stored = DerivedCache(where.cache).path
        size = stored.stat().st_size if stored.exists() else 0
    cpu = {name: middle_us([one for one, _ in each]) / 1000 for name, each in times.items()}
    warm_times = round(cpu["warm"] / cpu["scandir_and_stat"], 2)
    figures: JsonObject = {
        "memories": found,
        "rounds": rounds,
        "cache_bytes": size,
        "cpu_ms": {name: round(ms, 2) for name, ms in cpu.items()},
        "wall_ms": {name: round(middle_us([w for _, w in each]) / 1000, 2) for name, each in times.items()},
        "cold_times_bare": round(cpu["cold"] / cpu["scandir_and_stat"], 2),
        "warm_times_bare": warm_times,
    }
    what = f"listing {count} memories warm, in times of scandir and stat, of the processor"
    return figures, bar(what, warm_times, at_most=MOST_TIMES)


async def _opened(base: Path, count: int) -> Memory:
    """A directory of memories as nacre writes them, listed once."""
    where = Location(
        directory=base / "memory", source="user", history=base / "history" / "m.git", cache=base / "cache"
    )
    memory = await Memory.at(where, base)
    for number in range(count):
        (where.directory / f"memory_on_subject_{number}.md").write_text(_text(number), encoding="utf-8")
    lines = [f"- [Subject {number}](memory_on_subject_{number}.md) — about it\n" for number in range(200)]
    (where.directory / "MEMORY.md").write_text("".join(lines), encoding="utf-8")
    await asyncio.sleep(UNTIL_OLD)
    await memory.scan()
    return memory


def _text(number: int) -> str:
    head = f"name: Subject {number}\ndescription: What was said about subject {number} and why it matters\n"
    times = "created: 2026-11-01T10:20:30Z\nmodified: 2026-11-02T10:20:30Z\n"
    return f"---\n{head}type: project\n{times}---\n\n{'More about it. ' * 30}\n"


def _bare(directory: Path) -> int:
    with os.scandir(directory) as items:
        return sum(item.stat().st_size for item in items)


def _timed(act: Callable[[], object]) -> tuple[int, int]:
    """Of the processor and of the clock on the wall; the threads of the act count."""
    cpu, wall = time.process_time_ns(), time.perf_counter_ns()
    act()
    return time.process_time_ns() - cpu, time.perf_counter_ns() - wall
