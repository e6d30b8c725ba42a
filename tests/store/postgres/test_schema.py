from __future__ import annotations

import asyncio

import pytest

pytest.importorskip("psycopg", reason="needs the extra `dev`")

import psycopg

from nacre.errors import StoreError
from nacre.server.keys import create_key, new_key
from nacre.server.postgres import KeyTable, create_tenant
from nacre.store.postgres.database import SERVER_ROLE, Database, fetch
from nacre.store.postgres.schema import migrate, migrations, require_schema, schema_state
from tests.postgres import as_ordinary_owner, execute, new_database

ROWS = {
    "sessions": ("id, user_name, cwd, home", "'s', 'ada', '/', '/'"),
    "session_records": ("session, position, kind, content", "'s', 0, 'user', '{}'"),
    "session_files": ("session, file, content", "'s', 'notes.md', 'x'"),
    "letters": ("user_name, inbox, id, letter", "'ada', 'main', 'l', '{}'"),
    "jobs": ("user_name, kind, space, key", "'ada', 'dream', 'user', 'k'"),
    "usage": ("day", "current_date"),
    "tenant_models": ("model, credential, daily_usd", "'m', 'env:KEY', 1"),
    "repeated_writes": ("key_id, name, fingerprint", "'k', 'n', 'f'"),
}
"""A row of each table that belongs to no space."""
WITH_TENANT = (
    "users", "api_keys", "audit_log", "spaces", "memory_commits", "memory_changes", "memory_files", *ROWS,
)  # fmt: skip

AUDIT_COLUMNS = "tenant, id, at, user_name, key_id, address, operation, path, status"


async def test_migrates_an_empty_database_once() -> None:
    database = Database(new_database(migrated=False), is_server=False, idle=0)
    with pytest.raises(StoreError, match="nacre db migrate"):
        await require_schema(database)
    assert [one.version for one in await migrate(database)] == [one.version for one in migrations()]
    assert await migrate(database) == []
    await require_schema(database)
    assert (await schema_state(database)).server.split(".")[0].isdigit()


async def test_processes_that_migrate_at_once_wait_for_each_other() -> None:
    address = new_database(migrated=False)
    done = await asyncio.gather(*(migrate(Database(address, is_server=False, idle=0)) for _ in range(4)))
    assert sorted(len(one) for one in done) == [0, 0, 0, len(migrations())]


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("INSERT INTO nacre.schema_versions VALUES (9999, 'future')", "update nacre"),
        ("DELETE FROM nacre.schema_versions", "nacre db migrate"),
    ],
)
async def test_another_schema_is_refused_in_one_line(statement: str, message: str) -> None:
    address = new_database()
    execute(address, statement)
    database = Database(address, is_server=False, idle=0)
    with pytest.raises(StoreError, match=message) as caught:
        await require_schema(database)
    assert "\n" not in str(caught.value)


async def test_an_address_without_a_server_is_one_line_without_its_password() -> None:
    database = Database("postgresql://ada:hunter2@127.0.0.1:1/nacre")
    with pytest.raises(StoreError, match="check that it runs") as caught:
        await require_schema(database)
    assert "hunter2" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_row_level_security_is_forced_on_every_table() -> None:
    rows = execute(
        new_database(),
        "SELECT relname, relrowsecurity, relforcerowsecurity FROM pg_class"
        " WHERE relnamespace = 'nacre'::regnamespace AND relkind IN ('r', 'p')",
    )
    assert {name for name, *_ in rows} >= {*WITH_TENANT, "tenants"}
    assert all(enabled and forced for _, enabled, forced in rows), rows


def test_the_servers_role_owns_nothing_and_cannot_bypass_policies() -> None:
    address = new_database()
    [flags] = execute(
        address,
        "SELECT rolsuper, rolbypassrls, rolcreaterole, rolcreatedb, rolcanlogin FROM pg_roles"
        f" WHERE rolname = '{SERVER_ROLE}'",
    )
    assert flags == (False,) * 5
    owned = execute(
        address,
        f"SELECT 1 FROM pg_class WHERE relowner = (SELECT oid FROM pg_roles WHERE rolname = '{SERVER_ROLE}')",
    )
    assert owned == []


async def test_a_login_that_may_not_take_the_servers_role_is_told_how() -> None:
    address = new_database()
    login = f"stranger_{address.rpartition('/')[2].partition('?')[0]}"
    execute(address, f"CREATE ROLE {login} LOGIN")
    with pytest.raises(StoreError, match=f"GRANT {SERVER_ROLE} TO the login of the address") as refused:
        await require_schema(Database(address.replace("postgres:@", f"{login}:@"), idle=0))
    assert len(str(refused.value).splitlines()) == 1


async def test_the_servers_role_sees_and_changes_no_row_of_another_tenant() -> None:
    """Raw SQL in the role of a server, logged in as that role and nothing else."""
    address = new_database()
    await _two_tenants(address)
    login = f"reader_{address.rpartition('/')[2].partition('?')[0]}"
    execute(address, f"CREATE ROLE {login} LOGIN IN ROLE {SERVER_ROLE}")
    as_server = address.replace("postgres:@", f"{login}:@")
    with psycopg.connect(as_server, autocommit=True) as connection:
        connection.execute("BEGIN")
        connection.execute("SET LOCAL nacre.tenant = 'acme'")
        for table in WITH_TENANT:
            tenants = connection.execute(f"SELECT DISTINCT tenant FROM nacre.{table}").fetchall()
            assert tenants == [("acme",)], table
            raw = f"SELECT count(*) FROM nacre.{table} WHERE tenant = 'umbrella' OR true"
            assert (
                connection.execute(raw).fetchone()
                == connection.execute(f"SELECT count(*) FROM nacre.{table}").fetchone()
            )
        assert connection.execute("SELECT name FROM nacre.tenants").fetchall() == [("acme",)]
        assert (
            connection.execute("UPDATE nacre.spaces SET head = 'x' WHERE tenant = 'umbrella'").rowcount == 0
        )
        assert connection.execute("DELETE FROM nacre.memory_files WHERE tenant = 'umbrella'").rowcount == 0
        connection.execute("ROLLBACK")
        # Without a tenant nothing is visible, not even through an unset setting.
        for table in (*WITH_TENANT, "tenants"):
            assert connection.execute(f"SELECT count(*) FROM nacre.{table}").fetchone() == (0,), table
        for statement in (
            "INSERT INTO nacre.spaces (tenant, kind, name) VALUES ('umbrella', 'team', 'x')",
            "UPDATE nacre.spaces SET tenant = 'umbrella'",
            f"INSERT INTO nacre.audit_log ({AUDIT_COLUMNS})"
            " VALUES ('umbrella', 'x', now(), '', '', '', '', '', 200)",
            "SET ROLE postgres",
            "SET row_security = off; SELECT * FROM nacre.spaces",
            "ALTER TABLE nacre.spaces NO FORCE ROW LEVEL SECURITY",
            "DROP POLICY one_tenant ON nacre.spaces",
            "UPDATE nacre.audit_log SET status = 0",
            "DELETE FROM nacre.audit_log",
            "INSERT INTO nacre.api_keys (id, tenant, user_name, role, digest, created)"
            " VALUES ('k', 'acme', 'ada', 'admin', '', now())",
        ):
            with pytest.raises(psycopg.Error):
                connection.execute("BEGIN; SET LOCAL nacre.tenant = 'acme'; " + statement)
            connection.execute("ROLLBACK")


async def test_the_owner_of_the_tables_is_bound_as_well() -> None:
    """FORCE: an owner who is no superuser sees no row without its tenant."""
    as_owner = as_ordinary_owner()
    await _two_tenants(as_owner)
    assert execute(as_owner, "SELECT count(*) FROM nacre.memory_files") == [(0,)]
    assert execute(as_owner, "SELECT name FROM nacre.tenants ORDER BY name") == [("acme",), ("umbrella",)]


async def _two_tenants(address: str) -> None:
    database = Database(address, is_server=False, idle=0)
    for tenant in ("acme", "umbrella"):
        await create_tenant(database, tenant)
        await create_key(KeyTable(database), new_key(tenant=tenant, user="ada", role="member"))
        async with database.transaction(tenant) as connection:
            [[space]] = await fetch(
                connection,
                "INSERT INTO nacre.spaces (tenant, owner, kind, name) VALUES (%s, 'ada', 'user', '')"
                " RETURNING id",
                [tenant],
            )
            for table, columns, values in (
                (
                    "memory_commits",
                    "seq, id, parent, author, reason, session, at",
                    "1, 'c', '', '', '', '', now()",
                ),
                ("memory_changes", "seq, file, content", "1, 'a.md', 'secret'"),
                ("memory_files", "file, version, written", "'a.md', 'v', 0"),
            ):
                await connection.execute(
                    f"INSERT INTO nacre.{table} (tenant, space, {columns}) VALUES (%s, %s, {values})",
                    [tenant, space],
                )
            await connection.execute(
                f"INSERT INTO nacre.audit_log ({AUDIT_COLUMNS})"
                " VALUES (%s, 'x', now(), '', '', '', '', '', 200)",
                [tenant],
            )
            for table, (columns, values) in ROWS.items():
                await connection.execute(
                    f"INSERT INTO nacre.{table} (tenant, {columns}) VALUES (%s, {values})", [tenant]
                )
