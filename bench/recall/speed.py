"""How long recall takes at 200, 10,000 and 100,000 files, beside the peers, and how much memory it needs.

Files are pieces of LongMemEval's sessions of some 60 words, with a name and a description; questions are
BEAM's and LongMemEval's. Each size is built in one process and asked in a second one, which opens the index
that the first one saved; `memory_mb` is what that adds to the second process. `selection` is from the text to
the chosen memories; `attachment` also reads and words them.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.machine import bar
from bench.plot import chart
from bench.recall import quality, speed_files, speed_peers
from bench.recall.looking import noticing, scanning
from nacre.clock import SYSTEM_CLOCK
from nacre.memory.recall.base import RecallQuery
from nacre.memory.recall.local_index import FILE, LocalIndex
from nacre.memory.recall.ranking.index import StoredIndex
from nacre.memory.recall.recall import NOTHING_SEEN, filter_ranked, rank_all, recall
from nacre.messages.blocks import JsonObject

WARM_UP = 20
UNTIL_OLD = 0.3
"""Seconds until every stamp is old enough to be believed."""
P50_MS = {200: 2.0, 100_000: 20.0}
CPU_MS = {10_000: 5.0}
"""Of the processor: beside other work the wall clock says little."""
ADDED_MS = {10_000: 20.0}
OPENED_MS = {100_000: 300.0}


@dataclass(frozen=True)
class Sizes:
    """How many files, and how often to look."""

    data: Path | None
    counts: tuple[int, ...]
    noticed: int
    scanned: int
    rounds: int


FULL = Sizes(quality.DATA, (200, 10_000, 100_000), 10_000, 200, 15)
TINY = Sizes(None, (5, 20), 20, 5, 2)


def measure(sizes: Sizes) -> JsonObject:
    """The figures of one run; a line that says why, where there are no texts."""
    if sizes.data is not None and not (sizes.data / "longmemeval").is_dir():
        return {"skipped": f"there is no data in {sizes.data}"}
    ours: dict[str, Any] = {}
    peers: dict[str, Any] = {}
    for count in sizes.counts:
        ours[str(count)] = _asked_in_its_own_process(count, sizes.data)
        peers[str(count)] = _child("peers", count, sizes.data, "")
    noticed, change_bar = noticing(sizes.data, sizes.noticed, sizes.rounds)
    scanned, scan_bar = scanning(sizes.data, sizes.scanned, sizes.rounds)
    promised = [
        bar(
            f"selection among {count} files, p50 in ms", ours[str(count)]["selection"]["p50_ms"], at_most=most
        )
        for count, most in P50_MS.items()
        if str(count) in ours
    ]
    for what, most_of, value in (
        ("selection among {} files, p50 of CPU in ms", CPU_MS, lambda one: one["selection"]["cpu_p50_ms"]),
        ("one file added to {}, CPU in ms", ADDED_MS, lambda one: one["added_cpu_ms"]),
        ("index of {} files opened in a new process, CPU in ms", OPENED_MS, lambda one: one["opened_cpu_ms"]),
    ):
        promised += [
            bar(what.format(count), value(ours[str(count)]), at_most=most)
            for count, most in most_of.items()
            if str(count) in ours
        ]
    return {
        "nacre": ours,
        "peers": peers,
        "noticing_changes": noticed,
        "cold_scan": scanned,
        "bars": [*promised, change_bar, scan_bar],
    }


def pages(figures: JsonObject) -> dict[str, str]:
    """One chart: the time of a query over the number of files."""
    found: Any = figures
    lines = {"nacre": {float(n): one["selection"]["p50_ms"] for n, one in found["nacre"].items()}}
    for name in ("bm25s", "fts5", "minilm"):
        times = {
            float(n): one[name]["p50_ms"]
            for n, one in found["peers"].items()
            if "p50_ms" in one.get(name, {})
        }
        lines |= {name: times} if times else {}
    drawn = chart("a query, p50", lines, x="memory files", y="milliseconds")
    return {"recall.speed.svg": drawn}


def _asked_in_its_own_process(count: int, data: Path | None) -> Any:
    with tempfile.TemporaryDirectory(prefix="nacre-bench-") as folder:
        built = _child("build", count, data, folder)
        time.sleep(UNTIL_OLD)
        return {**built, **_child("ask", count, data, folder)}


def _child(what: str, count: int, data: Path | None, folder: str) -> Any:
    order = json.dumps([what, count, str(data) if data else None, folder])
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "bench.recall.speed", order],
        capture_output=True, check=False, text=True, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"{what} at {count} failed: {done.stderr.strip()[-500:]}")
    return json.loads(done.stdout.splitlines()[-1])


def main(order: str) -> None:
    """What a child does."""
    what, count, data, folder = json.loads(order)
    where = Path(data) if data else None
    act: dict[str, Callable[[], JsonObject]] = {
        "build": lambda: _build(Path(folder), where, count),
        "ask": lambda: _ask(Path(folder), where),
        "peers": lambda: speed_peers.measure(where, count),
    }
    print(json.dumps(act[what]()))


def _build(folder: Path, data: Path | None, count: int) -> JsonObject:
    written = speed_files.write(folder / "memory", data, count)
    time.sleep(UNTIL_OLD)
    index = LocalIndex(folder / "memory", folder / "cache")
    begun, cpu = time.perf_counter(), time.process_time()
    index.refresh()
    index.close()
    kept = sum(path.stat().st_size for path in (folder / "cache").rglob("*") if path.is_file())
    return {
        "files": written,
        "build_seconds": round(time.perf_counter() - begun, 2),
        "build_cpu_seconds": round(time.process_time() - cpu, 2),
        "index_bytes": kept,
    }


def _ask(folder: Path, data: Path | None) -> JsonObject:
    asked = speed_files.questions(data)
    before = _resident_mb()
    index = LocalIndex(folder / "memory", folder / "cache")
    opening = _cpu_ms(lambda: StoredIndex(folder / "cache" / "recall" / FILE).close())
    begun = time.perf_counter()
    index.refresh()
    opened = time.perf_counter() - begun
    queries = [RecallQuery(text=text, now=SYSTEM_CLOCK.now()) for text in asked]
    begun = time.perf_counter()
    recall(queries[0], [index])
    first = time.perf_counter() - begun
    (folder / "memory" / "added.md").write_text(
        "---\nname: Added\n---\n\nOne more memory.\n", encoding="utf-8"
    )
    added = _cpu_ms(index.refresh)
    return {
        "opened_cpu_ms": opening,
        "added_cpu_ms": added,
        "open_and_refresh_ms": round(opened * 1000, 1),
        "first_query_ms": round(first * 1000, 1),
        "selection": times(lambda q: filter_ranked(rank_all(q, [index]), NOTHING_SEEN), queries),
        "attachment": times(lambda q: recall(q, [index]), queries),
        "memory_mb": round(_resident_mb() - before, 1),
        "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
    }


def _cpu_ms(act: Callable[[], object]) -> float:
    begun = time.process_time()
    act()
    return round((time.process_time() - begun) * 1000, 1)


def times(ask: Callable[[Any], object], asked: Sequence[Any]) -> JsonObject:
    """The middle and the slow end, by the wall and by the processor."""
    for one in asked[:WARM_UP]:
        ask(one)
    wall, cpu = list[float](), list[float]()
    for one in asked:
        begun, worked = time.perf_counter(), time.process_time()
        ask(one)
        wall.append((time.perf_counter() - begun) * 1000)
        cpu.append((time.process_time() - worked) * 1000)
    return {
        "p50_ms": _share(wall, 0.5),
        "p95_ms": _share(wall, 0.95),
        "cpu_p50_ms": _share(cpu, 0.5),
        "cpu_p95_ms": _share(cpu, 0.95),
        "questions": len(asked),
    }


def _share(values: list[float], share: float) -> float:
    return round(sorted(values)[int(len(values) * share)], 3)


def _resident_mb() -> float:
    with Path("/proc/self/statm").open(encoding="utf-8") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


if __name__ == "__main__":
    main(sys.argv[1])
