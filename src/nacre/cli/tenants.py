"""`nacre tenants`: the tenants of a server with a database (S3)."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import click

from nacre.cli.db import print_counts
from nacre.cli.options import database_option, open_database
from nacre.cli.output import print_error, print_json, printable
from nacre.errors import ConfigError

CREDENTIAL = re.compile(r"env:[A-Za-z_][A-Za-z0-9_]*|file:/.+")
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


@click.group(short_help="Create, export and erase tenants of a server.")
def tenants() -> None:
    """Create, list, export and erase tenants, with the address of the tables' owner."""


@tenants.command()
@click.argument("name", metavar="TENANT")
@database_option
@json_option
def create(name: str, *, database: str | None, as_json: bool) -> None:
    """Create a tenant; `nacre keys create --tenant` then makes keys for its users."""
    opened = open_database(database)
    from nacre.server.postgres import create_tenant

    asyncio.run(create_tenant(opened, name))
    if as_json:
        print_json({"tenant": name})
    else:
        print(f"created {printable(name)}")


@tenants.command("list")
@database_option
@json_option
def list_(*, database: str | None, as_json: bool) -> None:
    """List the tenants."""
    opened = open_database(database)
    from nacre.server.postgres import tenant_names

    found = asyncio.run(tenant_names(opened))
    if as_json:
        print_json([{"tenant": name} for name in found])
    elif found:
        for name in found:
            print(printable(name))
    else:
        print("There are no tenants yet. Create one with `nacre tenants create`.")


@tenants.command()
@click.argument("name", metavar="TENANT")
@click.option("--model", required=True, metavar="MODEL", help="Model of the tenant's background jobs.")
@click.option(
    "--credential", required=True, metavar="REFERENCE",
    help="Where workers find its key: env:NAME or file:/path. The key itself is never stored.",
)  # fmt: skip
@click.option(
    "--daily-usd", type=click.FloatRange(min=0), required=True, metavar="USD",
    help="What jobs may cost a day (UTC); further ones run without a model.",
)  # fmt: skip
@database_option
def model(name: str, *, model: str, credential: str, daily_usd: float, database: str | None) -> None:
    """Let the background jobs of a tenant use a model."""
    if not CREDENTIAL.fullmatch(credential):
        raise ConfigError("name the credential as env:NAME or file:/path; the key itself is not stored")
    opened = open_database(database)
    from nacre.server.postgres import tenant_names
    from nacre.store.postgres.job_rows import JobRows

    async def change() -> None:
        if name not in await tenant_names(opened):
            raise ConfigError(f"there is no tenant {name!r}; `nacre tenants list` shows them")
        await JobRows(opened).set_model(name, model, credential, daily_usd)

    asyncio.run(change())
    print(f"jobs of {printable(name)} use {printable(model)}, for at most {daily_usd:g} USD a day")


@tenants.command()
@click.argument("name", metavar="TENANT")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--user", help="Only what belongs to this user: memories, sessions, mail, log entries.")
@database_option
@json_option
def export(name: str, file: Path, *, user: str | None, database: str | None, as_json: bool) -> None:
    """Write the rows of a tenant, or of one user, to FILE: JSON Lines, compressed.

    `nacre tenants import` inserts them into another database.
    """
    opened = open_database(database)
    from nacre.server.postgres import require_tenant
    from nacre.store.postgres.archive import export_rows

    asyncio.run(require_tenant(opened, name))
    print_counts(asyncio.run(export_rows(opened, file, [name], user=user)), f"wrote {file}", as_json=as_json)


@tenants.command("import")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@database_option
@json_option
def import_(file: Path, *, database: str | None, as_json: bool) -> None:
    """Insert the rows that `nacre tenants export` wrote: a new tenant, or a new user of one that exists."""
    opened = open_database(database)
    from nacre.store.postgres.archive import restore_rows

    print_counts(asyncio.run(restore_rows(opened, file)), f"imported {file}", as_json=as_json)


@tenants.command()
@click.argument("name", metavar="TENANT")
@click.option("--user", help="Only this user, with memories, sessions, mail, keys and log entries.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@database_option
@json_option
def erase(name: str, *, user: str | None, yes: bool, database: str | None, as_json: bool) -> int:
    """Remove a tenant, or one of its users, for good, and search for what is left.

    Changes that the user made to memories of the whole tenant stay. Servers remove their copies within a
    minute of their next request. Backups and the database's own logs are yours to delete. Exit code 1 if
    something is left.
    """
    opened = open_database(database)
    from nacre.app.shared_store import folder_of_user
    from nacre.server.postgres import require_tenant
    from nacre.store.postgres.archive import erase_rows

    asyncio.run(require_tenant(opened, name))
    what = f"user {user!r} of tenant {name!r}" if user else f"tenant {name!r}"
    if not yes:
        click.confirm(f"Remove {what} for good?", abort=True, err=True)
    erased = asyncio.run(erase_rows(opened, name, user, folder_of=folder_of_user))
    if as_json:
        print_json({"removed": dict(erased.removed), "left": dict(erased.left)})
    else:
        print_counts(dict(erased.removed), f"removed {what}", as_json=False)
    for table, number in erased.left.items():
        print_error(f"{number:,} rows of {table} still name {what}")
    return 1 if erased.left else 0
