"""A baseline: BM25 over whole texts, which attaches its best five and keeps everything it is given."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bench.public.adapter import SHOWN, Adapter, Hit, SavedMemory, Turn
from bench.recall.peers import Bm25s
from bench.recall.schema import Question, Store
from nacre.memory.recall.ranking.analysis import Doc


class Bm25(Adapter):
    name = "bm25"
    package = "bm25s"
    how = "English stop words and stemmer; every message of a user is a memory"

    def __init__(self, folder: Path, *, project: Path | None = None) -> None:
        super().__init__(folder, project=project)
        self._texts: list[str] = []
        self._ranker: Bm25s | None = None

    def save(self, memory: SavedMemory) -> str:
        return self._keep(memory.whole)

    def search(self, message: str) -> list[Hit]:
        question = Question(id="", text=message, gold=frozenset(), kind="", half="score")
        if self._ranker is None:
            docs = [
                Doc(id=str(at), name="", description="", body=text) for at, text in enumerate(self._texts)
            ]
            self._ranker = Bm25s(Store("public", tuple(docs), (question,)))
        return [Hit(id_, self._texts[int(id_)]) for id_ in self._ranker(question)[:SHOWN]]

    def write(self, statement: str, said: Sequence[Turn]) -> bool:
        return bool(self._keep(statement))

    def chat(self, turn: Turn) -> None:
        if turn.role == "user":
            self._keep(turn.text)

    def contents(self) -> list[tuple[str, str]]:
        return [("", text) for text in self._texts]

    def _keep(self, text: str) -> str:
        self._texts.append(text)
        self._ranker = None
        return str(len(self._texts) - 1)
