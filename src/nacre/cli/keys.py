"""`nacre keys`: create, list and revoke keys of the server (S9)."""

from __future__ import annotations

import asyncio
import getpass
from dataclasses import replace
from typing import cast

import click

from nacre.cli.options import RunOptions, database_option, load_settings, open_database
from nacre.cli.output import print_error, print_json, print_table, printable
from nacre.clock import SYSTEM_CLOCK
from nacre.server.keys import LOCAL_TENANT, ROLES, ApiKey, KeyFile, KeyStore, Role, create_key, new_key
from nacre.server.spaces import check_space_name

MAX_DAYS = 3_650
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


@click.group(short_help="Create, list and revoke keys of the server.")
def keys() -> None:
    """Create, list and revoke keys of `nacre serve`."""


@keys.command()
@click.option("--tenant", default=LOCAL_TENANT, show_default=True, metavar="T", help="Tenant of the key.")
@click.option("--user", default=None, metavar="U", help="User of the key; default: your account's name.")
@click.option("--role", type=click.Choice(ROLES), default="member", show_default=True, help="What it allows.")
@click.option(
    "--space",
    "spaces",
    multiple=True,
    metavar="SPACE",
    help="Only this space; may be repeated. Default: all.",
)
@click.option(
    "--local", is_flag=True, help="The client's model is on this machine: show local-only memories."
)
@click.option("--expires", type=click.IntRange(1, MAX_DAYS), metavar="DAYS", help="Days until it expires.")
@database_option
@json_option
@click.pass_obj
def create(
    options: RunOptions,
    /,
    *,
    database: str | None,
    user: str | None,
    role: Role,
    as_json: bool,
    local: bool,
    **given: str | int | tuple[str, ...],
) -> None:
    """Create a key and print it once; only its hash is stored."""
    days = cast("int | None", given["expires"])
    key = new_key(tenant=str(given["tenant"]), user=user or account_name(), role=role, days=days)
    spaces = tuple(map(check_space_name, cast("tuple[str, ...]", given["spaces"])))
    key = replace(key, spaces=spaces, local=local)
    text = asyncio.run(create_key(_store(options, database), key))
    if as_json:
        print_json({**key.as_json(), "key": text})
    else:
        print(text)
        print_error(f"shown once; `nacre keys revoke {key.id}` ends it")


def account_name() -> str:
    """Return the name of the account that runs this."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # an account without an entry, as in a container
        return "owner"


def _store(options: RunOptions, database: str | None) -> KeyStore:
    if not database:
        return KeyFile(load_settings(options).home)
    opened = open_database(database)
    from nacre.server.postgres import KeyTable

    return KeyTable(opened)


@keys.command("list")
@database_option
@json_option
@click.pass_obj
def list_(options: RunOptions, /, *, database: str | None, as_json: bool) -> None:
    """List keys without their secrets."""
    found = asyncio.run(_store(options, database).list())
    if as_json:
        print_json([key.as_json() for key in found])
    elif found:
        has_tenants = bool(database)
        header = ["id", *(["tenant"] if has_tenants else []), "user", "role", "spaces", "created", "expires"]
        print_table([_row(key, has_tenants=has_tenants) for key in found], header=header)
    else:
        print("There are no keys yet. Create one with `nacre keys create`.")


def _row(key: ApiKey, *, has_tenants: bool) -> list[str]:
    expires = "never"
    if key.expires is not None:
        expires = "expired" if key.expires <= SYSTEM_CLOCK.now() else key.expires.date().isoformat()
    spaces = printable(", ".join(key.spaces) or "all")
    whose = [printable(one) for one in ((key.tenant, key.user) if has_tenants else (key.user,))]
    return [key.id, *whose, key.role, spaces, key.created.date().isoformat(), expires]


@keys.command()
@click.argument("id_", metavar="ID")
@database_option
@json_option
@click.pass_obj
def revoke(options: RunOptions, /, id_: str, *, database: str | None, as_json: bool) -> None:
    """End a key; a running server refuses it from the next request on."""
    asyncio.run(_store(options, database).revoke(id_))
    if as_json:
        print_json({"revoked": id_})
    else:
        print(f"revoked {printable(id_)}")
