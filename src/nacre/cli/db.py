"""`nacre db`: the schema of the database behind `nacre serve` (S2)."""

from __future__ import annotations

import asyncio

import click

from nacre.cli.options import database_option, open_database
from nacre.cli.output import print_error, print_json

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
