"""The rows of background jobs, and what a tenant's jobs may spend (S5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from psycopg.errors import UniqueViolation
from psycopg.types.json import Jsonb

from nacre.messages.blocks import JsonObject
from nacre.store.postgres.database import Database, fetch
from nacre.store.postgres.queue import RetryLaterError, enqueue

BUSY_SECONDS = 1.0
"""Wait for a job of the same key that runs."""
_COLUMNS = "id::text, user_name, kind, space, status, attempts, created, finished, error, result"


@dataclass(frozen=True, slots=True)
class JobRow:
    """What a list of jobs has."""

    id: str
    user: str
    kind: str
    space: str
    status: str
    attempts: int
    created: datetime
    finished: datetime | None
    error: str | None
    result: JsonObject | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenJob:
    """A job that this worker runs."""

    id: str
    tenant: str
    user: str
    kind: str
    space: str
    input: JsonObject
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantModel:
    """The model of a tenant's jobs, and what they may still spend today."""

    model: str
    credential: str
    daily_usd: float
    left_usd: float


class JobRows:
    """The jobs of all tenants."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(
        self, tenant: str, user: str, *, kind: str, space: str, key: str, given: Mapping[str, Any]
    ) -> JobRow:
        """Add a job to the queue; one of its key that waits takes the newer input instead."""
        async with self._database.transaction(tenant) as connection:
            rows = await fetch(
                connection,
                "INSERT INTO nacre.jobs (tenant, user_name, kind, space, key, input)"
                " VALUES (%s, %s, %s, %s, coalesce(nullif(%s, ''), gen_random_uuid()::text), %s)"
                " ON CONFLICT (tenant, key) WHERE status = 'queued'"
                " DO UPDATE SET input = EXCLUDED.input, created = now()"
                f" RETURNING {_COLUMNS}, xmax = 0",
                [tenant, user, kind, space, key, Jsonb(dict(given))],
            )
            *columns, is_new = rows[0]
            job = JobRow(*columns)
            if is_new:
                await enqueue(connection, job.id)
        return job

    async def newest(self, tenant: str, *, limit: int, user: str = "", status: str = "") -> Sequence[JobRow]:
        """Return the newest jobs of a tenant, or of one of its users."""
        async with self._database.transaction(tenant) as connection:
            rows = await fetch(
                connection,
                f"SELECT {_COLUMNS} FROM nacre.jobs WHERE tenant = %s AND %s IN ('', user_name)"
                " AND %s IN ('', status) ORDER BY created DESC, id LIMIT %s",
                [tenant, user, status, limit],
            )
        return [JobRow(*row) for row in rows]

    async def take(self, id_: str) -> TakenJob | None:
        """Mark a job as running; None if it has ended. Raises `RetryLaterError` while its key is busy."""
        async with self._database.transaction(key=id_) as connection:
            found = await fetch(connection, "SELECT tenant, key FROM nacre.jobs WHERE id = %s", [id_])
        if not found:
            return None
        tenant, key = found[0]
        async with self._database.transaction(tenant) as connection:
            # Workers that take jobs of one key wait for each other here.
            await connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [tenant + key])
            busy = "SELECT 1 FROM nacre.jobs WHERE key = %s AND status = 'running' AND id <> %s"
            if await fetch(connection, busy, [key, id_]):
                raise RetryLaterError(BUSY_SECONDS)
            rows = await fetch(
                connection,
                "UPDATE nacre.jobs SET status = 'running', attempts = attempts + 1, started = now()"
                " WHERE id = %s AND status IN ('queued', 'running')"
                " RETURNING user_name, kind, space, input, attempts",
                [id_],
            )
        if not rows:
            return None
        user, kind, space, given, attempt = rows[0]
        return TakenJob(
            id=id_, tenant=tenant, user=user, kind=kind, space=space, input=given or {}, attempt=attempt
        )

    async def finish(self, job: TakenJob, *, result: JsonObject | None = None, error: str = "") -> None:
        """Record how a job ended, unless another worker has taken it meanwhile; its input is removed."""
        async with self._database.transaction(job.tenant) as connection:
            await connection.execute(
                "UPDATE nacre.jobs SET status = %s, finished = now(), input = NULL, error = %s, result = %s"
                " WHERE id = %s AND status = 'running' AND attempts = %s",
                [
                    "failed" if error else "completed",
                    error.replace("\0", "") or None,
                    None if result is None else Jsonb(result),
                    job.id,
                    job.attempt,
                ],
            )

    async def put_back(self, job: TakenJob, error: str) -> None:
        """Let a job wait for its next attempt; one that is replaced by a newer of its key has ended."""
        query = (
            "UPDATE nacre.jobs SET status = 'queued', error = %s"
            " WHERE id = %s AND status = 'running' AND attempts = %s"
        )
        try:
            async with self._database.transaction(job.tenant) as connection:
                try:
                    await connection.execute(query, [error.replace("\0", ""), job.id, job.attempt])
                except UniqueViolation as violation:
                    raise _ReplacedError from violation
        except _ReplacedError:
            await self.finish(job, error=f"replaced by a newer job; {error}")

    async def in_queue(self) -> dict[str, int]:
        """Return how many jobs of all tenants wait and run."""
        async with self._database.transaction() as connection:
            [row] = await fetch(
                connection,
                "SELECT count(*) FILTER (WHERE status = 'queued'), count(*) FILTER (WHERE status = 'picked')"
                " FROM nacre_queue.pgqueuer",
            )
        return {"waiting": row[0], "running": row[1]}

    async def model(self, tenant: str) -> TenantModel | None:
        """Return the model of a tenant's jobs, if it has named one."""
        async with self._database.transaction(tenant) as connection:
            rows = await fetch(
                connection,
                "SELECT model, credential, daily_usd, daily_usd - coalesce((SELECT usd FROM nacre.usage WHERE"
                " tenant = %s AND day = (now() AT TIME ZONE 'UTC')::date), 0)"
                " FROM nacre.tenant_models WHERE tenant = %s",
                [tenant, tenant],
            )
        if not rows:
            return None
        model, credential, daily_usd, left_usd = rows[0]
        return TenantModel(model=model, credential=credential, daily_usd=daily_usd, left_usd=left_usd)

    async def set_model(self, tenant: str, model: str, credential: str, daily_usd: float) -> None:
        """Name the model of a tenant's jobs, with the address of the tables' owner."""
        async with self._database.transaction(tenant) as connection:
            await connection.execute(
                "INSERT INTO nacre.tenant_models (tenant, model, credential, daily_usd)"
                " VALUES (%s, %s, %s, %s) ON CONFLICT (tenant) DO UPDATE SET model = EXCLUDED.model,"
                " credential = EXCLUDED.credential, daily_usd = EXCLUDED.daily_usd",
                [tenant, model, credential, daily_usd],
            )

    async def spend(self, tenant: str, *, requests: int, sent: int, received: int, usd: float) -> None:
        """Add to what the tenant's jobs used today."""
        async with self._database.transaction(tenant) as connection:
            await connection.execute(
                "INSERT INTO nacre.usage AS old (tenant, day, requests, input, output, usd)"
                " VALUES (%s, (now() AT TIME ZONE 'UTC')::date, %s, %s, %s, %s)"
                " ON CONFLICT (tenant, day) DO UPDATE SET requests = old.requests + EXCLUDED.requests,"
                " input = old.input + EXCLUDED.input, output = old.output + EXCLUDED.output,"
                " usd = old.usd + EXCLUDED.usd",
                [tenant, requests, sent, received, usd],
            )


class _ReplacedError(Exception):
    """A newer job of the key waits."""
