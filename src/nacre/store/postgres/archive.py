"""Rows of a tenant, or of one of its users, as a file; restored, or erased and counted again (S2, S10).

A file is JSON Lines, compressed: a first line with the schema, then one line per row, tables in an order in
which they can be inserted. Which rows are a user's follows from the columns, so that a new table is covered.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import zlib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nacre.errors import ConfigError, StoreError
from nacre.store import disk
from nacre.store.postgres.database import Database, fetch
from nacre.store.postgres.schema import require_schema

if TYPE_CHECKING:
    from nacre.store.postgres.database import Connection

FORMAT = 1
BATCH_ROWS = 500
BATCH_CHARS = 4_000_000
MAX_HEAD_CHARS = 1_000_000
ERASED_DAYS = 90
"""How long servers are told which copies to remove; one that is off for longer is set up anew."""
NOT_PERSONAL = frozenset({"api_keys", "repeated_writes"})
"""Tables that a person's export leaves out: they let a client in, or answer it again."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table with a tenant's rows."""

    name: str
    columns: tuple[str, ...]
    """Without those that the database numbers itself."""
    order: tuple[str, ...]
    """Columns of the primary key."""

    @property
    def of_tenant(self) -> str:
        return f"{'name' if self.name == 'tenants' else 'tenant'} = %(tenant)s"

    def of_user(self) -> str:
        """Return the condition for one user's rows; empty for a table that has none."""
        if "user_name" in self.columns:
            return "user_name = %(user)s"
        if self.name == "users":
            return "name = %(user)s"
        if "owner" in self.columns:
            return "owner = %(user)s"
        of_user = "tenant = %(tenant)s AND user_name = %(user)s"
        if "space" in self.columns:
            return "space IN (SELECT id FROM nacre.spaces WHERE tenant = %(tenant)s AND owner = %(user)s)"
        if "session" in self.columns:
            return f"session IN (SELECT id FROM nacre.sessions WHERE {of_user})"
        if "key_id" in self.columns:
            return f"key_id IN (SELECT id FROM nacre.api_keys WHERE {of_user})"
        return ""

    def condition(self, user: str | None) -> str:
        """Return which rows belong to the tenant, or to its user; empty for none."""
        if user is None:
            return self.of_tenant
        mine = self.of_user()
        return f"{self.of_tenant} AND {mine}" if mine else ""


async def tables(connection: Connection) -> list[Table]:
    """Return the tables with tenants' rows, each after those that it refers to."""
    columns = await fetch(
        connection,
        "SELECT c.relname, array_agg(a.attname::text ORDER BY a.attnum)"
        " FILTER (WHERE a.attidentity = ''), bool_or(a.attname = 'tenant')"
        " FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped"
        " WHERE c.relnamespace = 'nacre'::regnamespace AND c.relkind = 'r' GROUP BY c.relname",
    )
    keys = await fetch(
        connection,
        "SELECT k.conrelid::regclass::text, k.contype::text, k.confrelid::regclass::text,"
        " ARRAY(SELECT a.attname::text FROM unnest(k.conkey) WITH ORDINALITY n (attnum, place)"
        "  JOIN pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = n.attnum ORDER BY n.place)"
        " FROM pg_constraint k WHERE k.connamespace = 'nacre'::regnamespace AND k.contype IN ('p', 'f')",
    )
    order = {name.removeprefix("nacre."): tuple(found) for name, kind, _, found in keys if kind == "p"}
    needs: dict[str, set[str]] = {}
    for name, kind, other, _ in keys:
        if kind == "f" and name != other:
            needs.setdefault(name.removeprefix("nacre."), set()).add(other.removeprefix("nacre."))
    for name, found, _ in columns:
        if "key_id" in found:  # no foreign key, and yet a user's rows are found by the user's keys
            needs.setdefault(name, set()).add("api_keys")
    waiting = {
        name: Table(name, tuple(found), order.get(name, ()))
        for name, found, has_tenant in columns
        if has_tenant or name == "tenants"
    }
    ordered: list[Table] = []
    while waiting:
        ready = sorted(name for name in waiting if not needs.get(name, set()) & waiting.keys())
        ordered += [waiting.pop(name) for name in ready]
    return ordered


async def export_rows(
    database: Database, file: Path, names: Sequence[str], *, user: str | None = None
) -> dict[str, int]:
    """Write the rows of tenants, or of one user of one tenant, to a new file; return the number by table.

    What is written of a tenant is of one moment.
    """
    state = await require_schema(database)
    counts: dict[str, int] = {}
    head = {"nacre": "rows", "format": FORMAT, "schema": state.version, "tenants": [*names], "user": user}
    temp = file.with_name(f"{file.name}.part")
    try:
        temp.unlink(missing_ok=True)
        descriptor = os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, disk.FILE_MODE)
        with os.fdopen(descriptor, "wb") as raw, gzip.open(raw, "wt", encoding="utf-8") as target:
            target.write(json.dumps(head) + "\n")
            for name in names:
                async with database.transaction(name, is_snapshot=True) as connection:
                    async for table, row in _rows(connection, name, user):
                        target.write(json.dumps({"table": table, "row": row}, ensure_ascii=False) + "\n")
                        counts[table] = counts.get(table, 0) + 1
        if user is not None and not counts:
            raise ConfigError(f"tenant {names[0]!r} has no user {user!r}")
        temp.replace(file)
    except OSError as error:
        raise StoreError(disk.explain(error, file)) from error
    finally:
        temp.unlink(missing_ok=True)
    return counts


async def _rows(
    connection: Connection, tenant: str, user: str | None
) -> AsyncIterator[tuple[str, dict[str, Any]]]:
    for table in await tables(connection):
        condition = table.condition(user)
        if not condition or (user is not None and table.name in NOT_PERSONAL):
            continue
        columns = ", ".join(f't."{one}"' for one in table.columns)
        order = ", ".join(f't."{one}"' for one in table.order) or "1"
        rows = f"SELECT {columns} FROM nacre.{table.name} t WHERE {condition} ORDER BY {order}"
        query = f"SELECT row_to_json(r) FROM ({rows}) r"
        async with connection.cursor(name=f"rows_{table.name}") as cursor:
            cursor.itersize = BATCH_ROWS
            await cursor.execute(query, {"tenant": tenant, "user": user})
            async for (row,) in cursor:
                yield table.name, row


async def restore_rows(database: Database, file: Path) -> dict[str, int]:
    """Insert the rows of a file; return the number by table.

    Each tenant is restored as a whole or not at all. One that exists is refused before anything is written,
    and so is a user that exists, whose tenant must be there.
    """
    state = await require_schema(database)
    with _readable(file), gzip.open(file, "rt", encoding="utf-8") as source:
        head = _head(file, source.readline(MAX_HEAD_CHARS))
        if head["schema"] != state.version:
            raise StoreError(
                f"{file} has schema {head['schema']}, and the database {state.version}; restore it with the "
                "version of nacre that wrote it, then run `nacre db migrate`"
            )
        await _refuse_present(database, head)
        counts: dict[str, int] = {}
        rows = (json.loads(line) for line in source)
        for name, of_tenant in groupby(
            rows, lambda one: one["row"]["name" if one["table"] == "tenants" else "tenant"]
        ):
            async with database.transaction(name) as connection:
                known = {table.name: table for table in await tables(connection)}
                for title, batch in _batches(of_tenant):
                    if title not in known:
                        raise StoreError(f"{file} has rows of an unknown table {title!r}")
                    columns = ", ".join(f'"{one}"' for one in known[title].columns)
                    query = (
                        f"INSERT INTO nacre.{title} ({columns}) SELECT {columns}"
                        f" FROM json_populate_recordset(NULL::nacre.{title}, %s::json)"
                    )
                    await connection.execute(query, [json.dumps(batch)])
                    counts[title] = counts.get(title, 0) + len(batch)
    return counts


@contextmanager
def _readable(file: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, EOFError, zlib.error) as error:
        what = error.strerror if isinstance(error, OSError) and error.strerror else "it is damaged"
        raise StoreError(f"{file} cannot be read ({what})") from error
    except (ValueError, KeyError, TypeError) as error:
        raise StoreError(f"{file} is not a file that nacre wrote, or it is damaged") from error


def _head(file: Path, line: str) -> dict[str, Any]:
    head = json.loads(line)
    if head["nacre"] != "rows" or head["format"] != FORMAT:
        raise StoreError(f"{file} is not a file that this version of nacre reads")
    return dict(head)


async def _refuse_present(database: Database, head: Mapping[str, Any]) -> None:
    names, user = head["tenants"], head["user"]
    async with database.transaction() as connection:
        query = "SELECT name FROM nacre.tenants WHERE name = ANY(%s) ORDER BY name"
        present = [name for (name,) in await fetch(connection, query, [names])]
    if user is None and present:
        raise StoreError(f"the database has a tenant {present[0]!r} already; nothing was restored")
    if user is None:
        return
    if not present:
        raise StoreError(f"the database has no tenant {names[0]!r}; create it with `nacre tenants create`")
    async with database.transaction(names[0]) as connection:
        query = "SELECT 1 FROM nacre.users WHERE tenant = %s AND name = %s"
        if await fetch(connection, query, [names[0], user]):
            raise StoreError(f"tenant {names[0]!r} has a user {user!r} already; nothing was restored")


def _batches(rows: Iterator[dict[str, Any]]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Group rows of one table, each group small enough for one statement."""
    for title, found in groupby(rows, lambda one: one["table"]):
        batch: list[dict[str, Any]] = []
        size = 0
        for one in found:
            batch.append(one["row"])
            size += len(str(one["row"]))
            if len(batch) >= BATCH_ROWS or size > BATCH_CHARS:
                yield str(title), batch
                batch, size = [], 0
        if batch:
            yield str(title), batch


@dataclass(frozen=True, slots=True, kw_only=True)
class Erased:
    """What an erasure removed, and what a search afterwards still found."""

    removed: Mapping[str, int]
    """Rows by table."""
    left: Mapping[str, int]
    """Rows by table that still name the user, one of the user's sessions, spaces or keys."""


async def erase_rows(
    database: Database, tenant: str, user: str | None = None, *, folder_of: Callable[[str, str], str]
) -> Erased:
    """Remove the rows of a tenant or of one of its users, in one transaction, and search for what is left.

    `folder_of` names the folder in which servers keep the sessions of a tenant's user.

    Changes that a user made to memories of the whole tenant stay, because the tenant's history contains them.
    """
    await require_schema(database)
    async with database.transaction(tenant) as connection:
        given = {"tenant": tenant, "user": user}
        if not await fetch(connection, "SELECT 1 FROM nacre.tenants WHERE name = %(tenant)s", given):
            raise ConfigError(f"there is no tenant {tenant!r}; `nacre tenants list` shows them")
        query = "SELECT 1 FROM nacre.users WHERE tenant = %(tenant)s AND name = %(user)s"
        if user and not await fetch(connection, query, given):
            raise ConfigError(f"tenant {tenant!r} has no user {user!r}")
        found = await tables(connection)
        traces = await _traces(connection, tenant, user)
        folders = await _folders(connection, tenant, user, folder_of)
        removed = {}
        for table in reversed(found):
            if condition := table.condition(user):
                cursor = await connection.execute(f"DELETE FROM nacre.{table.name} WHERE {condition}", given)
                removed[table.name] = cursor.rowcount
        query = "INSERT INTO nacre.erased (folder) SELECT unnest(%s::text[]) ON CONFLICT DO NOTHING"
        await connection.execute(query, [folders])
        await connection.execute(
            "DELETE FROM nacre.erased WHERE at < now() - make_interval(days => %s)", [ERASED_DAYS]
        )
        left = {}
        for table in found:
            query = (
                f"SELECT count(*) FROM nacre.{table.name} t WHERE {table.of_tenant} AND t::text ~ %(traces)s"
            )
            ((number,),) = await fetch(connection, query, {**given, "traces": traces})
            if number:
                left[table.name] = number
    return Erased(removed={name: number for name, number in removed.items() if number}, left=left)


async def erased_folders(database: Database) -> list[str]:
    """Return the folders of which a server removes its copies."""
    async with database.transaction() as connection:
        return [name for (name,) in await fetch(connection, "SELECT folder FROM nacre.erased")]


async def _folders(
    connection: Connection, tenant: str, user: str | None, folder_of: Callable[[str, str], str]
) -> list[str]:
    given = {"tenant": tenant, "user": user}
    whose = "tenant = %(tenant)s AND (%(user)s::text IS NULL OR {} = %(user)s)"
    spaces = await fetch(
        connection, f"SELECT id::text FROM nacre.spaces WHERE {whose.format('owner')}", given
    )
    users = await fetch(connection, f"SELECT name FROM nacre.users WHERE {whose.format('name')}", given)
    return [*(one for (one,) in spaces), *(folder_of(tenant, one) for (one,) in users)]


async def _traces(connection: Connection, tenant: str, user: str | None) -> str:
    """Return a regular expression for the ids of a user's rows, and the name as a column or an author."""
    if user is None:
        return "."
    ids = await fetch(
        connection,
        "SELECT id::text FROM nacre.spaces WHERE tenant = %(tenant)s AND owner = %(user)s UNION ALL"
        " SELECT id FROM nacre.sessions WHERE tenant = %(tenant)s AND user_name = %(user)s UNION ALL"
        " SELECT id FROM nacre.api_keys WHERE tenant = %(tenant)s AND user_name = %(user)s",
        {"tenant": tenant, "user": user},
    )
    name = re.escape(user)
    # A name such as 42 also occurs as a number in other rows.
    return "|".join((rf'[(,]"*{name}"*[,)]', rf"by {name} \(key", *(re.escape(one) for (one,) in ids)))
