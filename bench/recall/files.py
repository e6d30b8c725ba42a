"""A store as real memory files: what nacre ranks and attaches in this benchmark is read from the disk."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from pathlib import Path

from bench.recall.schema import Store
from nacre.memory.recall.ranking.analysis import Doc

NO_DATE = datetime(2024, 1, 1, tzinfo=UTC)
"""For the one set whose documents have no date."""


@dataclass(frozen=True)
class Written:
    """Where a store lies and which file is which document."""

    directory: Path
    file_of: dict[str, str]
    id_of: dict[str, str]
    now: datetime
    """When questions without a date are asked: the day after the last document."""


def write(store: Store, directory: Path) -> Written:
    """One file per document, in one folder; who says it stands before the words, its time in the frontmatter.

    No field and no folder that nacre itself does not write tells it more.
    """
    file_of = {}
    for place, doc in enumerate(store.docs):
        file = _file(doc, place)
        path = directory / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_text(doc, place), encoding="utf-8")
        file_of[doc.id] = file
    last = max(_moment(doc, place) for place, doc in enumerate(store.docs))
    id_of = {file: name for name, file in file_of.items()}
    return Written(directory, file_of, id_of, last + timedelta(days=1))


def _file(doc: Doc, place: int) -> str:
    return f"{doc.name}.md" if doc.name else f"{place:05}.md"


def _text(doc: Doc, place: int) -> str:
    says = f"{doc.author}: {doc.body}" if doc.author else doc.body
    return "\n".join(["---", f"modified: {_moment(doc, place).isoformat()}", "---", "", says, ""])


def _moment(doc: Doc, place: int) -> datetime:
    """The morning of its day, and a second later than the document before it."""
    day = datetime.combine(doc.when, time(), UTC) if doc.when else NO_DATE
    return day.replace(hour=6) + timedelta(seconds=place)
