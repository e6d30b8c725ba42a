"""What one save costs at 200 and at 10,000 memories: topic, index and commit (M14, M15); what a list costs.

A save is the public `Memory.save()`: it looks for secrets and for a memory on the same subject, then writes.
The bars on the processor's time are for a process that keeps a watch, on the disk and, since what a disk's
file system spends on making a file depends on what was deleted there lately, in memory beside it. A process
that looks at every file, which costs more than the bar at 10,000, stands there too. `peers` has whole saves,
by nacre's public `Memory.save()` and by other people's stores (`memory_peers.py`); `list` has a listing
beside a bare look at the directory (`memory_list.py`).
"""

from __future__ import annotations

import asyncio
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from bench import memory_list, memory_peers
from bench.machine import bar, middle_us
from bench.plot import chart
from nacre.memory.files.location import Location
from nacre.memory.files.transaction import pick_up
from nacre.memory.files.watch import Watch
from nacre.memory.format.entry import MemoryChange, MemoryDraft
from nacre.memory.memory import Memory
from nacre.messages.blocks import Json, JsonObject

LIMITS_MS = {200: 5.0, 10_000: 25.0}
"""Of the processor, for one save by a process that stays, at so many memories."""
MOST_FLUSHES = 4
INDEX_LINES = 200
CHANGE = MemoryChange(author="agent", reason="a save that is measured", session="bench")
IN_MEMORY = Path("/dev/shm")
TRACED_SAVES = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    memories: tuple[int, ...] = (200, 10_000)
    saves: int = 200
    body_bytes: int = 600
    peer_saves: int = 50
    """Fewer: one save of a peer can take a second."""
    listings: int = 21


FULL = Sizes()
TINY = Sizes(memories=(5, 20), saves=5, peer_saves=2, listings=2)


def measure(sizes: Sizes = FULL) -> JsonObject:
    in_memory = {count: _measured(count, sizes, IN_MEMORY) for count in sizes.memories}
    on_disk = {count: _measured(count, sizes, None) for count in sizes.memories}
    flushes = _flushes(sizes)
    limits = dict(zip(sizes.memories, LIMITS_MS.values(), strict=True))
    bars = [
        bar(
            f"one save at {count} memories, watching, files {where}, ms of the processor",
            _cpu_ms(measured[count]),
            at_most=limit,
        )
        for where, measured in (("on disk", on_disk), ("in memory", in_memory))
        for count, limit in limits.items()
    ]
    if flushes is not None:
        bars.append(bar("flushes of one save", flushes, at_most=MOST_FLUSHES))
    listed, listing_bar = memory_list.measure(max(sizes.memories), sizes.listings)
    peers = memory_peers.measure(sizes.memories, sizes.peer_saves, sizes.body_bytes)
    return {
        "saves": sizes.saves,
        "in_memory": {str(count): one for count, one in in_memory.items()},
        "on_disk": {str(count): one for count, one in on_disk.items()},
        "flushes": flushes,
        "list": listed,
        "peers": peers,
        "bars": [*bars, listing_bar],
    }


def plot(figures: JsonObject) -> str:
    """One save by each store over the number of memories."""
    lines = {name: line for name, one in _objects(figures["peers"]) if (line := _line_of(one))}
    return chart(
        "What one save of a new memory costs",
        lines,
        x="memories that are there already",
        y="milliseconds of the processor per save, p50",
    )


def _line_of(store: JsonObject) -> dict[float, float]:
    return {
        float(count): float(str(one["cpu_ms"])) for count, one in _objects(store.get("at")) if "cpu_ms" in one
    }


def _objects(value: Json) -> list[tuple[str, JsonObject]]:
    assert isinstance(value, dict | None)
    return [(name, one) for name, one in (value or {}).items() if isinstance(one, dict)]


def _measured(count: int, sizes: Sizes, folder: Path | None) -> JsonObject:
    """By a process that stays and keeps a watch, and by one that has to look at every file."""
    with _folder(folder) as base:
        where = _filled(Path(base), count, sizes)
        watch = Watch(where.directory)
        staying = asyncio.run(_saves(where, sizes, watch))
        watch.close()
        return {"watching": staying, "looking_at_all": asyncio.run(_saves(where, sizes, None))}


def _folder(folder: Path | None) -> AbstractContextManager[str]:
    usable = folder if folder is not None and os.access(folder, os.W_OK) else None
    return tempfile.TemporaryDirectory(prefix="nacre-bench-", dir=usable)


def _filled(base: Path, count: int, sizes: Sizes) -> Location:
    """A directory that is in its history already, with an index as long as one may be."""
    where = Location(
        directory=base / "memory", source="default", history=base / "history" / "m.git", cache=base / "cache"
    )
    where.directory.mkdir()
    for number in range(count):
        (where.directory / _topic(number)).write_bytes(_body(number, 0, sizes))
    lines = [_line(number) for number in range(min(count, INDEX_LINES))]
    (where.directory / "MEMORY.md").write_bytes(b"".join(lines))
    for _ in range(2):  # the second time all stamps are old enough to be trusted
        asyncio.run(pick_up(where))
        time.sleep(0.2)
    return where


async def _saves(where: Location, sizes: Sizes, watch: Watch | None) -> JsonObject:
    times: list[tuple[int, int, int]] = []
    memory = Memory(where, watch=watch)
    await _save(memory, 0, sizes)
    await _save(memory, 1, sizes)
    for number in range(sizes.saves):
        before, begun = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter_ns()
        await _save(memory, number, sizes)
        wall, after = time.perf_counter_ns() - begun, resource.getrusage(resource.RUSAGE_SELF)
        user = int((after.ru_utime - before.ru_utime) * 1e9)
        times.append((user, int((after.ru_stime - before.ru_stime) * 1e9), wall))
    cpu = [user + system for user, system, _ in times]
    return {
        "cpu_ms": _ms(cpu),
        "user_ms": _ms([user for user, _, _ in times]),
        "wall_ms": _ms([wall for _, _, wall in times]),
        "mean_cpu_ms": round(sum(cpu) / len(cpu) / 1e6, 2),
    }


async def _save(memory: Memory, number: int, sizes: Sizes) -> None:
    """Change a topic, found by its subject, and its line in the index."""
    place = number % INDEX_LINES
    said = time.perf_counter_ns() % 10**9  # a longer number could pass for a card number
    body = f"{said} is what was said last.\n" + "More about it. " * (sizes.body_bytes // 15)
    draft = MemoryDraft(body=body, name=f"subject {place}", description=f"what it is about, last said {said}")
    await memory.save(draft, CHANGE)


def _topic(number: int) -> str:
    return f"memory_on_subject_{number}.md"


def _line(number: int, said: int = 0) -> bytes:
    return b"- [Subject %d](%s) - what it is about, in some words, last said %d\n" % (
        number, _topic(number).encode(), said,
    )  # fmt: skip


def _body(number: int, said: int, sizes: Sizes) -> bytes:
    text = b"---\nname: subject %d\ntype: project\n---\n%d is what was said last.\n" % (number, said)
    return text + b"More about it. " * (max(0, sizes.body_bytes - len(text)) // 15)


def _flushes(sizes: Sizes) -> float | None:
    """Counted from outside; none where nothing can look on."""
    if shutil.which("strace") is None:
        return None
    with tempfile.TemporaryDirectory(prefix="nacre-bench-") as base:
        _filled(Path(base), min(sizes.memories), sizes)
        counts = [_traced(Path(base), saves) for saves in (1, 1 + TRACED_SAVES)]
    if None in counts:
        return None
    return ((counts[1] or 0) - (counts[0] or 0)) / TRACED_SAVES


def _traced(base: Path, saves: int) -> int | None:
    trace = base / "trace"
    code = f"from bench.memory import save_some; save_some({str(base)!r}, {saves})"
    command = ["strace", "-f", "-e", "trace=fsync,fdatasync,sync,syncfs", "-o", str(trace)]
    done = subprocess.run([*command, sys.executable, "-c", code], capture_output=True, check=False)
    if done.returncode:
        return None
    return sum("sync" in line and "(" in line for line in trace.read_text(encoding="utf-8").splitlines())


def save_some(base: str, saves: int) -> None:
    """What the traced process does."""
    where = Location(
        directory=Path(base) / "memory",
        source="default",
        history=Path(base) / "history" / "m.git",
        cache=Path(base) / "cache",
    )

    memory = Memory(where)

    async def some() -> None:
        for number in range(saves):
            await _save(memory, number, TINY)

    asyncio.run(some())


def _ms(nanoseconds: list[int]) -> float:
    return round(middle_us(nanoseconds) / 1000, 2)


def _cpu_ms(figures: JsonObject) -> float:
    watching = figures["watching"]
    assert isinstance(watching, dict)
    return float(str(watching["cpu_ms"]))
