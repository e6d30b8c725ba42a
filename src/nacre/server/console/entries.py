"""Lists of memories and of the links between them, read again only after a file was touched."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from nacre.clock import Clock
from nacre.errors import StoreError
from nacre.memory.checks.lint import link_key, links_in
from nacre.memory.files.folder import Folder
from nacre.memory.files.transaction import refresh
from nacre.memory.files.watch import Watch
from nacre.memory.format.entry import Entry, read_entry
from nacre.memory.memory import Memory

MAX_LISTS = 16
"""Memories whose list is kept; the one used longest ago is dropped first."""


@dataclass(slots=True)
class _List:
    watch: Watch
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    entries: Sequence[Entry] = ()
    version: int = 0
    """Grows with every change."""
    links: dict[str, tuple[datetime | None, int, tuple[str, ...]]] = field(default_factory=dict)
    """What the text of each file links to, with the time and size of the file that was read."""
    linked: int = -1
    """The version for which `links` is complete."""


class EntryLists:
    """The memories of spaces without their bodies, newest first."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lists: OrderedDict[Path, _List] = OrderedDict()

    async def of(self, memory: Memory) -> Sequence[Entry]:
        """Return the entries of a memory."""
        return (await self._current(memory)).entries

    async def links(self, memory: Memory) -> Mapping[str, tuple[str, ...]]:
        """Return for each file the files that its text links to."""
        listed = await self._current(memory)
        async with listed.lock:
            if listed.linked != listed.version:
                await asyncio.to_thread(_read_links, memory.location.directory, listed)
                listed.linked = listed.version
        files = by_link(listed.entries)
        return {
            file: tuple(dict.fromkeys(files[key] for one in names if (key := link_key(one)) in files))
            for file, (_, _, names) in listed.links.items()
            if names
        }

    def version(self, memory: Memory) -> int:
        """Return the version of the list that was last returned."""
        found = self._lists.get(memory.location.directory)
        return found.version if found else 0

    def close(self) -> None:
        """Stop all watches."""
        for one in self._lists.values():
            one.watch.close()
        self._lists.clear()

    async def _current(self, memory: Memory) -> _List:
        directory = memory.location.directory
        listed = self._lists.get(directory)
        if listed is None:
            listed = self._lists[directory] = _List(Watch(directory))
        self._lists.move_to_end(directory)
        while len(self._lists) > MAX_LISTS:
            self._lists.popitem(last=False)[1].watch.close()
        async with listed.lock:
            await refresh(memory.location, clock=self._clock)
            touched = listed.watch.touched()
            if touched is None:
                listed.watch.start()
            if touched is None or touched:
                entries = (await memory.scan()).entries
                if list(entries) != list(listed.entries):
                    listed.version += 1
                    listed.entries = entries
                listed.watch.settled("")
        return listed


def by_link(entries: Sequence[Entry]) -> dict[str, str]:
    """Return files by what a link may call them: name or file."""
    found: dict[str, str] = {}
    for one in reversed(entries):
        found[link_key(one.title)] = one.file
    return found | {link_key(one.file): one.file for one in entries}


def _read_links(directory: Path, listed: _List) -> None:
    folder = Folder(directory)
    known = listed.links
    found = {}
    for one in listed.entries:
        before = known.get(one.file)
        if before is not None and before[:2] == (one.written, one.bytes):
            found[one.file] = before
            continue
        with suppress(StoreError, OSError, ValueError):
            data = folder.read(one.file)
            body = read_entry(one.file, data).body if data and b"[[" in data else ""
            found[one.file] = one.written, one.bytes, links_in(body)
    listed.links = found
