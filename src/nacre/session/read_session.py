"""A session looked at without opening it: no lease is taken and nothing changes, so it may be in use (T9)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from nacre.messages.blocks import Json, JsonObject
from nacre.messages.jsonl import LoadedLog, LogReader, decode
from nacre.messages.jsonl_parse import METADATA_TYPES
from nacre.messages.records import Record, Said
from nacre.messages.view import View
from nacre.messages.wire import canonical
from nacre.session.meter import Meter
from nacre.session.session_log import MAX_RESUME_BYTES
from nacre.store import boundaries
from nacre.store.lines import read_lines


@dataclass(frozen=True, slots=True)
class ReadSession:
    """What a session would be resumed with."""

    path: Path
    loaded: LoadedLog
    view: View

    @property
    def session(self) -> str:
        return self.path.stem


def read_view(path: Path, *, most: int = MAX_RESUME_BYTES) -> ReadSession | None:
    """The present view, read from the last compaction on; None when more than `most` bytes lie behind it."""
    index = boundaries.up_to_date(path, boundaries.load(path.with_suffix("") / "boundaries.json"))
    where = index.resume(path.stat().st_size)
    if where.bytes_to_read > most:
        return None
    loaded = decode(_lines(path, where.offset), session_id=path.stem)
    return ReadSession(path, loaded, View.of(loaded.records))


def read_log(path: Path, *, most: int = MAX_RESUME_BYTES) -> LoadedLog | None:
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


class SlimReader(LogReader):
    """Reads a log like any reader, but remembers only the beginnings of its texts."""

    def take(self, line: JsonObject) -> None:
        if line.get("type") in METADATA_TYPES:
            # Nothing is read off these but their place; the digest stands for the rest, which may be long.
            rest = blake2b(canonical(line), digest_size=8).hexdigest()
            super().take({name: line[name] for name in PLACE_FIELDS if name in line} | {"rest": rest})
        else:
            super().take({name: _slim(value) for name, value in line.items() if name != "toolUseResult"})

    def finished(self, stem: str) -> LoadedLog:
        """What was read; a log named after one of the sessions in it is that session's."""
        if stem in self.sessions:
            self.session_id = stem
        return self.done()


def _slim(value: Json, depth: int = 0) -> Json:
    match value:
        case str() if len(value) > MAX_TEXT_CHARS:
            if value.isspace():
                return value[:MAX_TEXT_CHARS]
            # The digest keeps texts apart that only begin alike.
            return (
                value[:MAX_TEXT_CHARS]
                + blake2b(value.encode(errors="surrogatepass"), digest_size=8).hexdigest()
            )
        case list() if depth < MAX_DEPTH:
            return [_slim(item, depth + 1) for item in value]
        case dict() if depth < MAX_DEPTH:
            return {name: _slim(item, depth + 1) for name, item in value.items()}
        case _:
            return value


MAX_TEXT_CHARS = 200
"""Of a longer text only the beginning is kept: no finding depends on more."""


MAX_DEPTH = 40
"""Deeper than this nothing is shortened; real lines nest a fifth as deep."""


PLACE_FIELDS = (
    "type", "uuid", "parentUuid", "logicalParentUuid", "sessionId", "timestamp", "cwd", "isSidechain",
)  # fmt: skip
"""What a line says about where it belongs."""
