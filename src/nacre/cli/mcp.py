"""`nacre mcp`: serve memory, past sessions and mail over MCP."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nacre.cli.options import RunOptions
from nacre.cli.output import print_error
from nacre.errors import ConfigError
from nacre.formatting import how_to_install

if TYPE_CHECKING:
    from nacre.integrations.mcp_server.base import ServerOptions

MAX_PORT = 65_535
TOKEN = "NACRE_MCP_TOKEN"
PROOFS = ("mcp", "mcp_types")
"""Modules that prove that the SDK is installed, and not its first version."""
BY_HAND = (
    "this speaks MCP to a program that starts it, such as: claude mcp add nacre -- nacre mcp; Ctrl-C ends it"
)


def require_sdk() -> None:
    """Raise `ConfigError` if the SDK is missing; it is located, not loaded."""
    if any(find_spec(module) is None for module in PROOFS):
        raise ConfigError(f"nacre mcp needs the MCP SDK; install it with: {how_to_install('mcp')}")


@click.command(short_help="Serve memory to other agents over MCP.")
@click.option(
    "--project",
    "projects",
    multiple=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="Project to serve; may be repeated. Default: the client's roots, else this directory.",
)
@click.option("--read-only", is_flag=True, help="Offer no tool that changes anything.")
@click.option(
    "--local", is_flag=True, help="The client's model is on this machine: show local-only memories."
)
@click.option(
    "--http", is_flag=True, help="Serve on a loopback port with a token instead of stdin and stdout."
)
@click.option(
    "--port", type=click.IntRange(0, MAX_PORT), metavar="N", help="Port for --http; default: any free port."
)
@click.pass_obj
def mcp(
    options: RunOptions,
    /,
    projects: tuple[Path, ...],
    *,
    read_only: bool,
    local: bool,
    http: bool,
    port: int | None,
) -> None:
    """Serve memory, past sessions and mail over MCP on stdin and stdout until the client closes them.

    With --http, prints the address, and a token unless NACRE_MCP_TOKEN holds one; Ctrl-C ends it.
    """
    if port is not None and not http:
        raise click.UsageError("--port requires --http")
    require_sdk()  # before a client is greeted that could not be served
    from nacre.integrations.mcp_server.base import ServerOptions

    asked = ServerOptions(projects=tuple(one.resolve() for one in projects), read_only=read_only, local=local)
    with contextlib.suppress(KeyboardInterrupt):
        if http:
            with _loading():
                from nacre.asgi import bound
                from nacre.integrations.mcp_server.http import HOST, address, serve_http, sound_token
            given = os.environ.pop(TOKEN, None)  # child processes must not inherit it
            token = sound_token(given)
            listening = bound(HOST, port or 0)
            print(address(listening), flush=True)
            if not given:
                print_error(f"token: {token} (set {TOKEN} to choose one)")
            asyncio.run(serve_http(asked, listening, token))
        else:
            _serve_stdio(asked)


def _serve_stdio(asked: ServerOptions) -> None:
    from nacre.integrations.mcp_server.greeting import greet

    if sys.stdin.isatty():
        print_error(BY_HAND)  # at a terminal, both the user and the server would wait forever
    greeted = greet()
    if not greeted.line:
        return  # the client has gone without a word
    with _loading():
        from nacre.integrations.mcp_server.stdio import serve_stdio
    asyncio.run(serve_stdio(asked, greeted))


@contextmanager
def _loading() -> Iterator[None]:
    """Load the SDK without garbage collection: it creates thousands of objects that all stay."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
    gc.freeze()
