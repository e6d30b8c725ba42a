"""The memory directories and instruction files from the settings; apart, so that commands start quickly."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from nacre.errors import StoreError
from nacre.memory.files.identity import FILE as IDENTITY
from nacre.memory.files.identity import read_identity
from nacre.memory.files.location import (
    Location,
    MemoryPaths,
    locate,
    memory_base,
    team_location,
    user_location,
)
from nacre.memory.instructions.files import InstructionPaths
from nacre.settings import Settings
from nacre.settings.trust import consented

_DECIDING = {
    "override": "memoryPathOverride",
    "setting": "autoMemoryDirectory",
    "remote": "remoteMemoryDir",
    "memoryHome": "memoryHome",
    "default": "home",
}
"""The setting for each source of a location."""

EVERY_PROJECT = "all projects"
"""Name of the user's own memory among those of projects."""

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


def all_places(settings: Settings) -> dict[Location, str]:
    """Return the person's memories of all projects, each with the project's directory.

    Of other projects only the person's own: whether a team's memory is used there depends on their settings.
    """
    places = memory_places(settings)
    names = {place: str(place.root) if place.root else EVERY_PROJECT for place in places.in_use}
    known = {place.directory for place in names}
    base = memory_base(memory_paths(settings))
    for folder in sorted(base.glob("projects/*/")):
        directory = folder / "memory"
        if directory in known or directory.is_symlink() or not directory.is_dir():
            continue
        with suppress(StoreError):
            owner = read_identity(folder / IDENTITY)
            root = Path(owner.root) if owner else None
            place = Location(
                directory=directory,
                source="default",
                history=base / "history" / f"{folder.name}.git",
                cache=base / "cache" / folder.name,
                root=root,
            )
            # A folder that only Claude Code has written to has no identity, but the path as its name.
            names[place] = str(root or folder.name)
    return names


def memory_place(settings: Settings, whose: Whose) -> Location:
    """Return one location; settings that are invalid for the others do not matter."""
    paths = memory_paths(settings)
    if whose == "user":
        return user_location(memory_base(paths))
    project = settings.memory.location or locate(paths)
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


def instruction_paths(settings: Settings) -> InstructionPaths:
    """Return where the instructions of a session are searched."""
    return InstructionPaths(
        home=settings.home,
        cwd=settings.cwd,
        root=settings.project_root,
        tilde=Path(settings.environ.get("HOME") or Path.home()),
        excludes=tuple(one.text for one in settings.memory.instruction_excludes),
        allow_outside=consented(settings.home, settings.project_root),
        refusal=settings.reading_refusal,
    )
