"""What the model may call: one tool, running calls side by side, and the six tools for files and commands.

May import messages, cache and the leaves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nacre.tools.base import Tool
    from nacre.tools.bash import BashSettings
    from nacre.tools.workspace import Workspace


def default_tools(workspace: Workspace, *, bash: BashSettings | None = None) -> list[Tool]:
    """Bash, Edit, Glob, Grep, Read and Write on one workspace, sorted by name."""
    # Not at import: building the schemas needs pydantic, and most commands of the program need no tool.
    from nacre.tools.bash import bash_tool  # noqa: PLC0415
    from nacre.tools.edit import edit_tool  # noqa: PLC0415
    from nacre.tools.glob import glob_tool  # noqa: PLC0415
    from nacre.tools.grep import grep_tool  # noqa: PLC0415
    from nacre.tools.read import read_tool  # noqa: PLC0415
    from nacre.tools.write import write_tool  # noqa: PLC0415

    return [
        bash_tool(workspace, bash),
        edit_tool(workspace),
        glob_tool(workspace),
        grep_tool(workspace),
        read_tool(workspace),
        write_tool(workspace),
    ]
