"""mem0 over one store: `add(…, infer=False)` for every document, then `search()`; no model, no network.

Its default stores (Qdrant's local files, SQLite); its embedder is replaced by the MiniLM vectors of the other
peers.
One `add` of a document costs milliseconds, so that only the sets named in `SETS` are put to it.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bench.recall.schema import Question, Store, full_text
from nacre.memory.recall.ranking.analysis import Doc

DIMENSIONS = 384
SETS = ("locomo_turns", "locomo_sessions", "made_up")
DEPTH = 10
Embed = Callable[[str], list[float]]


def is_installed() -> bool:
    return importlib.util.find_spec("mem0") is not None


def version() -> str:
    return f"mem0ai {importlib.metadata.version('mem0ai')}"


def open_mem0(folder: Path, embed: Embed) -> Any:
    """Return mem0's memory with its local stores below a folder and another embedder; it sends nothing."""
    os.environ |= {"MEM0_TELEMETRY": "false", "MEM0_DIR": str(folder / "mem0"), "OPENAI_API_KEY": "none"}
    import mem0

    logging.getLogger("mem0").setLevel(logging.ERROR)

    class Embedder:
        """The vectors of the other dense peers."""

        def embed(self, text: str, memory_action: str | None = None) -> list[float]:
            return embed(text)

        def embed_batch(self, texts: list[str], memory_action: str | None = None) -> list[list[float]]:
            return [embed(text) for text in texts]

    where = {"path": f"{folder}/qdrant", "on_disk": True, "embedding_model_dims": DIMENSIONS}
    memory = mem0.Memory.from_config({
        "vector_store": {"provider": "qdrant", "config": where},
        "history_db_path": f"{folder}/history.db",
    })  # fmt: skip
    memory.embedding_model = Embedder()
    return memory


class Mem0:
    """One store as mem0 has it."""

    def __init__(self, store: Store, folder: Path, embed: Embed) -> None:
        self._memory = open_mem0(folder, embed)
        for doc in store.docs:
            self._memory.add(full_text(doc), user_id="bench", infer=False, metadata={"doc": doc.id})

    def insert(self, docs: Sequence[Doc], rows: Any, ids: list[str]) -> None:
        """Many at once, past its own `add`, for measuring time alone."""
        payloads = [
            {"data": doc.body, "user_id": "bench", "text_lemmatized": doc.body, "doc": doc.id} for doc in docs
        ]
        self._memory.vector_store.insert(vectors=rows.tolist(), ids=ids, payloads=payloads)

    def __call__(self, question: Question) -> list[str]:
        found = self._memory.search(question.text, filters={"user_id": "bench"}, top_k=DEPTH)
        return [one["metadata"]["doc"] for one in found["results"]]
