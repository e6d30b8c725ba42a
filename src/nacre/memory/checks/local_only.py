"""Memories that never leave this machine: found, and taken out of text that is about to leave it (M27)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from nacre.memory.files.folder import Folder, Stamp
from nacre.memory.files.location import Location
from nacre.memory.files.scan import MAX_TOPIC_BYTES, ScanCache, scan
from nacre.memory.format.entry import Entry, read_entry
from nacre.store import disk

MARKER = "[a local-only memory, kept on this machine]"
MIN_LINE_CHARS = 8
"""A shorter line, such as a heading's dashes, says nothing and stands in many other texts."""


@dataclass(frozen=True, slots=True)
class LocalOnlyEntries:
    """The local-only memories of one directory; of several where only their words matter.

    Files go by their names in their directory, and two directories may each have one of the same name.
    """

    entries: tuple[Entry, ...] = ()

    @property
    def files(self) -> frozenset[str]:
        return frozenset(entry.file for entry in self.entries)

    def without(self, text: str) -> str:
        """The text with every line of these memories, and their files' names, replaced."""
        pattern = _pattern(self.entries)
        return pattern.sub(MARKER, text) if pattern else text


class LocalOnly:
    """Knows the local-only memories of one place, and looks again only when a file there has changed."""

    def __init__(self, place: Location) -> None:
        self.place = place
        self._stamps: dict[str, Stamp] | None = None
        self._staying = LocalOnlyEntries()

    def now(self) -> LocalOnlyEntries:
        """What stays as the files are now; reads disk, so an event loop asks from a thread."""
        stamps = self._stamped()
        if stamps is None or stamps != self._stamps:
            cache = ScanCache(self.place.cache, self.place.directory)
            self._staying = local_only_entries(self.place.directory, cache)
            self._stamps = stamps
        return self._staying

    def _stamped(self) -> dict[str, Stamp] | None:
        """Every file's stamp; none where that cannot be told, so that nothing is taken for unchanged."""
        try:
            return Folder(self.place.directory).scan()
        except OSError:
            return None


def local_only_entries(directory: Path, cache: ScanCache | None = None) -> LocalOnlyEntries:
    """The local-only memories of a directory; what cannot be read cannot be told either."""
    there = scan(directory, cache)
    # What is no memory for others, for its encoding or its size, may still be marked.
    marked = [one.file for one in there.entries if one.local_only]
    found: list[Entry] = []
    for file in (*marked, *(one.file for one in there.skipped)):
        with suppress(OSError):
            entry = read_entry(file, _start_of(directory / file))
            found += [entry] if entry.local_only else []
    return LocalOnlyEntries(tuple(found))


def merge_local_only(several: Iterable[LocalOnlyEntries]) -> LocalOnlyEntries:
    """What stays in several directories, for taking its words out of a text."""
    return LocalOnlyEntries(tuple(entry for one in several for entry in one.entries))


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
