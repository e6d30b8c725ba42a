"""Memories that never leave this machine: found, and taken out of text that is about to leave it (M27)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from nacre.memory.entry import Entry, read_entry
from nacre.memory.scan import MAX_TOPIC_BYTES, scan
from nacre.store import disk

MARKER = "[a local-only memory, kept on this machine]"
MIN_LINE_CHARS = 8
"""A shorter line, such as a heading's dashes, says nothing and stands in many other texts."""


@dataclass(frozen=True, slots=True)
class Staying:
    """The local-only memories of some directories."""

    entries: tuple[Entry, ...] = ()

    @property
    def files(self) -> frozenset[str]:
        return frozenset(entry.file for entry in self.entries)

    def without(self, text: str) -> str:
        """The text with every line of these memories, and their files' names, replaced."""
        pattern = _pattern(self.entries)
        return pattern.sub(MARKER, text) if pattern else text


def staying_in(directories: Iterable[Path]) -> Staying:
    """The local-only memories there are; what cannot be read cannot be told either."""
    found: list[Entry] = []
    for directory in directories:
        there = scan(directory)
        # What is no memory for others, for its encoding or its size, may still be marked.
        marked = [one.file for one in there.entries if one.local_only]
        for file in (*marked, *(one.file for one in there.skipped)):
            with suppress(OSError):
                entry = read_entry(file, _start_of(directory / file))
                found += [entry] if entry.local_only else []
    return Staying(tuple(found))


def _start_of(path: Path) -> bytes:
    with os.fdopen(disk.open_regular(path, os.O_RDONLY), "rb") as source:
        return source.read(MAX_TOPIC_BYTES)


def _pattern(entries: Sequence[Entry]) -> re.Pattern[str] | None:
    """Every line as it may stand in other text: blanks of any kind and number between its words."""
    lines = {
        line.strip()
        for entry in entries
        for line in (*entry.body.splitlines(), entry.description, entry.name, entry.file)
    }
    lines |= {entry.body.strip() for entry in entries}
    whole = {entry.body.strip() for entry in entries} - {""}
    told = sorted(
        (line for line in lines if line in whole or len(line.encode()) >= MIN_LINE_CHARS),
        key=lambda one: (-len(one), one),
    )
    return re.compile("|".join(r"\s+".join(map(re.escape, line.split())) for line in told)) if told else None
