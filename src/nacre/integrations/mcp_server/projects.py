"""Choose the project of a call: the one it names, else the server's own, else the client's first root."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from nacre.errors import ToolError
from nacre.integrations.mcp_server.base import CALLER, ServerOptions
from nacre.integrations.mcp_server.project import Project
from nacre.settings import load

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
