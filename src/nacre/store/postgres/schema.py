"""The schema of the database: numbered SQL files, applied in order and never changed (S2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files

from nacre.errors import StoreError
from nacre.store.postgres.database import Database, fetch

LOCK_KEY = 7_238_245_301_114_512
"""Advisory lock of migrations; any number that no other program of the database uses."""
MIN_VERSION = 150_000
"""PostgreSQL 15: `UNIQUE NULLS NOT DISTINCT`."""
_FIRST = """
    CREATE SCHEMA IF NOT EXISTS nacre;
    CREATE TABLE IF NOT EXISTS nacre.schema_versions (
        version integer PRIMARY KEY,
        name    text NOT NULL,
        applied timestamptz NOT NULL DEFAULT now()
    );
    ALTER TABLE nacre.schema_versions ENABLE ROW LEVEL SECURITY;
    ALTER TABLE nacre.schema_versions FORCE ROW LEVEL SECURITY;
    DROP POLICY IF EXISTS every_version ON nacre.schema_versions;
    CREATE POLICY every_version ON nacre.schema_versions USING (true)
"""


@dataclass(frozen=True, slots=True)
class Migration:
    """One numbered SQL file."""

    version: int
    name: str
    sql: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaState:
    """What `nacre db check` shows."""

    version: int
    wanted: int
    server: str
    extensions: tuple[str, ...]
    """Optional extensions that the database could use."""
    bypasses: bool
    """Whether the address logs in with a role that row-level security does not bind by itself."""

    @property
    def problem(self) -> str:
        """One line about a schema that this nacre cannot use; empty if it can."""
        if not self.version:
            return "the database has no tables of nacre; run `nacre db migrate` with its owner's address"
        if self.version < self.wanted:
            return f"the database has schema {self.version}, not {self.wanted}; run `nacre db migrate`"
        if self.version > self.wanted:
            return _too_new(self.version, self.wanted)
        return ""


def _too_new(version: int, wanted: int) -> str:
    return f"the database has schema {version}, newer than the {wanted} of this nacre; update nacre"


def migrations() -> list[Migration]:
    """Return all migrations in order."""
    folder = files("nacre.store.postgres") / "migrations"
    found = sorted(one.name for one in folder.iterdir() if one.name.endswith(".sql"))
    return [
        Migration(int(name[:4]), name.removesuffix(".sql"), (folder / name).read_text(encoding="utf-8"))
        for name in found
    ]


async def migrate(database: Database) -> Sequence[Migration]:
    """Apply what is missing, all or nothing, one process at a time; return what was applied."""
    async with database.transaction() as connection:
        await connection.execute(
            "SELECT set_config('lock_timeout', '0', true), pg_advisory_xact_lock(%s)", [LOCK_KEY]
        )
        if connection.info.server_version < MIN_VERSION:
            raise StoreError(
                f"PostgreSQL {connection.info.server_version // 10_000} is too old; 15 is needed"
            )
        await connection.execute(_FIRST)
        done = (await fetch(connection, "SELECT coalesce(max(version), 0) FROM nacre.schema_versions"))[0][0]
        known = migrations()
        if done > known[-1].version:
            raise StoreError(_too_new(done, known[-1].version))
        due = [one for one in known if one.version > done]
        for one in due:
            await connection.execute(one.sql)
            await connection.execute(
                "INSERT INTO nacre.schema_versions (version, name) VALUES (%s, %s)", [one.version, one.name]
            )
        return due


async def schema_state(database: Database) -> SchemaState:
    """Return the state of the schema without changing anything."""
    async with database.transaction() as connection:
        # Read from the catalogue, which any role may do.
        has_table = (await fetch(connection, "SELECT to_regclass('nacre.schema_versions') IS NOT NULL"))[0][0]
        version = 0
        if has_table:
            version = (
                await fetch(connection, "SELECT coalesce(max(version), 0) FROM nacre.schema_versions")
            )[0][0]
        available = await fetch(
            connection,
            "SELECT name FROM pg_available_extensions WHERE name IN ('vector', 'pg_trgm') ORDER BY name",
        )
        bypasses = await fetch(
            connection,
            "SELECT rolsuper OR rolbypassrls OR pg_has_role(pg_roles.oid, nspowner, 'MEMBER')"
            " FROM pg_roles, pg_namespace WHERE rolname = session_user AND nspname = 'nacre'",
        )
        return SchemaState(
            version=version,
            wanted=migrations()[-1].version,
            server=connection.info.parameter_status("server_version") or "",
            extensions=tuple(name for (name,) in available),
            bypasses=bool(bypasses and bypasses[0][0]),
        )


async def require_schema(database: Database) -> SchemaState:
    """Return the state of the schema; raises `StoreError` in one line unless this nacre works on it."""
    state = await schema_state(database)
    if state.problem:
        raise StoreError(state.problem)
    return state
