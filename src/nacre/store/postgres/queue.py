"""The queue of background jobs, PgQueuer's: it holds the ids of job rows and hands them to workers (S5)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TYPE_CHECKING

from pgqueuer import PsycopgDriver, Queries, QueueManager
from pgqueuer.adapters.persistence.qb import (
    QueryBuilderEnvironment,
    QueryQueueBuilder,
    QuerySchedulerBuilder,
)
from pgqueuer.domain.settings import DBSettings
from pgqueuer.errors import RetryRequested
from pgqueuer.models import Job

from nacre.store.postgres.database import Database, DatabaseUnavailableError

if TYPE_CHECKING:
    from nacre.store.postgres.database import Connection

SCHEMA = "nacre_queue"
ENTRYPOINT = "job"
HEARTBEAT_SECONDS = 10
"""A job whose worker gave no sign of life for so long goes to another one."""
POLL_SECONDS = 5
RECONNECT_SECONDS = 1.0
_LOG = logging.getLogger("nacre.server")


class RetryLaterError(Exception):
    """Raised by the function that runs a job, to run it again after some seconds."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"again in {seconds:g} s")
        self.seconds = seconds


def _queries(connection: Connection) -> Queries:
    settings = DBSettings(db_schema=SCHEMA)
    return Queries(
        PsycopgDriver(connection),
        QueryBuilderEnvironment(settings),
        QueryQueueBuilder(settings),
        QuerySchedulerBuilder(settings),
    )


async def enqueue(connection: Connection, job: str) -> None:
    """Add a job to the queue, in the transaction of its row."""
    await _queries(connection).enqueue(ENTRYPOINT, job.encode(), dedupe_key=job)


async def work(
    database: Database, run: Callable[[str], Awaitable[None]], *, concurrency: int, stop: asyncio.Event
) -> None:
    """Run jobs until `stop` is set, then finish those in progress; reconnects when the database restarts."""
    # PgQueuer logs tracebacks, whose lines may name what is in a memory; our own log has the reason.
    logging.getLogger("pgqueuer").setLevel(logging.CRITICAL)
    while not stop.is_set():
        try:
            async with database.session() as connection:
                await _work(connection, run, concurrency, stop)
        except DatabaseUnavailableError as error:
            _LOG.warning('{"event": "database not available", "error": "%s"}', type(error.__cause__).__name__)
            await asyncio.sleep(RECONNECT_SECONDS)


async def _work(
    connection: Connection, run: Callable[[str], Awaitable[None]], concurrency: int, stop: asyncio.Event
) -> None:
    manager = QueueManager(_queries(connection))
    free = asyncio.Semaphore(concurrency)

    @manager.entrypoint(ENTRYPOINT)
    async def job(one: Job) -> None:
        async with free:
            try:
                await run((one.payload or b"").decode())
            except RetryLaterError as later:
                raise RetryRequested(timedelta(seconds=later.seconds)) from later
            except DatabaseUnavailableError as error:
                raise RetryRequested(timedelta(seconds=RECONNECT_SECONDS)) from error

    stopping = asyncio.create_task(_stop(manager, stop))
    try:
        await manager.run(
            dequeue_timeout=timedelta(seconds=POLL_SECONDS),
            batch_size=1,
            max_concurrent_tasks=max(2, concurrency),
            heartbeat_timeout=timedelta(seconds=HEARTBEAT_SECONDS),
            shutdown_on_listener_failure=True,
        )
    finally:
        stopping.cancel()


async def _stop(manager: QueueManager, stop: asyncio.Event) -> None:
    await stop.wait()
    manager.shutdown.set()
