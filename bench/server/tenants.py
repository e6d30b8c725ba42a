"""Random calls with the keys of many tenants: what of another tenant, or of another user, is in an answer.

Everything that a user saves carries a mark of that user. The application is called in the process, with the
database behind it as in a server. An answer may have the marks of its key, of the tenant's team, and those
that the request itself named: requests ask for the commits, files, sessions and spaces of others, too.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import secrets
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2

from bench.machine import bar
from bench.server.cluster import Cluster, cluster
from nacre.messages.blocks import JsonObject
from nacre.server.api import ServerParts, build_api
from nacre.server.keys import create_key, new_key
from nacre.server.postgres import AuditTable, DatabaseSpaces, KeyTable, RepeatedWrites, create_tenant
from nacre.server.worker import DatabaseJobs, send_by_rows
from nacre.settings import load
from nacre.store.postgres.database import Database
from nacre.store.postgres.session_rows import SessionRows

MARK = re.compile(r"zq(?:[bdfgklmnprstv][aeiou]){6}")
"""Like a name, because credentials are refused."""
USERS = ("ada", "eve")
CONCURRENT = 16
FAILED = 500
KEYS = 12
"""Keys of each user: one may make 6,000 requests a minute."""


@dataclass(frozen=True)
class TenantsSize:
    """How many tenants make how many calls, in at most so many seconds."""

    tenants: int
    calls: int
    seconds: float


FULL = TenantsSize(tenants=50, calls=1_000_000, seconds=540)
TINY = TenantsSize(tenants=3, calls=150, seconds=60)


@dataclass
class _User:
    """A user with what others may try to reach."""

    name: str
    mark: str
    team_mark: str
    keys: list[str] = field(default_factory=list)
    file: str = ""
    commit: str = ""
    session: str = ""


def measure(size: TenantsSize) -> JsonObject:
    """The figures and the bars."""
    with tempfile.TemporaryDirectory(prefix="nacre-bench-") as name, cluster(Path(name)) as made:
        return asyncio.run(_measure(made, size))


async def _measure(made: Cluster, size: TenantsSize) -> JsonObject:
    database = Database(made.address)
    settings = load(made.folder, {"NACRE_HOME": str(made.folder / "tenants")})
    parts = ServerParts(
        settings=settings,
        spaces=DatabaseSpaces(database, settings),
        keys=KeyTable(database),
        audit=AuditTable(database),
        jobs=DatabaseJobs(database),
        mail=send_by_rows(database),
        repeated=RepeatedWrites(database),
        has_home=False,
    )
    transport = httpx2.ASGITransport(app=build_api(parts))
    async with httpx2.AsyncClient(transport=transport, base_url="http://bench/v1") as client:
        users = await _users(made, client, database, size.tenants)
        found = await _call_all(client, users, size)
    await parts.spaces.close()
    return {
        "tenants": size.tenants,
        "users": len(users),
        **found,
        "bars": [
            bar("answers with a mark of another user", float(str(found["foreign"])), at_most=0),
            bar("answers with a status of 500 or more", float(str(found["failed"])), at_most=0),
            bar("calls", float(str(found["calls"])), at_least=size.calls),
        ],
    }


async def _users(made: Cluster, client: httpx2.AsyncClient, database: Database, tenants: int) -> list[_User]:
    users = []
    keys = KeyTable(made.owner())
    for number in range(tenants):
        await create_tenant(made.owner(), f"t{number}")
        team_mark = _mark()
        for name in USERS:
            user = _User(name, _mark(), team_mark)
            for _ in range(KEYS):
                key = new_key(tenant=f"t{number}", user=name, role="member")
                user.keys.append(await create_key(keys, key))
            for subject in ("build", "deploy", "backup"):
                saved = await _send(client, user, "POST", "/memories", json=_memory(subject, user.mark))
                user.file, user.commit = saved["file"], saved["commit"]
            await _send(client, user, "POST", "/memories?space=project:web", json=_memory("web", user.mark))
            shared = _memory(f"rule of {name}", team_mark)
            await _send(client, user, "POST", "/memories?space=team:web", json=shared)
            user.session = f"{user.mark}-s"
            rows = SessionRows(database, f"t{number}", name)
            lease = await rows.create(user.session, cwd=f"/{user.mark}", home="/h")
            line = {"type": "user", "message": {"role": "user", "content": f"Mark {user.mark}"}}
            await lease.append(json.dumps(line).encode() + b"\n")
            await lease.release()
            users.append(user)
    return users


def _mark() -> str:
    return "zq" + "".join(secrets.choice("bdfgklmnprstv") + secrets.choice("aeiou") for _ in range(6))


def _memory(subject: str, mark: str) -> JsonObject:
    text = f"The {subject} server has the mark {mark} and is checked each month."
    return {"text": text, "name": f"The {subject} server", "type": "project"}


async def _send(client: httpx2.AsyncClient, user: _User, method: str, path: str, **given: Any) -> Any:
    headers = {"Authorization": f"Bearer {user.keys[0]}"}
    answer = await client.request(method, path, headers=headers, **given)
    assert answer.status_code < 300, answer.text
    return answer.json()


async def _call_all(client: httpx2.AsyncClient, users: list[_User], size: TenantsSize) -> JsonObject:
    until = time.monotonic() + size.seconds
    chance = random.Random(5)
    statuses: Counter[str] = Counter()
    operations: Counter[str] = Counter()
    foreign = done = bytes_ = 0
    began = time.monotonic()

    async def call() -> None:
        nonlocal foreign, done, bytes_
        while done < size.calls and time.monotonic() < until:
            done += 1
            user, other = chance.choice(users), chance.choice(users)
            name, method, path, body = _request(chance, user, other)
            key = chance.choice(user.keys)
            headers = {"Authorization": f"Bearer {key}"}
            answer = await client.request(method, path, headers=headers, json=body)
            given = f"{path} {json.dumps(body)}"
            said = answer.content.decode(errors="replace") + str(dict(answer.headers))
            marks = {*MARK.findall(said)} - {*MARK.findall(given)} - {user.mark, user.team_mark}
            foreign += bool(marks)
            bytes_ += len(answer.content)
            statuses[f"{answer.status_code // 100}xx"] += 1
            statuses["500 and more"] += answer.status_code >= FAILED
            operations[name] += 1

    await asyncio.gather(*(call() for _ in range(CONCURRENT)))
    took = time.monotonic() - began
    return {
        "calls": done,
        "seconds": round(took),
        "calls_per_second": round(done / took),
        "bytes": bytes_,
        "foreign": foreign,
        "failed": statuses.pop("500 and more", 0),
        "statuses": dict(sorted(statuses.items())),
        "operations": dict(sorted(operations.items())),
    }


def _request(chance: random.Random, user: _User, other: _User) -> tuple[str, str, str, JsonObject | None]:
    """Return a call: of the user's own things, or an attempt at those of another one."""
    space = chance.choice(("", "?space=project:web", "?space=team:web", f"?space=project:{other.mark}"))
    own, own_mark = chance.choice(
        (("", user.mark), ("?space=project:web", user.mark), ("?space=team:web", user.team_mark))
    )
    who = chance.choice((user, other))
    subject = chance.choice(("build", "deploy", "backup", "web"))
    number = chance.randrange(40)
    file = quote(chance.choice((who.file, f"../../{other.mark}/x.md")), safe="")
    text = f"The {subject} server has the mark {user.mark} since {2000 + number}."
    words = {"query": f"{subject} server {chance.choice((user.mark, other.mark))}"}
    requests: dict[str, tuple[float, str, str, JsonObject | None]] = {
        "list": (9, "GET", f"/memories{space}", None),
        "search": (12, "POST", f"/memories/search{space}", {**words}),
        "recall": (18, "POST", f"/recall{space}", {"query": f"Which mark has the {subject} server?"}),
        "get": (9, "GET", f"/memories/{file}{space}", None),
        "history": (6, "GET", f"/history{space}", None),
        "commit": (9, "GET", f"/history/{who.commit}{space}", None),
        "why": (5, "GET", f"/memories/{who.file}/why{space}", None),
        "session": (8, "GET", f"/sessions/{who.session}", None),
        **{name: (4, "GET", f"/{name}", None) for name in ("sessions", "jobs", "spaces", "agents", "sync")},
        "usage": (1, "GET", "/usage", None),
        "save": (1.2, "POST", f"/memories{own}", _memory(f"{subject} {number}", own_mark)),
        "change": (1, "PATCH", f"/memories/{who.file}", {"text": text}),
        "forget": (0.3, "DELETE", f"/memories/project_the_{subject}_{number}_server.md", None),
        "mail": (1, "POST", "/mail", {"to": other.session, "text": f"Mark {user.mark}"}),
        "undo": (0.2, "POST", "/undo", {}),
    }
    name = chance.choices([*requests], weights=[one[0] for one in requests.values()])[0]
    return name, *requests[name][1:]
