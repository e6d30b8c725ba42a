"""The index file: what of it is loaded, how full it is, which memories are worth a line (M8, M9, M16c)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from nacre.memory.format.entry import Entry
from nacre.memory.format.pointers import INDEX_FILE as INDEX_FILE
from nacre.memory.format.pointers import Index as Index
from nacre.memory.format.pointers import pointer_line as pointer_line

MAX_LINES = 200
"""Nearly everybody's index is shorter (M9)."""
MAX_BYTES = 25_000
"""The second limit, because 200 lines have been seen to hold 197 KB (M9)."""
NEAR = 0.8
"""From this share of either limit on, whoever writes is told (M16c)."""
TARGET = 0.7
"""What a rewrite should come down to, so that the next few saves do not ask for another."""
_LONG_AGO = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """An index as it goes into a conversation."""

    text: str
    """With the warning at its end when anything was cut."""
    cut: str = ""
    """Which limit the index is over: `lines`, `bytes`, `lines and bytes`, or nothing."""
    warning: str = ""
    lines: int
    """Of the whole index, like `bytes`."""
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Pressure:
    """How full an index is."""

    lines: int
    bytes: int
    share: float
    """Of the limit it is nearest to: 1.0 is full."""
    feedback: str = ""
    """What to tell whoever wrote it; nothing while there is room."""


def loaded(data: bytes, *, max_lines: int = MAX_LINES, max_bytes: int = MAX_BYTES) -> Loaded:
    """As much of the index as fits: cut by lines, then by bytes at a line end, and never silently (M9)."""
    text, lines, size = _measured(data)
    over = [name for name, is_over in (("lines", lines > max_lines), ("bytes", size > max_bytes)) if is_over]
    if not over:
        return Loaded(text=text, lines=lines, bytes=size)
    kept = "\n".join(text.split("\n")[:max_lines]).rstrip().encode()
    if len(kept) > max_bytes:
        end = kept.rfind(b"\n", 0, max_bytes + 1)
        kept = kept[:end] if end > 0 else kept[:max_bytes]
    sizes = {"lines": f"{lines} lines (limit {max_lines})", "bytes": f"{size:,} bytes (limit {max_bytes:,})"}
    warning = (
        f"WARNING: {INDEX_FILE} is {' and '.join(sizes[name] for name in over)}, so only its beginning "
        "is above. Keep every entry to one short line, and move detail into topic files."
    )
    shown = kept.decode(errors="ignore")
    return Loaded(
        text=f"{shown}\n\n{warning}\n", cut=" and ".join(over), warning=warning, lines=lines, bytes=size
    )


def pressure(data: bytes, *, max_lines: int = MAX_LINES, max_bytes: int = MAX_BYTES) -> Pressure:
    """How full the index is, and what to tell its writer (M16c)."""
    _, lines, size = _measured(data)
    share = max(lines / max_lines, size / max_bytes)
    if share <= NEAR:
        return Pressure(lines=lines, bytes=size, share=share)
    state = f"{INDEX_FILE} is {lines} of {max_lines} lines and {size:,} of {max_bytes:,} bytes"
    goal = f"under {int(max_lines * TARGET)} lines and {int(max_bytes * TARGET):,} bytes"
    if share <= 1:
        feedback = f"{state}, {share:.0%} of its limit. Soon shorten hooks and merge entries to get {goal}."
    else:
        feedback = (
            f"{state}: past its limit, so its end is no longer loaded. Rewrite it now to get {goal}: "
            "one line of about 150 characters per entry, detail in topic files."
        )
    return Pressure(lines=lines, bytes=size, share=share, feedback=feedback)


def choose_listed(
    entries: Iterable[Entry],
    *,
    index: Index | None = None,
    useful: Mapping[str, float] | None = None,
    max_lines: int = MAX_LINES,
    max_bytes: int = MAX_BYTES,
) -> tuple[Entry, ...]:
    """The memories worth a line, best first: pinned, then most useful, then listed already, then newest.

    What is untrusted is never listed, since the index reaches every prompt (M16b); what says `indexed: false`
    neither. `useful` scores files; the headings and other text of `index` count as taken.
    """
    scores = useful or {}
    lines = index.lines if index else ()
    raws = {line.file: line.raw for line in lines if line.file}
    room_lines = max_lines - sum(not line.file for line in lines)
    room_bytes = max_bytes - sum(_bytes(line.raw) for line in lines if not line.file)
    chosen: list[Entry] = []
    for entry in sorted(filter(is_listable, entries), key=lambda one: _worth(one, scores), reverse=True):
        size = _bytes(raws.get(entry.file) or pointer_line(entry.file, entry.title, entry.description) + "\n")
        if len(chosen) < room_lines and size <= room_bytes:
            chosen.append(entry)
            room_bytes -= size
    return tuple(chosen)


def is_listable(entry: Entry) -> bool:
    """Whether the index may point to it at all: the index reaches every prompt, whoever sends it (M27)."""
    return entry.origin != "untrusted" and not entry.is_unlisted and not entry.local_only


def _worth(entry: Entry, scores: Mapping[str, float]) -> tuple[bool, float, bool, datetime, str]:
    newest = entry.modified or entry.written or _LONG_AGO
    return entry.pinned, scores.get(entry.file, 0.0), entry.indexed, newest, entry.file


def _measured(data: bytes) -> tuple[str, int, int]:
    """The text as it is loaded, and its size without the blank lines at its end."""
    text = data.decode(errors="replace").removeprefix("\ufeff").replace("\r\n", "\n")
    said = text.rstrip()
    return text, said.count("\n") + bool(said), len(said.encode())


def _bytes(text: str) -> int:
    return len(text.encode(errors="surrogateescape"))
