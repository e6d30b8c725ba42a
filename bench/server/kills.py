"""What survives kills of servers, workers and PostgreSQL: saves, jobs, letters.

Each process is killed with SIGKILL at random and started again. A save counts once the client has its answer.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import httpx2

from bench.machine import bar
from bench.server.cluster import TENANT, USER, Cluster, Running, cluster
from nacre.messages.blocks import JsonObject

SERVERS = WORKERS = 2
SENDERS = RECEIVERS = 2
LETTERS_INBOX = "bench"
FIRST = [
    f"{one}{end}" for one in "bo da fe gu ka lo mi nu pa ri".split() for end in ("dok", "lim", "mar", "tus")
]
SECOND = [
    f"{one}{end}" for one in "sa te vo wi ju ho ce zu ra ne".split() for end in ("ban", "fel", "gor", "pik")
]
"""Of two such words a name is made; names that only differ in a number would be one subject."""


@dataclass(frozen=True)
class KillsSize:
    """How much is done while processes are killed."""

    clients: int
    saves: int
    """Of each client."""
    jobs: int
    letters: int


FULL = KillsSize(clients=8, saves=200, jobs=1_000, letters=10_000)
TINY = KillsSize(clients=2, saves=4, jobs=8, letters=40)


def measure(size: KillsSize) -> JsonObject:
    """The figures and the bars."""
    found: dict[str, JsonObject] = {}
    parts: dict[str, Callable[[Cluster, KillsSize], Awaitable[JsonObject]]] = {
        "saves": _saves, "jobs": _jobs, "letters": _letters,
    }  # fmt: skip
    for name, part in parts.items():
        with tempfile.TemporaryDirectory(prefix="nacre-bench-") as folder, cluster(Path(folder)) as made:
            began = time.monotonic()
            found[name] = {**asyncio.run(part(made, size)), "seconds": round(time.monotonic() - began)}
    saves, jobs, letters = found["saves"], found["jobs"], found["letters"]
    return {
        **found,
        "bars": [
            bar("acknowledged saves", _number(saves["acknowledged"]), at_least=size.clients * size.saves),
            bar("acknowledged saves lost", _number(saves["lost"]), at_most=0),
            bar("torn or broken histories", _number(saves["broken"]), at_most=0),
            bar("jobs whose effect is in the result once", _number(jobs["once"]), at_least=size.jobs),
            bar("letters received", _number(letters["received"]), at_least=size.letters),
            bar("letters lost", _number(letters["lost"]), at_most=0),
            bar("letters received twice", _number(letters["twice"]), at_most=0),
        ],
    }


def _number(value: object) -> float:
    return float(str(value))


async def _saves(made: Cluster, size: KillsSize) -> JsonObject:
    """Save from several clients while a server, a worker or the database is killed every second or so."""
    text = await asyncio.to_thread(made.key)
    names = [f"Host {one} {two}" for one, two in product(FIRST, SECOND)][: size.clients * size.saves]
    servers = [await asyncio.to_thread(made.serve, f"server-{n}") for n in range(SERVERS)]
    workers = [await asyncio.to_thread(made.start, f"worker-{n}", "worker") for n in range(WORKERS)]
    saved = set[str]()
    kills: Counter[str] = Counter()

    async def save(client: httpx2.AsyncClient, begin: int) -> None:
        for name in names[begin :: size.clients]:
            body = {"text": f"{name} has the address 10.1.{begin}.{names.index(name)}.", "name": name}
            while name not in saved:
                with suppress(httpx2.HTTPError):
                    url = f"{servers[begin % SERVERS].url}/v1/memories?space=project:p{begin % 2}"
                    answer = await client.post(url, json={**body, "type": "project"})
                    saved.update([name] if answer.status_code == 201 else [])
                await asyncio.sleep(0.01)

    async def kill_some() -> None:
        chance = random.Random(3)
        while len(saved) < len(names):
            await asyncio.sleep(chance.uniform(0.5, 2.0))
            what = chance.choices(("server", "worker", "database"), weights=(4, 2, 1))[0]
            number = chance.randrange(SERVERS)
            if what == "database":
                await asyncio.to_thread(made.postgres.kill)
                await asyncio.to_thread(made.postgres.start)
            else:
                running, command = (servers, "serve") if what == "server" else (workers, "worker")
                running[number].kill()
                running[number] = await _started(made, f"{what}-{number}", command)
            kills[what] += 1

    headers = {"Authorization": f"Bearer {text}"}
    async with httpx2.AsyncClient(headers=headers, timeout=60) as client:
        await asyncio.gather(kill_some(), *(save(client, begin) for begin in range(size.clients)))
        found = set[str]()
        for space in ("project:p0", "project:p1"):
            found |= {one["name"] for one in await _all(client, servers[0].url, space)}
    return {
        "clients": size.clients,
        "acknowledged": len(saved),
        "lost": len(saved - found),
        "broken": _broken(made),
        "kills": dict(kills),
    }


async def _started(made: Cluster, name: str, *command: str) -> Running:
    """Start a process again; one that finds the database down ends, and is tried again."""
    while True:
        with suppress(json.JSONDecodeError):
            return await asyncio.to_thread(made.start, name, *command)
        await asyncio.sleep(0.2)


async def _all(client: httpx2.AsyncClient, url: str, space: str) -> list[dict[str, str]]:
    found: list[dict[str, str]] = []
    cursor = ""
    while True:
        more = f"&cursor={cursor}" if cursor else ""
        page = (await client.get(f"{url}/v1/memories?limit=500&bodies=true&space={space}{more}")).json()
        found += page["memories"]
        if not page["next"]:
            return found
        cursor = page["next"]


def _broken(made: Cluster) -> int:
    """Count gaps in the chains of commits, files unlike their last change, and copies that git refuses."""
    [[gaps]] = made.execute(
        "SELECT count(*) FROM nacre.memory_commits later JOIN nacre.memory_commits earlier"
        " ON later.space = earlier.space AND later.seq = earlier.seq + 1 WHERE later.parent <> earlier.id"
    )
    [[torn]] = made.execute(
        "SELECT count(*) FROM nacre.memory_files f WHERE content IS DISTINCT FROM (SELECT content FROM"
        " nacre.memory_changes c WHERE c.space = f.space AND c.file = f.file ORDER BY seq DESC LIMIT 1)"
    )
    copies = [*made.folder.glob("*/server/copies/*/history/memory.git")]
    refused = sum(
        subprocess.run(["git", "fsck", "--strict"], cwd=one, capture_output=True, check=False).returncode != 0
        for one in copies
    )
    return int(str(gaps)) + int(str(torn)) + refused


async def _jobs(made: Cluster, size: KillsSize) -> JsonObject:
    """Ask for extractions, and kill a worker every few seconds until all have ended."""
    text = await asyncio.to_thread(made.key)
    server = await asyncio.to_thread(made.serve, "server")
    kills = 0
    async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {text}"}, timeout=60) as client:
        for number in range(size.jobs):
            said = f"Remember that machine {number} is called {_word(number)}."
            body = {"kind": "extract", "messages": [{"role": "user", "content": said}]}
            space = f"project:j{number % 20}"
            answer = await client.post(f"{server.url}/v1/jobs?space={space}", json=body)
            assert answer.is_success, answer.text
        workers = [await asyncio.to_thread(made.start, f"worker-{n}", "worker") for n in range(WORKERS)]
        chance = random.Random(9)
        states: dict[str, int] = {}
        while set(states) - {"completed", "failed"} or not states:
            await asyncio.sleep(chance.uniform(2, 6))
            states = {
                str(name): int(str(count))
                for name, count in made.execute("SELECT status, count(*) FROM nacre.jobs GROUP BY status")
            }
            number = chance.randrange(WORKERS)
            workers[number].kill()
            workers[number] = await _started(made, f"worker-{number}", "worker")
            kills += 1
        bodies = []
        for number in range(min(20, size.jobs)):
            listed = await _all(client, server.url, f"project:j{number}")
            bodies += [str(one["body"]) for one in listed]
    once = sum(sum(_word(number) in one for one in bodies) == 1 for number in range(size.jobs))
    [[attempts]] = made.execute("SELECT sum(attempts) FROM nacre.jobs")
    return {
        "jobs": size.jobs,
        "once": once,
        "states": {**states},
        "attempts": int(str(attempts)),
        "kills": kills,
    }


def _word(number: int) -> str:
    return "".join(chr(ord("a") + int(digit)) for digit in f"{number:04d}") + "wick"


async def _letters(made: Cluster, size: KillsSize) -> JsonObject:
    """Send letters from processes of one host to those of another; senders and receivers are killed."""
    each = size.letters // SENDERS
    folder = made.folder / "letters"
    folder.mkdir()
    ends = [folder / f"sent-{n}" for n in range(SENDERS)] + [
        folder / f"received-{n}" for n in range(RECEIVERS)
    ]
    await asyncio.to_thread(made.key)  # adds the user
    commands = [["send", str(n), str(each)] for n in range(SENDERS)]
    commands += [["receive", str(n), str(each)] for n in range(RECEIVERS)]
    processes = [_letter_process(made, command) for command in commands]
    chance = random.Random(13)
    kills = 0
    try:
        while not all(one.exists() for one in ends):
            await asyncio.sleep(chance.uniform(0.5, 3))
            number = chance.randrange(len(processes))
            processes[number].kill()
            processes[number].wait()
            processes[number] = _letter_process(made, commands[number])
            kills += 1
    finally:
        for one in processes:
            one.kill()
            one.wait()
    noted: Counter[str] = Counter()
    for n in range(RECEIVERS):
        noted.update((folder / f"log-{n}").read_text(encoding="utf-8").split())
    sent = {f"{n}-{number}" for n in range(SENDERS) for number in range(each)}
    return {
        "letters": len(sent),
        "received": len(sent & noted.keys()),
        "lost": len(sent - noted.keys()),
        "twice": sum(count > 1 for count in noted.values()),
        "kills": kills,
    }


def _letter_process(made: Cluster, command: list[str]) -> subprocess.Popen[bytes]:
    folder = str(made.folder / "letters")
    return subprocess.Popen(
        [sys.executable, "-m", "bench.server.letters", made.address, TENANT, USER, folder, *command],
        env=os.environ, stdout=subprocess.DEVNULL,
    )  # fmt: skip
