"""mem0 with its local store, without a model: texts are added as they are."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bench.public.adapter import SHOWN, Adapter, Hit, SavedMemory, Turn
from bench.recall.dense import Vectors
from bench.recall.mem0_peer import open_mem0


class Mem0(Adapter):
    name = "mem0"
    package = "mem0ai"
    how = "`infer=False`, Qdrant's local files, MiniLM as the embedder; its extraction needs a model"

    def __init__(self, folder: Path, *, project: Path | None = None) -> None:
        super().__init__(folder, project=project)
        self._memory = open_mem0(folder, Vectors().numbers)

    def save(self, memory: SavedMemory) -> str:
        done = self._memory.add(memory.whole, user_id="bench", infer=False)
        return str(done["results"][0]["id"])

    def search(self, message: str) -> list[Hit]:
        found = self._memory.search(message, filters={"user_id": "bench"}, top_k=SHOWN)
        return [Hit(one["id"], one["memory"]) for one in found["results"]]

    def write(self, statement: str, said: Sequence[Turn]) -> bool:
        return bool(self._memory.add(statement, user_id="bench", infer=False)["results"])
