"""Memories that never leave this machine: found, and taken out of text that is about to leave it (M27)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from nacre.memory.entry import Entry, read_entry
from nacre.memory.scan import scan

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
        for head in scan(directory).entries:
            if head.local_only:
                with suppress(OSError):
                    found.append(read_entry(head.file, (directory / head.file).read_bytes()))
    return Staying(tuple(found))


def _pattern(entries: Sequence[Entry]) -> re.Pattern[str] | None:
    """Every line as it may stand in other text: blanks of any kind and number between its words."""
    lines = {
        line.strip()
        for entry in entries
        for line in (*entry.body.splitlines(), entry.description, entry.name, entry.file)
    }
    lines |= {entry.body.strip() for entry in entries}
    told = sorted((line for line in lines if len(line) >= MIN_LINE_CHARS), key=lambda one: (-len(one), one))
    return re.compile("|".join(r"\s+".join(map(re.escape, line.split())) for line in told)) if told else None
