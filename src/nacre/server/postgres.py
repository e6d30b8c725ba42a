"""Keys, audit log and memory spaces of many tenants, in PostgreSQL (S2, S3, S9)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from weakref import WeakValueDictionary

from nacre.agents.directory import ListedAgent
from nacre.agents.registry import STATE_FILES, parse_state, with_session_status
from nacre.app.shared_store import (
    copies_of_user,
    open_space,
    remove_erased,
    settings_at,
    space_key,
    space_location,
)
from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.errors import ConfigError
from nacre.memory.checks.local_only import LocalOnlyEntries, merge_local_only
from nacre.memory.files.transaction import refresh
from nacre.messages.blocks import JsonObject
from nacre.server.keys import MAX_NAME_CHARS, ApiKey, UnknownKeyError
from nacre.server.limits import REMEMBERED_SECONDS, RememberedAnswer
from nacre.server.spaces import DEFAULT_SPACE, MAX_INDEX_BYTES, OpenSpaces, Space, UnknownSpaceError
from nacre.session.shared_log import bring_all
from nacre.settings import Settings
from nacre.store.postgres.database import Database, fetch
from nacre.store.postgres.session_rows import SessionRows
from nacre.store.postgres.space_rows import SpaceErasedError, SpaceKey, find_space

ABANDONED_SECONDS = 300
"""Age of a write in progress whose process must have been killed: its answer takes a minute at most."""
_KEY_COLUMNS = "id, tenant, user_name, role, spaces, local, created, expires, digest"


async def create_tenant(database: Database, name: str) -> None:
    """Add a tenant; raises `ConfigError` if there is one with this name."""
    if not name.strip() or len(name) > MAX_NAME_CHARS or not name.isprintable():
        raise ConfigError(f"a tenant is named by 1 to {MAX_NAME_CHARS} printable characters")
    async with database.transaction(name) as connection:
        query = "INSERT INTO nacre.tenants (name) VALUES (%s) ON CONFLICT DO NOTHING RETURNING name"
        if not await fetch(connection, query, [name]):
            raise ConfigError(f"there is a tenant {name!r} already")


async def require_tenant(database: Database, name: str) -> None:
    """Raise `ConfigError` if there is no such tenant."""
    if name not in await tenant_names(database):
        raise ConfigError(f"there is no tenant {name!r}; `nacre tenants list` shows them")


async def tenant_names(database: Database) -> list[str]:
    """Return the tenants, with the address of the tables' owner: another role sees none of them."""
    async with database.transaction() as connection:
        query = (
            "SELECT current_user FROM pg_namespace WHERE nspname = 'nacre'"
            " AND NOT pg_has_role(current_user, nspowner, 'USAGE')"
        )
        if other := await fetch(connection, query):
            raise ConfigError(
                f"the role {other[0][0]!r} sees no tenants; use the address of the tables' owner"
            )
        return [name for (name,) in await fetch(connection, "SELECT name FROM nacre.tenants ORDER BY name")]


SWEEP_SECONDS = 60.0
"""How often a server asks which copies it must remove."""


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
            # Its answers have texts of memories, and without the key it is unknown whose they are.
            await connection.execute("DELETE FROM nacre.repeated_writes WHERE key_id = %s", [id_])
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


class RepeatedWrites:
    """Answers to writes as rows, which every process of the server finds."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def begin(self, key: ApiKey, name: str, fingerprint: str) -> RememberedAnswer | None:
        where = [key.tenant, key.id, name]
        async with self._database.transaction(key.tenant) as connection:
            # One that is in progress for long was begun by a process that was killed.
            await connection.execute(
                "DELETE FROM nacre.repeated_writes WHERE at < now() - make_interval(secs => %s)"
                " OR (status = 0 AND at < now() - make_interval(secs => %s))",
                [REMEMBERED_SECONDS, ABANDONED_SECONDS],
            )
            added = await fetch(
                connection,
                "INSERT INTO nacre.repeated_writes (tenant, key_id, name, fingerprint)"
                " VALUES (%s, %s, %s, %s) ON CONFLICT DO NOTHING RETURNING 1",
                [*where, fingerprint],
            )
            if added:
                return None
            rows = await fetch(
                connection,
                "SELECT fingerprint, extract(epoch FROM at)::float8, status, headers, content"
                " FROM nacre.repeated_writes WHERE tenant = %s AND key_id = %s AND name = %s",
                where,
            )
        if not rows:  # forgotten since
            return RememberedAnswer(fingerprint, 0.0)
        kept, at, status, headers, content = rows[0]
        return RememberedAnswer(
            kept, at, status, tuple((one, value) for one, value in headers), bytes(content)
        )

    async def finish(self, key: ApiKey, name: str, answer: RememberedAnswer) -> None:
        async with self._database.transaction(key.tenant) as connection:
            await connection.execute(
                "UPDATE nacre.repeated_writes SET status = %s, headers = %s::jsonb, content = %s"
                " WHERE tenant = %s AND key_id = %s AND name = %s",
                [answer.status, json.dumps(answer.headers), answer.content, key.tenant, key.id, name],
            )

    async def forget(self, key: ApiKey, name: str) -> None:
        async with self._database.transaction(key.tenant) as connection:
            await connection.execute(
                "DELETE FROM nacre.repeated_writes WHERE tenant = %s AND key_id = %s AND name = %s",
                [key.tenant, key.id, name],
            )


class DatabaseSpaces:
    """Spaces of all tenants, each as a working copy below a folder of this machine."""

    def __init__(
        self,
        database: Database,
        settings: Settings,
        *,
        clock: Clock = SYSTEM_CLOCK,
        max_bytes: int = MAX_INDEX_BYTES,
    ) -> None:
        """The settings' home is the folder with the copies."""
        self._database = database
        self._settings = settings
        self._folder = settings.home
        self._clock = clock
        self._open = OpenSpaces[SpaceKey](max_bytes)
        self._opening: WeakValueDictionary[SpaceKey, asyncio.Lock] = WeakValueDictionary()
        self._swept: float | None = None

    async def open(self, key: ApiKey, name: str) -> Space:
        await self.remove_erased()
        try:
            wanted = space_key(key.tenant, key.user, name)
        except ConfigError as error:
            raise UnknownSpaceError(str(error)) from error
        if key.spaces and name not in key.spaces:
            raise UnknownSpaceError(f"there is no space {name!r} for this key")
        # A client that only reads makes no space.
        only_reads = name != DEFAULT_SPACE and not key.allows("member")
        if only_reads and not await find_space(self._database, wanted):
            raise UnknownSpaceError(f"there is no space {name!r} for this key")
        async with self._opening.setdefault(wanted, asyncio.Lock()):
            space = self._open.get(wanted)
            if space is not None:
                try:
                    await refresh(space.memory.location, clock=self._clock)
                except SpaceErasedError:
                    space = None
            if space is None:
                memory = await open_space(self._database, self._folder, wanted, clock=self._clock)
                space = Space(name, memory)
            await self._open.add(wanted, space)
        return space

    async def remove_erased(self) -> None:
        """Remove this machine's copies of what was erased, at the first use and then once a minute."""
        now = self._clock.seconds()
        if self._swept is not None and now - self._swept < SWEEP_SECONDS:
            return
        self._swept = now
        await remove_erased(self._database, self._folder)

    async def names(self, key: ApiKey) -> Sequence[str]:
        async with self._database.transaction(key.tenant) as connection:
            rows = await fetch(
                connection,
                "SELECT kind, name FROM nacre.spaces WHERE (owner = %s OR owner IS NULL) AND kind <> 'user'"
                " AND head <> '' ORDER BY kind, name",  # not those in which nothing was ever saved
                [key.user],
            )
        names = [DEFAULT_SPACE, *(f"{kind}:{name}" for kind, name in rows)]
        return [name for name in names if not key.spaces or name in key.spaces]

    async def home(self, key: ApiKey) -> Settings:
        rows = SessionRows(self._database, key.tenant, key.user)
        home = copies_of_user(self._folder, rows)
        await bring_all(rows, home, clock=self._clock)
        place = await space_location(
            self._database, self._folder, space_key(key.tenant, key.user, DEFAULT_SPACE)
        )
        return settings_at(self._settings, home, place)

    async def agents(self, key: ApiKey) -> Sequence[ListedAgent]:
        rows = SessionRows(self._database, key.tenant, key.user)
        found = [(row, parse_state(data)) for row, data in await rows.files_named(STATE_FILES)]
        return [
            ListedAgent(
                state=with_session_status(state, is_open=row.is_open),
                session=row.id,
                folder=copies_of_user(self._folder, rows),
                cwd=row.cwd,
            )
            for row, state in found
            if state is not None
        ]

    async def local_only(self, key: ApiKey) -> LocalOnlyEntries:
        whole = replace(key, spaces=(), local=False)
        spaces = [await self.open(whole, name) for name in await self.names(whole)]
        return merge_local_only([await one.hidden(whole) for one in spaces])

    def gauges(self) -> Mapping[str, float]:
        return {**self._open.gauges(), "nacre_database_connections": self._database.connections}

    async def close(self) -> None:
        self._open.clear()
        await self._database.close()
