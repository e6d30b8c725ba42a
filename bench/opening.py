"""What opening a log of 500 MB takes, in time and in memory, each time in a fresh process (T9).

Once with a compaction in its last 5 MB, once with as much behind it as is ever resumed, and once without any,
which is refused in one line.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from bench.machine import bar
from bench.made_up_log import MB, is_dropped, write_log
from nacre.messages.blocks import JsonObject
from nacre.session.log_writer import MAX_RESUME_BYTES

LIMIT_MB = 200
"""What opening may take at its peak."""

PROGRAM = '''
import json, sys, time
from pathlib import Path
from nacre.session.log_writer import resume
from nacre.errors import NacreError
from nacre.messages.view import View


def peak_mb():
    """Of this program alone: the usual ru_maxrss keeps the peak of whoever started it."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return round(next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024, 1)


found = {"imported_mb": peak_mb()}
start = time.perf_counter()
try:
    opened = resume(Path(sys.argv[1]), home=Path(sys.argv[2]))
except NacreError as error:
    found["refused"] = str(error)
else:
    view = View.of(opened.records)
    found |= {"records": len(opened.records), "messages": len(view.messages)}
print(json.dumps(found | {"seconds": round(time.perf_counter() - start, 4), "peak_mb": peak_mb()}))
'''


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    log_bytes: int = 500 * MB
    refused_bytes: int = 500 * MB
    tail_bytes: int = 5 * MB
    """How much there is behind the compaction."""
    largest_tail_bytes: int = MAX_RESUME_BYTES - MB
    """About the most that is resumed at all."""
    repeats: int = 3


FULL = Sizes()
TINY = Sizes(
    log_bytes=MB,
    # Just too large to be resumed whole: anything smaller would not be refused.
    refused_bytes=MAX_RESUME_BYTES + MB,
    tail_bytes=100_000,
    largest_tail_bytes=200_000,
    repeats=1,
)


def measure(sizes: Sizes = FULL) -> JsonObject:
    with tempfile.TemporaryDirectory(prefix="nacre-bench-") as folder:
        path = Path(folder) / "projects" / "-work-project" / "large.jsonl"
        openings = 1 + sizes.repeats
        write_log(path, sizes.log_bytes, boundary_at=sizes.log_bytes - sizes.tail_bytes)
        resumed = _opened(path, Path(folder), openings)
        write_log(path, sizes.log_bytes, boundary_at=sizes.log_bytes - sizes.largest_tail_bytes)
        largest = _opened(path, Path(folder), openings)
        write_log(path, sizes.refused_bytes)
        refused = _opened(path, Path(folder), openings)
    peak = max(float(str(one["peak_mb"])) for one in [*resumed, *largest, *refused])
    return {
        "log_bytes": sizes.log_bytes,
        "tail_bytes": sizes.tail_bytes,
        "largest_tail_bytes": sizes.largest_tail_bytes,
        "order": "the first opening finds no index beside the log; the later ones do",
        "with_a_boundary_near_the_end": [*resumed],
        "with_the_largest_tail": [*largest],
        "without_any_boundary": [*refused],
        "bars": [
            bar("opening a 500 MB log, peak memory in MB", peak, at_most=LIMIT_MB),
            bar("one without a boundary is refused, runs", len([r for r in refused if "refused" in r]),
                at_least=len(refused)),
        ],
    }  # fmt: skip


def _opened(path: Path, home: Path, times: int) -> list[JsonObject]:
    is_dropped(path)
    runs = [_fresh_process(path, home) for _ in range(times)]
    shutil.rmtree(path.with_suffix(""))
    path.unlink()
    return runs


def _fresh_process(path: Path, home: Path) -> JsonObject:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(path), str(home)], capture_output=True, text=True, check=True
    )
    found: JsonObject = json.loads(done.stdout)
    return found
