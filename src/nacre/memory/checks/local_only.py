"""Local-only memories: found, and removed from text that leaves this machine (M27)."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from nacre.memory.files.folder import Folder, Stamp
from nacre.memory.files.location import Location
from nacre.memory.files.scan import MAX_TOPIC_BYTES, ScanCache, is_topic, scan
from nacre.memory.format.entry import Entry, read_entry
from nacre.store import disk
from nacre.store.history import History

MARKER = "[a local-only memory, kept on this machine]"
MAX_COMMITS = 100_000
"""How far back the removal of a memory is searched."""
MIN_LINE_CHARS = 8
"""Shorter lines, such as the dashes of a heading, also occur in unrelated text."""


@dataclass(frozen=True, slots=True)
class LocalOnlyEntries:
    """Local-only memories of one directory, or of several for redaction.

    Files are named relative to their directory, so two directories may have a file of the same name.
    """

    entries: tuple[Entry, ...] = ()

    @property
    def files(self) -> frozenset[str]:
        return frozenset(entry.file for entry in self.entries)

    def without(self, text: str) -> str:
        """Return the text with every line of these memories and their file names replaced."""
        bodies = {entry.body.strip() for entry in self.entries} - {""}
        lines = {
            line.strip()
            for entry in self.entries
            for line in (*entry.body.splitlines(), entry.description, entry.name, entry.file)
        }
        long = {line for line in lines if len(line.encode()) >= MIN_LINE_CHARS}
        patterns = sorted(bodies | long, key=lambda one: (-len(one), one))
        if not patterns:
            return text
        # Any whitespace may be between the words of a line.
        return re.sub("|".join(r"\s+".join(map(re.escape, line.split())) for line in patterns), MARKER, text)


class LocalOnly:
    """The local-only memories of one location, read again only when a file changed."""

    def __init__(self, place: Location) -> None:
        self.place = place
        self._stamps: dict[str, Stamp] | None = None
        self._entries = LocalOnlyEntries()

    def now(self) -> LocalOnlyEntries:
        """Return the local-only memories as the files are now. Blocking."""
        try:
            stamps = Folder(self.place.directory).scan()
        except OSError:
            stamps = None  # nothing counts as unchanged
        if stamps is None or stamps != self._stamps:
            cache = ScanCache(self.place.cache, self.place.directory)
            self._entries = local_only_entries(self.place.directory, cache)
            self._stamps = stamps
        return self._entries


def local_only_entries(directory: Path, cache: ScanCache | None = None) -> LocalOnlyEntries:
    """Return the local-only memories of a directory; unreadable files are skipped."""
    scanned = scan(directory, cache)
    # A file that a scan skips for its encoding or size may still be marked as local-only.
    marked = [one.file for one in scanned.entries if one.local_only]
    found: list[Entry] = []
    for file in (*marked, *(one.file for one in scanned.skipped)):
        with suppress(OSError):
            with os.fdopen(disk.open_regular(directory / file, os.O_RDONLY), "rb") as source:
                entry = read_entry(file, source.read(MAX_TOPIC_BYTES))
            found += [entry] if entry.local_only else []
    return LocalOnlyEntries(tuple(found))


def forgotten_local_only(location: Location, files: Collection[str]) -> LocalOnlyEntries:
    """Return which of these files are gone and were local-only when they were removed. Blocking.

    Their names may say what they said, and the history keeps them.
    """
    wanted = {file for file in files if is_topic(file) and not (location.directory / file).exists()}
    history = History(location.history)
    found: list[Entry] = []
    for commit in history.log(MAX_COMMITS) if wanted else ():
        parent = history.head(commit.id).parent
        for file in wanted & {*commit.files}:
            version = history.version(parent, file) if parent else ""
            data = history.repository.content(version, "blob") if version else None
            if data is not None:  # what its removal removed
                wanted.discard(file)
                entry = read_entry(file, data)
                found += [entry] if entry.local_only else []
        if not wanted:
            break
    return LocalOnlyEntries(tuple(found))


def merge_local_only(several: Iterable[LocalOnlyEntries]) -> LocalOnlyEntries:
    """Combine the local-only memories of several directories, for redaction."""
    return LocalOnlyEntries(tuple(entry for one in several for entry in one.entries))
