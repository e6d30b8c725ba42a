"""Write: create or replace a whole file; an existing one must have been read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from nacre import prompts
from nacre.errors import ToolError
from nacre.tools.base import Tool, tool
from nacre.tools.files import read_whole
from nacre.tools.workspace import Version, Workspace, check_seen, in_thread, put

DESCRIPTION = prompts.load("nacre.tools", "write")


def write_tool(workspace: Workspace) -> Tool:
    """Return the tool that creates files or replaces them whole."""

    @tool(name="Write", description=DESCRIPTION)
    async def write(
        file_path: Annotated[str, "The file; missing directories are made."],
        content: Annotated[str, "Everything the file shall hold."],
    ) -> str:
        path = workspace.locate(file_path)
        try:
            wanted = content.encode()
        except UnicodeEncodeError:
            raise ToolError(
                "content holds half a character (a lone surrogate) and cannot be written."
            ) from None
        seen = workspace.seen(path)
        await workspace.before_change(path)
        before = await in_thread(lambda _: _checked(path, seen, file_path))
        workspace.saw(path, await put(workspace, path, wanted, before=before))
        return f"{'Replaced' if before else 'Created'} {file_path} ({len(wanted):,} bytes)."

    return write


def _checked(path: Path, seen: Version | None, shown: str) -> os.stat_result | None:
    """Return the stat of an existing file, after a check that the model has read it."""
    if not os.path.lexists(path):
        return None
    content, before = read_whole(path, shown)
    check_seen(seen, content, shown)
    return before
