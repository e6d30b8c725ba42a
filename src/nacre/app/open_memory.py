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
from nacre.store.home import home

if TYPE_CHECKING:
    from nacre.app.remote_memory import RemoteMemory
    from nacre.store.postgres.space_rows import SpaceKey

SERVER_KEY = "NACRE_SERVER_KEY"
"""Variable with the key of a server."""


@overload
async def open_memory(
    where: Settings | Mapping[str, object] | None = None,
    *,
    scope: Whose = "project",
    user: str = "",
    clock: Clock = SYSTEM_CLOCK,
) -> Memory: ...


@overload
async def open_memory(
    where: str, *, tenant: str, user: str, space: str = "user", clock: Clock = SYSTEM_CLOCK
) -> Memory: ...


@overload
async def open_memory(where: str, *, key: str = "", space: str = "user") -> RemoteMemory: ...


async def open_memory(  # noqa: PLR0913 - the public entry point; all but the place are given by name
    where: Settings | Mapping[str, object] | str | None = None,
    *,
    scope: Whose = "project",
    tenant: str = "",
    user: str = "",
    clock: Clock = SYSTEM_CLOCK,
    key: str = "",
    space: str = "user",
) -> Memory | RemoteMemory:
    """Open the memory that `nacre memory` shows for the working directory; it is created if necessary.

    `scope` is `project`, `team`, or `user` for the memory that applies to every project. A mapping overrides
    some settings of files and environment. An address such as `https://memory.example.org` opens a memory on
    a server (`nacre serve`) with a key, by default that in NACRE_SERVER_KEY; `space` is `user`,
    `project:NAME`, `team:NAME` or `agent:NAME`.

    A program with many users names one with `user`: the memory is that person's alone, in this home, or with
    the address of a PostgreSQL database (`postgresql://…`) and a `tenant` in that.
    """
    from nacre.app.shared_store import (  # noqa: PLC0415 - an agent of one person imports `as_settings` only
        SCHEMES,
        check_person,
        settings_of_person,
        space_key,
    )

    if isinstance(where, str) and where.startswith(SCHEMES):
        check_person(store=where, tenant=tenant, user=user)
        return await _database_memory(where, space_key(tenant, user, space), clock)
    check_person(store="", tenant=tenant, user=user)
    if isinstance(where, str):
        if user:
            raise ConfigError("the key of a server names its user; leave out user=")
        from nacre.app.remote_memory import RemoteMemory  # noqa: PLC0415 - local memory needs no HTTP client

        return RemoteMemory(where, key or os.environ.get(SERVER_KEY, ""), space=space)
    if scope not in get_args(Whose):
        raise ConfigError(f"there is no memory scope {scope!r}; use one of {', '.join(get_args(Whose))}")
    settings = as_settings(where)
    if user:
        settings = settings_of_person(settings, user)
    keeps_index = scope != "project" or settings.memory.keeps_index
    return await Memory.at(memory_place(settings, scope), settings.cwd, clock=clock, keeps_index=keeps_index)


async def _database_memory(url: str, wanted: SpaceKey, clock: Clock) -> Memory:
    from nacre.app.shared_store import COPIES, database_at, open_space, remove_erased  # noqa: PLC0415 - as above
    from nacre.store.postgres.schema import require_schema  # noqa: PLC0415 - local memory needs no database

    # A memory is not closed, so that it keeps no connection between two calls.
    database = database_at(url, idle=0)
    await require_schema(database)
    folder = home(os.environ) / COPIES
    await remove_erased(database, folder)
    return await open_space(database, folder, wanted, clock=clock)


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
