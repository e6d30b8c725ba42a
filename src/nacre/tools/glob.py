"""Glob: list files by name, newest first."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from nacre import prompts
from nacre.errors import ToolError
from nacre.process import ProcessOutput, ProcessSpec, run
from nacre.tools import patterns
from nacre.tools.base import Tool, tool
from nacre.tools.files import hold_directory, printable
from nacre.tools.workspace import Workspace

DESCRIPTION = prompts.load("nacre.tools", "glob")
SEARCH = Path(__file__).with_name("search.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class GlobSettings:
    """Limits of one search."""

    files: int = 100
    """The newest are most likely relevant; more matches mean that the pattern is too wide."""
    seconds: float = 30.0
    """A longer walk means that the tree is too large to list."""
    max_bytes: int = 1024 * 1024
    """Twice a hundred of the longest possible paths."""


def glob_tool(workspace: Workspace, settings: GlobSettings | None = None) -> Tool:
    """Return the tool that lists files whose path matches a pattern."""
    limits = settings or GlobSettings()

    @tool(name="Glob", description=DESCRIPTION, read_only=True)
    async def glob(
        pattern: Annotated[str, 'Such as "**/*.py", "src/*.{ts,tsx}" or "docs/**".'],
        path: Annotated[str | None, "The directory to search; the working directory unless given."] = None,
    ) -> str:
        rest = patterns.split_fixed(pattern)[1]
        if not rest:
            raise ToolError("The pattern is empty or ends with a slash; name the files, for example **/*.py.")
        place = workspace.locate(patterns.named_place(path or ".", pattern))
        if not place.is_dir():
            raise ToolError(f"There is no directory {place} to search.")
        with hold_directory(place, str(place)) as held:
            found = await _find(held, rest, limits)
        return _shown(found, place, workspace, limits)

    return glob


@dataclass(frozen=True, slots=True)
class _GlobResult:
    total: int
    paths: list[str]


async def _find(place: Path, pattern: str, limits: GlobSettings) -> _GlobResult:
    query = {"target": ".", "names": patterns.translate(pattern), "limit": limits.files}
    output = ProcessOutput(head=limits.max_bytes)
    spec = ProcessSpec(
        argv=(sys.executable, "-I", "-S", "-W", "ignore", os.fspath(SEARCH), "glob", json.dumps(query)),
        cwd=place,
        seconds=limits.seconds,
        max_bytes=limits.max_bytes,
    )
    try:
        ended = await run(spec, output.feed)
    except (OSError, ValueError) as error:
        raise ToolError(f"The search could not be started: {error}.") from None
    if ended.why == "timeout":
        raise ToolError(f"The search took longer than {limits.seconds:g} s; name a directory to search in.")
    if ended.exit_code not in {0, 1}:
        raise ToolError(f"Cannot use the pattern {pattern}: {output.head.strip().removeprefix('error: ')}.")
    answer = json.loads(output.head)
    return _GlobResult(answer["total"], answer["paths"])


def _shown(found: _GlobResult, place: Path, workspace: Workspace, limits: GlobSettings) -> str:
    if not found.paths:
        return "No files match."
    lines = [printable(workspace.shown(place / path)) for path in found.paths]
    if found.total > len(lines):
        lines.append(
            f"[The newest {limits.files} of {found.total:,} files; narrow the pattern to see others.]"
        )
    return "\n".join(lines)
