"""The memory directories from the settings; a separate module, so that a path is found quickly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from nacre.memory.files.location import (
    Location,
    MemoryPaths,
    locate,
    memory_base,
    team_location,
    user_location,
)
from nacre.settings import Settings

_DECIDING = {
    "override": "memoryPathOverride",
    "setting": "autoMemoryDirectory",
    "remote": "remoteMemoryDir",
    "memoryHome": "memoryHome",
    "default": "home",
}
"""The setting for each source of a location."""

Whose: TypeAlias = Literal["project", "team", "user"]
"""Scope of a memory: this project, its team, or the user in every project."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPlaces:
    """Locations of the memories for a directory, whether they exist or not."""

    project: Location
    team: Location
    user: Location
    has_team: bool = False
    """Whether the settings enable the team's memory."""

    @property
    def all(self) -> tuple[Location, ...]:
        """All locations: files of a memory that is switched off can still be read."""
        return self.project, self.team, self.user

    @property
    def in_use(self) -> tuple[Location, ...]:
        """The locations that are read, in order."""
        return self.all if self.has_team else (self.project, self.user)


def memory_places(settings: Settings) -> MemoryPlaces:
    """Return all locations; nothing is created. Raises `ConfigError` for an invalid setting."""
    project = memory_place(settings, "project")
    return MemoryPlaces(
        project=project,
        team=team_location(project),
        user=memory_place(settings, "user"),
        has_team=settings.memory.team,
    )


def memory_place(settings: Settings, whose: Whose) -> Location:
    """Return one location; settings that are invalid for the others do not matter."""
    paths = memory_paths(settings)
    if whose == "user":
        return user_location(memory_base(paths))
    project = locate(paths)
    return team_location(project) if whose == "team" else project


def memory_paths(settings: Settings) -> MemoryPaths:
    """Return the settings about the location of memory."""
    return MemoryPaths(
        home=settings.home,
        cwd=settings.cwd,
        path_override=settings.memory.path_override,
        directory_setting=settings.memory.directory,
        directory_origin=settings.origin("autoMemoryDirectory"),
        remote_directory=settings.memory.remote_directory,
        home_setting=settings.memory.home,
        home_origin=settings.origin("memoryHome"),
    )


def decided_by(settings: Settings, place: Location) -> str:
    """Return the setting that determines a memory's location, and where it was found."""
    given = settings.memory
    base = "remote" if given.remote_directory else "memoryHome" if given.home else "default"
    source = locate(memory_paths(settings)).source if place.source == "team" else place.source
    name = _DECIDING.get(source) or _DECIDING[base]
    return f"{name}: {settings.origin(name)}"
