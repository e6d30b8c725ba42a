"""Connections to PostgreSQL: one transaction at a time, for one tenant, without the right to see others (S3).

Connections are opened when needed and kept for the next transaction, a few at most. A transaction of a server
has the role `nacre_server`, whatever role the address logs in with.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

import psycopg

from nacre.errors import ConfigError, StoreError

if TYPE_CHECKING:
    Connection: TypeAlias = psycopg.AsyncConnection[tuple[Any, ...]]

SERVER_ROLE = "nacre_server"
ADDRESS_FORM = "a database is named as postgresql://USER:PASSWORD@HOST/NAME"
SCHEMES = ("postgresql://", "postgres://")
CONNECT_SECONDS = 10
MAX_CONNECTIONS = 16
"""Connections of one process; more callers wait, because PostgreSQL has about 100 for all of them."""
MAX_IDLE = 4
MAX_NAME_CHARS = 100
"""Of a tenant, a user and a space."""
LOCK_SECONDS = 10
"""How long a change waits for another process that changes the same space."""


def is_database_url(text: str) -> bool:
    return text.startswith(SCHEMES)


class DatabaseUnavailableError(StoreError):
    """Raised when the server does not answer; whether a transaction was committed may be unknown."""


class Database:
    """One PostgreSQL database."""

    def __init__(self, url: str, *, is_server: bool = True, idle: int = MAX_IDLE) -> None:
        """With `is_server` each transaction has the role of a server; without, the role of the address."""
        if not is_database_url(url):
            raise ConfigError(ADDRESS_FORM)
        self._url = url
        self._is_server = is_server
        self._max_idle = idle
        self._idle: list[Connection] = []
        self._used = 0
        self._free = asyncio.Semaphore(MAX_CONNECTIONS)

    @property
    def connections(self) -> int:
        """The number of connections that are in use or kept."""
        return self._used + len(self._idle)

    @asynccontextmanager
    async def transaction(
        self, tenant: str = "", *, key: str = "", is_snapshot: bool = False
    ) -> AsyncIterator[Connection]:
        """Run statements that see one tenant's rows; all are committed at the end, or none.

        `key` is the id of a key that is looked up before its tenant is known. With `is_snapshot` every
        statement sees the same state.
        """
        async with self._free:
            connection = await self._begun(tenant, key, is_snapshot=is_snapshot)
            self._used += 1
            try:
                with _explained():
                    yield connection
                    await connection.execute("COMMIT")
            except BaseException:
                # The server rolls back when the connection closes; a broken one is never used again.
                await asyncio.shield(connection.close())
                raise
            finally:
                self._used -= 1
            if len(self._idle) < self._max_idle:
                self._idle.append(connection)
            else:
                await connection.close()

    @contextmanager
    def blocking_transaction(self, tenant: str) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
        """Run statements for one tenant on a connection of their own, for callers in a thread."""
        with (
            _explained(),
            psycopg.connect(self._checked_url(), connect_timeout=CONNECT_SECONDS) as connection,
        ):
            query, values = self._settings_of(tenant, "")
            connection.execute(query, values)
            yield connection

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Connection]:
        """Yield a connection of its own in the role of a server, without a tenant and a transaction."""
        connection = await self._connect()
        try:
            with _explained():
                if self._is_server:
                    await connection.execute(f"SET ROLE {SERVER_ROLE}")
                yield connection
        finally:
            await asyncio.shield(connection.close())

    async def close(self) -> None:
        """Close connections; one in use is closed at the end of its transaction."""
        self._max_idle = 0
        while self._idle:
            await self._idle.pop().close()

    async def _begun(self, tenant: str, key: str, *, is_snapshot: bool) -> Connection:
        """Return a connection in a new transaction; an idle one may have been closed by a restart."""
        while True:
            is_new = not self._idle
            connection = await self._connect() if is_new else self._idle.pop()
            try:
                with _explained():
                    await self._begin(connection, tenant, key, is_snapshot=is_snapshot)
            except BaseException as error:
                await asyncio.shield(connection.close())
                if is_new or not isinstance(error, StoreError):
                    raise
                continue
            return connection

    async def _begin(self, connection: Connection, tenant: str, key: str, *, is_snapshot: bool) -> None:
        level = "REPEATABLE READ" if is_snapshot else "READ COMMITTED"
        await connection.execute(f"BEGIN ISOLATION LEVEL {level}")
        query, values = self._settings_of(tenant, key)
        await connection.execute(query, values)

    def _settings_of(self, tenant: str, key: str) -> tuple[str, list[str]]:
        """Return the statement that limits a transaction to a tenant, and its parameters."""
        settings = {"nacre.tenant": tenant, "nacre.key": key, "lock_timeout": f"{LOCK_SECONDS}s"}
        if self._is_server:
            settings["role"] = SERVER_ROLE
        calls = ", ".join("set_config(%s, %s, true)" for _ in settings)
        return f"SELECT {calls}", [each for pair in settings.items() for each in pair]

    async def _connect(self) -> Connection:
        url = self._checked_url()
        with _explained():
            return await psycopg.AsyncConnection.connect(
                url, autocommit=True, connect_timeout=CONNECT_SECONDS
            )

    def _checked_url(self) -> str:
        try:
            psycopg.conninfo.conninfo_to_dict(self._url)
        except psycopg.ProgrammingError:  # its message repeats the address
            raise ConfigError(ADDRESS_FORM) from None
        return self._url


async def fetch(
    connection: Connection, query: str, parameters: Sequence[object] | Mapping[str, object] = ()
) -> list[tuple[Any, ...]]:
    """Return all rows of a query."""
    cursor = await connection.execute(query, parameters)
    rows: list[tuple[Any, ...]] = await cursor.fetchall()
    return rows


async def require_user(connection: Connection, tenant: str, user: str) -> None:
    """Add the user if there is none; raises `ConfigError` if there is no such tenant."""
    if not user.strip() or not user.isprintable() or len(user) > MAX_NAME_CHARS:
        raise ConfigError(f"a user is named by 1 to {MAX_NAME_CHARS} printable characters")
    if not await fetch(connection, "SELECT 1 FROM nacre.tenants WHERE name = %s", [tenant]):
        raise ConfigError(f"there is no tenant {tenant!r}; create it with `nacre tenants create`")
    await connection.execute(
        "INSERT INTO nacre.users (tenant, name) VALUES (%s, %s) ON CONFLICT DO NOTHING", [tenant, user]
    )


def split(data: bytes | None) -> tuple[str | None, bytes | None]:
    """Return content for a text column, or else for one of bytes."""
    if data is None:
        return None, None
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return None, data
    return (None, data) if "\0" in text else (text, None)


def joined(content: str | None, raw: bytes | None) -> bytes | None:
    return raw if content is None else content.encode("utf-8")


class _explained:  # noqa: N801 - used as a function
    """Raises errors of PostgreSQL as `StoreError` in one line, which never has the address's password."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if not isinstance(error, psycopg.Error | UnicodeEncodeError):
            return
        is_gone = isinstance(error, psycopg.OperationalError) and not isinstance(
            error, psycopg.errors.LockNotAvailable
        )
        raise (DatabaseUnavailableError if is_gone else StoreError)(_explain(error)) from error


def _explain(error: psycopg.Error | UnicodeEncodeError) -> str:
    first = next(iter(str(error).strip().splitlines()), type(error).__name__)
    match error:
        case psycopg.errors.LockNotAvailable():
            return f"another process has changed this space for over {LOCK_SECONDS} s; try again later"
        case psycopg.errors.InvalidSchemaName() | psycopg.errors.UndefinedTable():
            return "the database has no tables of nacre; run `nacre db migrate` with its owner's address"
        case psycopg.errors.InsufficientPrivilege() if "set role" in first:
            return (
                f"{first}; its owner can allow this: GRANT {SERVER_ROLE} TO the login of the address "
                "(since PostgreSQL 16 WITH SET TRUE)"
            )
        case psycopg.errors.InsufficientPrivilege():
            return f"the role of the database's address may not do this ({first}); use its owner's address"
        case psycopg.OperationalError():
            return f"the database cannot be used ({first}); check that it runs, and its address"
        case _:
            return f"the database refused ({first})"
