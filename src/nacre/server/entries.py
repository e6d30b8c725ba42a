"""The list of memories of a space and the links between them, read again only after a file was touched."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import TypeVar, cast

from nacre.errors import StoreError
from nacre.memory.checks.lint import link_key, links_in
from nacre.memory.files.folder import Folder
from nacre.memory.files.transaction import refresh
from nacre.memory.files.watch import Watch
from nacre.memory.format.entry import Entry, read_entry
from nacre.memory.memory import Memory

T = TypeVar("T")


class EntryList:
    """The memories of one directory without their bodies, newest first; the kernel says what was touched."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._watch = Watch(memory.location.directory)
        self._lock = asyncio.Lock()
        self._entries: Sequence[Entry] = ()
        self._derived: dict[str, object] = {}
        """What was computed from the entries, by name; forgotten when they change."""
        self._links: dict[str, tuple[datetime | None, int, tuple[str, ...]]] = {}
        """What the text of each file links to, with the time and size of the file that was read."""

    async def now(self) -> Sequence[Entry]:
        """Return the entries; a list that must not be changed."""
        async with self._lock:
            return await self._current()

    async def derived(self, name: str, compute: Callable[[Sequence[Entry]], T]) -> T:
        """Return what a function makes of the entries, computed once until they change."""
        async with self._lock:
            entries = await self._current()
            if name not in self._derived:
                self._derived[name] = await asyncio.to_thread(compute, entries)
            return cast("T", self._derived[name])

    async def links(self) -> Mapping[str, tuple[str, ...]]:
        """Return for each file with links the files that its text links to."""
        return await self.derived("links", self._read_links)

    async def files(self) -> Mapping[str, str]:
        """Return files by what a link may call them: name or file."""
        return await self.derived("files", _by_link)

    def close(self) -> None:
        """Stop to watch."""
        self._watch.close()

    async def _current(self) -> Sequence[Entry]:
        await refresh(self._memory.location, clock=self._memory.clock)
        touched = self._watch.touched()
        if touched is None:
            self._watch.start()
        if touched is None or touched:
            entries = (await self._memory.scan()).entries
            self._watch.settled("")
            if list(entries) != list(self._entries):
                self._entries = entries
                self._derived.clear()
        return self._entries

    def _read_links(self, entries: Sequence[Entry]) -> Mapping[str, tuple[str, ...]]:
        folder = Folder(self._memory.location.directory)
        found = {}
        for one in entries:
            known = self._links.get(one.file)
            if known is not None and known[:2] == (one.written, one.bytes):
                found[one.file] = known
                continue
            with suppress(StoreError, OSError, ValueError):
                data = folder.read(one.file)
                body = read_entry(one.file, data).body if data and b"[[" in data else ""
                found[one.file] = one.written, one.bytes, links_in(body)
        self._links = found
        files = _by_link(entries)
        return {
            file: tuple(dict.fromkeys(files[key] for name in names if (key := link_key(name)) in files))
            for file, (_, _, names) in found.items()
            if names
        }


def _by_link(entries: Sequence[Entry]) -> dict[str, str]:
    named = {link_key(one.title): one.file for one in reversed(entries)}
    return named | {link_key(one.file): one.file for one in entries}
