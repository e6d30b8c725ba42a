"""A server on a loopback port, and a client with one of its keys."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import httpx2

from nacre.asgi import bound, serve
from nacre.loopback import ConnectionLimit
from nacre.server.api import ServerParts, build_api
from nacre.server.audit_log import AuditFile
from nacre.server.keys import LOCAL_TENANT, KeyFile, KeyStore, Role, create_key, new_key
from nacre.server.spaces import FileSpaces
from nacre.settings import load

DATABASE = ""
"""Address of the database; empty for files. Set by the fixture `store`."""


@dataclass(frozen=True)
class Serving:
    """A running server."""

    url: str
    parts: ServerParts
    admin_keys: KeyStore
    """The keys as an administrator's command changes them."""

    async def key(
        self,
        role: Role = "member",
        *,
        user: str = "ada",
        spaces: tuple[str, ...] = (),
        days: int | None = None,
        local: bool = False,
    ) -> str:
        clock = self.parts.clock
        made = new_key(tenant=LOCAL_TENANT, user=user, role=role, days=days, clock=clock)
        return await create_key(self.admin_keys, replace(made, spaces=spaces, local=local))

    def client(self, key: str) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(
            base_url=f"{self.url}/v1", headers={"Authorization": f"Bearer {key}"}, timeout=30
        )


@asynccontextmanager
async def serving(
    cwd: Path, *, own_hosts: bool = False, has_mcp: bool = False, **changes: object
) -> AsyncIterator[Serving]:
    """Serve the memories of the test's home."""
    settings = load(cwd, os.environ)
    admin_keys: KeyStore = KeyFile(settings.home)
    parts = ServerParts(
        settings=settings,
        spaces=FileSpaces(settings),
        keys=admin_keys,
        audit=AuditFile(settings.home),
    )
    if DATABASE:
        from nacre.app.shared_store import COPIES
        from nacre.cli.serve_mcp import database_mcp
        from nacre.server.postgres import AuditTable, DatabaseSpaces, KeyTable, RepeatedWrites
        from nacre.server.worker import DatabaseJobs, send_by_rows, settings_by_rows
        from nacre.store.postgres.database import Database
        from nacre.store.postgres.schema import require_schema

        database = Database(DATABASE)
        admin_keys = KeyTable(Database(DATABASE, is_server=False, idle=0))
        served = replace(settings, home=settings.home / COPIES)
        spaces, mail = DatabaseSpaces(database, served), send_by_rows(database)
        parts = ServerParts(
            settings=served,
            has_home=False,
            spaces=spaces,
            keys=KeyTable(database),
            audit=AuditTable(database),
            jobs=DatabaseJobs(database),
            mail=mail,
            mcp=database_mcp(served, spaces, mail) if has_mcp else None,
            repeated=RepeatedWrites(database),
            tenant_settings=settings_by_rows(database),
            check=partial(require_schema, database),
        )
    parts = replace(parts, **changes)  # type: ignore[arg-type]
    listening = bound("127.0.0.1", 0)
    if own_hosts:
        parts = replace(parts, hosts=frozenset({f"127.0.0.1:{listening.getsockname()[1]}"}))
    limit = parts.connections or ConnectionLimit()
    task = asyncio.create_task(serve(build_api(parts), listening, limit=limit, grace_seconds=1))
    try:
        yield Serving(f"http://127.0.0.1:{listening.getsockname()[1]}", parts, admin_keys)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await parts.spaces.close()
        listening.close()
