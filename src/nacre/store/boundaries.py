"""Index of a log's compactions, so that a resume reads the last part and not the whole file (T9).

The index is a small sidecar file, used only to save time: absent, stale or damaged, it is rebuilt by a scan
of bytes that parses only the lines it is about.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from nacre.messages.blocks import Json, JsonObject
from nacre.store import disk
from nacre.store.lines import line_around, open_log, parsed, whole_lines

FORMAT = 2
FINGERPRINT_BYTES = 256
"""Bytes at the covered end that must be unchanged for a valid index; a replaced file differs there."""

TOKENS = (b'"compact_boundary"', b'"isCompactSummary"', b'"compacted"', b'"undone"')
"""A line without any of these never changes the index."""


@dataclass(frozen=True, slots=True)
class Boundary:
    """One compaction in a log."""

    offset: int
    id: str
    whole: bool
    """Whether it replaces everything before it, except what it keeps; a partial one needs the text around it.
    """
    starts: int
    """Offset at which reading must begin for a complete view after it, kept messages included."""
    summary: str = ""
    """Id of its summary in the view, if the summary has no line of its own."""
    waits: bool = False
    """Whether its summary is missing; without one the compaction has no effect."""


@dataclass(frozen=True, slots=True)
class ResumeFrom:
    """The offset at which to begin reading, and the size."""

    offset: int
    bytes_to_read: int
    boundary: Boundary | None


@dataclass(frozen=True, slots=True)
class BoundaryIndex:
    """All compactions and all undos in the first `size` bytes of a log."""

    boundaries: tuple[Boundary, ...] = ()
    undone: tuple[tuple[str, str], ...] = ()
    """Pairs: the undoing record and its target; undoing a compaction makes an earlier one count again."""
    size: int = 0
    mtime_ns: int = 0
    fingerprint: str = ""

    def resume(self, size: int) -> ResumeFrom:
        """Return where a log of this size must be read from."""
        dead: set[str] = set()
        for undo, target in reversed(self.undone):
            if undo not in dead:
                dead.add(target)
        for boundary in reversed(self.boundaries):
            if boundary.whole and not boundary.waits and boundary.id not in dead:
                return ResumeFrom(boundary.starts, size - boundary.starts, boundary)
        return ResumeFrom(0, size, None)


def up_to_date(path: Path, known: BoundaryIndex | None) -> BoundaryIndex:
    """Return the index of the whole log, reading only what the known one does not cover."""
    with open_log(path) as file:
        found = os.fstat(file.fileno())
    known = known or BoundaryIndex()
    # Logs only grow, so an equal size needs an equal time, and the covered part must end as it did.
    is_replaced = known.size == found.st_size and known.mtime_ns != found.st_mtime_ns
    if known.size > found.st_size or is_replaced or known.fingerprint != fingerprint(path, known.size):
        known = BoundaryIndex()
    if known.size == found.st_size:
        return known
    index = known
    for at, block in whole_lines(path, start=known.size, end=found.st_size):
        if block.endswith(b"\n"):  # a line still being written is not covered yet
            index = replace(extended(path, index, at, block), size=at + len(block))
    return replace(index, mtime_ns=found.st_mtime_ns, fingerprint=fingerprint(path, index.size))


def extended(path: Path, index: BoundaryIndex, at: int, block: bytes) -> BoundaryIndex:
    """Return the index extended by one range of whole lines."""
    for begin, line in _interesting(block):
        record = parsed(line)
        if record.get("subtype") == "compact_boundary" and record.get("isSidechain") is not True:
            boundary = _boundary(path, index, at + begin, record)
            index = replace(index, boundaries=(*index.boundaries, replace(boundary, waits=True)))
        elif record.get("isCompactSummary") is True and record.get("isSidechain") is not True:
            # The summary of its parent boundary, else of the last one without a summary.
            waiting = [place for place, each in enumerate(index.boundaries) if each.waits]
            parent = _text(record.get("parentUuid"))
            if waiting:
                place = next((one for one in waiting if index.boundaries[one].id == parent), waiting[-1])
                known = list(index.boundaries)
                known[place] = replace(known[place], waits=False)
                index = replace(index, boundaries=tuple(known))
        elif record.get("type") == "nacre" and record.get("kind") == "compacted":
            boundary = _boundary(path, index, at + begin, record)
            index = replace(index, boundaries=(*index.boundaries, replace(boundary, whole=False)))
        elif record.get("type") == "nacre" and record.get("kind") == "undone":
            index = replace(index, undone=(*index.undone, (_id(record), _text(record.get("target")))))
    return index


def _interesting(block: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield lines with one of the tokens; inside a string quotes are escaped, so chance matches are rare."""
    places = []
    for token in TOKENS:
        found = block.find(token)
        while found >= 0:
            places.append(found)
            found = block.find(token, found + 1)
    last = -1
    for place in sorted(places):
        begin, line = line_around(block, place)
        if begin != last:
            yield begin, line
        last = begin


def _boundary(path: Path, index: BoundaryIndex, offset: int, record: JsonObject) -> Boundary:
    first, kept = _span(record)
    span = record.get("compacted")
    wanted = [*kept, *([first] if first else [])]
    # The record it names was in the view, so that view is read from there; if not, search before.
    view_from = index.resume(offset).offset
    found = _offsets_of(path, wanted, view_from, offset)
    found += _offsets_of(path, wanted, 0, view_from) if len(found) < len(set(wanted)) else []
    # An unknown id keeps nothing: the fold reads it the same way.
    starts = min([offset, *found])
    spans = [each.starts for each in index.boundaries if each.summary and each.summary in wanted]
    starts = min([starts, *spans])
    # A kept tail may begin before an earlier compaction, which must then be read with all it needs.
    for earlier in reversed(index.boundaries):
        if earlier.offset < starts and not _summary_at(path, earlier, starts):
            break
        starts = min(starts, earlier.starts)
    summary = _text(span.get("summaryId")) or _id(record) if isinstance(span, dict) else ""
    return Boundary(offset, _id(record), first is None, starts, summary)


def _summary_at(path: Path, earlier: Boundary, offset: int) -> bool:
    """Return whether the line at an offset is the summary of the boundary on the line before."""
    with open_log(path) as file:
        file.seek(earlier.offset)
        file.readline()
        return file.tell() == offset and b'"isCompactSummary"' in file.readline()


def _span(record: JsonObject) -> tuple[str | None, list[str]]:
    """Return the first record it replaces (None: all) and those it keeps, from any known spelling."""
    first: str | None = None
    kept: list[str] = []
    for place in (record, record.get("compactMetadata"), record.get("compacted")):
        if not isinstance(place, dict):
            continue
        first = first or _text(place.get("first")) or None
        segment = place.get("preservedSegment")
        messages = place.get("preservedMessages")
        ids: list[Json] = [place.get("keepsFrom")]
        if isinstance(segment, dict):
            ids += [segment.get("head"), segment.get("headUuid")]
        if isinstance(messages, dict):
            for name in ("uuids", "allUuids"):
                listed = messages.get(name)
                ids += listed if isinstance(listed, list) else []
        kept += [each for each in ids if isinstance(each, str) and each]
    return first, kept


def _offsets_of(path: Path, ids: Iterable[str], start: int, end: int) -> list[int]:
    """Return the first offset of the records with these ids in a range."""
    wanted = set(ids)
    found: list[int] = []
    if not wanted:
        return found
    quoted = [re.escape(json.dumps(each)).encode() for each in sorted(wanted)]
    # One id alone is a plain literal, which is found several times faster than an alternation.
    one_of = rb'"uuid"\s*:\s*(?:' + b"|".join(quoted) + rb")"
    pattern = re.compile(quoted[0] if len(quoted) == 1 else one_of)
    for at, block in whole_lines(path, start=start, end=end):
        for match in pattern.finditer(block):
            begin, line = line_around(block, match.start())
            record_id = parsed(line).get("uuid")
            if record_id in wanted:  # not merely a uuid nested somewhere in the record
                found.append(at + begin)
                wanted.discard(str(record_id))
        if not wanted:
            break
    return found


def _id(record: JsonObject) -> str:
    """Return the id: messages have a uuid, decisions an id."""
    return _text(record.get("uuid") or record.get("id"))


def _text(value: Json) -> str:
    return value if isinstance(value, str) else ""


def fingerprint(path: Path, size: int) -> str:
    """Return a digest of the last bytes before an offset."""
    with open_log(path) as file:
        file.seek(max(0, size - FINGERPRINT_BYTES))
        return hashlib.blake2b(file.read(min(size, FINGERPRINT_BYTES)), digest_size=8).hexdigest()


def save(sidecar: Path, index: BoundaryIndex) -> None:
    """Write the index next to its log."""
    body = {
        "format": FORMAT,
        "size": index.size,
        "mtimeNs": index.mtime_ns,
        "fingerprint": index.fingerprint,
        "boundaries": [
            [each.offset, each.id, each.whole, each.starts, each.summary, each.waits]
            for each in index.boundaries
        ],
        "undone": [list(pair) for pair in index.undone],
    }
    disk.make_folder(sidecar.parent)
    disk.replace_file(sidecar, json.dumps(body).encode(), temp_name=f".{sidecar.name}.tmp", sync=False)


def load(sidecar: Path) -> BoundaryIndex | None:
    """Return the saved index; None if there is no readable one."""
    try:
        body = json.loads(sidecar.read_bytes())
        if body["format"] != FORMAT or int(body["size"]) < 0:
            return None
        return BoundaryIndex(
            tuple(
                Boundary(int(offset), str(name), bool(whole), int(starts), str(summary), bool(waits))
                for offset, name, whole, starts, summary, waits in body["boundaries"]
            ),
            tuple((str(undo), str(target)) for undo, target in body["undone"]),
            int(body["size"]),
            int(body["mtimeNs"]),
            str(body["fingerprint"]),
        )
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None
