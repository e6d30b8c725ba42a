"""Ranked memories for tests, with or without a file behind them."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

from nacre.memory.format.entry import Entry, Kind
from nacre.memory.recall.base import RankedMemory

DAY = datetime(2026, 3, 10, 12, 0, tzinfo=UTC)
PROJECT = Path("/home/ada/.nacre/projects/-home-ada-loom/memory")


def ranked(
    file: str,
    description: str = "",
    *,
    kind: Kind | None = None,
    directory: Path = PROJECT,
    written: datetime | None = DAY,
    score: float = 1.0,
) -> RankedMemory:
    """A memory as a ranker returns it."""
    entry = Entry(file=file, description=description, kind=kind, written=written)
    return RankedMemory(entry=entry, directory=directory, score=score, confidence=0.9)


def on_disk(directory: Path, file: str, content: str | bytes, *, at: datetime = DAY) -> RankedMemory:
    """A memory with a file of this content, last written at this time."""
    path = directory / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    os.utime(path, (at.timestamp(), at.timestamp()))
    return ranked(file, directory=directory, written=at)
