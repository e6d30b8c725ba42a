"""`nacre tenants`: the tenants of a server with a database (S3)."""

from __future__ import annotations

import asyncio
import re

import click

from nacre.cli.options import database_option, open_database
from nacre.cli.output import print_json, printable
from nacre.errors import ConfigError

CREDENTIAL = re.compile(r"env:[A-Za-z_][A-Za-z0-9_]*|file:/.+")
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


@click.group(short_help="Create and list tenants of a server.")
def tenants() -> None:
    """Create and list tenants, with the address of the tables' owner."""


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
