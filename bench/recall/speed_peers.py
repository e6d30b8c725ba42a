"""The peers' query times over the same texts, all in memory and in one process.

Vectors are drawn by chance for `minilm` and `mem0`: the time of a product does not depend on what the numbers
are, and embedding 100,000 texts takes hours. The question itself is embedded by the real model. mem0 keeps
its vectors in Qdrant's local mode, which is not meant for 100,000: it is left out there.
"""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.recall import mem0_peer, speed, speed_files
from bench.recall.dense import can_embed, encoder
from bench.recall.peers import available, build, is_left_out
from bench.recall.schema import Question, Store
from nacre.messages.blocks import JsonObject

DIMENSIONS = 384
MOST_IN_MEM0 = 10_000
BATCH = 500
SLOW_QUESTIONS = 40
"""As many as are asked of a peer that takes tens of milliseconds."""


def measure(data: Path | None, count: int) -> JsonObject:
    """By peer; one that is not there says why."""
    store = speed_files.store(data, count)
    asked = [
        Question(id=text, text=text, gold=frozenset(), kind="", half="tune")
        for text in speed_files.questions(data)
    ]
    found: JsonObject = {}
    for name, state in available().items():
        if name in ("rrf", "agent_framework") or (name == "minilm" and data is None):
            continue
        if is_left_out(state):
            found[name] = {"skipped": state}
        elif name == "minilm":
            found[name] = speed.times(_minilm(len(store.docs)), asked[:SLOW_QUESTIONS])
        else:
            peer = build([name], store, None)[name]
            found[name] = speed.times(peer, asked if name != "keyword_overlap" else asked[:SLOW_QUESTIONS])
    return {**found, **_mem0(store, asked[:SLOW_QUESTIONS], data)}


def _minilm(count: int) -> Callable[[Question], object]:
    import numpy as np

    rows = _rows(count)
    embed = encoder()

    def ask(question: Question) -> object:
        return np.argsort(-(rows @ embed([question.text])[0]))[:10]

    return ask


def _rows(count: int) -> Any:
    import numpy as np

    rows = np.random.default_rng(7).standard_normal((count, DIMENSIONS), dtype=np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def _mem0(store: Store, asked: list[Question], data: Path | None) -> JsonObject:
    if data is None or not mem0_peer.is_installed() or not can_embed():
        return {}
    if len(store.docs) > MOST_IN_MEM0:
        return {"mem0": {"skipped": f"Qdrant's local mode is not meant for {len(store.docs)}"}}
    embed = encoder()
    with tempfile.TemporaryDirectory(prefix="nacre-bench-") as folder:
        peer = mem0_peer.Mem0(Store(store.name, (), ()), Path(folder), lambda text: embed([text])[0].tolist())
        rows = _rows(len(store.docs))
        for first in range(0, len(store.docs), BATCH):
            docs = store.docs[first : first + BATCH]
            peer.insert(
                docs, rows[first : first + BATCH], [str(uuid.UUID(int=first + i)) for i in range(len(docs))]
            )
        return {"mem0": speed.times(peer, asked)}
