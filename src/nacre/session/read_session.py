"""Reads session logs without opening them: no lock is taken, so that another process may use them (T9)."""

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
from nacre.session.log_writer import MAX_RESUME_BYTES
from nacre.session.meter import Meter
from nacre.store import boundaries
from nacre.store.lines import read_lines


@dataclass(frozen=True, slots=True)
class ReadSession:
    """A session as it would be resumed."""

    path: Path
    loaded: LoadedLog
    view: View

    @property
    def session(self) -> str:
        return self.path.stem


def read_view(path: Path, *, most: int = MAX_RESUME_BYTES) -> ReadSession | None:
    """Return the current view, read from the last compaction on; None if more than `most` bytes follow it."""
    index = boundaries.up_to_date(path, boundaries.load(path.with_suffix("") / "boundaries.json"))
    where = index.resume(path.stat().st_size)
    if where.bytes_to_read > most:
        return None
    loaded = decode(_lines(path, where.offset), session_id=path.stem)
    return ReadSession(path, loaded, View.of(loaded.records))


def read_log(path: Path, *, most: int = MAX_RESUME_BYTES) -> LoadedLog | None:
    """Return all records; None if the log has more than `most` bytes."""
    if path.stat().st_size > most:
        return None
    return decode(_lines(path), session_id=path.stem)


def stream(path: Path) -> Iterator[Record]:
    """Yield the records as they were written, with one in memory at a time.

    Abandoned branches are included, because only the whole log shows which messages are on one.
    """
    for line in _lines(path):
        yield from decode([line], session_id=path.stem).records


def spent(path: Path) -> Meter:
    """Return the cost of a session from its first request on."""
    reader = SlimReader(session_id=path.stem)
    for line in read_lines(path):
        if b'"usage"' in line:
            reader.line(line)
    # Replies that a program wrote in the model's name were never requested.
    return Meter.of(one for one in reader.records if not (isinstance(one, Said) and one.aside == "display"))


def _lines(path: Path, start: int = 0) -> Iterator[bytes]:
    """Yield lines with their line ends, which distinguish a torn line from a damaged one."""
    at_end = path.stat().st_size
    for line in read_lines(path, start=start, end=at_end):
        start += len(line) + 1
        yield line + b"\n" if start <= at_end else line


class SlimReader(LogReader):
    """Reads a log but keeps only the beginning of each text."""

    def take(self, line: JsonObject) -> None:
        if line.get("type") in METADATA_TYPES:
            # Only their position matters; a digest replaces the rest, which may be long.
            rest = blake2b(canonical(line), digest_size=8).hexdigest()
            super().take({name: line[name] for name in PLACE_FIELDS if name in line} | {"rest": rest})
        else:
            super().take({name: _slim(value) for name, value in line.items() if name != "toolUseResult"})

    def finished(self, stem: str) -> LoadedLog:
        """Return what was read; the file name decides which of several sessions in a log it belongs to."""
        if stem in self.sessions:
            self.session_id = stem
        return self.done()


def _slim(value: Json, depth: int = 0) -> Json:
    match value:
        case str() if len(value) > MAX_TEXT_CHARS:
            if value.isspace():
                return value[:MAX_TEXT_CHARS]
            # The digest distinguishes texts with the same beginning.
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
"""How much of a text is kept; no check depends on more."""


MAX_DEPTH = 40
"""Texts nested deeper than this are not shortened; real lines nest a fifth as deep."""


PLACE_FIELDS = (
    "type", "uuid", "parentUuid", "logicalParentUuid", "sessionId", "timestamp", "cwd", "isSidechain",
)  # fmt: skip
"""The fields that say where in the log a line belongs."""
