"""What looking at the directory costs beside the least that could be done: both take turns in one run."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path

from bench.machine import bar
from bench.recall import speed_files
from nacre.memory.files.scan import scan
from nacre.memory.recall.local_index import LocalIndex
from nacre.messages.blocks import JsonObject

MOST_TIMES_STAT = 2.0
MOST_TIMES_READING = 3.0
HEAD_LINES = 30
UNTIL_OLD = 0.3


def noticing(data: Path | None, count: int, rounds: int) -> tuple[JsonObject, JsonObject]:
    """A refresh when nothing changed, beside scandir and a stat of each file; the figures and the bar."""
    with tempfile.TemporaryDirectory(prefix="nacre-bench-") as folder:
        memory = Path(folder) / "memory"
        speed_files.write(memory, data, count)
        time.sleep(UNTIL_OLD)
        index = LocalIndex(memory, Path(folder) / "cache")
        index.refresh()
        found = _taking_turns(rounds, {"bare": lambda: _stat_all(memory), "refresh": index.refresh})
    return _figures(
        count, found, "refresh", f"noticing changes among {count} files, in times of a stat", MOST_TIMES_STAT
    )


def scanning(data: Path | None, count: int, rounds: int) -> tuple[JsonObject, JsonObject]:
    """A scan without any cache, beside opening each file and reading 30 lines; the figures and the bar."""
    with tempfile.TemporaryDirectory(prefix="nacre-bench-") as folder:
        memory = Path(folder) / "memory"
        speed_files.write(memory, data, count)
        found = _taking_turns(rounds, {"bare": lambda: _read_all(memory), "scan": lambda: scan(memory)})
    return _figures(
        count, found, "scan", f"cold scan of {count} files, in times of reading 30 lines", MOST_TIMES_READING
    )


def _figures(
    count: int, found: dict[str, list[float]], ours: str, what: str, most: float
) -> tuple[JsonObject, JsonObject]:
    middle = {name: sorted(each)[len(each) // 2] for name, each in found.items()}
    ratio = round(middle[ours] / middle["bare"], 2)
    figures: JsonObject = {
        "files": count,
        "cpu_ms": {k: round(v, 2) for k, v in middle.items()},
        "times": ratio,
    }
    return figures, bar(what, ratio, at_most=most)


def _taking_turns(rounds: int, acts: dict[str, Callable[[], object]]) -> dict[str, list[float]]:
    """Milliseconds of the processor."""
    found: dict[str, list[float]] = {name: [] for name in acts}
    for _ in range(rounds):
        for name, act in acts.items():
            begun = time.process_time()
            act()
            found[name].append((time.process_time() - begun) * 1000)
    return found


def _stat_all(directory: Path) -> int:
    seen, waiting = 0, [os.fspath(directory)]
    while waiting:
        with os.scandir(waiting.pop()) as listing:
            for item in listing:
                if item.is_dir(follow_symlinks=False):
                    waiting.append(item.path)
                else:
                    item.stat(follow_symlinks=False)
                    seen += 1
    return seen


def _read_all(directory: Path) -> int:
    lines, waiting = 0, [os.fspath(directory)]
    while waiting:
        with os.scandir(waiting.pop()) as listing:
            for item in listing:
                if item.is_dir(follow_symlinks=False):
                    waiting.append(item.path)
                else:
                    with Path(item.path).open(encoding="utf-8") as file:
                        lines += len(list(islice(file, HEAD_LINES)))
    return lines
