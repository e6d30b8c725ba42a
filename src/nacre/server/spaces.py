"""The memories that a server offers: one person's files, addressed as spaces (S3)."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, Protocol, TypeVar
from weakref import WeakValueDictionary

from nacre.agents.directory import ListedAgent, list_agents
from nacre.app.memory_locations import all_places, memory_paths, memory_place
from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.errors import ConfigError, NacreError
from nacre.memory.checks.local_only import LocalOnly, LocalOnlyEntries, merge_local_only
from nacre.memory.files.location import Location, agent_location, memory_base, team_location
from nacre.memory.memory import Memory
from nacre.server.entries import EntryList
from nacre.server.keys import ApiKey
from nacre.settings import Settings

Key = TypeVar("Key", bound=Hashable)
DEFAULT_SPACE = "user"
NAMED_KINDS = ("project", "team", "agent")
AGENT_MEMORY = "agent-memory"
MAX_SHOWN_CHARS = 200
MAX_OPEN = 512
"""Open memories: each has an open file."""
MAX_INDEX_BYTES = 512 * 1024 * 1024
"""What the indexes of open memories may take; the one used longest ago is closed first."""
OPEN_BYTES = 64 * 1024
MEMORY_BYTES = 16 * 1024
"""What an open memory takes, and each of its entries: 12 to 17 KB were measured, of which tables of words are
most."""


class UnknownSpaceError(NacreError):
    """Raised for a space that does not exist, or that the key may not use: the answer is the same."""


@dataclass(slots=True)
class Space:
    """An open memory, and the lock that its changes share."""

    name: str
    memory: Memory
    root: Path | None = None
    """The project's directory, of which sessions belong to the space."""
    changing: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held during a change: many at once would compete for the lock on disk and some would give up."""
    _local_only: LocalOnly | None = None
    _listed: EntryList | None = None

    @property
    def listed(self) -> EntryList:
        """The list of its memories, which is kept while no file is touched."""
        if self._listed is None:
            self._listed = EntryList(self.memory)
        return self._listed

    def close(self) -> None:
        if self._listed is not None:
            self._listed.close()

    async def hidden(self, key: ApiKey) -> LocalOnlyEntries:
        """Return what a client may not see: without `local` its model may be elsewhere (M27)."""
        if key.local:
            return LocalOnlyEntries()
        if self._local_only is None:
            self._local_only = LocalOnly(self.memory.location)
        return await asyncio.to_thread(self._local_only.now)


class Spaces(Protocol):
    """Opens the spaces of tenants."""

    async def open(self, key: ApiKey, name: str) -> Space:
        """Return a space; raises `UnknownSpaceError` if the key may not use it or it does not exist."""

    async def names(self, key: ApiKey) -> Sequence[str]: ...

    async def home(self, key: ApiKey) -> Settings:
        """Return settings whose home has the sessions of the key's person, as they are now."""

    async def agents(self, key: ApiKey) -> Sequence[ListedAgent]:
        """Return the agents in the sessions of the key's person, newest session first."""

    async def local_only(self, key: ApiKey) -> LocalOnlyEntries:
        """Return the local-only memories of every space of the key's person, for redaction (M27)."""

    def gauges(self) -> Mapping[str, float]:
        """Return figures for `/metrics`."""

    async def close(self) -> None: ...


class OpenSpaces(Generic[Key]):
    """Open spaces within limits of number and memory; the one used longest ago is closed first (S6)."""

    def __init__(self, max_bytes: int = MAX_INDEX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._spaces: OrderedDict[Key, Space] = OrderedDict()

    def get(self, key: Key) -> Space | None:
        """Return an open space, which counts as used now."""
        if key in self._spaces:
            self._spaces.move_to_end(key)
        return self._spaces.get(key)

    async def add(self, key: Key, space: Space) -> None:
        """Add a space, and close others above the limits, except those that are being changed."""
        self._spaces[key] = space
        self._spaces.move_to_end(key)
        for other in [*self._spaces][:-1]:
            if self.bytes <= self._max_bytes and len(self._spaces) <= MAX_OPEN:
                return
            if not self._spaces[other].changing.locked():
                closed = self._spaces.pop(other)
                closed.close()
                await closed.memory.release()

    @property
    def bytes(self) -> int:
        """The estimated memory of all indexes."""
        return sum(OPEN_BYTES + MEMORY_BYTES * one.memory.indexed for one in self._spaces.values())

    def gauges(self) -> Mapping[str, float]:
        return {"nacre_spaces_open": len(self._spaces), "nacre_index_bytes": self.bytes}

    def clear(self) -> None:
        for space in self._spaces.values():
            space.close()
        self._spaces.clear()


def check_space_name(name: str) -> str:
    """Return a space as a key may name it; raises `ConfigError`."""
    kind, colon, title = name.partition(":")
    if name == DEFAULT_SPACE or (kind in NAMED_KINDS and colon and title.strip() and name.isprintable()):
        return name
    raise ConfigError(f"{name!r} is no space; use user, project:NAME, team:NAME or agent:NAME")


class FileSpaces:
    """The memories below one home: of the person, and of each project with its team and agent types."""

    def __init__(
        self, settings: Settings, *, clock: Clock = SYSTEM_CLOCK, max_bytes: int = MAX_INDEX_BYTES
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._open = OpenSpaces[Path](max_bytes)
        """By memory directory: several names may mean the same one, and its changes share a lock."""
        self._opening: WeakValueDictionary[Path, asyncio.Lock] = WeakValueDictionary()
        self._local_only: dict[Path, LocalOnly] = {}

    async def open(self, key: ApiKey, name: str) -> Space:
        location = await asyncio.to_thread(self._allowed, key, name)
        kind = name.partition(":")[0]
        # A client that only reads creates no directory on this machine.
        if kind in {"team", "agent"} and not key.allows("member") and not location.directory.is_dir():
            raise _unknown(name)
        async with self._opening.setdefault(location.directory, asyncio.Lock()):
            space = self._open.get(location.directory) or await self._opened(name, kind, location)
            await self._open.add(location.directory, space)
        return space

    async def names(self, key: ApiKey) -> Sequence[str]:
        return await asyncio.to_thread(self._names, key)

    async def home(self, key: ApiKey) -> Settings:
        return self._settings

    async def agents(self, key: ApiKey) -> Sequence[ListedAgent]:
        return await asyncio.to_thread(list_agents, self._settings.home)

    async def local_only(self, key: ApiKey) -> LocalOnlyEntries:
        return await asyncio.to_thread(self._hidden)

    def _hidden(self) -> LocalOnlyEntries:
        private = [*all_places(self._settings), memory_place(self._settings, "user")]
        places = {one.directory: one for place in private for one in (place, team_location(place))}
        known = [self._local_only.setdefault(path, LocalOnly(one)) for path, one in places.items()]
        return merge_local_only(one.now() for one in known)

    def gauges(self) -> Mapping[str, float]:
        return self._open.gauges()

    async def close(self) -> None:
        self._open.clear()

    async def _opened(self, name: str, kind: str, location: Location) -> Space:
        keeps_index = kind != "project" or self._settings.memory.keeps_index
        cwd = location.root or Path.home()
        memory = await Memory.at(location, cwd, clock=self._clock, keeps_index=keeps_index)
        return Space(name, memory, location.root if kind == "project" else None)

    def _allowed(self, key: ApiKey, name: str) -> Location:
        """Return the location of a space that a key may use."""
        places = all_places(self._settings)
        location = self._location(name, places)
        # By directory: projects may share a name, and one may have several.
        if key.spaces and location.directory not in self._directories(key, places):
            raise _unknown(name)
        return location

    def _directories(self, key: ApiKey, places: Mapping[Location, str]) -> set[Path]:
        found = set()
        for name in key.spaces:
            with suppress(UnknownSpaceError):
                found.add(self._location(name, places).directory)
        return found

    def _names(self, key: ApiKey) -> list[str]:
        places = all_places(self._settings)
        projects = {place: name for place, name in places.items() if place.root and place.source != "team"}
        count = Counter(place.root.name for place in projects if place.root)
        titles = {
            place: place.root.name if place.root and count[place.root.name] == 1 else name
            for place, name in projects.items()
        }
        agents = memory_base(memory_paths(self._settings)) / AGENT_MEMORY
        names = [
            DEFAULT_SPACE,
            *(f"project:{title}" for title in titles.values()),
            *(f"team:{title}" for place, title in titles.items() if team_location(place).directory.is_dir()),
            *(f"agent:{folder.name}" for folder in sorted(agents.glob("*/"))),
        ]
        if not key.spaces:
            return names
        mine = self._directories(key, places)
        return [name for name in names if self._location(name, places).directory in mine]

    def _location(self, name: str, places: Mapping[Location, str]) -> Location:
        """Return the location of a space; of a project only one that nacre knows."""
        kind, _, title = name.partition(":")
        if name == DEFAULT_SPACE:
            return memory_place(self._settings, "user")
        if kind == "agent":
            with suppress(ConfigError):
                return agent_location("user", title, memory_paths(self._settings))
        if kind not in {"project", "team"}:
            raise _unknown(name)
        found = [
            place
            for place, path in places.items()
            if place.root is not None and place.source != "team" and title in {path, place.root.name}
        ]
        if len({place.root for place in found}) != 1:
            raise _unknown(name)
        return team_location(found[0]) if kind == "team" else found[0]


def _unknown(name: str) -> UnknownSpaceError:
    """Return one error for every reason, so that a key learns nothing about the spaces of others."""
    shown = repr(name[:MAX_SHOWN_CHARS])
    return UnknownSpaceError(f"there is no space {shown} for this key, or several; see GET /v1/spaces")
