"""What a letter costs beside a plain locked append, and whether any is lost when processes die (A5).

Makes its boxes in a temporary folder and, where there is one, in a file system in memory.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from bench.machine import bar, middle_us, spread
from bench.mail_chaos import together
from nacre.clock import SYSTEM_CLOCK
from nacre.layers.l7_mail.letter import Letter, written
from nacre.layers.l7_mail.mailbox import Mailbox, box_path
from nacre.messages.blocks import JsonObject
from nacre.store.locks import FileLock

TIMES_PLAIN = 3.0
"""What a letter may cost beside a plain locked append with the same lock and the same flush."""
TIMES_LONG = 1.25
"""What it may cost in a box with 10,000 letters beside one with ten: nothing but noise."""
IN_MEMORY = Path("/dev/shm")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    few: int = 10
    many: int = 10_000
    samples: int = 1_000
    agents: int = 20
    together: int = 2_000
    letters: int = 10_000


FULL = Sizes()
TINY = Sizes(few=2, many=10, samples=5, agents=3, together=12, letters=80)


def measure(sizes: Sizes = FULL) -> JsonObject:
    with tempfile.TemporaryDirectory(prefix="nacre-bench-") as folder:
        on_disk = _costs(Path(folder) / "costs", sizes)
        tasks = asyncio.run(together(Path(folder) / "tasks", sizes.agents, sizes.together))
        killed = _chaos(folder, sizes.letters)
    in_memory: dict[str, float] = {}
    if IN_MEMORY.is_dir():
        with tempfile.TemporaryDirectory(prefix="nacre-bench-", dir=IN_MEMORY) as folder:
            in_memory = _costs(Path(folder) / "costs", sizes)
    rows = {"on disk": on_disk, **({"in memory": in_memory} if in_memory else {})}
    return {
        "few": sizes.few,
        "many": sizes.many,
        "on_disk": {**on_disk},
        "in_memory": {**in_memory},
        "tasks": tasks,
        "killed": killed,
        "bars": [
            *(
                bar(
                    f"a letter beside a plain locked append, {where}, times",
                    row["times_plain"],
                    at_most=TIMES_PLAIN,
                )
                for where, row in rows.items()
            ),
            *(
                bar(
                    f"a letter to a long box beside a short one, {where}, times",
                    row["times_short"],
                    at_most=TIMES_LONG,
                )
                for where, row in rows.items()
            ),
            *(
                bar(f"letters among tasks: {what}", float(str(tasks[what])), at_most=0)
                for what in ("lost", "twice", "out_of_order")
            ),
            *(
                bar(f"letters among killed processes: {what}", float(str(killed[what])), at_most=0)
                for what in ("lost", "twice", "out_of_order")
            ),
        ],
    }


def _costs(folder: Path, sizes: Sizes) -> dict[str, float]:
    """Middle costs in microseconds; the three are measured in turn, so that other load falls on all."""
    short, long = (Mailbox(box_path(folder, name)) for name in ("short", "long"))
    lock = FileLock(folder / "plain.lock", mode=0o600)
    folder.mkdir(parents=True, exist_ok=True)
    _fill(long.path, sizes.many)
    times: dict[str, list[int]] = {"plain": [], "short": [], "long": []}
    for number in range(sizes.samples):
        if number % sizes.few == 0:
            short.path.unlink(missing_ok=True)
            short.put(_letter(f"first-{number}"))
        letter = _letter(f"sample-{number}")
        line = written(letter)
        for name, act in (
            ("plain", lambda line=line: _plain(lock, folder / "plain", line)),
            ("short", lambda letter=letter: short.put(letter)),
            ("long", lambda letter=letter: long.put(letter)),
        ):
            start = time.perf_counter_ns()
            act()
            times[name].append(time.perf_counter_ns() - start)
    plain, few, many = (middle_us(times[name]) for name in ("plain", "short", "long"))
    looks = [_look(long) for _ in range(5)]
    return {
        "plain_append_us": plain,
        "letter_us": few,
        "letter_to_a_long_box_us": many,
        "letter_p99_us": float(str(spread(times["short"])["p99_us"])),
        "quiet_look_us": _quiet(short),
        "look_at_a_long_box_us": round(median(looks), 1),
        "times_plain": round(max(few, many) / plain, 2),
        "times_short": round(many / few, 2),
    }


def _letter(name: str) -> Letter:
    return Letter(id=name, sender="ann", to="bob", text="All green. " * 20, at=SYSTEM_CLOCK.now())


def _plain(lock: FileLock, path: Path, line: bytes) -> None:
    with lock:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(descriptor, line)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _fill(path: Path, count: int) -> None:
    """So many letters at once, without a flush for each."""
    Mailbox(path).put(_letter("first"))
    with path.open("ab") as file:
        file.writelines(written(_letter(f"filling-{number}")) for number in range(count))


def _look(box: Mailbox) -> float:
    start = time.perf_counter_ns()
    box.waiting()
    return (time.perf_counter_ns() - start) / 1000


def _quiet(box: Mailbox) -> float:
    """A look at a box in which nothing is new, as each round of tools takes one."""
    while (seen := box.waiting()).letters:
        box.settle(seen.position)
    return round(median(_look(box) for _ in range(1_000)), 2)


def _chaos(folder: str, letters: int) -> JsonObject:
    """In a process of its own: it forks, and must have no threads."""
    done = subprocess.run(
        [sys.executable, "-m", "bench.mail_chaos", folder, str(letters)],
        cwd=Path(__file__).parents[1],
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        stdout=subprocess.PIPE,
        check=True,
    )
    found: JsonObject = json.loads(done.stdout)
    return found
