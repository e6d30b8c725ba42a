"""The tool that reads offloaded results again, for agents without file tools of their own."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from pathlib import Path

from nacre.errors import ToolError
from nacre.messages.blocks import JsonObject, ToolResult
from nacre.store.tool_results import Advice
from nacre.tools.base import Tool
from nacre.tools.read import read_tool
from nacre.tools.workspace import Workspace

READ_ONLY_ADVICE = Advice("Read it with Read: offset and limit choose the lines.")
"""What a pointer says to an agent that has this tool and neither Grep nor a shell."""


def result_reader(folder: Path) -> Tool:
    """Return a tool named Read for the files of this folder and no others."""
    root = folder.resolve()
    read = read_tool(Workspace(root))

    def is_inside(asked: str) -> bool:
        return Path(os.path.realpath(root / asked)).is_relative_to(os.path.realpath(root))

    async def read_inside(arguments: JsonObject) -> ToolResult | str:
        if not await asyncio.to_thread(is_inside, str(arguments.get("file_path"))):
            raise ToolError(f"Only files in {root} can be read with this tool.")
        return await read.call(arguments)

    return replace(read, call=read_inside, description=f"Reads a long tool result again, from {root}.")
