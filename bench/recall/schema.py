"""What the recall benchmark speaks of: stores of documents and the questions put to them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Literal, TypeAlias

from nacre.memory.recall.ranking.analysis import Doc

Half: TypeAlias = Literal["tune", "score"]
"""`tune` is what weights and cuts were chosen on; `score` is what they were then measured on."""
HALVES: tuple[Half, ...] = ("tune", "score")


@dataclass(frozen=True, kw_only=True)
class Question:
    """One question, what answers it, and of which kind it is."""

    id: str
    text: str
    gold: frozenset[str]
    kind: str
    half: Half
    asked: date | None = None
    is_answerable: bool = True
    newer: frozenset[str] = frozenset()
    """Documents that say how it is now, where an older one says otherwise."""
    older: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Store:
    """One directory of memories and the questions put to it."""

    name: str
    docs: tuple[Doc, ...]
    questions: tuple[Question, ...]

    @property
    def half(self) -> Half:
        """Of its first question; only a store of one half is asked another's questions."""
        return self.questions[0].half


def full_text(doc: Doc) -> str:
    """A document as every peer sees it: who says it, and what."""
    said = f"{doc.author}: {doc.body}" if doc.author else doc.body
    return f"{doc.name}\n{said}" if doc.name else said
