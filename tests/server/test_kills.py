"""Servers that share a database are killed while clients save; whatever was acknowledged is there."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
from contextlib import suppress
from itertools import product
from pathlib import Path

import httpx2
import pytest

pytest.importorskip("psycopg", reason="needs the extra `dev`")

from nacre.server.keys import create_key, new_key
from nacre.server.postgres import KeyTable
from nacre.store.postgres.database import Database
from tests.postgres import execute, new_database, new_tenant
from tests.scale import scaled

PLACES = ("alpha", "bravo", "delta", "echo", "golf", "hotel", "india", "kilo")
TREES = (
    "oak elm ash fir yew pine palm birch cedar maple aspen alder hazel holly larch beech rowan walnut".split()
)


class _Servers:
    """Two processes, each with a home of its own as on two machines."""

    def __init__(self, address: str, folder: Path) -> None:
        self._address = address
        self._folder = folder
        self.processes: dict[int, subprocess.Popen[str]] = {}
        self.urls: dict[int, str] = {}

    def start(self, number: int, *options: str) -> None:
        process = subprocess.Popen(
            [sys.executable, "-m", "nacre", "serve", "--json", "--database", self._address, *options],
            env=os.environ | {"NACRE_HOME": str(self._folder / str(number))},
            cwd=self._folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        assert process.stdout is not None
        first = json.loads(process.stdout.readline())
        assert first["store"] == "postgres"
        self.processes[number], self.urls[number] = process, first["url"]

    def kill(self, number: int) -> None:
        process = self.processes[number]
        process.kill()
        process.communicate()


@pytest.mark.slow  # processes that start again and again
@pytest.mark.soak
async def test_no_acknowledged_save_is_lost_when_servers_are_killed(tmp_path: Path) -> None:
    address = new_database()
    await new_tenant(address)
    key = await create_key(
        KeyTable(Database(address, is_server=False, idle=0)),
        new_key(tenant="acme", user="ada", role="member"),
    )
    servers = _Servers(address, tmp_path)
    names = [f"Machine {place} {tree}" for tree, place in product(TREES[: scaled(3)], PLACES)]
    saved: set[str] = set()
    async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {key}"}, timeout=60) as client:

        async def save(name: str, number: int) -> None:
            body = {
                "text": f"{name} has the address 10.0.{names.index(name)}.1.",
                "name": name,
                "type": "project",
            }
            while name not in saved:
                with suppress(httpx2.HTTPError):
                    answer = await client.post(f"{servers.urls[number % 2]}/v1/memories", json=body)
                    saved.update([name] if answer.status_code == 201 else [])
                await asyncio.sleep(0.05)

        async def save_all(begin: int) -> None:
            for number, name in enumerate(names[begin :: len(PLACES)]):
                await save(name, begin + number)

        async def kill_some() -> None:
            while len(saved) < len(names):
                await asyncio.sleep(random.uniform(0.2, 1.5))
                number = random.randrange(2)
                servers.kill(number)
                await asyncio.to_thread(servers.start, number)

        try:
            for number in range(2):
                servers.start(number)
            await asyncio.gather(kill_some(), *(save_all(begin) for begin in range(len(PLACES))))
            for number in range(2):
                listed = (await client.get(f"{servers.urls[number]}/v1/memories?limit=500")).json()
                assert {one["name"] for one in listed["memories"]} == set(names)
        finally:
            servers.kill(0)
            servers.kill(1)
    _check_history(address, tmp_path)


def _check_history(address: str, folder: Path) -> None:
    """The rows are one chain, and git finds every copy whole."""
    broken = execute(
        address,
        "SELECT count(*) FROM nacre.memory_commits later JOIN nacre.memory_commits earlier"
        " ON later.space = earlier.space AND later.seq = earlier.seq + 1 WHERE later.parent <> earlier.id",
    )
    assert broken == [(0,)]
    for history in folder.glob("*/server/copies/*/history/memory.git"):
        subprocess.run(["git", "fsck", "--strict"], cwd=history, check=True, capture_output=True)


@pytest.mark.slow  # a process that is killed and started
async def test_a_page_that_listens_continues_when_its_server_was_killed(tmp_path: Path) -> None:
    address = new_database()
    await new_tenant(address)
    keys = KeyTable(Database(address, is_server=False, idle=0))
    key = await create_key(keys, new_key(tenant="acme", user="ada", role="member"))
    servers = _Servers(address, tmp_path)
    servers.start(0)
    port = servers.urls[0].rpartition(":")[2]
    try:
        async with httpx2.AsyncClient(base_url=servers.urls[0], timeout=30) as client:
            headers = {"Authorization": f"Bearer {key}"}

            async def listen(text: str, until: str | None) -> list[str]:
                """Sign in, save when the stream begins, and return its lines up to one."""
                entered = await client.post("/console/login", data={"key": key})
                assert entered.headers["location"] == "/console/"
                lines = []
                async with client.stream("GET", "/console/events") as stream:
                    assert stream.status_code == 200
                    async for line in stream.aiter_lines():
                        lines.append(line)
                        if line == "data: ready":
                            saved = await client.post("/v1/memories", json={"text": text}, headers=headers)
                            assert saved.status_code == 201
                            if until is None:
                                servers.kill(0)
                        if line == until:
                            break
                return lines

            with suppress(httpx2.HTTPError):  # the stream ends with its server
                await listen("The build server is heron.", None)
            assert servers.processes[0].returncode == -signal.SIGKILL
            await asyncio.to_thread(servers.start, 0, "--port", port)
            assert (await client.get("/console/memories")).status_code in {303, 403}  # the sign-in has ended
            assert "data: memory" in await listen("The deploy server is egret.", "data: memory")
            page = (await client.get("/console/memories")).text
            assert "heron" in page and "egret" in page
    finally:
        servers.kill(0)
