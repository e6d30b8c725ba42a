"""The memories of one project, with an index that is built in the background.

Nothing is created on disk before the first save. Local-only memories are omitted unless allowed (M27).
"""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from nacre.app.memory_locations import MemoryPlaces, Whose, memory_places
from nacre.app.recall_once import drift_of
from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.errors import StoreError, ToolError
from nacre.integrations.mcp_server.base import CALLER, ServerOptions
from nacre.memory.agent_memory import open_live
from nacre.memory.checks.local_only import LocalOnlyEntries, forgotten_local_only
from nacre.memory.files.folder import TEAM_PREFIX, Folder
from nacre.memory.files.location import Location
from nacre.memory.files.scan import is_topic
from nacre.memory.format.entry import Entry, read_entry
from nacre.memory.memory import Memory, entries_named
from nacre.memory.recall.base import MAX_PICKS, RankedMemory, Recalled, RecallQuery
from nacre.memory.recall.local_index import LocalIndex
from nacre.memory.recall.recall import AlreadySeen, CheckDrift, recall
from nacre.memory.similarity import ScoredEntry, about_person, is_about_person
from nacre.messages.untrusted_text import neutralise
from nacre.settings import Settings, load
from nacre.store.sessions import Sessions

if TYPE_CHECKING:
    from nacre.context.privacy import LocalOnlyFilter
    from nacre.store.history import Commit

USER_PREFIX = "user:"
"""Prefix of memories of all projects; file names contain no colon."""
READY_SECONDS = 10.0
"""How long a query waits for an index that is being built; then it uses what is there."""
VECTORS_SECONDS = 1.0
"""How long a query computes missing vectors, each in some 20 ms; the others are ranked by words."""
STEP_SECONDS = 2.0
"""How long the index is updated before a waiting query runs."""
SEARCHED = 4
"""How many times the wanted number are ranked, because some may not be shown."""
OFF = "memory is off in this project; `nacre doctor` says which setting does that"

Named: TypeAlias = tuple[Whose, str]
"""A memory directory, and the file or name in it."""


class Project:
    """The memories of one project, open while the server runs."""

    def __init__(
        self,
        settings: Settings,
        options: ServerOptions,
        *,
        places: MemoryPlaces | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.settings = settings
        self.places = places or memory_places(settings)
        self.clock = clock
        self._options = options
        self._stack = AsyncExitStack()
        self._held: dict[Whose, Memory] = {}
        self._opening = asyncio.Lock()
        self._changing = asyncio.Lock()
        self._rankers: dict[Location, LocalIndex] = {}
        self._indexing: asyncio.Task[None] | None = None

    @cached_property
    def _stays(self) -> LocalOnlyFilter:
        from nacre.context.privacy import LocalOnlyFilter  # noqa: PLC0415 - what only lists tools needs none

        return LocalOnlyFilter(*self.places.all)

    def changing(self, whose: Whose) -> asyncio.Lock:
        """Return the lock to hold during a change: many at once would compete for the one on disk."""
        return self._changing

    async def session_logs(self) -> list[Path]:
        """Return the logs of this directory and of its project, newest first."""
        directories = dict.fromkeys((self.settings.cwd, self.settings.project_root))
        sessions = Sessions(self.settings.home)
        return await asyncio.to_thread(
            lambda: [each.path for directory in directories for each in sessions.list(directory)]
        )

    def begin(self) -> None:
        """Start to update the index in the background."""
        if self._indexing is None and self.settings.memory.is_on:
            self._indexing = asyncio.create_task(self._index(), name="index memories")

    async def recall(self, text: str) -> tuple[Recalled, bool]:
        """Return what a message with this text would get in a session, from the local index (R9, R12).

        Also whether all memories were indexed.
        """
        # An explicit query: a single word is enough, unlike in a chat message (R2).
        if not text.strip() or not self._has_any:
            return Recalled(query=text, skipped="there are no memories" if text.strip() else "no words"), True
        is_whole = await self._is_indexed()
        return await asyncio.to_thread(self._recalled, text, is_whole=is_whole), is_whole

    async def search(
        self, text: str, scopes: Sequence[Whose], *, limit: int
    ) -> tuple[list[tuple[Whose, ScoredEntry]], bool]:
        """Return the visible memories that match a query, best first, unconfirmed ones included.

        Also whether all memories were indexed.
        """
        if is_about_person(text):
            heads = [(whose, one) for whose in scopes for one in await self.entries(whose)]
            about = [(whose, one.entry) for whose, head in heads for one in about_person([head])][:limit]
            whole = [(whose, await self._whole(whose, head)) for whose, head in about]
            return [(whose, ScoredEntry(one, 1.0)) for whose, one in whole if one is not None], True
        if not self._has_any:
            return [], True
        is_whole = await self._is_indexed()
        ranked = await asyncio.to_thread(self._ranked, text, scopes, limit=limit, is_whole=is_whole)
        found: list[tuple[Whose, ScoredEntry]] = []
        for whose, one in ranked:
            entry = await self._whole(whose, one.entry)
            if entry is not None and (self._options.local or not entry.local_only):
                found.append((whose, ScoredEntry(entry, one.score)))
        return found[:limit], is_whole

    def scopes(self, only: Whose | None = None) -> tuple[Whose, ...]:
        """Return the scopes of a call: the given one, or all."""
        if only is not None:
            self.place(only)
            return (only,)
        return ("project", "team", "user") if self.places.has_team else ("project", "user")

    async def staying(self) -> LocalOnlyEntries:
        """Return what must not be shown to clients."""
        return LocalOnlyEntries() if self._options.local else await self._stays.now()

    async def hidden(self, whose: Whose) -> frozenset[str]:
        """Return the files of one memory directory that must not be shown."""
        return frozenset() if self._options.local else await self._stays.files_of(self.place(whose))

    async def forgotten(self, whose: Whose, commits: Iterable[Commit]) -> LocalOnlyEntries:
        """Return the local-only memories in these changes that are gone; their names must not be shown."""
        if self._options.local:
            return LocalOnlyEntries()
        files = {file for one in commits for file in one.files}
        return await asyncio.to_thread(forgotten_local_only, self.place(whose), files)

    async def entries(self, whose: Whose) -> list[Entry]:
        """Return the visible entries of one memory directory, newest first."""
        found = (await self._reading(whose).scan()).entries
        return [one for one in found if self._options.local or not one.local_only]

    async def index(self, whose: Whose) -> str:
        """Return the index as in a session, without lines for local-only memories (M9, M27)."""
        text = (await self._reading(whose).index(without=await self.hidden(whose))).text
        return (await self.staying()).without(text)

    async def told_index(self) -> str:
        """Return the project's index, safe to include in a message; empty if there is none."""
        return neutralise(await self.index("project")) if self.settings.memory.is_on else ""

    async def entry(self, name: str) -> tuple[Whose, Entry]:
        """Return one memory with its body, by exact file or name."""
        self.check_on()
        whose, wanted = self.split(name)
        exact = entries_named(wanted, await self.entries(whose))
        if len(exact) > 1:
            several = ", ".join(one.file for one in exact[:MAX_PICKS])
            raise StoreError(f"{name!r} may mean several memories: {several}; name the file")
        found = await self._whole(whose, exact[0]) if exact else None
        if found is None or (found.local_only and not self._options.local):
            raise StoreError(f"no memory is called {name!r}; memory_search finds one by what it says")
        return whose, found

    async def file(self, whose: Whose, file: str) -> Entry | None:
        """Return the memory in a file; None if it is gone, no memory, or may not be shown."""
        found = await self._whole(whose, Entry(file=file)) if is_topic(file) else None
        return found if found is None or self._options.local or not found.local_only else None

    async def writing(self, whose: Whose) -> Memory:
        """Open a memory directory for a change: created if missing, watched, marked as used by an agent
        (M15)."""
        self.check_on()
        if self._options.read_only:
            raise ToolError("this server only reads; start it without --read-only to change memory")
        async with self._opening:
            if whose not in self._held:
                keeps = whose != "project" or self.settings.memory.keeps_index
                place = self.place(whose)
                self._held[whose] = await open_live(
                    place, self.settings.cwd, self._stack, clock=self.clock, keeps_index=keeps
                )
                if place in self._rankers:
                    self._rankers[place].writes = True  # it has a place on disk by now
        return self._held[whose]

    def reading(self, whose: Whose) -> Memory:
        """Open a memory directory for reading, without leaving a trace in one that nacre never wrote."""
        self.check_on()
        return self._reading(whose)

    def place(self, whose: Whose) -> Location:
        match whose:
            case "project":
                return self.places.project
            case "user":
                return self.places.user
            case "team":
                if not self.places.has_team:
                    raise ToolError(
                        "this project has no team memory; `memory.team` in your settings switches it on"
                    )
                return self.places.team

    def split(self, name: str) -> Named:
        """Split a name into memory directory and file or name."""
        if name.startswith(USER_PREFIX):
            return "user", name.removeprefix(USER_PREFIX).strip()
        if name.startswith(TEAM_PREFIX) and self.places.has_team:
            return "team", name.removeprefix(TEAM_PREFIX)
        return "project", name

    def named(self, directory: Path, file: str) -> str:
        """Return the name of a memory in answers, which tools accept."""
        if directory == self.places.user.directory:
            return f"{USER_PREFIX}{file}"
        return f"{TEAM_PREFIX}{file}" if directory == self.places.team.directory else file

    def named_in_use(self, file: str) -> str:
        """The same for a file of unknown directory: the first directory that has it."""
        directories = [place.directory for place in self.places.in_use]
        return self.named(next((one for one in directories if (one / file).is_file()), Path()), file)

    def check_on(self) -> None:
        if not self.settings.memory.is_on:
            raise ToolError(OFF)

    async def close(self) -> None:
        """Close everything; the index is saved for the next server."""
        if self._indexing is not None:
            self._indexing.cancel()
            await asyncio.gather(self._indexing, return_exceptions=True)
        for ranker in self._rankers.values():
            await asyncio.to_thread(ranker.close)
        await self._stack.aclose()

    @property
    def _has_any(self) -> bool:
        return any(place.directory.is_dir() for place in self.places.in_use)

    def _reading(self, whose: Whose) -> Memory:
        if whose in self._held:
            return self._held[whose]
        place = self.place(whose)
        return Memory(place, clock=self.clock, writes_cache=place.cache.is_dir())

    async def _whole(self, whose: Whose, head: Entry) -> Entry | None:
        folder = Folder(self.place(whose).directory)
        data = await asyncio.to_thread(folder.read, head.file)
        if data is None:
            return None
        return read_entry(head.file, data, written=head.written, indexed=head.indexed)

    def _ranker(self, place: Location) -> LocalIndex:
        if place not in self._rankers:
            writes = place.cache.is_dir() and not self._options.read_only
            self._rankers[place] = LocalIndex(place.directory, place.cache, writes=writes, clock=self.clock)
        return self._rankers[place]

    def _rankers_there(self) -> list[LocalIndex]:
        places = {place.directory: place for place in self.places.in_use if place.directory.is_dir()}
        return [self._ranker(place) for place in places.values()]

    def _drift(self) -> CheckDrift | None:
        return drift_of(self.settings) if self.settings.switches.drift_check else None

    async def _index(self) -> None:
        """Update the index in steps, so that queries and the end need not wait."""
        for ranker in self._rankers_there():
            before = math.inf
            left = math.inf
            while left == math.inf or 0 < left < before:  # what cannot be read is not tried for ever
                before = left
                left = await asyncio.to_thread(ranker.catch_up, seconds=STEP_SECONDS)

    async def _is_indexed(self) -> bool:
        """Wait for the index for a limited time; return whether it has all memories."""
        self.begin()
        assert self._indexing is not None, "begun just now"
        await asyncio.wait([self._indexing], timeout=READY_SECONDS)
        return self._indexing.done()

    def _ranked(
        self, text: str, scopes: Sequence[Whose], *, limit: int, is_whole: bool
    ) -> list[tuple[Whose, RankedMemory]]:
        """Return the memories that match a query, best first; some of them may not be shown."""
        query = RecallQuery(text=text, now=self.clock.now(), is_search=True)
        found: list[tuple[Whose, RankedMemory]] = []
        for whose in scopes:
            if not self.place(whose).directory.is_dir():
                continue
            ranker = self._ranker(self.place(whose))
            if is_whole:
                ranker.refresh()
                ranker.deepen(seconds=VECTORS_SECONDS / len(scopes))
            best = ranker.rank(query, limit=SEARCHED * limit)
            found += [(whose, one) for one in best if one.parts.get("covered")]
        return sorted(found, key=lambda one: -one[1].score)

    def _recalled(self, text: str, *, is_whole: bool) -> Recalled:
        rankers = self._rankers_there()
        for ranker in rankers if is_whole else ():
            ranker.refresh()
            ranker.deepen(seconds=VECTORS_SECONDS / len(rankers))
        already = AlreadySeen(hides_local=not self._options.local)
        query = RecallQuery(text=text, now=self.clock.now(), is_search=True)
        found = recall(query, rankers, already=already, drift=self._drift(), clock=self.clock)
        hidden = [one for one in found.left_out if one.why == "local-only"]
        return replace(found, left_out=tuple(one for one in found.left_out if one not in hidden))


MAX_PROJECTS = 64
"""Maximum number of open projects, each with an index in memory."""
SHOWN = 8
"""Directories named in a refusal."""


class Projects:
    """The projects that this server has opened."""

    def __init__(self, options: ServerOptions, *, environ: Mapping[str, str] = os.environ) -> None:
        self.options = options
        self._environ = environ
        self._open: dict[Path, Project] = {}

    async def one(self, wanted: str | None = None) -> Project:
        """Return the project of a call, opened, with its index being built.

        A client reaches only directories of the command line, else its own roots, else the working directory
        of the server.
        """
        allowed = self.options.projects or tuple(await CALLER.get().roots()) or (self.options.cwd,)
        directory = _chosen(wanted, allowed) if wanted else allowed[0]
        project = self._opened(directory)
        project.begin()
        return project

    def directories(self) -> list[Path]:
        """Return every memory directory of every open project."""
        return [place.directory for one in self._open.values() for place in one.places.in_use]

    async def close(self) -> None:
        """Close all projects; a failure of one does not affect the others."""
        await asyncio.gather(*(one.close() for one in self._open.values()), return_exceptions=True)

    def _opened(self, directory: Path) -> Project:
        if directory not in self._open:
            if len(self._open) >= MAX_PROJECTS:
                raise ToolError(f"this server has {MAX_PROJECTS} projects open; start another for more")
            settings = load(directory, self._environ)
            settings.require_sound()
            self._open[directory] = Project(settings, self.options)
        return self._open[directory]


def _chosen(wanted: str, allowed: Sequence[Path]) -> Path:
    """Return an allowed directory or one below it; the last path component is enough if it is unique."""
    by_name = [one for one in allowed if one.name == wanted]
    if len(by_name) == 1:
        return by_name[0]
    path = Path(os.path.realpath(wanted)) if Path(wanted).is_absolute() else None
    if path and path.is_dir() and any(path.is_relative_to(os.path.realpath(one)) for one in allowed):
        return path
    known = ", ".join(map(str, allowed[:SHOWN]))
    raise ToolError(
        f"{wanted!r} is no project of this client; it has {known}; `nacre mcp --project DIR` adds one"
    )
