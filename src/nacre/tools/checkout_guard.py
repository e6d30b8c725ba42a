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

SHELL = "Bash"


def deny_other_checkouts(tools: Iterable[Tool], workspace: Workspace, policy: PermissionPolicy) -> list[Tool]:
    """Return the tools, wrapped so that none writes into a checkout of the policy's `twins`."""
    wrapped = list(tools)
    for twin in policy.twins:
        boundary = _CheckoutBoundary(workspace, twin, policy.root)
        wrapped = [_wrap(one, boundary) if one.name in {*EDITORS, SHELL} else one for one in wrapped]
    return wrapped


class _CheckoutBoundary:
    def __init__(self, workspace: Workspace, outside: Path, inside: Path) -> None:
        self._workspace = workspace
        self._outside = outside
        self.inside = inside

    def crossed(self, tool: str, arguments: JsonObject) -> Path | None:
        """Return the file of the other checkout that a call would write, as far as its arguments show it."""
        if tool == SHELL:
            paths = self._written(str(arguments.get("command", "")))
        else:
            paths = [self._workspace.aim(str(arguments.get("file_path", "")))]
        for path in paths:
            if path and path.is_relative_to(self._outside) and not path.is_relative_to(self.inside):
                return path
        return None

    def _written(self, command: str) -> list[Path | None]:
        """Return all paths that a command names, unless it only reads."""
        if explain(command).read_only:
            return []
        # Also inside quotes: the effect of a word such as `eval` is unknown.
        if str(self._outside) in command.replace(str(self.inside), ""):
            return [self._outside]
        parts = programs(command) or ()
        cwd = self._workspace.cwd
        targets = (one.target.text for part in parts for one in part.redirections)
        return [
            *(one.path for one in named(parts, cwd)),
            *(Path(os.path.realpath(cwd / target)) for target in targets),
        ]


def _wrap(tool: Tool, boundary: _CheckoutBoundary) -> Tool:
    async def call(arguments: JsonObject) -> ToolResult | str:
        if (path := boundary.crossed(tool.name, arguments)) is not None:
            raise ToolError(
                f"Not allowed: {path} belongs to another checkout. You work in a copy: {boundary.inside}"
            )
        return await tool.call(arguments)

    return replace(tool, call=call)
