"""Background jobs with a database: workers carry them out, once in the result, also when they are killed."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import httpx2
import pytest

pytest.importorskip("pgqueuer", reason="needs the extra `dev`")

from nacre.app.shared_store import COPIES
from nacre.devtools.sim import Simulator
from nacre.server.keys import LOCAL_TENANT
from nacre.server.postgres import DatabaseSpaces
from nacre.server.worker import Worker
from nacre.settings import load
from nacre.store.postgres.database import Database
from nacre.store.postgres.job_rows import JobRows
from nacre.store.postgres.schema import migrate
from tests.postgres import Server, execute, new_database, new_tenant
from tests.scale import scaled
from tests.server import serving

HERON = [
    {"role": "user", "content": "Remember that the build server is heron."},
    {"role": "assistant", "content": "I will."},
]


@pytest.fixture
async def address(monkeypatch: pytest.MonkeyPatch) -> str:
    found = new_database()
    await new_tenant(found, LOCAL_TENANT)
    monkeypatch.setattr(serving, "DATABASE", found)
    return found


@asynccontextmanager
async def client_of(tmp_path: Path) -> AsyncIterator[httpx2.AsyncClient]:
    async with serving.serving(tmp_path) as server, server.client(await server.key("admin")) as client:
        yield client


@asynccontextmanager
async def working(address: str, folder: Path, *, concurrency: int = 2) -> AsyncIterator[None]:
    """Run a worker in this process."""
    database = Database(address)
    settings = replace(load(folder, os.environ), home=folder / "worker" / COPIES)
    spaces = DatabaseSpaces(database, settings)
    stop = asyncio.Event()
    task = asyncio.create_task(Worker(database, spaces, settings).run(concurrency=concurrency, stop=stop))
    try:
        yield
    finally:
        stop.set()
        await asyncio.wait_for(task, 20)
        await spaces.close()


async def ended(client: httpx2.AsyncClient, *, seconds: float = 20) -> list[dict[str, object]]:
    """Return the jobs once none waits or runs."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        jobs = (await client.get("/jobs")).json()["jobs"]
        if all(one["status"] in {"completed", "failed"} for one in jobs):
            return list(jobs)
        await asyncio.sleep(0.1)
    raise AssertionError(jobs)


async def test_memories_are_extracted_from_a_conversation_that_a_product_hands_over(
    tmp_path: Path, address: str
) -> None:
    async with client_of(tmp_path) as client:
        answer = await client.post("/jobs", json={"kind": "extract", "session": "chat-7", "messages": HERON})
        assert (answer.status_code, answer.json()["status"]) == (202, "queued")
        async with working(address, tmp_path):
            [job] = await ended(client)
        assert (job["status"], job["error"], job["attempts"]) == ("completed", None, 1)
        assert job["result"]["by"] == "rule"
        recalled = (await client.post("/recall", json={"query": "Which build server do we use?"})).json()
        assert "heron" in str(recalled)
        why = (await client.get(f"/memories/{job['result']['files'][0]}/why")).json()
        assert "chat-7" in str(why["sources"])
    assert execute(address, "SELECT input FROM nacre.jobs") == [(None,)]
    # The queue holds ids only.
    assert all(
        len(payload) == 36 for (payload,) in execute(address, "SELECT payload FROM nacre_queue.pgqueuer")
    )


@pytest.mark.slow
async def test_consolidation_and_indexing_run_on_a_worker(tmp_path: Path, address: str) -> None:
    async with client_of(tmp_path) as client:
        await client.post("/memories", json={"text": "The build server is heron."})
        for kind in ("dream", "index"):
            assert (await client.post("/jobs", json={"kind": kind})).status_code == 202
        async with working(address, tmp_path):
            jobs = await ended(client)
        assert {(one["kind"], one["status"]) for one in jobs} == {
            ("dream", "completed"),
            ("index", "completed"),
        }
        assert next(one for one in jobs if one["kind"] == "index")["result"] == {"memories": 1}


@pytest.mark.slow
async def test_a_job_that_waits_takes_newer_input_and_a_reader_starts_none(
    tmp_path: Path, address: str
) -> None:
    async with client_of(tmp_path) as client:
        ids = set()
        for name in ("heron", "egret"):
            messages = [{"role": "user", "content": f"Remember that the build server is {name}."}]
            body = {"kind": "extract", "session": "chat-7", "messages": messages}
            ids.add((await client.post("/jobs", json=body)).json()["id"])
        assert len(ids) == 1
        async with working(address, tmp_path):
            await ended(client)
        listed = (await client.get("/memories?bodies=true")).json()
        assert "egret" in str(listed)
        assert "heron" not in str(listed)


async def test_a_dream_of_a_teams_space_is_one_job_for_all_its_users(tmp_path: Path, address: str) -> None:
    async with serving.serving(tmp_path) as server:
        jobs: dict[str, set[str]] = {}
        for user in ("ada", "eve"):
            async with server.client(await server.key(user=user)) as client:
                for space in ("team:web", "project:web"):
                    answer = await client.post(f"/jobs?space={space}", json={"kind": "dream"})
                    jobs.setdefault(space, set()).add(answer.json()["id"])
    assert {space: len(ids) for space, ids in jobs.items()} == {"team:web": 1, "project:web": 2}


@pytest.mark.parametrize(
    "body",
    [
        {"kind": "extract"},
        {"kind": "extract", "messages": [{"text": "no message"}]},
        {"kind": "dream", "messages": HERON},
        {"kind": "extract", "messages": HERON, "session": "a b"},
    ],
)
async def test_a_job_without_what_it_needs_is_refused(tmp_path: Path, address: str, body: object) -> None:
    async with client_of(tmp_path) as client:
        assert (await client.post("/jobs", json=body)).status_code in {400, 422}
    assert execute(address, "SELECT count(*) FROM nacre.jobs") == [(0,)]


@pytest.mark.slow
async def test_a_job_that_fails_is_repeated_and_then_a_dead_letter_with_its_reason(
    tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nacre.server.worker.RETRY_WAITS", (0.1, 0.1))
    await JobRows(Database(address, is_server=False, idle=0)).set_model(
        LOCAL_TENANT, "anthropic:claude-haiku-4-5", "env:NACRE_TEST_ABSENT", 1.0
    )
    async with client_of(tmp_path) as client:
        await client.post("/jobs", json={"kind": "extract", "messages": HERON})
        async with working(address, tmp_path):
            await ended(client)
        [job] = (await client.get("/jobs?status=failed")).json()["jobs"]
        assert job["attempts"] == 3
        assert "env:NACRE_TEST_ABSENT" in job["error"]
        assert (await client.get("/jobs?status=completed")).json()["jobs"] == []


@pytest.mark.slow
async def test_a_tenant_that_has_spent_its_day_is_served_by_rule(tmp_path: Path, address: str) -> None:
    rows = JobRows(Database(address, is_server=False, idle=0))
    await rows.set_model(LOCAL_TENANT, "anthropic:claude-haiku-4-5", "env:NACRE_TEST_ABSENT", 1.0)
    await rows.spend(LOCAL_TENANT, requests=3, sent=10, received=10, usd=1.0)
    async with client_of(tmp_path) as client:
        await client.post("/jobs", json={"kind": "extract", "messages": HERON})
        async with working(address, tmp_path):
            [job] = await ended(client)
    assert (job["status"], job["result"]["by"]) == ("completed", "rule")


def _worker(address: str, folder: Path, number: int) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-m", "nacre", "worker", "--json", "--database", address, "--concurrency", "2"],
        env=os.environ | {"NACRE_HOME": str(folder / f"home-{number}")},
        cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())["concurrency"] == 2
    return process


@pytest.mark.slow  # processes that start again and again
async def test_each_job_has_its_effect_once_when_workers_are_killed(tmp_path: Path, address: str) -> None:
    count = scaled(20)
    async with client_of(tmp_path) as client:
        for number in range(count):
            text = f"Remember that machine {number} is called {_name(number)}."
            body = {"kind": "extract", "messages": [{"role": "user", "content": text}]}
            assert (await client.post("/jobs", json=body)).status_code == 202
        workers = [_worker(address, tmp_path, number) for number in range(2)]
        try:
            for number in range(3):
                await asyncio.sleep(1.0)
                workers[number % 2].kill()
                workers[number % 2].communicate()
                workers[number % 2] = await asyncio.to_thread(_worker, address, tmp_path, number)
            jobs = await ended(client, seconds=120)
            assert {one["status"] for one in jobs} == {"completed"}, jobs
            listed = (await client.get("/memories?bodies=true&limit=500")).json()["memories"]
            bodies = [str(one["body"]) for one in listed]
            for number in range(count):
                assert sum(_name(number) in one for one in bodies) == 1, _name(number)
            # It drains, and ends well.
            workers[0].send_signal(signal.SIGTERM)
            assert await asyncio.to_thread(workers[0].wait, 20) == 0
        finally:
            for one in workers:
                one.kill()
                one.communicate()


def _name(number: int) -> str:
    return "".join(chr(ord("a") + int(digit)) for digit in f"{number:04d}") + "wick"


def test_a_worker_without_a_database_is_told_what_to_name(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "nacre", "worker"],
        cwd=tmp_path, text=True, capture_output=True, check=False, timeout=60,
        env={name: value for name, value in os.environ.items() if name != "NACRE_DATABASE"},
    )  # fmt: skip
    assert ran.returncode != 0
    assert "--database" in ran.stderr
    assert "Traceback" not in ran.stderr


async def test_a_tenants_model_extracts_with_the_key_that_its_reference_names(
    tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with client_of(tmp_path) as client:
        await client.post("/memories", json={"text": "An older memory."})
        [[space]] = execute(address, "SELECT id FROM nacre.spaces WHERE kind = 'user'")
        path = tmp_path / "worker" / COPIES / str(space) / "memory" / "project_build_server.md"
        head = "name: Build server\ndescription: The build server is heron\ntype: project"
        content = f"---\n{head}\n---\n\nThe build server is heron.\n"
        async with Simulator(
            [
                {"tool_calls": [{"name": "Write", "input": {"file_path": str(path), "content": content}}]},
                "done",
            ]
        ) as sim:
            monkeypatch.setenv("ANTHROPIC_BASE_URL", sim.url)
            secret = tmp_path / "key"
            secret.write_text("sk-of-the-tenant\n")
            await JobRows(Database(address, is_server=False, idle=0)).set_model(
                LOCAL_TENANT, "anthropic:claude-haiku-4-5", f"file:{secret}", 1.0
            )
            await client.post("/jobs", json={"kind": "extract", "messages": HERON})
            async with working(address, tmp_path):
                [job] = await ended(client)
            assert job["status"] == "completed", job
            assert job["result"] == {"by": "anthropic:claude-haiku-4-5", "files": [path.name], "removed": []}
            assert sim.log
        assert (await client.get(f"/memories/{path.name}")).json()["name"] == "Build server"
    [[requests, usd]] = execute(address, "SELECT requests, usd FROM nacre.usage")
    assert requests == len(sim.log)
    assert usd > 0
    assert execute(address, "SELECT count(*) FROM nacre.tenant_models WHERE credential LIKE '%%sk-of%%'") == [
        (0,)
    ]


@pytest.mark.slow  # a server of its own that is killed and started
async def test_jobs_are_carried_out_although_the_database_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Server()
    try:
        await migrate(Database(server.address, is_server=False, idle=0))
        await new_tenant(server.address, LOCAL_TENANT)
        monkeypatch.setattr(serving, "DATABASE", server.address)
        count = scaled(10)
        async with client_of(tmp_path) as client:
            for number in range(count):
                text = f"Remember that machine {number} is called {_name(number)}."
                body = {"kind": "extract", "messages": [{"role": "user", "content": text}]}
                assert (await client.post("/jobs", json=body)).status_code == 202
            worker = _worker(server.address, tmp_path, 0)
            try:
                await asyncio.sleep(1.5)
                await asyncio.to_thread(server.kill)
                await asyncio.to_thread(server.start)
                jobs = await ended(client, seconds=60)
                assert {one["status"] for one in jobs} == {"completed"}, jobs
                listed = (await client.get("/memories?bodies=true&limit=500")).text
                assert all(listed.count(_name(number)) >= 1 for number in range(count))
                worker.send_signal(signal.SIGTERM)
                assert await asyncio.to_thread(worker.wait, 20) == 0
            finally:
                worker.kill()
                worker.communicate()
    finally:
        server.stop()
