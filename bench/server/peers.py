"""Saves and searches in PostgreSQL by nacre and other memory stores, in turn on one server, without a model.

* `nacre`: `Memory.save` and `Memory.search` as `open_memory("postgresql://…")` has them: a save checks for
  secrets and for a memory on the same subject, and commits files, history and index in one transaction.
* `langgraph`: `PostgresStore.put` and `.search` of langgraph-checkpoint-postgres with a vector index, where
  the database has the extension `vector`; else without one, where a search only filters.
* `mem0`: `Memory.add(infer=False)` and `.search` with its store `pgvector`, where that extension is there.

A stub stands in for the embedders of both: it returns a fixed vector of each text and costs nothing, so
that their embedding is not charged. They do not do the same work: neither compares with what is there or
keeps what was before. A store that is not installed or cannot run is left out with the reason.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib.metadata
import importlib.util
import os
import random
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.machine import bar, spread
from bench.server.cluster import TENANT, USER, Cluster, cluster
from nacre import open_memory
from nacre.messages.blocks import JsonObject

DIMENSIONS = 384
"""As many as the small embedders that run without a service have."""
WORDS = (
    "heron egret ibis stork crane plover curlew godwit dunlin avocet gannet petrel fulmar skua tern kestrel"
).split()
Ask = Callable[[int, str], Any]
_Times = dict[str, dict[str, list[int]]]


@dataclass(frozen=True)
class PeersSize:
    """How many memories are saved, and how many searches follow."""

    saves: int
    searches: int


FULL = PeersSize(saves=300, searches=300)
TINY = PeersSize(saves=3, searches=3)


@dataclass(frozen=True)
class _Store:
    package: str
    save: Ask
    search: Ask


def measure(size: PeersSize) -> JsonObject:
    """The figures and the bars."""
    with (
        tempfile.TemporaryDirectory(prefix="nacre-bench-") as name,
        cluster(Path(name)) as made,
        ExitStack() as stack,
    ):
        stores: dict[str, _Store | str] = {
            "nacre": _nacre(made, stack), "langgraph": _langgraph(made, stack), "mem0": _mem0(made),
        }  # fmt: skip
        running = {name: one for name, one in stores.items() if isinstance(one, _Store)}
        skipped = {name: one for name, one in stores.items() if isinstance(one, str)}
        times, cpu = _in_turn(running, size)
    found: dict[str, JsonObject] = {
        name: {
            "package": running[name].package,
            **{what: {**spread(each[what]), "cpu": spread(cpu[name][what])} for what in each},
        }
        for name, each in times.items()
    }
    return {
        "saves": size.saves,
        "searches": size.searches,
        "stores": {**found, **{name: {"skipped": why} for name, why in skipped.items()}},
        "bars": [bar("other stores that ran", len(found) - 1, at_least=1)],
    }


def _in_turn(stores: dict[str, _Store], size: PeersSize) -> tuple[_Times, _Times]:
    """Return wall time and processor time of this process, which is not that of PostgreSQL."""
    chance = random.Random(17)
    texts = [
        f"The {chance.choice(WORDS)} service {n} runs on machine {chance.choice(WORDS)}-{n} for team"
        f" {chance.choice(WORDS)} and is deployed on the {1 + n % 28}th."
        for n in range(size.saves)
    ]
    times: _Times = {name: {"save": [], "search": []} for name in stores}
    cpu: _Times = {name: {"save": [], "search": []} for name in stores}
    questions = [f"Which machine runs the {chance.choice(WORDS)} service?" for _ in range(size.searches)]
    for what, given in (("save", texts), ("search", questions)):
        for store in stores.values():  # the first call loads what later ones use
            (store.save if what == "save" else store.search)(-1, f"The {what} before the others.")
        for number, text in enumerate(given):
            for name, store in stores.items():
                began, busy = time.perf_counter_ns(), time.process_time_ns()
                (store.save if what == "save" else store.search)(number, text)
                times[name][what].append(time.perf_counter_ns() - began)
                cpu[name][what].append(time.process_time_ns() - busy)
    return times, cpu


def _nacre(made: Cluster, stack: ExitStack) -> _Store:
    runner = stack.enter_context(asyncio.Runner())
    made.key()  # adds the user
    os.environ["NACRE_HOME"] = str(made.folder / "home")
    memory = runner.run(open_memory(made.address, tenant=TENANT, user=USER))
    return _Store(
        package=f"nacre {importlib.metadata.version('nacre-memory')}",
        save=lambda number, text: runner.run(memory.save(text)),
        search=lambda number, text: runner.run(memory.search(text)),
    )


def _vector(text: str) -> list[float]:
    seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
    chance = random.Random(seed)
    return [chance.uniform(-1, 1) for _ in range(DIMENSIONS)]


def _embed(texts: Sequence[str]) -> list[list[float]]:
    return [_vector(one) for one in texts]


def _has_vector(made: Cluster) -> bool:
    return bool(made.execute("SELECT 1 FROM pg_available_extensions WHERE name = 'vector'"))


def _langgraph(made: Cluster, stack: ExitStack) -> _Store | str:
    if importlib.util.find_spec("langgraph.store.postgres") is None:
        return "langgraph-checkpoint-postgres is not installed"
    from langgraph.store.postgres import PostgresStore  # type: ignore[import-not-found,unused-ignore]

    index = {"dims": DIMENSIONS, "embed": _embed, "fields": ["text"]} if _has_vector(made) else None
    store: Any = stack.enter_context(PostgresStore.from_conn_string(made.address, index=index))
    store.setup()
    place = (TENANT, USER)
    return _Store(
        package=f"langgraph-checkpoint-postgres {importlib.metadata.version('langgraph-checkpoint-postgres')}"
        + ("" if index else ", without vectors"),
        save=lambda number, text: store.put(place, f"memory-{number}", {"text": text}),
        search=lambda number, text: store.search(place, query=text if index else None, limit=5),
    )


def _mem0(made: Cluster) -> _Store | str:
    if importlib.util.find_spec("mem0") is None:
        return "mem0ai is not installed"
    if not _has_vector(made):
        return "its store needs the extension vector, which this PostgreSQL does not have"
    os.environ |= {
        "MEM0_TELEMETRY": "false", "MEM0_DIR": str(made.folder / "mem0"), "OPENAI_API_KEY": "none",
    }  # fmt: skip
    import mem0

    class Embedder:
        """Costs nothing, so that only the store is measured."""

        def embed(self, text: str, memory_action: str | None = None) -> list[float]:
            return _vector(text)

        def embed_batch(self, texts: list[str], memory_action: str | None = None) -> list[list[float]]:
            return _embed(texts)

    where = {"connection_string": made.address, "embedding_model_dims": DIMENSIONS}
    try:
        memory: Any = mem0.Memory.from_config({
            "vector_store": {"provider": "pgvector", "config": where},
            "history_db_path": str(made.folder / "mem0.db"),
        })  # fmt: skip
    except ImportError as error:
        return f"its store cannot be loaded: {error}"
    memory.embedding_model = Embedder()
    return _Store(
        package=f"mem0ai {importlib.metadata.version('mem0ai')}",
        save=lambda number, text: memory.add(text, user_id=USER, infer=False),
        search=lambda number, text: memory.search(text, filters={"user_id": USER}, top_k=5),
    )
