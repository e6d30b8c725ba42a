"""The same saves by other people's memory stores: a new memory of so many bytes, where so many are already.

Each store runs in a process of its own, called as its own documentation has it, with no model and no network:

* `nacre`: `Memory.save()`: looks for secrets and for a memory on the same subject, then writes topic, index
  and a commit, flushed to the disk.
* `mem0`: `Memory.add(…, infer=False)` with its default stores (Qdrant's local files, SQLite). A stub stands
  in for the embedder: it returns one fixed vector of 384 numbers and costs nothing. What is there before was
  put in by the batch, without its rows in the history.
* `agent_framework`: `MemoryFileStore.write_topic()` and `rebuild_index()` with its default limits: what its
  own memory provider calls.

They do not do the same work: mem0 compares with nothing that is there and would have an embedding to pay for;
agent-framework keeps no earlier state and flushes nothing. A store that is not installed is left out:
`pip install -e '.[bench]'` brings it.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

PACKAGES = {"nacre": "nacre-memory", "mem0": "mem0ai", "agent_framework": "agent-framework-core"}
DIMENSIONS = 384
"""As many as the small embedders that run without a service have."""
TRACED_AT = 50
TRACED_SAVES = 10
BATCH = 500
SYNCS = "fsync,fdatasync,sync,syncfs,msync,sync_file_range"
Save = Callable[[int], None]


def measure(counts: Sequence[int], saves: int, body_bytes: int) -> dict[str, Any]:
    """Figures for each store at each count; a store that is not installed says so."""
    return {name: _store(name, counts, saves, body_bytes) for name in PACKAGES}


def _store(name: str, counts: Sequence[int], saves: int, body_bytes: int) -> dict[str, Any]:
    if importlib.util.find_spec(name) is None:
        return {"skipped": f"{PACKAGES[name]} is not installed; `pip install -e '.[bench]'` brings it"}
    return {
        "package": f"{PACKAGES[name]} {importlib.metadata.version(PACKAGES[name])}",
        "at": {str(count): _child(name, count, saves, body_bytes) for count in counts},
        "flushes": _flushes(name, body_bytes),
    }


def _child(name: str, count: int, saves: int, body_bytes: int, *, before: Sequence[str] = ()) -> Any:
    with tempfile.TemporaryDirectory(prefix="nacre-bench-") as folder:
        order = json.dumps([name, count, saves, body_bytes, folder])
        quiet = {"MEM0_TELEMETRY": "false", "MEM0_DIR": f"{folder}/mem0", "OPENAI_API_KEY": "none"}
        done = subprocess.run(
            [*before, sys.executable, "-W", "ignore", "-m", "bench.memory_peers", order],
            capture_output=True, check=False, text=True, cwd=Path(__file__).parents[1],
            env={**os.environ, **quiet, "HOME": folder},
        )  # fmt: skip
    if done.returncode:
        return {"failed": done.stderr.strip().splitlines()[-1][:300] if done.stderr.strip() else "no reason"}
    return json.loads(done.stdout.splitlines()[-1])


def _flushes(name: str, body_bytes: int) -> float | None:
    """Flushes of one save, counted from outside; none where nothing can look on."""
    if shutil.which("strace") is None:
        return None
    counts = []
    for saves in (1, 1 + TRACED_SAVES):
        with tempfile.NamedTemporaryFile(prefix="nacre-bench-", suffix=".trace") as trace:
            looking_on = ["strace", "-f", "-e", f"trace={SYNCS}", "-o", trace.name]
            if "failed" in _child(name, TRACED_AT, saves, body_bytes, before=looking_on):
                return None
            lines = Path(trace.name).read_text(encoding="utf-8").splitlines()
            counts.append(sum("sync" in line and "(" in line for line in lines))
    return (counts[1] - counts[0]) / TRACED_SAVES


def main(order: str) -> None:
    """What a store's own process does."""
    name, count, saves, body_bytes, folder = json.loads(order)
    open_store = {"nacre": _nacre, "mem0": _mem0, "agent_framework": _agent_framework}[name]
    save = open_store(Path(folder), count, body_bytes)
    save(count)
    times: list[tuple[int, int]] = []
    for number in range(count + 1, count + 1 + saves):
        cpu, wall = time.process_time_ns(), time.perf_counter_ns()
        save(number)
        times.append((time.process_time_ns() - cpu, time.perf_counter_ns() - wall))
    print(json.dumps({"saves": saves, "cpu_ms": _middle(times, 0), "wall_ms": _middle(times, 1)}))


def _nacre(folder: Path, count: int, body_bytes: int) -> Save:
    from nacre.memory.files.location import Location
    from nacre.memory.files.transaction import pick_up
    from nacre.memory.files.watch import Watch
    from nacre.memory.format.entry import MemoryChange, MemoryDraft
    from nacre.memory.memory import Memory

    where = Location(
        directory=folder / "memory", source="user", history=folder / "history.git", cache=folder / "cache"
    )
    runner = asyncio.Runner()
    where.directory.mkdir()
    memory = runner.run(Memory.at(where, folder, watch=Watch(where.directory)))
    for number in range(count):
        head = f"---\nname: {_title(number)}\ndescription: {_summary(number)}\ntype: project\n---\n\n"
        (where.directory / f"subject_{number}.md").write_text(head + _body(number, body_bytes), "utf-8")
    runner.run(pick_up(where))
    time.sleep(0.3)
    runner.run(memory.scan())
    change = MemoryChange(author="agent", reason="a save that is measured", session="bench")

    def save(number: int) -> None:
        draft = MemoryDraft(
            name=_title(number), description=_summary(number), body=_body(number, body_bytes), kind="project"
        )
        saved = runner.run(memory.save(draft, change))
        assert saved.before is None, f"{_title(number)} was taken for {saved.before.title}"

    return save


def _mem0(folder: Path, count: int, body_bytes: int) -> Save:
    import mem0

    class Stub:
        """Costs nothing, so that only the store is measured."""

        def embed(self, text: str, memory_action: str | None = None) -> list[float]:
            return vector

    vector = [0.05] * DIMENSIONS
    memory = mem0.Memory.from_config({
        "vector_store": {
            "provider": "qdrant",
            "config": {"path": f"{folder}/qdrant", "on_disk": True, "embedding_model_dims": DIMENSIONS},
        },
        "history_db_path": f"{folder}/history.db",
    })  # fmt: skip
    memory.embedding_model = Stub()

    def save(number: int) -> None:
        memory.add(_body(number, body_bytes), user_id="bench", infer=False)

    for first in range(0, count, BATCH):
        texts = [_body(number, body_bytes) for number in range(first, min(first + BATCH, count))]
        ids = [str(uuid.UUID(int=first + place)) for place in range(len(texts))]
        payloads = [{"data": text, "user_id": "bench", "text_lemmatized": text} for text in texts]
        memory.vector_store.insert(vectors=[vector] * len(texts), ids=ids, payloads=payloads)
    return save


def _agent_framework(folder: Path, count: int, body_bytes: int) -> Save:
    import agent_framework as af

    store = af.MemoryFileStore(folder / "memory", owner_state_key="owner")
    session = af.AgentSession()
    session.state["owner"] = "bench"

    def write(number: int) -> None:
        record = af.MemoryTopicRecord(
            topic=_title(number), summary=_summary(number), memories=[_body(number, body_bytes)],
            updated_at="2026-11-15T10:20:30+00:00", session_ids=["bench"],
        )  # fmt: skip
        store.write_topic(session, record, source_id="memory")

    def save(number: int) -> None:
        write(number)
        store.rebuild_index(session, source_id="memory", line_limit=200, line_length=150)

    for number in range(count):
        write(number)
    return save


def _title(number: int) -> str:
    return f"Subject {number}"


def _summary(number: int) -> str:
    return f"Number {number} in the ledger"


def _body(number: int, body_bytes: int) -> str:
    text = f"What was said of number {number}. "
    return (text + "More about it. " * (body_bytes // 15))[:body_bytes]


def _middle(times: list[tuple[int, int]], which: int) -> float:
    ranked = sorted(one[which] for one in times)
    return round(ranked[len(ranked) // 2] / 1e6, 2)


if __name__ == "__main__":
    main(sys.argv[1])
