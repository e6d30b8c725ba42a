"""Which memory directories the settings lead to; on its own, so that asking for a path stays quick."""

from __future__ import annotations

from nacre.memory.location import MemoryPaths
from nacre.settings import Settings


def memory_paths(settings: Settings) -> MemoryPaths:
    """What the settings say about where memory is."""
    return MemoryPaths(
        home=settings.home,
        cwd=settings.cwd,
        path_override=settings.memory.path_override,
        directory_setting=settings.memory.directory,
        directory_origin=settings.origin("autoMemoryDirectory"),
        remote_directory=settings.memory.remote_directory,
    )
