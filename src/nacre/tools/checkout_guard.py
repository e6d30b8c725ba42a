"""Deny an agent in a worktree any write to the checkouts that the worktree was created from."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from nacre.errors import ToolError
from nacre.messages.blocks import JsonObject, ToolResult
from nacre.tools.base import Tool
from nacre.tools.policy import PermissionPolicy
from nacre.tools.reach import named
from nacre.tools.rules import EDITORS
from nacre.tools.shell import explain, programs
from nacre.tools.workspace import Workspace


def deny_other_checkouts(tools: Iterable[Tool], workspace: Workspace, policy: PermissionPolicy) -> list[Tool]:
    """Return the tools, wrapped so that none writes into a checkout of the policy's `twins`."""

    def wrap(tool: Tool, twin: Path) -> Tool:
        async def call(arguments: JsonObject) -> ToolResult | str:
            for path in _written(tool.name, arguments, workspace, twin=twin, inside=policy.root):
                if path and path.is_relative_to(twin) and not path.is_relative_to(policy.root):
                    raise ToolError(
                        f"Not allowed: {path} belongs to another checkout. You work in a copy: {policy.root}"
                    )
            return await tool.call(arguments)

        return replace(tool, call=call) if tool.name in {*EDITORS, "Bash"} else tool

    wrapped = list(tools)
    for twin in policy.twins:
        wrapped = [wrap(one, twin) for one in wrapped]
    return wrapped


def _written(
    tool: str, arguments: JsonObject, workspace: Workspace, *, twin: Path, inside: Path
) -> list[Path | None]:
    """Return the paths that a call may write, as far as its arguments show them."""
    if tool != "Bash":
        return [workspace.aim(str(arguments.get("file_path", "")))]
    command = str(arguments.get("command", ""))
    if explain(command).read_only:
        return []
    # Also inside quotes: the effect of a word such as `eval` is unknown.
    if str(twin) in command.replace(str(inside), ""):
        return [twin]
    parts = programs(command) or ()
    targets = (one.target.text for part in parts for one in part.redirections)
    return [
        *(one.path for one in named(parts, workspace.cwd)),
        *(Path(os.path.realpath(workspace.cwd / target)) for target in targets),
    ]
