"""mem0 with its local store, without a model: texts are added as they are."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.public.adapter import SHOWN, Adapter, Hit, SavedMemory, Turn
from bench.recall.dense import Vectors

DIMENSIONS = 384


class Mem0(Adapter):
    name = "mem0"
    package = "mem0ai"
    how = "`infer=False`, Qdrant's local files, MiniLM as the embedder; its extraction needs a model"

    def __init__(self, folder: Path, *, project: Path | None = None) -> None:
        super().__init__(folder, project=project)
        os.environ |= {"MEM0_TELEMETRY": "false", "MEM0_DIR": str(folder / "mem0"), "OPENAI_API_KEY": "none"}
        import mem0

        logging.getLogger("mem0").setLevel(logging.ERROR)
        embed = Vectors().numbers

        class Embedder:
            def embed(self, text: str, memory_action: str | None = None) -> list[float]:
                return embed(text)

            def embed_batch(self, texts: list[str], memory_action: str | None = None) -> list[list[float]]:
                return [embed(text) for text in texts]

        where = {"path": f"{folder}/qdrant", "on_disk": True, "embedding_model_dims": DIMENSIONS}
        self._memory: Any = mem0.Memory.from_config({
            "vector_store": {"provider": "qdrant", "config": where},
            "history_db_path": f"{folder}/history.db",
        })  # fmt: skip
        self._memory.embedding_model = Embedder()

    def save(self, memory: SavedMemory) -> str:
        done = self._memory.add(memory.whole, user_id="bench", infer=False)
        return str(done["results"][0]["id"])

    def search(self, message: str) -> list[Hit]:
        found = self._memory.search(message, filters={"user_id": "bench"}, top_k=SHOWN)
        return [Hit(one["id"], one["memory"]) for one in found["results"]]

    def write(self, statement: str, said: Sequence[Turn]) -> bool:
        return bool(self._memory.add(statement, user_id="bench", infer=False)["results"])
