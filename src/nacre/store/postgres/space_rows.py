"""The rows of one memory space: its head, its commits with what they changed, its present files (S1, S4)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from nacre.errors import StoreError
from nacre.store.postgres.database import Database, fetch, joined, require_user, split

if TYPE_CHECKING:
    from nacre.store.postgres.database import Connection

MAX_SPACES = 1_000
"""Spaces of one user; a space is made at its first use, so a client could make any number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRow:
    """One commit with what it changed."""

    id: str
    parent: str
    author: str
    reason: str
    session: str
    at: datetime
    raw: bytes | None
    """The git object, if the other fields do not make it; None otherwise."""
    changes: Mapping[str, bytes | None]
    """New contents; None for removed files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRow:
    """One file of the newest commit, as an operator sees it."""

    version: str
    name: str
    description: str
    type: str | None
    origin: str
    data: bytes
    written: int
    """Modification time in nanoseconds."""


class SpaceKey(NamedTuple):
    """What identifies a space."""

    tenant: str
    owner: str | None
    """Its user; None for a space of the whole tenant."""
    kind: str
    name: str


_SPACE = (
    "SELECT id::text FROM nacre.spaces WHERE tenant = %s AND owner IS NOT DISTINCT FROM %s"
    " AND kind = %s AND name = %s"
)


async def find_space(database: Database, wanted: SpaceKey) -> str | None:
    """Return the id of a space; None if it does not exist."""
    async with database.transaction(wanted.tenant) as connection:
        found = await fetch(connection, _SPACE, [*wanted])
    return str(found[0][0]) if found else None


async def space_id(database: Database, wanted: SpaceKey) -> str:
    """Return the id of a space, which is made if it does not exist."""
    tenant, owner = wanted.tenant, wanted.owner
    async with database.transaction(tenant) as connection:
        found = await fetch(connection, _SPACE, [*wanted])
        if not found:
            count = await fetch(
                connection, "SELECT count(*) FROM nacre.spaces WHERE owner IS NOT DISTINCT FROM %s", [owner]
            )
            if count[0][0] >= MAX_SPACES:
                raise StoreError(f"there are {MAX_SPACES:,} spaces already; use one of them")
            if owner is not None:
                await require_user(connection, tenant, owner)
            await connection.execute(
                "INSERT INTO nacre.spaces (tenant, owner, kind, name) VALUES (%s, %s, %s, %s)"
                " ON CONFLICT DO NOTHING",
                [*wanted],
            )
            found = await fetch(connection, _SPACE, [*wanted])
    return str(found[0][0])


class SpaceErasedError(StoreError):
    """Raised for a space whose rows are gone."""


class SpaceRows:
    """The rows of one space of a tenant."""

    def __init__(self, database: Database, tenant: str, space: str) -> None:
        self.tenant = tenant
        self.space = space
        self._database = database

    async def head(self) -> str:
        """Return the newest commit; empty before the first."""
        async with self._database.transaction(self.tenant) as connection:
            return await _head(connection, self.space)

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[SpaceReader]:
        """Read several things of one state."""
        async with self._database.transaction(self.tenant, is_snapshot=True) as connection:
            yield SpaceReader(connection, self, await _head(connection, self.space))

    @asynccontextmanager
    async def changing(self) -> AsyncIterator[SpaceWriter]:
        """Hold the space among all processes; everything written is committed at the end, or nothing."""
        async with self._database.transaction(self.tenant) as connection:
            head = await _head(connection, self.space, lock="FOR UPDATE")
            yield SpaceWriter(connection, self, head)


async def _head(connection: Connection, space: str, *, lock: str = "") -> str:
    found = await fetch(connection, f"SELECT head FROM nacre.spaces WHERE id = %s {lock}", [space])
    if not found:
        raise SpaceErasedError("this memory space was erased from the database; open it again")
    return str(found[0][0])


class SpaceReader:
    """Reads of one transaction."""

    def __init__(self, connection: Connection, rows: SpaceRows, head: str) -> None:
        self.head = head
        self._connection = connection
        self._tenant = rows.tenant
        self._space = rows.space

    async def commits_after(self, commit: str) -> list[CommitRow] | None:
        """Return the commits after one, oldest first, all for the empty string; None for an unknown one."""
        begin = 0
        if commit:
            found = await self._fetch(
                "SELECT seq FROM nacre.memory_commits WHERE space = %s AND id = %s", commit
            )
            if not found:
                return None
            begin = found[0][0]
        changes: dict[int, dict[str, bytes | None]] = {}
        for seq, file, content, raw in await self._fetch(
            "SELECT seq, file, content, raw FROM nacre.memory_changes WHERE space = %s AND seq > %s", begin
        ):
            changes.setdefault(seq, {})[file] = joined(content, raw)
        rows = await self._fetch(
            "SELECT seq, id, parent, author, reason, session, at, raw FROM nacre.memory_commits"
            " WHERE space = %s AND seq > %s ORDER BY seq",
            begin,
        )
        return [
            CommitRow(
                id=id_, parent=parent, author=author, reason=reason, session=session, at=at, raw=raw,
                changes=changes.get(seq, {}),
            )
            for seq, id_, parent, author, reason, session, at, raw in rows
        ]  # fmt: skip

    async def times(self, files: Collection[str] | None = None) -> dict[str, int]:
        """Return modification times, in nanoseconds, of some or all files."""
        only = "" if files is None else " AND file = ANY(%s)"
        query = f"SELECT file, written FROM nacre.memory_files WHERE space = %s{only}"
        return dict(await self._fetch(query, *([] if files is None else [[*files]])))

    async def _fetch(self, query: str, *parameters: object) -> list[tuple[Any, ...]]:
        return await fetch(self._connection, query, [self._space, *parameters])


class SpaceWriter(SpaceReader):
    """Reads and writes of a transaction that holds the space."""

    async def append(
        self, commits: Sequence[CommitRow], files: Mapping[str, FileRow | None], *, replaces: bool = False
    ) -> None:
        """Add commits, oldest first, and the state of the files they changed.

        With `replaces` everything before goes: the history was rewritten, as a purge does.
        """
        if replaces:
            for table in ("memory_changes", "memory_commits", "memory_files"):
                await self._connection.execute(f"DELETE FROM nacre.{table} WHERE space = %s", [self._space])
        last = await self._fetch("SELECT coalesce(max(seq), 0) FROM nacre.memory_commits WHERE space = %s")
        begin = last[0][0] + 1
        key = (self._tenant, self._space)
        async with self._connection.cursor() as cursor:
            await cursor.executemany(
                "INSERT INTO nacre.memory_commits"
                " (tenant, space, seq, id, parent, author, reason, session, at, raw)"
                " VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)",
                [
                    (*key, seq, one.id, one.parent, one.author, one.reason, one.session, one.at, one.raw)
                    for seq, one in enumerate(commits, begin)
                ],
            )
            await cursor.executemany(
                "INSERT INTO nacre.memory_changes (tenant, space, seq, file, content, raw)"
                " VALUES (%s, %s, %s, %s, %s, %s)",
                [
                    (*key, seq, file, *split(data))
                    for seq, one in enumerate(commits, begin)
                    for file, data in one.changes.items()
                ],
            )
            await cursor.executemany(
                "DELETE FROM nacre.memory_files WHERE space = %s AND file = %s",
                [(self._space, file) for file in files],
            )
            await cursor.executemany(
                "INSERT INTO nacre.memory_files"
                " (tenant, space, file, version, name, description, type, origin, content, written)"
                " VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)",
                [
                    (*key, file, row.version, row.name, row.description, row.type, row.origin,
                     split(row.data)[0], row.written)
                    for file, row in files.items()
                    if row is not None
                ],
            )  # fmt: skip
        await self._connection.execute(
            "UPDATE nacre.spaces SET head = %s WHERE id = %s",
            [commits[-1].id if commits else "", self._space],
        )
