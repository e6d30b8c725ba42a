"""`nacre worker`: run the background jobs of a server with a database (S5)."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from dataclasses import replace
from importlib.util import find_spec

import click

from nacre.cli.options import RunOptions, database_option, load_settings, open_database
from nacre.cli.serve import log_to_stderr
from nacre.errors import ConfigError
from nacre.formatting import how_to_install

MAX_CONCURRENCY = 64


@click.command(short_help="Run background jobs of a server.")
@click.option(
    "--concurrency", type=click.IntRange(1, MAX_CONCURRENCY), default=4, show_default=True, metavar="N",
    help="Jobs at once.",
)  # fmt: skip
@click.option("--log", is_flag=True, help="Print a line of JSON to stderr for each job, without content.")
@database_option
@click.option("--json", "as_json", is_flag=True, help="Print the process as one JSON document.")
@click.pass_obj
def worker(
    options: RunOptions, /, *, database: str | None, concurrency: int, log: bool, as_json: bool
) -> None:
    """Run the jobs of all tenants in a database: extraction, consolidation, indexing.

    Any number of workers share the jobs; those of a worker that was killed go to another one. SIGTERM and
    Ctrl-C let it finish what it runs, then it ends with exit code 0.
    """
    opened = open_database(database, is_server=True)
    if find_spec("pgqueuer") is None:
        raise ConfigError(f"a worker needs pgqueuer; install it with: {how_to_install('postgres')}")
    from nacre.app.shared_store import COPIES
    from nacre.server.postgres import DatabaseSpaces
    from nacre.server.worker import Worker
    from nacre.store.postgres.schema import require_schema

    asyncio.run(require_schema(open_database(database)))
    if log:
        log_to_stderr()
    settings = load_settings(options)
    served = replace(settings, home=settings.home / COPIES)
    spaces = DatabaseSpaces(opened, served)

    async def run() -> None:
        stop = asyncio.Event()
        for one in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(one, stop.set)
        ready = {"pid": os.getpid(), "concurrency": concurrency}
        print(
            json.dumps(ready) if as_json else f"worker {os.getpid()} runs up to {concurrency} jobs",
            flush=True,
        )
        try:
            await Worker(opened, spaces, served).run(concurrency=concurrency, stop=stop)
        finally:
            await spaces.close()

    asyncio.run(run())
