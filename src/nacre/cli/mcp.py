"""`nacre mcp`: memory, past sessions and mail as an MCP server for other people's agents."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nacre.cli.options import RunOptions
from nacre.errors import ConfigError

if TYPE_CHECKING:
    from nacre.mcp_server.base import Options

MAX_PORT = 65_535
NEEDS_EXTRA = "nacre mcp needs the MCP SDK; install it with: pip install 'nacre[mcp]'"


@click.command(short_help="Serve memory to other agents over MCP.")
@click.option(
    "--project",
    "projects",
    multiple=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="Serve the memory of this project; may be given again. Default: the client's roots, else here.",
)
@click.option("--read-only", is_flag=True, help="Offer no tool that changes anything.")
@click.option(
    "--local", is_flag=True, help="The client's model is on this machine: tell local-only memories."
)
@click.pass_obj
def mcp(options: RunOptions, /, projects: tuple[Path, ...], *, read_only: bool, local: bool) -> None:
    """Serve memory, past sessions and mail over MCP on stdin and stdout, until the client ends it."""
    from nacre.mcp_server.base import Options

    asked = Options(projects=tuple(one.resolve() for one in projects), read_only=read_only, local=local)
    with contextlib.suppress(KeyboardInterrupt):
        _serve(asked)


def _serve(asked: Options) -> None:
    # The SDK builds thousands of objects that all stay: looking for garbage among them is a quarter of
    # the time until the first answer.
    gc.disable()
    try:
        from nacre.mcp_server.stdio import serve_stdio
    except ModuleNotFoundError as error:
        if error.name and error.name.partition(".")[0] in {"mcp", "mcp_types"}:
            raise ConfigError(NEEDS_EXTRA) from error
        raise
    finally:
        gc.enable()
    gc.freeze()
    asyncio.run(serve_stdio(asked))
