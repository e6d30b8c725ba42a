"""Which memories a conversation starts with, which were cut or left out, and why (M16c)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from nacre.memory.files.scan import NotAMemory, Scan, read_head, scan
from nacre.memory.format.entry import Entry
from nacre.memory.format.index import INDEX_FILE, MAX_BYTES, MAX_LINES, LoadedIndex, MemoryIndex, load_index

LoadState: TypeAlias = Literal["loaded", "cut", "listed", "unlisted", "left out"]


@dataclass(frozen=True, slots=True)
class FileReport:
    """What became of one file."""

    file: str
    state: LoadState
    why: str = ""
    """Nothing where nothing is amiss."""


def load_report(
    directory: Path, found: Scan | None = None, *, max_lines: int = MAX_LINES, max_bytes: int = MAX_BYTES
) -> tuple[FileReport, ...]:
    """The index first, then every memory, newest first, then what is no memory.

    `loaded` and `cut` tell of the index; a memory is `listed` when its pointer is in what was loaded,
    `cut` when that was cut off, `unlisted` when only recall finds it, and `left out` when nothing does.
    Who has looked through the directory already brings what was `found`.
    """
    report: list[FileReport] = []
    pointed = frozenset[str]()
    shown = frozenset[str]()
    try:
        data = read_head(str(directory / INDEX_FILE), whole=True).data
    except (FileNotFoundError, NotADirectoryError):
        pass
    except (OSError, NotAMemory) as error:
        report.append(FileReport(INDEX_FILE, "left out", f"cannot be read: {error}"))
    else:
        index = load_index(data, max_lines=max_lines, max_bytes=max_bytes)
        report.append(FileReport(INDEX_FILE, "cut" if index.cut else "loaded", index.warning))
        pointed = MemoryIndex.parse(data).mentions
        shown = _shown(index)
    found = found or scan(directory)
    report += _entries(found.entries, pointed, shown)
    report += [FileReport(one.file, "left out", one.why) for one in found.skipped]
    return tuple(report)


def _shown(index: LoadedIndex) -> frozenset[str]:
    return MemoryIndex.parse(index.text.encode()).mentions


def _entries(
    entries: Iterable[Entry], pointed: frozenset[str], shown: frozenset[str]
) -> Iterable[FileReport]:
    for entry in entries:
        if entry.file in shown:
            yield FileReport(entry.file, "listed")
        elif entry.file in pointed:
            yield FileReport(entry.file, "cut", "its pointer is beyond what is loaded of the index")
        elif entry.indexed:
            yield FileReport(entry.file, "unlisted", "an index in its own folder lists it")
        else:
            yield FileReport(entry.file, "unlisted", _why_unlisted(entry))


def _why_unlisted(entry: Entry) -> str:
    if entry.origin == "untrusted":
        return "untrusted: found only on request"
    if entry.is_unlisted:
        return "it says `indexed: false`; recall still finds it"
    return "no index points to it; recall still finds it"
