"""`nacre console`: the web console for one person, on loopback (W1)."""

from __future__ import annotations

import asyncio
import json
import webbrowser
from contextlib import suppress
from dataclasses import replace

import click

from nacre.cli.options import RunOptions, load_settings
from nacre.cli.output import print_error

MAX_PORT = 65_535
GRACE_SECONDS = 1
HOST = "127.0.0.1"


@click.command(short_help="Open the web console.")
@click.option(
    "--port", type=click.IntRange(0, MAX_PORT), default=0, metavar="N", help="Port; default: any free port."
)
@click.option("--no-browser", is_flag=True, help="Only print the address.")
@click.option("--json", "as_json", is_flag=True, help="Print the address as one JSON document.")
@click.pass_obj
def console(options: RunOptions, /, *, port: int, no_browser: bool, as_json: bool) -> None:
    """Show in a browser what your agent knows, and what the model saw, until Ctrl-C.

    The printed address signs one browser in, once; the pages are served on loopback and to that browser only.
    """
    from nacre.cli.serve import check_requirements, file_parts, own_hosts, quiet_end

    check_requirements(HOST, behind_proxy=False, command="nacre console")
    from nacre.asgi import bound
    from nacre.asgi import serve as serve_app
    from nacre.cli.keys import account_name
    from nacre.loopback import ConnectionLimit
    from nacre.server.api import build_api
    from nacre.server.console.access import LoginLink, OneKey
    from nacre.server.console.live import stop_streams
    from nacre.server.keys import LOCAL_TENANT, new_key
    from nacre.server.spaces import MAX_INDEX_BYTES

    settings = load_settings(options)
    key = replace(new_key(tenant=LOCAL_TENANT, user=account_name(), role="admin"), local=True)
    link = LoginLink(key)
    listening = bound(HOST, port)
    number = listening.getsockname()[1]
    url = f"http://{HOST}:{number}/console/enter?token={link.token}"
    limit = ConnectionLimit()
    limit.on_stop = stop_streams
    parts = replace(
        file_parts(settings, MAX_INDEX_BYTES),
        keys=OneKey(key),
        link=link,
        hosts=own_hosts(number),
        connections=limit,
        mcp=None,
    )
    print(json.dumps({"url": url}) if as_json else url, flush=True)

    async def run() -> None:
        if not (no_browser or as_json):
            await asyncio.to_thread(_open, url)
        await serve_app(build_api(parts), listening, limit=limit, grace_seconds=GRACE_SECONDS)

    with suppress(KeyboardInterrupt), quiet_end():
        asyncio.run(run())


def _open(url: str) -> None:
    if not webbrowser.open(url):
        print_error("no browser was found; open the address above")
