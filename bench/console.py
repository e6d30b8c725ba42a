"""What a page of the console costs with 10,000 memories or a session of 200 requests, beside an empty one.

Processor time of the server, from the kernel, over a number of requests each; the first request of a page,
which reads what a later one knows, is measured apart.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx2

from bench.machine import bar
from bench.made_up_log import write_log
from nacre.messages.blocks import JsonObject
from nacre.store.sessions import Sessions

MOST_TIMES = 10.0
"""A page with much may cost so many times what it costs with nothing."""
TICKS = os.sysconf("SC_CLK_TCK")
UNTIL_OLD = 0.3
"""Seconds until every stamp of a file is old enough to be believed."""
REQUEST_BYTES = 5_600
"""About one request of a made-up log, with its result."""


@dataclass(frozen=True)
class ConsoleSize:
    """How much there is, and how often a page is asked for."""

    memories: int
    requests: int
    rounds: int


FULL = ConsoleSize(memories=10_000, requests=200, rounds=60)
TINY = ConsoleSize(memories=50, requests=5, rounds=2)


def measure(size: ConsoleSize) -> JsonObject:
    """The figures and the bars."""
    with tempfile.TemporaryDirectory(prefix="nacre-bench-") as base:
        empty = _pages(Path(base) / "empty", 0, 1, size.rounds)
        full = _pages(Path(base) / "full", size.memories, size.requests, size.rounds)
    ratios = {name: round(full[name]["cpu_ms"] / empty[name]["cpu_ms"], 2) for name in empty}
    return {
        "memories": size.memories,
        "requests": size.requests,
        "rounds": size.rounds,
        "empty": {name: {**one} for name, one in empty.items()},
        "full": {name: {**one} for name, one in full.items()},
        "ratios": {**ratios},
        "bars": [
            bar(f"processor time of the page {name}, in times of an empty one", ratio, at_most=MOST_TIMES)
            for name, ratio in ratios.items()
        ],
    }


def _pages(folder: Path, memories: int, requests: int, rounds: int) -> dict[str, dict[str, float]]:
    session = _filled(folder, memories, requests)
    paths = {
        "overview": "/", "memories": "/memories", "memory": "/memory/memory_0.md", "links": "/graph",
        "sessions": "/sessions", "session": f"/sessions/{session}",
        "request": f"/sessions/{session}/{requests}",
    }  # fmt: skip
    found: dict[str, dict[str, float]] = {}
    with _console(folder) as (pid, link), httpx2.Client(follow_redirects=True, timeout=120) as client:
        client.get(link).raise_for_status()
        start = link.partition("/enter")[0]
        for name, path in paths.items():
            began = _cpu_ms(pid)
            client.get(start + path).raise_for_status()
            first = _cpu_ms(pid) - began
            began = _cpu_ms(pid)
            for _ in range(rounds):
                client.get(start + path).raise_for_status()
            # A tick of the kernel's clock at least, so that nothing is divided by zero.
            cpu = max(_cpu_ms(pid) - began, 1_000 / TICKS) / rounds
            found[name] = {"cpu_ms": round(cpu, 2), "first_cpu_ms": round(first, 1)}
    return found


def _filled(folder: Path, memories: int, requests: int) -> str:
    """Write a home and a project; returns the id of its session."""
    project = folder / "project"
    (project / ".git").mkdir(parents=True)
    base = folder / "home" / "projects" / str(project.resolve()).replace("/", "-").replace("_", "-")
    where = base / "memory"
    where.mkdir(parents=True)
    for number in range(max(1, memories)):
        text = f"Subject {number} goes with [[subject {number // 2}]]. " + "More about it. " * 20
        head = f"name: Subject {number}\ndescription: What was said about subject {number}\ntype: project\n"
        (where / f"memory_{number}.md").write_text(f"---\n{head}---\n\n{text}\n", encoding="utf-8")
    log = base / "11111111-1111-4111-8111-111111111111.jsonl"
    write_log(log, requests * REQUEST_BYTES, cwd=str(project))
    assert Sessions(folder / "home").list(project), "the session is listed"
    time.sleep(UNTIL_OLD)
    return log.stem


@contextmanager
def _console(folder: Path) -> Iterator[tuple[int, str]]:
    environ = {"HOME": str(folder), "NACRE_HOME": str(folder / "home"), "PATH": "/usr/bin:/bin"}
    process = subprocess.Popen(
        [sys.executable, "-m", "nacre", "console", "--no-browser"],
        cwd=folder / "project", env=environ, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        yield process.pid, process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait(10)
        process.stdout.close()


def _cpu_ms(pid: int) -> float:
    """Return the processor time of a process so far, in user and kernel mode."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * 1_000 / TICKS
