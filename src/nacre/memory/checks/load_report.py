"""A report on which memories a conversation starts with, and why others are cut or left out (M16c)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from nacre.memory.files.scan import NotAMemory, Scan, read_head, scan
from nacre.memory.format.entry import Entry
from nacre.memory.format.index import INDEX_FILE, MAX_BYTES, MAX_LINES, MemoryIndex, load_index

LoadState: TypeAlias = Literal["loaded", "cut", "listed", "unlisted", "left out"]


@dataclass(frozen=True, slots=True)
class FileReport:
    """The load state of one file."""

    file: str
    state: LoadState
    why: str = ""
    """Empty for a file without a problem."""


def load_report(
    directory: Path, found: Scan | None = None, *, max_lines: int = MAX_LINES, max_bytes: int = MAX_BYTES
) -> tuple[FileReport, ...]:
    """Return the state of the index, of every memory, newest first, and of the files that are no memories.

    `loaded` and `cut` are states of the index. A memory is `listed` when its pointer is loaded, `cut` when
    the pointer was cut off, `unlisted` when only recall finds it, and `left out` when nothing does. Pass a
    scan as `found` to avoid another one.
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
        shown = MemoryIndex.parse(index.text.encode()).mentions
    found = found or scan(directory)
    for entry in found.entries:
        if entry.file in shown:
            report.append(FileReport(entry.file, "listed"))
        elif entry.file in pointed:
            why = "its pointer is beyond what is loaded of the index"
            report.append(FileReport(entry.file, "cut", why))
        else:
            report.append(FileReport(entry.file, "unlisted", _why_unlisted(entry)))
    report += [FileReport(one.file, "left out", one.why) for one in found.skipped]
    return tuple(report)


def _why_unlisted(entry: Entry) -> str:
    if entry.indexed:
        return "an index in its own folder lists it"
    if not entry.is_trusted:
        return f"{entry.origin}: found only on request"
    if entry.is_unlisted:
        return "it says `indexed: false`; recall still finds it"
    return "no index points to it; recall still finds it"
