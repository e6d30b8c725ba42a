"""Write: put a whole file in place; an existing one must have been read."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Annotated

from nacre import prompts
from nacre.errors import ToolError
from nacre.tools.base import Tool, tool
from nacre.tools.files import read_whole, replace_file
from nacre.tools.workspace import Version, Workspace, check_seen, in_thread, version_of

DESCRIPTION = prompts.load("nacre.tools", "write")


def write_tool(workspace: Workspace) -> Tool:
    """Creates files, or replaces them whole."""

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
        version, existed = await in_thread(
            lambda stop: _write(path, wanted, seen=seen, shown=file_path, stop=stop)
        )
        workspace.saw(path, version)
        return f"{'Replaced' if existed else 'Created'} {file_path} ({len(wanted):,} bytes)."

    return write


def _write(
    path: Path, wanted: bytes, *, seen: Version | None, shown: str, stop: threading.Event
) -> tuple[Version, bool]:
    before: os.stat_result | None = None
    if os.path.lexists(path):
        content, before = read_whole(path, shown)
        check_seen(seen, content, shown)
    else:
        _make_directory(path.parent, shown)
    return version_of(wanted, replace_file(path, wanted, before=before, stop=stop)), before is not None


def _make_directory(directory: Path, shown: str) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ToolError(
            f"Cannot make the directory of {shown}: {(error.strerror or 'failed').lower()}."
        ) from None
