"""How fast logs are scanned and listed: in the process, and as `nacre sessions list` (T9).

Makes up logs of several hundred megabytes in a temporary folder and deletes them afterwards.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from bench.machine import bar
from bench.made_up_log import MB, is_dropped, write_log
from nacre.messages.blocks import JsonObject
from nacre.store.boundaries import up_to_date
from nacre.store.home import slug
from nacre.store.sessions import Sessions, query, search_log
from nacre.store.summaries import summarise

LEAST_MB_PER_S = 150
"""What a scan for a summary must reach with the file in the page cache."""
LIST_SECONDS = 1.0
"""What listing 1,000 known sessions may take, the start of the program included."""
PROJECTS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    scan_bytes: int = 300 * MB
    sessions: int = 1_000
    session_bytes: int = 200_000
    repeats: int = 3
    processes: int = 7


FULL = Sizes()
TINY = Sizes(scan_bytes=100_000, sessions=3, session_bytes=5_000, repeats=1, processes=1)


def measure(sizes: Sizes = FULL) -> JsonObject:
    with tempfile.TemporaryDirectory(prefix="nacre-bench-") as folder:
        scanned = _scan(Path(folder) / "scan.jsonl", sizes)
        listed = _listing(Path(folder), sizes)
    slowest = min(scanned["summary"]["warm_mb_per_s"], scanned["boundaries"]["warm_mb_per_s"])
    return {
        "median_of": sizes.repeats,
        "scan_bytes": sizes.scan_bytes,
        "scan": {name: {**speeds} for name, speeds in scanned.items()},
        "list": {**listed},
        "bars": [
            bar("scanning a log, MB/s, warm", slowest, at_least=LEAST_MB_PER_S),
            bar("listing 1,000 sessions, seconds, warm", listed["warm_seconds"], at_most=LIST_SECONDS),
            bar(
                "`nacre sessions list --all` on them, seconds, warm",
                listed["process_warm_seconds"],
                at_most=LIST_SECONDS,
            ),
        ],
    }


def _scan(path: Path, sizes: Sizes) -> dict[str, dict[str, float]]:
    size = write_log(path, sizes.scan_bytes)
    acts: dict[str, Callable[[], object]] = {
        "summary": lambda: summarise(path),
        "boundaries": lambda: up_to_date(path, None),
        "search_plain_ignoring_case": lambda: list(search_log(path, query("not in any line"))),
        "search_regex": lambda: list(search_log(path, query(r"zebra\s+\d+", regex=True))),
        "read_only": lambda: _drain(path),
    }
    measured = {}
    for name, act in acts.items():
        cold = median(_seconds(act) for _ in range(sizes.repeats) if is_dropped(path))
        warm = median(_seconds(act) for _ in range(sizes.repeats))
        measured[name] = {
            "cold_mb_per_s": round(size / MB / cold, 1),
            "warm_mb_per_s": round(size / MB / warm, 1),
        }
    path.unlink()
    return measured


def _listing(folder: Path, sizes: Sizes) -> dict[str, float]:
    home = folder / "home"
    total = 0
    for number in range(sizes.sessions):
        cwd = f"/work/project{number % PROJECTS}"
        path = home / "projects" / slug(cwd) / f"session-{number:04d}.jsonl"
        total += write_log(path, sizes.session_bytes, cwd=cwd)
    sessions = Sessions(home)
    cold = median(_seconds(sessions.list) for _ in range(sizes.repeats) if _is_forgotten(home))
    warm = median(_seconds(sessions.list) for _ in range(sizes.repeats))
    _list_process(home, folder)
    process = median(_seconds(lambda: _list_process(home, folder)) for _ in range(sizes.processes))
    bare = median(_seconds(_bare_python) for _ in range(sizes.processes))
    return {
        "sessions": sizes.sessions,
        "bytes": total,
        "cold_seconds": round(cold, 3),
        "warm_seconds": round(warm, 4),
        "process_warm_seconds": round(process, 4),
        "bare_python_seconds": round(bare, 4),
    }


def _list_process(home: Path, cwd: Path) -> None:
    """The command as a person runs it, with nothing of the tester's own configured."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    subprocess.run(
        [str(Path(sys.executable).parent / "nacre"), "sessions", "list", "--all"],
        env={**kept, "HOME": str(cwd), "NACRE_HOME": str(home)},
        cwd=cwd,
        stdout=subprocess.DEVNULL,
        check=True,
    )


def _bare_python() -> None:
    subprocess.run([sys.executable, "-c", "pass"], check=True)


def _drain(path: Path) -> None:
    with path.open("rb") as file:
        while file.read(MB):
            pass


def _is_forgotten(home: Path) -> bool:
    """Without the cache of summaries, and with no page of any log in memory."""
    (home / "cache" / "sessions.json").unlink(missing_ok=True)
    return all(is_dropped(path) for path in home.rglob("*.jsonl"))


def _seconds(act: Callable[[], object]) -> float:
    start = time.perf_counter()
    act()
    return time.perf_counter() - start
