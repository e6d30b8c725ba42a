"""How fast logs are scanned, listed and opened, and how much memory that takes (T9).

Run: python bench/logs.py [--out FILE]. Makes up logs of several hundred megabytes in a temporary folder,
deletes them afterwards, and writes bench/results/logs.json.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from nacre.store.boundaries import up_to_date
from nacre.store.search import query, search_log
from nacre.store.sessions import Sessions
from nacre.store.slug import slug
from nacre.store.summaries import summarise

MB = 1_000_000
SCAN_MB = 300
OPEN_MB = 500
TAIL_MB = 5
SESSIONS = 1_000
SESSION_KB = 200
REPEATS = 3

OPENER = """
import json, resource, sys, time
from pathlib import Path
from nacre.store.log import SessionLog
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
start = time.perf_counter()
with SessionLog.open(Path(sys.argv[1]), home=Path(sys.argv[2])) as log:
    resume = log.resume_offset()
    opened = time.perf_counter() - start
    lines = sum(1 for line in log.read(resume.offset))
print(json.dumps({
    "open_seconds": round(opened, 4),
    "read_seconds": round(time.perf_counter() - start - opened, 4),
    "bytes_to_read": resume.bytes_to_read,
    "lines_read": lines,
    "imported_rss_mb": round(before / 1024, 1),
    "peak_rss_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
}))
"""


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "logs.json")
    out = arguments.parse_args().out
    folder = Path(tempfile.mkdtemp(prefix="nacre-bench-"))
    try:
        results = {
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "machine": machine(),
            "scan": scan(folder),
            "list": listing(folder),
            "open": opening(folder),
        }
    finally:
        shutil.rmtree(folder)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(results, indent=2))


def scan(folder: Path) -> dict[str, object]:
    path = folder / "scan.jsonl"
    size = write_log(path, SCAN_MB * MB)
    acts: dict[str, Callable[[], object]] = {
        "summary": lambda: summarise(path),
        "boundaries": lambda: up_to_date(path, None),
        "search_plain_ignoring_case": lambda: list(search_log(path, query("not in any line"))),
        "search_regex": lambda: list(search_log(path, query(r"zebra\s+\d+", regex=True))),
        "read_only": lambda: drain(path),
    }
    measured: dict[str, object] = {"bytes": size, "median_of": REPEATS}
    for name, act in acts.items():
        cold = median(seconds(act) for _ in range(REPEATS) if is_dropped(path))
        warm = median(seconds(act) for _ in range(REPEATS))
        measured[name] = {"cold_mb_per_s": round(size / MB / cold), "warm_mb_per_s": round(size / MB / warm)}
    path.unlink()
    return measured


def listing(folder: Path) -> dict[str, object]:
    home = folder / "home"
    total = 0
    for number in range(SESSIONS):
        path = home / "projects" / slug(f"/work/project{number % 20}") / f"session-{number}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        total += write_log(path, SESSION_KB * 1_000)
    sessions = Sessions(home)
    cold = median(seconds(sessions.list) for _ in range(REPEATS) if is_forgotten(home))
    warm = median(seconds(sessions.list) for _ in range(REPEATS))
    shutil.rmtree(home)
    return {
        "sessions": SESSIONS,
        "bytes": total,
        "cold_seconds": round(cold, 3),
        "warm_seconds": round(warm, 4),
    }


def opening(folder: Path) -> dict[str, object]:
    results = {}
    for name, has_boundary in (("boundary_in_last_5_mb", True), ("no_boundary", False)):
        path = folder / "projects" / "-w" / f"{name}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        size = write_log(path, OPEN_MB * MB, boundary_at=(OPEN_MB - TAIL_MB) * MB if has_boundary else None)
        is_dropped(path)
        results[name] = {
            "bytes": size,
            "without_sidecar": opened(path, folder),
            "with_sidecar": opened(path, folder),
        }
        path.unlink()
    return results


def opened(path: Path, home: Path) -> dict[str, object]:
    """In a fresh process, so that the peak is that of opening and nothing else."""
    done = subprocess.run(
        [sys.executable, "-c", OPENER, str(path), str(home)], capture_output=True, text=True, check=True
    )
    found: dict[str, object] = json.loads(done.stdout)
    return found


def write_log(path: Path, size: int, *, boundary_at: int | None = None) -> int:
    """A made-up log in the shape of real ones: tool results of a few kilobytes, replies with usage."""
    written = 0
    kept = ""
    with path.open("wb") as file:
        for number, record in enumerate(records()):
            if boundary_at is not None and written >= boundary_at:
                record = {
                    "type": "system",
                    "subtype": "compact_boundary",
                    "uuid": "boundary",
                    "compactMetadata": {"trigger": "auto", "preservedSegment": {"headUuid": kept}},
                }
                boundary_at = None
            line = json.dumps(record, separators=(",", ":")).encode() + b"\n"
            kept = str(record["uuid"]) if number % 20 == 0 else kept
            written += file.write(line)
            if written >= size:
                break
    return written


def records() -> Iterator[dict[str, object]]:
    code = "".join(f'    value_{n} = compute("{n}", {{"a": {n}}})  # why {n}\n' for n in range(60))
    usage = {
        "input_tokens": 5,
        "cache_creation_input_tokens": 900,
        "cache_read_input_tokens": 40_000,
        "output_tokens": 200,
    }
    number = 0
    while True:
        number += 1
        envelope = {
            "parentUuid": f"uuid-{number - 1:032d}",
            "sessionId": "bench",
            "cwd": "/work/project",
            "version": "1",
            "gitBranch": "main",
            "uuid": f"uuid-{number:032d}",
            "timestamp": "2026-01-01T00:00:00.000Z",
        }
        if number % 2:
            result = {"type": "tool_result", "tool_use_id": f"call-{number}", "content": code}
            yield {**envelope, "type": "user", "message": {"role": "user", "content": [result]}}
        else:
            call = {
                "type": "tool_use",
                "id": f"call-{number}",
                "name": "read",
                "input": {"path": f"src/{number}.py"},
            }
            message = {"role": "assistant", "id": f"msg_{number}", "content": [call], "usage": usage}
            yield {**envelope, "type": "assistant", "message": message}


def drain(path: Path) -> None:
    with path.open("rb") as file:
        while file.read(MB):
            pass


def is_forgotten(home: Path) -> bool:
    """Without the cache of summaries, and with no page of any log in memory."""
    (home / "cache" / "sessions.json").unlink(missing_ok=True)
    return all(is_dropped(path) for path in home.rglob("*.jsonl"))


def is_dropped(path: Path) -> bool:
    """Ask the kernel to forget the file's pages; below a virtual machine the host may still remember them."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)
    return True


def seconds(act: Callable[[], object]) -> float:
    start = time.perf_counter()
    act()
    return time.perf_counter() - start


def machine() -> dict[str, object]:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "cpus": os.cpu_count(),
        "memory_gb": round(memory / 1e9, 1),
        "python": platform.python_version(),
        "load_average_at_start": round(os.getloadavg()[0], 2),
    }


if __name__ == "__main__":
    main()
