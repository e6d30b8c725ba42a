"""Background work: dream, index, extraction; one job of a key at a time (S5).

A server without a database runs jobs in its process. With one, they are rows that `nacre worker` carries out.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from http import HTTPStatus
from typing import Literal, Protocol, TypeAlias

from nacre.app.extract_once import conversation, extract_by_rule
from nacre.app.model_layers import dream_target
from nacre.clock import Clock
from nacre.errors import NacreError, StoreError
from nacre.layers.l5_extract.judge import messages_since
from nacre.layers.l6_dream.dream import dream
from nacre.layers.l6_dream.layer import dream_config
from nacre.messages.blocks import JsonObject
from nacre.messages.view import View
from nacre.server.keys import ApiKey
from nacre.server.operation import ProblemError
from nacre.server.spaces import Space
from nacre.settings import Settings

JobKind: TypeAlias = Literal["dream", "index", "extract"]
JobStatus: TypeAlias = Literal["queued", "running", "completed", "failed"]
MAX_JOBS = 200
"""Jobs that are listed; the oldest finished ones are dropped."""
END_SECONDS = 5.0
"""How long the end of the process waits for jobs; a job that is cancelled changes nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobInput:
    """What a job is asked to do."""

    kind: JobKind
    space: str
    session: str = ""
    """The conversation that memories are extracted from, as the client names it."""
    messages: Sequence[JsonObject] = ()
    """Its messages."""
    job: str = ""
    """The job's id, by which its commit is found."""

    @property
    def key(self) -> str:
        """Jobs with one key do the same work; empty if no other job does."""
        if self.kind == "extract" and not self.session:
            return ""
        return "\n".join((self.kind, self.space, self.session))  # names may have spaces


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One piece of background work."""

    id: str
    kind: str
    space: str
    tenant: str
    user: str
    created: datetime
    status: JobStatus = "running"
    attempts: int = 1
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
            "attempts": self.attempts,
            "created": self.created.isoformat(),
            "finished": self.finished.isoformat() if self.finished else None,
            "error": self.error,
            "result": self.result,
        }


Work: TypeAlias = Callable[[Space, JobInput], Awaitable[JsonObject]]


class Jobs(Protocol):
    """Where jobs are asked for and listed."""

    async def list(self, key: ApiKey, *, status: str = "") -> Sequence[Job]:
        """Return the newest jobs that a key may see, newest first."""

    async def start(self, wanted: JobInput, space: Space, *, tenant: str, user: str) -> Job:
        """Ask for a job; one that waits for the same work takes the new input."""

    async def gauges(self) -> Mapping[str, float]:
        """Return figures for `/metrics`."""

    async def close(self) -> None: ...


class LocalJobs:
    """The jobs of this process; their list is lost with it, their effects are not."""

    def __init__(self, work: Mapping[JobKind, Work], clock: Clock) -> None:
        self._work = work
        self._clock = clock
        self._jobs: OrderedDict[str, Job] = OrderedDict()
        self._keys: dict[str, str] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def list(self, key: ApiKey, *, status: str = "") -> Sequence[Job]:
        found = (one for one in reversed(self._jobs.values()) if one.tenant == key.tenant)
        return [one for one in found if status in {"", one.status}]

    async def gauges(self) -> Mapping[str, float]:
        return {"nacre_jobs_running": len(self._tasks)}

    async def start(self, wanted: JobInput, space: Space, *, tenant: str, user: str) -> Job:
        """Start a job, or return the one of this key that is running."""
        if wanted.kind not in self._work:
            raise ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, f"this server runs no {wanted.kind} jobs")
        if wanted.kind != "extract":  # which has its input, and is never the same as one that runs
            for job in self._jobs.values():
                if job.status == "running" and job.tenant == tenant and self._keys[job.id] == wanted.key:
                    return job
        job = Job(
            id=self._clock.new_id(), kind=wanted.kind, space=space.name, tenant=tenant, user=user,
            created=self._clock.now(),
        )  # fmt: skip
        self._jobs[job.id] = job
        self._keys[job.id] = wanted.key
        finished = [one.id for one in self._jobs.values() if one.status != "running"]
        for old in finished[: max(0, len(self._jobs) - MAX_JOBS)]:
            del self._jobs[old]
            del self._keys[old]
        self._tasks[job.id] = asyncio.create_task(
            self._run(job, wanted, space), name=f"{wanted.kind} {space.name}"
        )
        return job

    async def close(self) -> None:
        """Wait for the running jobs a moment, then cancel them."""
        tasks = [*self._tasks.values()]
        if tasks:
            await asyncio.wait(tasks, timeout=END_SECONDS)
        for one in tasks:
            one.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, job: Job, wanted: JobInput, space: Space) -> None:
        try:
            done = replace(
                job,
                status="completed",
                result=await self._work[wanted.kind](space, replace(wanted, job=job.id)),
            )
        except NacreError as error:
            done = replace(job, status="failed", error=" ".join(str(error).split()))
        except Exception as error:  # noqa: BLE001 - a background task: the list shows what went wrong
            done = replace(job, status="failed", error=f"unexpected {type(error).__name__}")
        finally:
            self._tasks.pop(job.id, None)
        if job.id in self._jobs:
            self._jobs[job.id] = replace(done, finished=self._clock.now())


def work_by_rule(settings: Settings) -> dict[JobKind, Work]:
    """Return what jobs do without a model."""

    async def consolidate(space: Space, _: JobInput) -> JsonObject:
        root = space.root or settings.project_root
        target = replace(dream_target(settings, space.memory), root=root)
        result = (await dream(dream_config(target))).as_json()
        if result["status"] == "failed":
            raise StoreError(str(result["error"]))
        return {name: result[name] for name in ("status", "commit", "error")}

    async def index(space: Space, _: JobInput) -> JsonObject:
        await space.memory.refresh()
        return {"memories": len((await space.memory.scan()).entries)}

    async def extract(space: Space, wanted: JobInput) -> JsonObject:
        heard = messages_since(View.of(conversation(wanted.messages)), None)
        saved = await extract_by_rule(
            space.memory, heard, session=wanted.session or wanted.job, settings=settings, job=wanted.job
        )
        return {"by": "rule", "files": [*saved.files], "removed": [*saved.removed]}

    return {"dream": consolidate, "index": index, "extract": extract}
