"""The rows of a user's sessions: logs with fenced appends, the files beside them, and leases (S1, S4).

A lease ends by itself when its process does not renew it. Each lease of a session has a higher number, its
fence: an append names the fence and the position, so that a process that lost its lease cannot write.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from nacre.errors import SessionBusy, SessionNotFound, TranscriptError
from nacre.store.locks import LockOwner
from nacre.store.postgres.database import (
    Database,
    DatabaseUnavailableError,
    fetch,
    joined,
    require_user,
    split,
)

if TYPE_CHECKING:
    from nacre.store.postgres.database import Connection

LEASE_SECONDS = 30
RENEW_SECONDS = LEASE_SECONDS / 3
RETRY_WAITS = (0.1, 0.3, 1.0, 2.0, 4.0, 8.0)
"""Seconds before an append is repeated while the database does not answer: it may be restarting."""


_LISTED = "id, cwd, bytes, modified, coalesce(leased > now(), false)"


class LeaseLostError(SessionBusy):
    """Raised for an append by a process whose lease was taken over."""


@dataclass(frozen=True, slots=True)
class SessionRow:
    """What a list of sessions has."""

    id: str
    cwd: str
    bytes: int
    modified: datetime
    is_open: bool
    """Whether a process has its lease."""


class SessionRows:
    """The sessions of one user of a tenant."""

    def __init__(self, database: Database, tenant: str, user: str) -> None:
        self.tenant = tenant
        self.user = user
        self.database = database

    async def create(self, session: str, *, cwd: str, home: str) -> SessionLease:
        """Add an empty session and take its lease; `home` is the folder that paths in its records name."""
        owner = LockOwner.claim()
        async with self.database.transaction(self.tenant) as connection:
            await require_user(connection, self.tenant, self.user)
            added = await fetch(
                connection,
                "INSERT INTO nacre.sessions (tenant, id, user_name, cwd, home, fence, holder, leased)"
                " VALUES (%s, %s, %s, %s, %s, 1, %s, now() + make_interval(secs => %s))"
                " ON CONFLICT DO NOTHING RETURNING 1",
                [self.tenant, session, self.user, cwd, home, owner.text, LEASE_SECONDS],
            )
            if not added:
                raise TranscriptError(f"there is a session {session} already; open it or choose another id")
        return SessionLease(self, session, owner, fence=1, size=0, home=home)

    async def take(self, session: str) -> SessionLease:
        """Take the lease of a session, or raise `SessionBusy` that names its holder."""
        owner = LockOwner.claim()
        async with self.database.transaction(self.tenant) as connection:
            found = await fetch(
                connection,
                "SELECT bytes, fence, holder, leased > now(), home FROM nacre.sessions"
                " WHERE id = %s AND user_name = %s FOR UPDATE",
                [session, self.user],
            )
            if not found:
                raise SessionNotFound(f"there is no session {session!r} of this user in the database")
            size, fence, holder, is_leased, home = found[0]
            held_by = LockOwner.parse(holder)
            # A process of this machine that ended need not be waited for.
            if is_leased and held_by is not None and held_by.is_gone() is not True:
                owner.disclaim()
                raise SessionBusy(
                    f"session {session} is open in process {held_by.pid} on {held_by.host}; close it there, "
                    "or continue as a branch"
                )
            await connection.execute(
                "UPDATE nacre.sessions SET fence = %s, holder = %s,"
                " leased = now() + make_interval(secs => %s) WHERE id = %s",
                [fence + 1, owner.text, LEASE_SECONDS, session],
            )
        return SessionLease(self, session, owner, fence=fence + 1, size=size, home=home)

    async def list(self) -> list[SessionRow]:
        """Return the user's sessions, newest first."""
        async with self.database.transaction(self.tenant) as connection:
            rows = await fetch(
                connection,
                f"SELECT {_LISTED} FROM nacre.sessions WHERE user_name = %s ORDER BY modified DESC, id",
                [self.user],
            )
        return [SessionRow(*row) for row in rows]

    async def files_named(self, pattern: str) -> Sequence[tuple[SessionRow, bytes]]:
        """Return the files of all the user's sessions whose name is LIKE a pattern, newest session first."""
        async with self.database.transaction(self.tenant) as connection:
            rows = await fetch(
                connection,
                f"SELECT {_LISTED}, content FROM nacre.sessions JOIN nacre.session_files files"
                " ON files.tenant = sessions.tenant AND files.session = sessions.id"
                " WHERE user_name = %s AND file LIKE %s ORDER BY modified DESC, id, file",
                [self.user, pattern],
            )
        return [(SessionRow(*row), bytes(content)) for *row, content in rows]

    async def last_before(self, session: str, position: int) -> tuple[int, bytes] | None:
        """Return the position and the bytes of the last line that begins before a position."""
        async with self.database.transaction(self.tenant) as connection:
            found = await fetch(
                connection,
                "SELECT position, content, raw FROM nacre.session_records WHERE session = %s"
                " AND position < %s ORDER BY position DESC LIMIT 1",
                [session, position],
            )
        return (found[0][0], joined(*found[0][1:]) or b"") if found else None

    async def lines_from(self, session: str, position: int, *, limit: int) -> Sequence[bytes]:
        """Return lines from a position on, in order, at most `limit`."""
        async with self.database.transaction(self.tenant) as connection:
            rows = await fetch(
                connection,
                "SELECT content, raw FROM nacre.session_records WHERE session = %s AND position >= %s"
                " ORDER BY position LIMIT %s",
                [session, position, limit],
            )
        return [joined(*row) or b"" for row in rows]

    async def file_digests(self, session: str) -> dict[str, str]:
        """Return the MD5 of each file of a session."""
        query = "SELECT file, md5(content) FROM nacre.session_files WHERE session = %s"
        async with self.database.transaction(self.tenant) as connection:
            return dict(await fetch(connection, query, [session]))

    async def file(self, session: str, name: str) -> bytes:
        query = "SELECT content FROM nacre.session_files WHERE session = %s AND file = %s"
        async with self.database.transaction(self.tenant) as connection:
            found = await fetch(connection, query, [session, name])
        return bytes(found[0][0]) if found else b""


class SessionLease:
    """The right to append to one session; renewed in time by its holder."""

    def __init__(
        self, rows: SessionRows, session: str, owner: LockOwner, *, fence: int, size: int, home: str
    ) -> None:
        self.rows = rows
        self.session = session
        self.size = size
        """Bytes of the log."""
        self.home = home
        self._owner = owner
        self._fence = fence
        self._is_certain = True
        self._appending = asyncio.Lock()

    async def append(self, lines: bytes, files: Mapping[str, bytes] | None = None) -> None:
        """Append whole lines and replace files, all or nothing; repeated while the database restarts.

        Raises `LeaseLostError` if another process has taken the session over.
        """
        async with self._appending:
            for wait in (*RETRY_WAITS, None):
                try:
                    await self._write(lines, files or {})
                    break
                except DatabaseUnavailableError:
                    # It may have been committed all the same; the next try replaces that.
                    self._is_certain = False
                    if wait is None:
                        raise
                    await asyncio.sleep(wait)
            self._is_certain = True
            self.size += len(lines)

    async def renew(self) -> None:
        """Prolong the lease; raises `LeaseLostError` if another process has taken the session over."""
        async with self.rows.database.transaction(self.rows.tenant) as connection:
            await self._hold(connection, "")

    async def release(self, *, remove: bool = False) -> None:
        """Give the session up, or remove it; one that was lost stays with its new holder."""
        self._owner.disclaim()
        change = (
            "DELETE FROM nacre.sessions" if remove else "UPDATE nacre.sessions SET holder = '', leased = NULL"
        )
        async with self.rows.database.transaction(self.rows.tenant) as connection:
            await connection.execute(f"{change} WHERE id = %s AND fence = %s", [self.session, self._fence])

    async def _write(self, lines: bytes, files: Mapping[str, bytes]) -> None:
        key = (self.rows.tenant, self.session)
        rows = []
        position = self.size
        for line in lines.splitlines(keepends=True):
            rows.append((*key, position, _kind(line), *split(line)))
            position += len(line)
        async with self.rows.database.transaction(self.rows.tenant) as connection:
            expected = "bytes = %s" if self._is_certain else "bytes >= %s"
            await self._hold(
                connection, f", bytes = %s, modified = now() WHERE {expected} AND", position, self.size
            )
            if not self._is_certain:
                await connection.execute(
                    "DELETE FROM nacre.session_records WHERE session = %s AND position >= %s",
                    [self.session, self.size],
                )
            async with connection.cursor() as cursor:
                await cursor.executemany(
                    "INSERT INTO nacre.session_records (tenant, session, position, kind, content, raw)"
                    " VALUES (%s, %s, %s, %s, %s, %s)",
                    rows,
                )
                await cursor.executemany(
                    "INSERT INTO nacre.session_files (tenant, session, file, content)"
                    " VALUES (%s, %s, %s, %s)"
                    " ON CONFLICT (tenant, session, file) DO UPDATE SET content = EXCLUDED.content",
                    [(*key, name, data) for name, data in files.items()],
                )

    async def _hold(self, connection: Connection, change: str, *values: object) -> None:
        """Prolong the lease together with a change; `change` ends with its condition."""
        found = await fetch(
            connection,
            f"UPDATE nacre.sessions SET leased = now() + make_interval(secs => %s){change or ' WHERE'}"
            " id = %s AND fence = %s RETURNING 1",
            [LEASE_SECONDS, *values, self.session, self._fence],
        )
        if not found:
            raise LeaseLostError(
                f"session {self.session} was continued by another process; open it again to go on"
            )


def _kind(line: bytes) -> str:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return ""
    kind = record.get("type") if isinstance(record, dict) else None
    return kind.replace("\0", "") if isinstance(kind, str) else ""
