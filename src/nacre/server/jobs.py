"""Background work of a server process without a database: one job per kind and space at a time (S5)."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from http import HTTPStatus
from typing import Literal, TypeAlias

from nacre.app.model_layers import dream_target
from nacre.clock import Clock
from nacre.errors import NacreError, StoreError
from nacre.layers.l6_dream.dream import dream
from nacre.layers.l6_dream.layer import dream_config
from nacre.messages.blocks import JsonObject
from nacre.server.operation import ProblemError
from nacre.server.spaces import Space
from nacre.settings import Settings

JobKind: TypeAlias = Literal["dream", "index"]
Work: TypeAlias = Callable[[Space], Awaitable[JsonObject]]
MAX_JOBS = 200
"""Jobs that are listed; the oldest finished ones are dropped."""
END_SECONDS = 5.0
"""How long the end of the process waits for jobs; a job that is cancelled changes nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One piece of background work."""

    id: str
    kind: JobKind
    space: str
    tenant: str
    user: str
    created: datetime
    status: Literal["running", "completed", "failed"] = "running"
    finished: datetime | None = None
    error: str | None = None
    result: JsonObject | None = None

    def as_json(self) -> JsonObject:
        return {
            "id": self.id,
            "kind": self.kind,
            "space": self.space,
            "user": self.user,
            "status": self.status,
            "created": self.created.isoformat(),
            "finished": self.finished.isoformat() if self.finished else None,
            "error": self.error,
            "result": self.result,
        }


class Jobs:
    """The jobs of this process; their list is lost with it, their effects are not."""

    def __init__(self, work: Mapping[JobKind, Work], clock: Clock) -> None:
        self._work = work
        self._clock = clock
        self._jobs: OrderedDict[str, Job] = OrderedDict()
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def list(self, tenant: str) -> list[Job]:
        """Return the jobs of a tenant, newest first."""
        return [one for one in reversed(self._jobs.values()) if one.tenant == tenant]

    @property
    def running(self) -> int:
        return len(self._tasks)

    def start(self, kind: JobKind, space: Space, *, tenant: str, user: str) -> Job:
        """Start a job, or return the one of this kind and space that is running."""
        if kind not in self._work:
            raise ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, f"this server runs no {kind} jobs")
        for job in self._jobs.values():
            if (job.status, job.kind, job.space, job.tenant) == ("running", kind, space.name, tenant):
                return job
        job = Job(
            id=self._clock.new_id(), kind=kind, space=space.name, tenant=tenant, user=user,
            created=self._clock.now(),
        )  # fmt: skip
        self._jobs[job.id] = job
        finished = [one.id for one in self._jobs.values() if one.status != "running"]
        for old in finished[: max(0, len(self._jobs) - MAX_JOBS)]:
            del self._jobs[old]
        self._tasks[job.id] = asyncio.create_task(self._run(job, space), name=f"{kind} {space.name}")
        return job

    async def close(self) -> None:
        """Wait for the running jobs a moment, then cancel them."""
        tasks = [*self._tasks.values()]
        if tasks:
            await asyncio.wait(tasks, timeout=END_SECONDS)
        for one in tasks:
            one.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, job: Job, space: Space) -> None:
        try:
            done = replace(job, status="completed", result=await self._work[job.kind](space))
        except NacreError as error:
            done = replace(job, status="failed", error=" ".join(str(error).split()))
        except Exception as error:  # noqa: BLE001 - a background task: the list shows what went wrong
            done = replace(job, status="failed", error=f"unexpected {type(error).__name__}")
        finally:
            self._tasks.pop(job.id, None)
        if job.id in self._jobs:
            self._jobs[job.id] = replace(done, finished=self._clock.now())


def work_by_rule(settings: Settings) -> dict[JobKind, Work]:
    """Return what jobs do without a model: consolidate a memory by rule, or read it into its index."""

    async def consolidate(space: Space) -> JsonObject:
        root = space.root or settings.project_root
        target = replace(dream_target(settings, space.memory), root=root)
        result = (await dream(dream_config(target))).as_json()
        if result["status"] == "failed":
            raise StoreError(str(result["error"]))
        return {name: result[name] for name in ("status", "commit", "error")}

    async def index(space: Space) -> JsonObject:
        await space.memory.refresh()
        return {"memories": len((await space.memory.scan()).entries)}

    return {"dream": consolidate, "index": index}
