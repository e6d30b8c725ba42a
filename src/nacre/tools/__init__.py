"""Tools for the model: the `Tool` type, the runner of tool calls, permissions, and six default tools."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nacre.tools.base import Tool
    from nacre.tools.bash import BashSettings
    from nacre.tools.read import ReadSettings
    from nacre.tools.workspace import Workspace


def default_tools(
    workspace: Workspace, *, bash: BashSettings | None = None, read: ReadSettings | None = None
) -> list[Tool]:
    """Return Bash, Edit, Glob, Grep, Read and Write on one workspace, sorted by name."""
    # Not at import: the schemas need pydantic, and most commands need no tool.
    from nacre.tools.bash import bash_tool  # noqa: PLC0415
    from nacre.tools.edit import edit_tool, write_tool  # noqa: PLC0415
    from nacre.tools.read import read_tool  # noqa: PLC0415
    from nacre.tools.search_tools import glob_tool, grep_tool  # noqa: PLC0415

    return [
        bash_tool(workspace, bash),
        edit_tool(workspace),
        glob_tool(workspace),
        grep_tool(workspace),
        read_tool(workspace, read),
        write_tool(workspace),
    ]
