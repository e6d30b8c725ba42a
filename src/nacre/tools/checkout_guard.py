"""Keeps an agent that works in a worktree out of the checkout that it was taken from: denied, not asked."""

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
    """The same tools, of which none writes into a checkout that the policy's root was taken from."""
    kept = list(tools)
    for twin in policy.twins:
        border = _CheckoutBoundary(workspace, twin, policy.root)
        kept = [_stopped(one, border) if one.name in {*EDITORS, SHELL} else one for one in kept]
    return kept


class _CheckoutBoundary:
    def __init__(self, workspace: Workspace, outside: Path, inside: Path) -> None:
        self._workspace = workspace
        self._outside = outside
        self.inside = inside

    def crossed(self, tool: str, arguments: JsonObject) -> Path | None:
        """The file of the other checkout that this call would write, as far as that can be read off it."""
        if tool == SHELL:
            paths = self._written(str(arguments.get("command", "")))
        else:
            paths = [self._workspace.aim(str(arguments.get("file_path", "")))]
        return next((path for path in paths if path is not None and self._is_other(path)), None)

    def _written(self, command: str) -> list[Path | None]:
        """All that a command names, if it does more than read."""
        if explain(command).read_only:
            return []
        # Also inside quotes: what a word of it would do, such as `eval`, nobody here can say.
        if str(self._outside) in command.replace(str(self.inside), ""):
            return [self._outside]
        parts = programs(command) or ()
        cwd = self._workspace.cwd
        targets = (one.target.text for part in parts for one in part.redirections)
        return [
            *(one.path for one in named(parts, cwd)),
            *(Path(os.path.realpath(cwd / target)) for target in targets),
        ]

    def _is_other(self, path: Path) -> bool:
        return path.is_relative_to(self._outside) and not path.is_relative_to(self.inside)


def _stopped(tool: Tool, border: _CheckoutBoundary) -> Tool:
    async def call(arguments: JsonObject) -> ToolResult | str:
        if (path := border.crossed(tool.name, arguments)) is not None:
            raise ToolError(
                f"Not allowed: {path} belongs to another checkout. You work in a copy: {border.inside}"
            )
        return await tool.call(arguments)

    return replace(tool, call=call)
