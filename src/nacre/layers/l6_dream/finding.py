"""What the local index finds in a copy of a memory directory, without touching the disk (R9)."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, datetime

from nacre.layers.l6_dream.copy import Topic
from nacre.memory.recall.ranking.analysis import Doc, analyse
from nacre.memory.recall.ranking.index import Index
from nacre.memory.recall.ranking.ranker import Ranker


class Finder:
    """An index over memories, kept in step with them by hand."""

    def __init__(self, topics: Iterable[Topic], *, asked: date) -> None:
        self._index = Index()
        self._asked = asked
        for topic in topics:
            self.learn(topic)

    def learn(self, topic: Topic) -> None:
        """Know a memory as it is now."""
        self._index.add(analyse(_doc(topic)))

    def forget(self, file: str) -> None:
        self._index.remove(file)

    def found(self, text: str, *, limit: int) -> list[str]:
        """The files that answer best, best first; only those that have a word in common with the text."""
        if not text.strip():
            return []
        ranking = Ranker(self._index).rank(text, asked=self._asked, limit=limit)
        return [pick.id for pick in ranking.picks if pick.score > 0]


def _doc(topic: Topic) -> Doc:
    entry = topic.entry
    return Doc(
        id=entry.file,
        folder=entry.file.rpartition("/")[0],
        when=_day(entry.modified or entry.written),
        name=entry.title,
        description=entry.description,
        body=entry.body,
    )


def _day(at: datetime | None) -> date | None:
    return None if at is None else at.date()
