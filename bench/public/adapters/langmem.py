"""LangMem's tools over LangGraph's store in memory, without a model."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.public.adapter import SHOWN, Adapter, Hit, SavedMemory, Turn
from bench.recall.dense import Vectors

DIMENSIONS = 384
NAMESPACE = ("bench",)


class LangMem(Adapter):
    name = "langmem"
    package = "langmem"
    how = "`manage_memory` and `search_memory` over InMemoryStore, MiniLM as the embedder"

    def __init__(self, folder: Path, *, project: Path | None = None) -> None:
        super().__init__(folder, project=project)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from langgraph.store.memory import InMemoryStore
            from langmem import create_manage_memory_tool, create_search_memory_tool
        vectors = Vectors()

        def embed(texts: Sequence[str]) -> list[list[float]]:
            return [vectors.numbers(text) for text in texts]

        store = InMemoryStore(index={"dims": DIMENSIONS, "embed": embed})
        self._manage: Any = create_manage_memory_tool(NAMESPACE, store=store)
        self._search: Any = create_search_memory_tool(NAMESPACE, store=store)

    def save(self, memory: SavedMemory) -> str:
        return self._create(memory.whole)

    def search(self, message: str) -> list[Hit]:
        found = json.loads(self._search.invoke({"query": message, "limit": SHOWN}))
        return [Hit(one["key"], one["value"]["content"]) for one in found]

    def write(self, statement: str, said: Sequence[Turn]) -> bool:
        return bool(self._create(statement))

    def _create(self, text: str) -> str:
        answer = str(self._manage.invoke({"content": text, "action": "create"}))
        return answer.removeprefix("created memory ")
