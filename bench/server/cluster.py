"""A PostgreSQL server of the benchmark's own, and processes of nacre on it."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from nacre.server.keys import ApiKey, create_key, new_key
from nacre.server.postgres import KeyTable, create_tenant
from nacre.store.postgres.database import Database
from nacre.store.postgres.schema import migrate
from tests.postgres import Server, execute

TENANT = "acme"
USER = "ada"


@dataclass
class Cluster:
    """A database and the processes that use it."""

    folder: Path
    postgres: Server
    processes: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def address(self) -> str:
        return self.postgres.address

    def owner(self) -> Database:
        return Database(self.address, is_server=False, idle=0)

    def execute(self, *statements: str) -> list[tuple[object, ...]]:
        return execute(self.address, *statements)

    def key(self, *, tenant: str = TENANT, user: str = USER) -> str:
        """Return the text of a new key of a member."""
        key: ApiKey = new_key(tenant=tenant, user=user, role="member")
        return asyncio.run(create_key(KeyTable(self.owner()), key))

    def start(self, name: str, *command: str) -> Running:
        """Start `nacre COMMAND` with a home of its own, as on a machine of its own."""
        process = subprocess.Popen(
            [sys.executable, "-m", "nacre", *command, "--json", "--database", self.address],
            env=os.environ | {"NACRE_HOME": str(self.folder / name)},
            cwd=self.folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        assert process.stdout is not None
        self.processes.append(process)
        return Running(process, str(json.loads(process.stdout.readline()).get("url", "")))

    def serve(self, name: str, *options: str) -> Running:
        return self.start(name, "serve", *options)


@dataclass(frozen=True)
class Running:
    """A process of nacre."""

    process: subprocess.Popen[str]
    url: str

    def kill(self) -> None:
        _end(self.process)

    def cpu_seconds(self) -> float:
        times = psutil.Process(self.process.pid).cpu_times()
        return float(times.user + times.system)

    def resident_mb(self) -> float:
        return float(psutil.Process(self.process.pid).memory_info().rss) / 1e6


@contextmanager
def cluster(folder: Path) -> Iterator[Cluster]:
    """Yield a migrated database with one tenant; everything is stopped at the end."""
    postgres = Server()
    found = Cluster(folder, postgres)
    try:
        asyncio.run(migrate(found.owner()))
        asyncio.run(create_tenant(found.owner(), TENANT))
        yield found
    finally:
        for one in found.processes:
            _end(one)
        postgres.stop()


def _end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()
    if process.stdout is not None:
        process.stdout.close()
