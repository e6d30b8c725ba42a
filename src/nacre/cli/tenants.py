"""`nacre tenants`: the tenants of a server with a database (S3)."""

from __future__ import annotations

import asyncio

import click

from nacre.cli.options import database_option, open_database
from nacre.cli.output import print_json, printable

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
