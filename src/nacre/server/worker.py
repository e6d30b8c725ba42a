"""Background jobs with a database: asked for by a server, carried out by `nacre worker` (S5).

A job may be run twice, when its worker was killed; its effect is in the result once, because a memory is
changed by one commit, which the second run finds.
"""

from __future__ import annotations

import asyncio
import json
import logging
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from http import HTTPStatus
from pathlib import Path
from typing import cast

from nacre.app.extract_once import ModelForJob, conversation, extract_with_model
from nacre.app.shared_store import inbox_of
from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.errors import MailError, NacreError, StoreError
from nacre.layers.l7_mail.letter import EVERYONE, MAIN, OTHER
from nacre.layers.l7_mail.post import Post
from nacre.messages.blocks import JsonObject
from nacre.server.administration import SendMail, sender_name
from nacre.server.console.page import TenantSettings
from nacre.server.jobs import MAX_JOBS, Job, JobInput, JobStatus, work_by_rule
from nacre.server.keys import ApiKey
from nacre.server.operation import ProblemError
from nacre.server.postgres import SWEEP_SECONDS, DatabaseSpaces
from nacre.server.schema import MailText
from nacre.server.spaces import Space
from nacre.session.meter import Meter
from nacre.settings import Settings
from nacre.store.postgres.database import Database, DatabaseUnavailableError
from nacre.store.postgres.job_rows import JobRow, JobRows, TakenJob
from nacre.store.postgres.queue import RetryLaterError, work
from nacre.store.postgres.session_rows import SessionRows

RETRY_WAITS = (2.0, 10.0, 60.0, 300.0)
"""Seconds before each further attempt of a job that failed; after the last one it is a dead letter."""
MAX_COMMITS = 1_000
"""Newest commits among which an earlier attempt's is searched."""
_LOG = logging.getLogger("nacre.server")


class DatabaseJobs:
    """The jobs of all tenants as rows; workers run them."""

    def __init__(self, database: Database) -> None:
        self._rows = JobRows(database)

    async def list(self, key: ApiKey, *, status: str = "") -> Sequence[Job]:
        # Results and errors name files of their user.
        user = "" if key.allows("admin") else key.user
        found = await self._rows.newest(key.tenant, user=user, limit=MAX_JOBS, status=status)
        return [_job(key.tenant, one) for one in found]

    async def start(self, wanted: JobInput, space: Space, *, tenant: str, user: str) -> Job:
        given = asdict(wanted)
        # What is done to a team's space is the same job for each user who asks; a conversation is its user's.
        owner = "" if wanted.kind != "extract" and wanted.space.startswith("team:") else user
        key = f"{owner}\n{wanted.key}" if wanted.key else ""
        row = await self._rows.add(tenant, user, kind=wanted.kind, space=wanted.space, key=key, given=given)
        return _job(tenant, row)

    async def gauges(self) -> Mapping[str, float]:
        return {f"nacre_jobs_{name}": count for name, count in (await self._rows.in_queue()).items()}

    async def close(self) -> None:
        """Nothing runs here."""


def send_by_rows(database: Database) -> SendMail:
    """Return what sends letters to sessions in a database."""

    async def send(key: ApiKey, text: MailText) -> JsonObject:
        if text.team or ":" in text.to or text.to == EVERYONE:
            raise ProblemError(
                HTTPStatus.UNPROCESSABLE_ENTITY, "write to a session by its id or the beginning of it"
            )
        try:
            session, inbox = await inbox_of(SessionRows(database, key.tenant, key.user), text.to)
        except MailError as error:
            raise ProblemError(HTTPStatus.NOT_FOUND, str(error)) from error
        post = Post(f"{OTHER}{sender_name(key.user)}", find=lambda _: inbox, everyone=lambda: ())
        sent = await post.send(MAIN, text.text, summary=text.summary)
        return {"to": [session], "ids": [*sent.ids], "waits": True}

    return send


def settings_by_rows(database: Database) -> TenantSettings:
    """Return what reads the settings of a key's tenant: the model of its jobs."""

    async def read(key: ApiKey) -> Mapping[str, object]:
        model = await JobRows(database).model(key.tenant)
        return {
            "model": model and model.model,
            "model.credential": model and model.credential,
            "model.daily_usd": model and model.daily_usd,
            "model.left_today_usd": model and round(max(0.0, model.left_usd), 4),
        }

    return read


def _job(tenant: str, row: JobRow) -> Job:
    return Job(
        id=row.id, kind=row.kind, space=row.space, tenant=tenant, user=row.user, created=row.created,
        status=cast("JobStatus", row.status), attempts=row.attempts, finished=row.finished, error=row.error,
        result=row.result,
    )  # fmt: skip


class Worker:
    """Runs jobs of all tenants."""

    def __init__(
        self, database: Database, spaces: DatabaseSpaces, settings: Settings, *, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self._database = database
        self._rows = JobRows(database)
        self._spaces = spaces
        self._work = work_by_rule(settings)
        self._settings = settings
        self._clock = clock

    async def run(self, *, concurrency: int, stop: asyncio.Event) -> None:
        """Run jobs until `stop` is set, then finish those in progress."""
        sweep = asyncio.create_task(self._remove_erased())
        try:
            await work(self._database, self.run_one, concurrency=concurrency, stop=stop)
        finally:
            sweep.cancel()
            await asyncio.gather(sweep, return_exceptions=True)

    async def _remove_erased(self) -> None:
        """Remove copies of what was erased, also while there are no jobs."""
        while True:
            with suppress(StoreError):  # a database that is away ends nothing
                await self._spaces.remove_erased()
            await asyncio.sleep(SWEEP_SECONDS)

    async def run_one(self, id_: str) -> None:
        """Run one job and record how it ended; raises `RetryLaterError` to run it again."""
        job = await self._rows.take(id_)
        if job is None:
            return
        begun = self._clock.seconds()
        error = ""
        result: JsonObject | None = None
        try:
            result = await self._done(job)
        except DatabaseUnavailableError:
            raise
        except NacreError as failure:
            error = " ".join(str(failure).split())
        except Exception as failure:  # noqa: BLE001 - one job must not end the worker
            error = f"unexpected {type(failure).__name__}"
        self._log(job, error, self._clock.seconds() - begun)
        if error and job.attempt <= len(RETRY_WAITS):
            await self._rows.put_back(job, error)
            raise RetryLaterError(RETRY_WAITS[job.attempt - 1])
        await self._rows.finish(job, result=result, error=error)

    async def _done(self, job: TakenJob) -> JsonObject:
        wanted = JobInput(**{**job.input, "messages": tuple(job.input.get("messages", ()))})  # type: ignore[arg-type]
        key = ApiKey(id="worker", tenant=job.tenant, user=job.user, role="member", created=self._clock.now())
        space = await self._spaces.open(key, job.space)
        if wanted.kind == "extract":
            # What an earlier attempt committed before its worker was killed is the result.
            if job.attempt > 1 and (files := await _committed(space, job.id)):
                return {"by": "an earlier attempt", "files": [*files], "removed": []}
            if (found := await self._with_model(job, wanted, space)) is not None:
                return found
        return await self._work[wanted.kind](space, replace(wanted, job=job.id))

    async def _with_model(self, job: TakenJob, wanted: JobInput, space: Space) -> JsonObject | None:
        """Extract with the tenant's model; None if it has none, or has spent what it may today."""
        model = await self._rows.model(job.tenant)
        if model is None or model.left_usd <= 0:
            return None

        async def on_cost(meter: Meter) -> None:
            await self._rows.spend(
                job.tenant,
                requests=meter.requests,
                sent=meter.usage.input + meter.usage.cache_read + meter.usage.cache_write,
                received=meter.usage.output,
                usd=meter.cost_usd,
            )

        with tempfile.TemporaryDirectory(prefix="nacre-job-") as folder:
            saved = await extract_with_model(
                conversation(wanted.messages),
                space.memory.location,
                ModelForJob(
                    name=model.model,
                    credential=model.credential,
                    left_usd=model.left_usd,
                    on_cost=on_cost,
                ),
                job=job.id,
                folder=Path(folder),
            )
        return {"by": model.model, "files": [*saved.files], "removed": [*saved.removed]}

    def _log(self, job: TakenJob, error: str, seconds: float) -> None:
        status = "failed" if error else "completed"
        entry = {"event": "job", "kind": job.kind, "job": job.id, "attempt": job.attempt, "status": status}
        _LOG.info(json.dumps({**entry, "ms": round(seconds * 1000, 1)}))


async def _committed(space: Space, job: str) -> list[str]:
    """Return the files that an attempt of a job changed."""
    for commit in await space.memory.log(limit=MAX_COMMITS):
        if commit.session == job:
            return [one for one in commit.files if not one.endswith("MEMORY.md")]
    return []
