"""Opens a memory as the settings say, for a program without a session."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, cast, get_args, overload

from nacre.app.memory_locations import Whose, memory_place
from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.errors import ConfigError
from nacre.memory.memory import Memory
from nacre.messages.blocks import JsonObject
from nacre.settings import Settings, load
from nacre.settings.schema import KEYS

if TYPE_CHECKING:
    from nacre.app.remote_memory import RemoteMemory

SERVER_KEY = "NACRE_SERVER_KEY"
"""Variable with the key of a server."""


@overload
async def open_memory(
    where: Settings | Mapping[str, object] | None = None,
    *,
    scope: Whose = "project",
    clock: Clock = SYSTEM_CLOCK,
) -> Memory: ...


@overload
async def open_memory(where: str, *, key: str = "", space: str = "user") -> RemoteMemory: ...


async def open_memory(
    where: Settings | Mapping[str, object] | str | None = None,
    *,
    scope: Whose = "project",
    clock: Clock = SYSTEM_CLOCK,
    key: str = "",
    space: str = "user",
) -> Memory | RemoteMemory:
    """Open the memory that `nacre memory` shows for the working directory; it is created if necessary.

    `scope` is `project`, `team`, or `user` for the memory that applies to every project. A mapping overrides
    some settings of files and environment. An address such as `https://memory.example.org` opens a memory on
    a server (`nacre serve`) with a key, by default that in NACRE_SERVER_KEY; `space` is `user`,
    `project:NAME`, `team:NAME` or `agent:NAME`.
    """
    if isinstance(where, str):
        from nacre.app.remote_memory import RemoteMemory  # noqa: PLC0415 - local memory needs no HTTP client

        return RemoteMemory(where, key or os.environ.get(SERVER_KEY, ""), space=space)
    if scope not in get_args(Whose):
        raise ConfigError(f"there is no memory scope {scope!r}; use one of {', '.join(get_args(Whose))}")
    settings = as_settings(where)
    keeps_index = scope != "project" or settings.memory.keeps_index
    return await Memory.at(memory_place(settings, scope), settings.cwd, clock=clock, keeps_index=keeps_index)


def as_settings(given: Settings | Mapping[str, object] | None) -> Settings:
    """Return the settings of the working directory, with a mapping above all others.

    Raises `ConfigError` for a key or value that cannot be used: it may be a restriction.
    """
    if isinstance(given, Settings):
        given.require_sound()
        return given
    overrides = dict(given or {})
    unknown = [name for name in overrides if name not in KEYS]
    if unknown:
        raise ConfigError(f"there is no setting named {unknown[0]!r}; see docs/reference/settings.md")
    settings = load(Path.cwd(), os.environ, cli=cast("JsonObject", overrides))
    settings.require_sound()
    return settings
