"""`nacre serve`: offer memory over HTTP to clients with a key (S7-S9)."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import click

from nacre.cli.options import RunOptions, database_option, load_settings, open_database
from nacre.cli.output import print_error
from nacre.errors import ConfigError
from nacre.formatting import how_to_install

if TYPE_CHECKING:
    from nacre.asgi import App
    from nacre.loopback import ConnectionLimit
    from nacre.server.api import ServerParts
    from nacre.server.keys import KeyStore
    from nacre.settings import Settings

MAX_PORT = 65_535
LOOPBACK = ("127.0.0.1", "localhost", "::1")
FIRST_USER = "owner"
GATEWAY_PATH = "/gateway"
"""As `MOUNTED_AT` of the gateway, which is imported only where it is asked for."""
GRACE_SECONDS = 10
"""Time for requests in progress when the process is told to stop."""
MCP_MODULES = ("mcp", "mcp_types")


@click.command(short_help="Serve memory over HTTP.")
@click.option(
    "--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="Address to listen on."
)
@click.option(
    "--port", type=click.IntRange(0, MAX_PORT), default=0, metavar="N", help="Port; default: any free port."
)
@click.option(
    "--behind-proxy", is_flag=True, help="A reverse proxy encrypts: allow an address other than loopback."
)
@click.option("--log", is_flag=True, help="Print a line of JSON to stderr for each request, without content.")
@click.option(
    "--index-memory",
    type=click.IntRange(16),
    default=512,
    show_default=True,
    metavar="MB",
    help="Memory for the search indexes of open spaces; the one used longest ago is closed.",
)
@click.option(
    "--gateway", is_flag=True, help="Also be a gateway for agents, at /gateway; see `nacre gateway`."
)
@click.option(
    "--gateway-with",
    "extras",
    type=click.Choice(["keep-warm", "memory", "shrink"]),
    multiple=True,
    help="What the gateway does beside passing requests on; may be repeated.",
)
@click.option("--upstream", metavar="URL", help="Provider of the gateway; default: by the request.")
@database_option
@click.option("--json", "as_json", is_flag=True, help="Print the address as one JSON document.")
@click.pass_obj
def serve(
    options: RunOptions,
    /,
    *,
    host: str,
    port: int,
    behind_proxy: bool,
    database: str | None,
    index_memory: int,
    **flags: Any,
) -> None:
    """Serve memories and sessions over HTTP until Ctrl-C: REST at /v1 (GET /openapi.json describes it), MCP
    at /mcp, the web console at /console, with --gateway a gateway at /gateway.

    Clients send a key: `nacre keys create` makes one. Without any key, the first start creates one for an
    administrator and prints it. With a database, many tenants and several such processes share it.
    """
    check_requirements(host, behind_proxy=behind_proxy)
    _check_gateway(flags, host, is_shared=behind_proxy or bool(database))
    from nacre.asgi import bound
    from nacre.asgi import serve as serve_app
    from nacre.loopback import ConnectionLimit
    from nacre.server.api import build_api
    from nacre.server.console.live import stop_streams

    settings = load_settings(options)
    most = index_memory * 1024 * 1024
    parts = _database_parts(database, settings, most) if database else file_parts(settings, most)
    # A key file that cannot be read is reported before the address.
    has_key = bool(database) or bool(asyncio.run(parts.keys.list()))
    listening = bound(host, port)
    address, number = listening.getsockname()[:2]
    url = f"http://[{address}]:{number}" if ":" in address else f"http://{address}:{number}"
    limit = ConnectionLimit()
    limit.on_stop = stop_streams
    parts = replace(parts, hosts=frozenset() if behind_proxy else own_hosts(number), connections=limit)
    if flags["log"]:
        log_to_stderr()
    store = "postgres" if database else "files"
    app = build_api(parts)
    if flags["gateway"]:
        app = _with_gateway(app, settings, flags, limit=limit, port=number)
    _print_address(url, store=store, has_gateway=flags["gateway"], as_json=flags["as_json"])

    async def run() -> None:
        if not has_key:
            await _create_first_key(parts.keys)
        await serve_app(
            app,
            listening,
            limit=limit,
            grace_seconds=GRACE_SECONDS,
            behind_proxy=behind_proxy,
            date_header=not flags["gateway"],
        )

    with suppress(KeyboardInterrupt), quiet_end():
        asyncio.run(run())
    sys.stdout.flush()


async def _create_first_key(keys: KeyStore) -> None:
    from nacre.server.keys import LOCAL_TENANT, create_key, new_key

    key = new_key(tenant=LOCAL_TENANT, user=FIRST_USER, role="admin")
    text = await create_key(keys, key)
    print_error(f"key: {text} (shown once; `nacre keys revoke {key.id}` ends it)")


def _check_gateway(flags: Mapping[str, Any], host: str, *, is_shared: bool) -> None:
    """Refuse options of the gateway without it, and a gateway that others than one person could reach."""
    if not flags["gateway"] and (flags["extras"] or flags["upstream"]):
        raise click.UsageError(f"{'--gateway-with' if flags['extras'] else '--upstream'} needs --gateway")
    if flags["gateway"] and (host not in LOOPBACK or is_shared):
        raise ConfigError(
            "--gateway is for one person on loopback: clients send the key of their provider, so that nacre "
            "cannot ask for its own; leave out --behind-proxy and --database"
        )


def _print_address(url: str, *, store: str, has_gateway: bool, as_json: bool) -> None:
    gateway = f"{url}{GATEWAY_PATH}"
    if as_json:
        line = {"url": url, "pid": os.getpid(), "store": store}
        print(json.dumps({**line, "gateway": gateway} if has_gateway else line), flush=True)
        return
    print(url, flush=True)
    if has_gateway:
        print(f"\n  ANTHROPIC_BASE_URL={gateway}\n  OPENAI_BASE_URL={gateway}/v1", flush=True)


def _with_gateway(
    app: App, settings: Settings, flags: dict[str, Any], *, limit: ConnectionLimit, port: int
) -> App:
    from nacre.cli.gateway import request_shrinker
    from nacre.server.gateway.keep_warm import KeepWarmLimits
    from nacre.server.gateway.run import GatewayOptions, build_gateway, with_gateway
    from nacre.server.gateway.upstream import Upstream

    extras: tuple[str, ...] = flags["extras"]
    asked = GatewayOptions(
        home=settings.home,
        upstream=Upstream(flags["upstream"]),
        keep_warm=KeepWarmLimits() if "keep-warm" in extras else None,
        memory=settings if "memory" in extras else None,
        shrinker=request_shrinker(settings, None) if "shrink" in extras else None,
    )
    return with_gateway(app, build_gateway(asked, port, limit=limit))


def file_parts(settings: Settings, max_bytes: int) -> ServerParts:
    """Return what serves one person's files."""
    from nacre.cli.serve_mcp import files_mcp
    from nacre.server.api import ServerParts
    from nacre.server.audit_log import AuditFile
    from nacre.server.keys import KeyFile
    from nacre.server.spaces import FileSpaces

    return ServerParts(
        settings=settings,
        spaces=FileSpaces(settings, max_bytes=max_bytes),
        keys=KeyFile(settings.home),
        audit=AuditFile(settings.home),
        mcp=files_mcp(settings) if _has_mcp() else None,
    )


def check_requirements(host: str, *, behind_proxy: bool, command: str = "nacre serve") -> None:
    """Raise `ConfigError` for an address that needs a proxy, or a package that is missing."""
    if host not in LOOPBACK and not behind_proxy:
        raise ConfigError(
            f"{host} is not loopback, and keys would cross the network unencrypted; put a reverse proxy with "
            "TLS in front and add --behind-proxy"
        )
    missing = [module for module in ("starlette", "uvicorn", "jinja2") if find_spec(module) is None]
    if missing:
        raise ConfigError(f"{command} needs {missing[0]}; install it with: {how_to_install('server')}")


def own_hosts(port: int) -> frozenset[str]:
    """Return the values of the header Host by which a client on this machine addresses the server."""
    return frozenset(f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]"))


def _has_mcp() -> bool:
    """Whether the MCP SDK is installed; it is located, not loaded."""
    return all(find_spec(module) is not None for module in MCP_MODULES)


def log_to_stderr() -> None:
    """Print one line of JSON per request: operation, status, time and address, no content."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(message)s"))
    logger = logging.getLogger("nacre.server")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False


@contextmanager
def quiet_end() -> Iterator[None]:
    """Let SIGTERM end the process with 0 once the requests in progress are answered.

    The HTTP server drains on the signal, and then raises it again.
    """
    before = signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _database_parts(url: str, settings: Settings, max_bytes: int) -> ServerParts:
    """Return keys, audit log and spaces in a database whose schema fits; nothing of this machine's person."""
    opened = open_database(url, is_server=True)
    from nacre.app.shared_store import COPIES
    from nacre.cli.serve_mcp import database_mcp
    from nacre.server.api import ServerParts
    from nacre.server.postgres import AuditTable, DatabaseSpaces, KeyTable, RepeatedWrites
    from nacre.server.worker import DatabaseJobs, send_by_rows, settings_by_rows
    from nacre.store.postgres.schema import require_schema

    state = asyncio.run(require_schema(open_database(url)))
    if state.bypasses:
        print_error(
            "the database's address logs in with a role that could read every tenant's rows; better use one "
            "that is only a member of nacre_server"
        )
    served = replace(settings, home=settings.home / COPIES)
    spaces = DatabaseSpaces(opened, served, max_bytes=max_bytes)
    mail = send_by_rows(opened)
    return ServerParts(
        settings=served,
        spaces=spaces,
        keys=KeyTable(opened),
        audit=AuditTable(opened),
        jobs=DatabaseJobs(opened),
        mail=mail,
        mcp=database_mcp(served, spaces, mail) if _has_mcp() else None,
        repeated=RepeatedWrites(opened),
        tenant_settings=settings_by_rows(opened),
        check=partial(require_schema, opened),
        has_home=False,
    )
