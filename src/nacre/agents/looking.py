"""A session looked at without opening it: no lease is taken and nothing changes, so it may be in use (T9)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from nacre.agents.checking import SlimReader
from nacre.agents.kept import MAX_RESUME_BYTES
from nacre.agents.meter import Meter
from nacre.messages.jsonl import Loaded, decode
from nacre.messages.records import Record, Said
from nacre.messages.view import View
from nacre.store import boundaries
from nacre.store.lines import read_lines


@dataclass(frozen=True, slots=True)
class Look:
    """What a session would be resumed with."""

    path: Path
    loaded: Loaded
    view: View

    @property
    def session(self) -> str:
        return self.path.stem


def look(path: Path, *, most: int = MAX_RESUME_BYTES) -> Look | None:
    """The present view, read from the last compaction on; None when more than `most` bytes lie behind it."""
    index = boundaries.up_to_date(path, boundaries.load(path.with_suffix("") / "boundaries.json"))
    where = index.resume(path.stat().st_size)
    if where.bytes_to_read > most:
        return None
    loaded = decode(_lines(path, where.offset), session_id=path.stem)
    return Look(path, loaded, View.of(loaded.records))


def look_back(path: Path, *, most: int = MAX_RESUME_BYTES) -> Loaded | None:
    """Everything that was ever recorded; None when it is more than `most` bytes."""
    if path.stat().st_size > most:
        return None
    return decode(_lines(path), session_id=path.stem)


def stream(path: Path) -> Iterator[Record]:
    """Record by record as they were written, one in memory at a time.

    What only the whole log tells is not told: which messages are on a branch left behind.
    """
    for line in _lines(path):
        yield from decode([line], session_id=path.stem).records


def spent(path: Path) -> Meter:
    """What a session has cost so far, from its first request on."""
    reader = SlimReader(session_id=path.stem)
    for line in read_lines(path):
        if b'"usage"' in line:
            reader.line(line)
    # What a program wrote in the model's name was never asked for.
    return Meter.of(record for record in reader.records if not _is_display(record))


def _is_display(record: Record) -> bool:
    return isinstance(record, Said) and record.aside == "display"


def _lines(path: Path, start: int = 0) -> Iterator[bytes]:
    """With their ends, by which a reader tells a torn line from a damaged one."""
    at_end = path.stat().st_size
    for line in read_lines(path, start=start, end=at_end):
        start += len(line) + 1
        yield line + b"\n" if start <= at_end else line
