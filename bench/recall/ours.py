"""nacre itself: a `LocalIndex` over real files, asked through `recall()` as by a turn without a model."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, time
from functools import cached_property
from pathlib import Path
from typing import Any

from bench.recall.dense import Vectors, packaged
from bench.recall.files import Written, write
from bench.recall.schema import Question, Store, full_text
from nacre.memory.format.entry import Entry
from nacre.memory.recall.base import MAX_PICKS, RankedMemory, RecallQuery
from nacre.memory.recall.local_index import LocalIndex, confidences
from nacre.memory.recall.ranking.ranker import Confidence, Ranker
from nacre.memory.recall.recall import CUT_OFF, attach, recall
from nacre.memory.recall.semantic.meaning import SemanticIndex, packaged_encoder, text_of
from nacre.memory.recall.semantic.minilm import NAME
from nacre.messages.tokens import estimate_text

DEPTH = 10


@dataclass(frozen=True)
class Attached:
    """What the model would be shown."""

    ids: tuple[str, ...]
    tokens: int


class Ours:
    """One store in nacre's hands."""

    def __init__(self, store: Store, folder: Path, vectors: Vectors | None = None) -> None:
        self.store = store
        self.written = write(store, folder / "memory")
        self._meaning = _meaning(store, self.written, folder) if vectors else None
        self.index = LocalIndex(self.written.directory, folder / "cache", writes=False)
        self.index.refresh()
        self._tokens: dict[str, int] = {}

    def rank(self, question: Question) -> list[str]:
        """The ten best, whatever their certainty."""
        found = self.index.rank(self.query(question), limit=DEPTH)
        return [self.written.id_of[one.entry.file] for one in found]

    def attach(self, question: Question) -> Attached:
        """What `recall()` attaches: five at most, cut by certainty, the newer of two first."""
        picks = recall(self.query(question), [self.index]).picks
        return Attached(
            tuple(self.written.id_of[one.ranked.entry.file] for one in picks),
            sum(estimate_text(one.text) for one in picks),
        )

    def with_meaning(self, question: Question) -> tuple[list[str], tuple[str, ...]] | None:
        """The ten best by words and meaning, and which of them would be attached; none without vectors."""
        if self._meaning is None:
            return None
        asked = self.query(question).now.date()
        ranking = self._meaning.rank(self._ranker, question.text, asked=asked, limit=DEPTH)
        judged = list(zip(ranking.picks, confidences(ranking), strict=True))
        names = [self.written.id_of[pick.id] for pick, _ in judged]
        kept = (name for name, (_, sure) in zip(names[:MAX_PICKS], judged, strict=False) if sure >= CUT_OFF)
        return names, tuple(kept)

    def certainty(self, question: Question) -> Confidence:
        """How sure the ranking is as a whole: of the subject, and of the one asked about."""
        asked = self.query(question).now.date()
        return self._ranker.rank(question.text, asked=asked, limit=1).confidence

    def tokens(self, name: str) -> int:
        """What one document costs when it is attached: same header and same cut for every ranker."""
        if name not in self._tokens:
            file = self.written.file_of[name]
            entry = Entry(file=file)
            ranked = RankedMemory(entry=entry, directory=self.written.directory, score=0.0, confidence=1.0)
            shown = attach(ranked, self.written.now)
            self._tokens[name] = estimate_text(shown.text) if shown else 0
        return self._tokens[name]

    def close(self) -> None:
        self.index.close()

    @cached_property
    def _ranker(self) -> Ranker:
        """The ranker of the index, for what `LocalIndex` keeps to itself."""
        return Ranker(self.index._index)

    def query(self, question: Question) -> RecallQuery:
        """The question as a message of its day."""
        asked = question.asked
        now = datetime.combine(asked, time(12), UTC) if asked else self.written.now
        return RecallQuery(text=question.text, now=now)


class _Kept:
    """Vectors of documents that were made once; questions are encoded as nacre does it."""

    def __init__(self, vectors: Vectors) -> None:
        self._vectors = vectors
        self._model = packaged_encoder()
        self.name, self.width = self._model.name, self._model.width

    def encode(self, text: str, *, tokens: int | None = None) -> Any:
        return self._model.encode(text, tokens=tokens) if tokens else self._vectors.of([text])[0]

    def need(self, vector: Any) -> float:
        return self._model.need(vector)


def _meaning(store: Store, written: Written, folder: Path) -> SemanticIndex:
    vectors = Vectors(name=NAME, load=packaged)
    vectors.of([full_text(doc) for doc in store.docs])
    found = SemanticIndex(folder / "cache", encoder=_Kept(vectors), writes=False)
    found.catch_up({written.file_of[doc.id]: text_of(doc) for doc in store.docs}, seconds=float("inf"))
    return found
