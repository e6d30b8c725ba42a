"""`nacre db`: schema, backup, and the move of a home into the database behind `nacre serve` (S2)."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import click

from nacre.cli.options import database_option, open_database
from nacre.cli.output import print_error, print_json, printable

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


@click.group(short_help="Set up and check the database of a server.")
def db() -> None:
    """Set up and check the PostgreSQL database of `nacre serve`."""


@db.command()
@database_option
@json_option
def migrate(database: str | None, *, as_json: bool) -> None:
    """Create or update the tables, with the address of a role that may create them; safe to repeat."""
    opened = open_database(database)
    from nacre.store.postgres.schema import migrate, schema_state

    done = asyncio.run(migrate(opened))
    state = asyncio.run(schema_state(opened))
    if as_json:
        print_json({"schema": state.version, "applied": [one.name for one in done]})
    else:
        for one in done:
            print(f"applied {one.name}")
        print(f"the database has schema {state.version}")


@db.command()
@database_option
@json_option
def check(database: str | None, *, as_json: bool) -> int:
    """Check that the database can be used by this version of nacre; exit code 1 if not."""
    opened = open_database(database)
    from nacre.store.postgres.schema import schema_state

    state = asyncio.run(schema_state(opened))
    if as_json:
        print_json({
            "ok": not state.problem,
            "problem": state.problem or None,
            "schema": state.version,
            "wanted": state.wanted,
            "postgresql": state.server,
            "extensions": [*state.extensions],
            "role_bypasses_tenants": state.bypasses,
        })  # fmt: skip
    elif state.problem:
        print_error(state.problem)
    else:
        print(f"PostgreSQL {state.server}, schema {state.version}: ready")
        if state.bypasses:
            print("this address can change every tenant's rows; let `nacre serve` use one that cannot")
    return 1 if state.problem else 0


@db.command("import", short_help="Copy the memories and sessions of a home into the database.")
@click.argument("home", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--tenant", required=True, help="Tenant that gets them; it must exist.")
@click.option("--user", required=True, help="User whose memories and sessions they are.")
@click.option("--dry-run", is_flag=True, help="Show what would be copied without writing anything.")
@database_option
@json_option
def import_(home: Path, *, tenant: str, user: str, dry_run: bool, database: str | None, as_json: bool) -> int:
    """Copy memories with their history, and sessions with their files, from HOME (such as ~/.nacre).

    The home stays as it is. What the database has already is left out, so that the command can be repeated.
    Exit code 1 if something could not be copied.
    """
    opened = open_database(database)
    from nacre.server.import_home import import_home
    from nacre.settings import load

    settings = load(Path.cwd(), {**os.environ, "NACRE_HOME": str(home.absolute())})
    parts = asyncio.run(import_home(settings, opened, tenant, user, is_dry=dry_run))
    if as_json:
        print_json({
            "dry_run": dry_run,
            **{kind: [{"name": one.name, "count": one.count, "problem": one.problem or None} for one in found]
               for kind, found in parts.items()},
        })  # fmt: skip
    for kind, found in parts.items():
        unit = "changes" if kind == "spaces" else "bytes"
        for one in found:
            if one.problem:
                print_error(f"not copied: {one.name}: {one.problem}")
            elif not as_json:
                done = f"{one.count:,} {unit}" if one.count else "in the database already"
                print(printable(f"{'would copy ' if dry_run and one.count else ''}{one.name}: {done}"))
    return 1 if any(one.problem for found in parts.values() for one in found) else 0


@db.command(short_help="Write the rows of all tenants to a file.")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@database_option
@json_option
def backup(file: Path, *, database: str | None, as_json: bool) -> None:
    """Write the rows of all tenants to FILE, each tenant as of one moment; readable by you alone.

    It contains all memories and sessions. The database's own tools (pg_dump, WAL archives) work as well.
    """
    opened = open_database(database)
    from nacre.server.postgres import tenant_names
    from nacre.store.postgres.archive import export_rows

    async def written() -> dict[str, int]:
        return await export_rows(opened, file, await tenant_names(opened))

    print_counts(asyncio.run(written()), f"wrote {file}", as_json=as_json)


@db.command(short_help="Insert the rows of a backup.")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@database_option
@json_option
def restore(file: Path, *, database: str | None, as_json: bool) -> None:
    """Insert the rows of FILE, written by `nacre db backup` or `nacre tenants export`.

    The database needs the schema of the version that wrote FILE, and none of its tenants.
    """
    opened = open_database(database)
    from nacre.store.postgres.archive import restore_rows

    print_counts(asyncio.run(restore_rows(opened, file)), f"restored {file}", as_json=as_json)


def print_counts(counts: dict[str, int], done: str, *, as_json: bool) -> None:
    """Print the number of rows by table."""
    if as_json:
        print_json({"rows": {**counts}})
        return
    print(printable(done))
    for table, number in counts.items():
        print(f"{table}: {number:,}")
