"""Keys, audit log and memory spaces of many tenants, in PostgreSQL (S2, S3, S9)."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.errors import ConfigError, StoreError
from nacre.memory.files.location import Location
from nacre.memory.files.transaction import refresh
from nacre.memory.memory import Memory
from nacre.messages.blocks import JsonObject
from nacre.server.keys import MAX_NAME_CHARS, ApiKey, UnknownKeyError
from nacre.server.spaces import DEFAULT_SPACE, MAX_OPEN, Space, UnknownSpaceError
from nacre.store.postgres.database import Database, fetch
from nacre.store.postgres.space_rows import SpaceErasedError, SpaceRows

KINDS = ("user", "project", "team", "agent")
MAX_SPACES = 1_000
"""Spaces of one user; a space is made at its first use, so a client could make any number."""
_KEY_COLUMNS = "id, tenant, user_name, role, spaces, local, created, expires, digest"


async def create_tenant(database: Database, name: str) -> None:
    """Add a tenant; raises `ConfigError` if there is one with this name."""
    if not name.strip() or len(name) > MAX_NAME_CHARS or not name.isprintable():
        raise ConfigError(f"a tenant is named by 1 to {MAX_NAME_CHARS} printable characters")
    async with database.transaction(name) as connection:
        query = "INSERT INTO nacre.tenants (name) VALUES (%s) ON CONFLICT DO NOTHING RETURNING name"
        if not await fetch(connection, query, [name]):
            raise ConfigError(f"there is a tenant {name!r} already")


async def tenant_names(database: Database) -> list[str]:
    """Return the tenants, with the address of the tables' owner."""
    async with database.transaction() as connection:
        return [name for (name,) in await fetch(connection, "SELECT name FROM nacre.tenants ORDER BY name")]


class KeyTable:
    """Keys as rows; `list` and `revoke` need the address of the tables' owner."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(self, key: ApiKey, digest: str) -> None:
        async with self._database.transaction(key.tenant) as connection:
            if not await fetch(connection, "SELECT 1 FROM nacre.tenants WHERE name = %s", [key.tenant]):
                raise ConfigError(f"there is no tenant {key.tenant!r}; create it with `nacre tenants create`")
            await connection.execute(
                "INSERT INTO nacre.users (tenant, name) VALUES (%s, %s) ON CONFLICT DO NOTHING",
                [key.tenant, key.user],
            )
            await connection.execute(
                f"INSERT INTO nacre.api_keys ({_KEY_COLUMNS}) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)",
                [
                    key.id,
                    key.tenant,
                    key.user,
                    key.role,
                    [*key.spaces],
                    key.local,
                    key.created,
                    key.expires,
                    digest,
                ],
            )

    async def find(self, id_: str) -> tuple[ApiKey, str] | None:
        if "\0" in id_:
            return None
        async with self._database.transaction(key=id_) as connection:
            found = await fetch(connection, f"SELECT {_KEY_COLUMNS} FROM nacre.api_keys WHERE id = %s", [id_])
        return (_key(found[0]), found[0][-1]) if found else None

    async def list(self) -> Sequence[ApiKey]:
        keys: list[ApiKey] = []
        for tenant in await tenant_names(self._database):
            async with self._database.transaction(tenant) as connection:
                rows = await fetch(connection, f"SELECT {_KEY_COLUMNS} FROM nacre.api_keys")
            keys += [_key(row) for row in rows]
        return sorted(keys, key=lambda key: key.created)

    async def revoke(self, id_: str) -> None:
        found = await self.find(id_)
        if found is None:
            raise UnknownKeyError(f"there is no key {id_!r}; `nacre keys list` shows them")
        async with self._database.transaction(found[0].tenant) as connection:
            await connection.execute("DELETE FROM nacre.api_keys WHERE id = %s", [id_])


def _key(row: tuple[Any, ...]) -> ApiKey:
    id_, tenant, user, role, spaces, local, created, expires, _ = row
    return ApiKey(
        id=id_,
        tenant=tenant,
        user=user,
        role=role,
        spaces=tuple(spaces),
        local=local,
        created=created,
        expires=expires,
    )


class AuditTable:
    """An audit log as rows that a server can add and read, but not change."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def append(self, entry: JsonObject) -> None:
        async with self._database.transaction(str(entry["tenant"])) as connection:
            await connection.execute(
                "INSERT INTO nacre.audit_log (tenant, id, at, user_name, key_id, address, operation, space,"
                " path, status, commit_id) VALUES (%(tenant)s, %(id)s, %(at)s, %(user)s, %(key)s,"
                " %(address)s, %(operation)s, %(space)s, %(path)s, %(status)s, %(commit)s)",
                {
                    name: value.replace("\0", "") if isinstance(value, str) else value
                    for name, value in entry.items()
                },
            )

    async def newest(self, tenant: str, *, limit: int, before: str = "") -> Sequence[JsonObject]:
        async with self._database.transaction(tenant) as connection:
            rows = await fetch(
                connection,
                "SELECT id, at, user_name, key_id, address, operation, space, path, status, commit_id"
                " FROM nacre.audit_log WHERE tenant = %s AND (%s = '' OR seq <"
                " (SELECT seq FROM nacre.audit_log WHERE tenant = %s AND id = %s))"
                " ORDER BY seq DESC LIMIT %s",
                [tenant, before, tenant, before, limit],
            )
        return [
            {
                "id": id_, "at": at.isoformat(), "tenant": tenant, "user": user, "key": key,
                "address": address, "operation": operation, "space": space, "path": path, "status": status,
                "commit": commit,
            }
            for id_, at, user, key, address, operation, space, path, status, commit in rows
        ]  # fmt: skip


class SpaceKey(NamedTuple):
    """What identifies a space."""

    tenant: str
    owner: str | None
    """Its user; None for a space of the whole tenant."""
    kind: str
    name: str


class DatabaseSpaces:
    """Spaces of all tenants, each as a working copy below a folder of this machine."""

    def __init__(self, database: Database, folder: Path, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._database = database
        self._folder = folder
        self._clock = clock
        self._open: OrderedDict[SpaceKey, Space] = OrderedDict()
        self._opening: dict[SpaceKey, asyncio.Lock] = {}

    async def open(self, key: ApiKey, name: str) -> Space:
        kind, _, title = name.partition(":")
        is_named = kind != "user"
        is_valid = kind in KINDS and bool(title.strip()) == is_named and len(title) <= MAX_NAME_CHARS
        if (key.spaces and name not in key.spaces) or not is_valid or not title.isprintable():
            raise UnknownSpaceError(f"there is no space {name!r} for this key")
        # The team's memory is everyone's in the tenant; all else is its user's.
        wanted = SpaceKey(key.tenant, None if kind == "team" else key.user, kind, title)
        async with self._opening.setdefault(wanted, asyncio.Lock()):
            space = self._open.get(wanted)
            if space is not None:
                try:
                    await refresh(space.memory.location, clock=self._clock)
                except SpaceErasedError:
                    space = None
            if space is None:
                memory = await open_space(self._database, self._folder, wanted, clock=self._clock)
                space = self._open[wanted] = Space(name, memory)
        self._open.move_to_end(wanted)
        while len(self._open) > MAX_OPEN:
            closed, old = self._open.popitem(last=False)
            old.close()
            self._opening.pop(closed, None)
        return space

    async def names(self, key: ApiKey) -> Sequence[str]:
        async with self._database.transaction(key.tenant) as connection:
            rows = await fetch(
                connection,
                "SELECT kind, name FROM nacre.spaces WHERE (owner = %s OR owner IS NULL) AND kind <> 'user'"
                " ORDER BY kind, name",
                [key.user],
            )
        names = [DEFAULT_SPACE, *(f"{kind}:{name}" for kind, name in rows)]
        return [name for name in names if not key.spaces or name in key.spaces]

    async def close(self) -> None:
        for space in self._open.values():
            space.close()
        self._open.clear()
        await self._database.close()


async def open_space(
    database: Database,
    folder: Path,
    wanted: SpaceKey,
    *,
    clock: Clock = SYSTEM_CLOCK,
) -> Memory:
    """Open a space as a working copy below a folder; it is made if it does not exist."""
    tenant, owner, kind, title = wanted
    async with database.transaction(tenant) as connection:
        query = (
            "SELECT id::text FROM nacre.spaces WHERE tenant = %s AND owner IS NOT DISTINCT FROM %s"
            " AND kind = %s AND name = %s"
        )
        found = await fetch(connection, query, [tenant, owner, kind, title])
        if not found:
            count = await fetch(
                connection, "SELECT count(*) FROM nacre.spaces WHERE owner IS NOT DISTINCT FROM %s", [owner]
            )
            if count[0][0] >= MAX_SPACES:
                raise StoreError(f"there are {MAX_SPACES:,} spaces already; use one of them")
            if owner is not None:
                await connection.execute(
                    "INSERT INTO nacre.users (tenant, name) VALUES (%s, %s) ON CONFLICT DO NOTHING",
                    [tenant, owner],
                )
            await connection.execute(
                "INSERT INTO nacre.spaces (tenant, owner, kind, name) VALUES (%s, %s, %s, %s)"
                " ON CONFLICT DO NOTHING",
                [tenant, owner, kind, title],
            )
            found = await fetch(connection, query, [tenant, owner, kind, title])
    space = found[0][0]
    location = Location(
        directory=folder / space / "memory",
        source=kind if kind in {"user", "team", "agent"} else "path",
        history=folder / space / "history" / "memory.git",
        cache=folder / space / "cache" / "memory",
        rows=SpaceRows(database, tenant, space),
    )
    return await Memory.at(location, folder, clock=clock)
