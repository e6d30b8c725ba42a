"""Runs git on a person's repository: nothing that the repository itself names is started.

Hooks, file monitors and prompts are off in `run_git`. Here, filters that the repository's own settings name
are, too (a person's own, for all their repositories, are not), and nothing is fetched: a partial clone would
have git start whatever its remote says.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from nacre.errors import ConfigError, StoreError, ToolError
from nacre.memory.team_git_run import Ran, run_git
from nacre.tools.git_config import OFFLINE, environment

SECONDS = 600.0
"""For one command: a large repository takes its time to lay out."""
NO_GIT = "git is not installed, and a worktree needs it; install it, or go on without a worktree"
_OWN_SCOPES = frozenset({"local", "worktree"})
_FILTER = "filter."
_KEYS = {"smudge": "", "clean": "", "process": "", "required": "false"}
"""What a filter consists of, as it is where there is none."""


class Repository:
    """A repository, named by any directory in it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._without: dict[Path, dict[str, str]] = {}

    async def run(self, *arguments: str, at: Path | None = None) -> Ran:
        """One command, here or in one of its worktrees; how it ended is for the caller to judge."""
        place = at or self.directory
        if place not in self._without:
            # Reading settings starts nothing.
            self._without[place] = _without(await self._ran(place, *_LIST, variables=OFFLINE))
        return await self._ran(place, *arguments, variables={**OFFLINE, **self._without[place]})

    async def tell(self, *arguments: str, at: Path | None = None) -> str:
        """What a command says, without its line end; `ToolError` where it fails."""
        ran = await self.run(*arguments, at=at)
        if ran.code:
            raise ToolError(f"git {arguments[0]} failed in {at or self.directory}: {ran.told}")
        return os.fsdecode(ran.out).removesuffix("\n")

    async def _ran(self, directory: Path, *arguments: str, variables: Mapping[str, str]) -> Ran:
        try:
            return await run_git(directory, *arguments, seconds=SECONDS, variables=variables)
        except ConfigError as error:
            raise ToolError(NO_GIT) from error
        except (StoreError, OSError) as error:
            raise ToolError(f"git {arguments[0]} failed in {directory}: {error}") from error


_LIST = ("config", "--show-scope", "--name-only", "--null", "--list")


def _without(listed: Ran) -> dict[str, str]:
    """Variables that have git pass over the filters that a repository's own settings name."""
    words = os.fsdecode(listed.out).split("\0")
    own = [name for scope, name in zip(words[::2], words[1::2], strict=False) if scope in _OWN_SCOPES]
    filters = {name.rpartition(".")[0] for name in own if name.startswith(_FILTER) and name.count(".") > 1}
    return environment({}, {f"{one}.{key}": value for one in sorted(filters) for key, value in _KEYS.items()})
