"""Which memory directories the settings lead to; on its own, so that asking for a path stays quick."""

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
"""Which setting each source of a place is."""

Whose: TypeAlias = Literal["project", "team", "user"]
"""Whose memory: this project's, what its team shares, or what the person has in every project."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPlaces:
    """Where the memories lie that a session in a directory may meet, whether there are any or not."""

    project: Location
    team: Location
    user: Location
    has_team: bool = False
    """Whether the settings switch the team's memory on."""

    @property
    def all(self) -> tuple[Location, ...]:
        """Every place: what lies there may be switched off and still be come across."""
        return self.project, self.team, self.user

    @property
    def in_use(self) -> tuple[Location, ...]:
        """The places that are read, in the order they are looked into."""
        return self.all if self.has_team else (self.project, self.user)


def memory_places(settings: Settings) -> MemoryPlaces:
    """Where all memories lie; nothing is made. `ConfigError` when a setting names no place."""
    project = memory_place(settings, "project")
    return MemoryPlaces(
        project=project,
        team=team_location(project),
        user=memory_place(settings, "user"),
        has_team=settings.memory.team,
    )


def memory_place(settings: Settings, whose: Whose) -> Location:
    """Where one of them lies; a setting that is wrong for the others stops nothing."""
    paths = memory_paths(settings)
    if whose == "user":
        return user_location(memory_base(paths))
    project = locate(paths)
    return team_location(project) if whose == "team" else project


def memory_paths(settings: Settings) -> MemoryPaths:
    """What the settings say about where memory is."""
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
    """Why a memory lies where it does: the setting that says so, and where that was found."""
    given = settings.memory
    base = "remote" if given.remote_directory else "memoryHome" if given.home else "default"
    source = locate(memory_paths(settings)).source if place.source == "team" else place.source
    name = _DECIDING.get(source) or _DECIDING[base]
    return f"{name}: {settings.origin(name)}"
