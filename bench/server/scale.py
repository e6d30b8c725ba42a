"""Many tenants on one database: recall warm and cold, memory of a process, one process beside two, bytes.

The rows of all tenants are copies of one whose memories were saved. In-process is `Memory.recall` on files
with the same memories, measured in turn with the requests.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx2

from bench.machine import bar, spread
from bench.server.cluster import TENANT, USER, Cluster, Running, cluster
from nacre.clock import SYSTEM_CLOCK
from nacre.memory.format.entry import MemoryChange
from nacre.memory.memory import Memory
from nacre.messages.blocks import JsonObject
from nacre.server.keys import ApiKey
from nacre.server.postgres import DatabaseSpaces
from nacre.settings import load
from nacre.store.postgres.database import Database

SECRET = "bench-secret-of-all-keys"
INDEX_MB = 64
"""Limit of a process's indexes, so small that most tenants do not fit."""
MOST_WARM = 3.0
MOST_COLD_MS = 100.0
LEAST_SPEEDUP = 1.6
WARM_UP = 18
"""Recalls after which a space of 100 memories has its vectors: each computes some of them (R9)."""
CLIENTS = 16
"""Requests at once while throughput is measured."""
USERS = 1_000_000
WORDS = (
    "heron egret ibis stork crane plover curlew godwit dunlin avocet gannet petrel fulmar skua tern kestrel"
    " merlin osprey harrier buzzard linnet siskin redpoll brambling twite dipper wheatear whinchat ouzel"
).split()
TABLES = ("memory_commits", "memory_changes", "memory_files", "spaces", "users", "tenants", "api_keys")


@dataclass(frozen=True)
class ScaleSize:
    """How many tenants there are, and how many of them are asked how often."""

    tenants: int
    memories: int
    sampled: int
    rounds: int
    seconds: float
    """Of each run of throughput."""


FULL = ScaleSize(tenants=10_000, memories=100, sampled=60, rounds=50, seconds=5)
TINY = ScaleSize(tenants=60, memories=5, sampled=4, rounds=2, seconds=0.2)


def measure(size: ScaleSize) -> JsonObject:
    """The figures and the bars."""
    with tempfile.TemporaryDirectory(prefix="nacre-bench-") as name, cluster(Path(name)) as made:
        texts = _texts(size.memories)
        began = time.monotonic()
        asyncio.run(_fill(made, texts, size.tenants))
        filled = time.monotonic() - began
        bytes_ = _bytes(made, size.tenants)
        recall, memory = asyncio.run(_recall(made, texts, size))
        throughput = asyncio.run(_throughput(made, size))
    warm, cold = recall["warm"]["p99_us"] / recall["in_process"]["p99_us"], recall["cold"]["p99_us"] / 1000
    return {
        "tenants": size.tenants,
        "memories": size.memories,
        "fill_seconds": round(filled),
        "recall": recall,
        "memory": memory,
        "throughput": throughput,
        "bytes_per_tenant": bytes_,
        "paper": _paper(bytes_, memory, throughput),
        "bars": [
            bar("warm recall over HTTP beside in-process, p99", round(warm, 2), at_most=MOST_WARM),
            bar("cold recall, index closed, ms p99", round(cold, 1), at_most=MOST_COLD_MS),
            bar(
                "index memory of a process beside its limit and the space in use",
                round(memory["index_mb"] / (INDEX_MB + (64 + 16 * size.memories) / 1024), 2),
                at_most=1.0,
            ),
            bar("two processes beside one, requests a second", throughput["ratio"], at_least=LEAST_SPEEDUP),
            bar(
                "two processes beside one, by processor time a request",
                throughput["ratio_by_processor"],
                at_least=LEAST_SPEEDUP,
            ),
        ],
    }  # fmt: skip


def _texts(count: int) -> list[str]:
    chance = random.Random(7)
    return [
        f"The {chance.choice(WORDS)} service of team {chance.choice(WORDS)} runs on machine"
        f" {chance.choice(WORDS)}-{number} and is deployed by {chance.choice(WORDS)} on the"
        f" {1 + number % 28}th of each month after the checks of {chance.choice(WORDS)} have passed."
        for number in range(count)
    ]


def _file(number: int, text: str) -> bytes:
    head = f"name: Service {number}\ndescription: {text[:80]}\ntype: project"
    return f"---\n{head}\n---\n\n{text}\n".encode()


async def _save(memory: Memory, texts: Sequence[str]) -> None:
    change = MemoryChange(author="user", reason="bench")
    files = {f"project_service_{n}.md": (_file(n, text), "") for n, text in enumerate(texts)}
    await memory.put_all(files, change)


async def _fill(made: Cluster, texts: Sequence[str], tenants: int) -> None:
    """Save the memories of one tenant, and copy its rows for the others."""
    database = Database(made.address)
    settings = load(made.folder, {"NACRE_HOME": str(made.folder / "fill")})
    spaces = DatabaseSpaces(database, settings)
    key = ApiKey(id="fill", tenant=TENANT, user=USER, role="member", created=SYSTEM_CLOCK.now())
    await _save((await spaces.open(key, "user")).memory, texts)
    await spaces.close()
    digest = hashlib.sha256(SECRET.encode()).hexdigest()
    name = "'t' || n"
    numbers = f"generate_series(1, {tenants}) n"
    made.execute(
        f"INSERT INTO nacre.tenants (name) SELECT {name} FROM {numbers}",
        f"INSERT INTO nacre.users (tenant, name) SELECT {name}, '{USER}' FROM {numbers}",
        "INSERT INTO nacre.api_keys (id, tenant, user_name, role, spaces, local, created, digest)"
        f" SELECT 'k' || n, {name}, '{USER}', 'member', '{{}}', false, now(), '{digest}' FROM {numbers}",
        "CREATE TEMPORARY TABLE first AS SELECT * FROM nacre.spaces",
        "INSERT INTO nacre.spaces (tenant, owner, kind, name, head)"
        f" SELECT {name}, owner, kind, name, head FROM nacre.spaces, {numbers} WHERE tenant = '{TENANT}'",
        *(_copied(made, table) for table in ("memory_commits", "memory_changes", "memory_files")),
        "ANALYZE",
    )


def _copied(made: Cluster, table: str) -> str:
    """Return the statement that copies the rows of the first space to all others."""
    rows = made.execute(
        "SELECT column_name FROM information_schema.columns WHERE table_schema = 'nacre'"
        f" AND table_name = '{table}' AND column_name NOT IN ('tenant', 'space') ORDER BY ordinal_position"
    )
    names = ", ".join(str(name) for (name,) in rows)
    return (
        f"INSERT INTO nacre.{table} (tenant, space, {names}) SELECT other.tenant, other.id,"
        f" {', '.join(f'old.{name}' for (name,) in rows)} FROM nacre.{table} old,"
        f" nacre.spaces other WHERE old.tenant = '{TENANT}' AND other.tenant <> '{TENANT}'"
    )


def _bytes(made: Cluster, tenants: int) -> JsonObject:
    found = {}
    for table in TABLES:
        [[size]] = made.execute(f"SELECT pg_total_relation_size('nacre.{table}')")
        found[table] = round(int(str(size)) / tenants)
    return {**found, "total": sum(found.values())}


def _client(server: Running, tenant: int) -> httpx2.AsyncClient:
    headers = {"Authorization": f"Bearer nacre_k{tenant}_{SECRET}"}
    return httpx2.AsyncClient(base_url=f"{server.url}/v1", headers=headers, timeout=120)


async def _ask(client: httpx2.AsyncClient, text: str) -> int:
    began = time.perf_counter_ns()
    answer = await client.post("/recall", json={"query": text})
    took = time.perf_counter_ns() - began
    assert answer.status_code == 200, answer.text
    return took


async def _recall(made: Cluster, texts: Sequence[str], size: ScaleSize) -> tuple[JsonObject, JsonObject]:
    server = await asyncio.to_thread(made.serve, "scale", "--index-memory", str(INDEX_MB))
    memory = Memory(made.folder / "in-process")
    await _save(memory, texts)
    chance = random.Random(11)
    question = lambda: f"Which machine runs the {chance.choice(texts).split()[1]} service?"  # noqa: E731
    await memory.recall(question())  # loads the table of words, as a server does at its first question
    async with _client(server, 1) as client:
        await _ask(client, question())
    start_mb = server.resident_mb()
    first, warm, ours = list[int](), list[int](), list[int]()
    cpu = 0.0
    for _ in range(WARM_UP):
        await memory.recall(question())
    warmed = max(2, size.sampled // 5)
    for tenant in range(2, size.sampled + 2):
        async with _client(server, tenant) as client:
            first.append(await _ask(client, question()))
            if tenant >= warmed + 2:
                continue
            for _ in range(WARM_UP):
                await _ask(client, question())
            before = server.cpu_seconds()
            for _ in range(size.rounds):
                text = question()
                warm.append(await _ask(client, text))
                began = time.perf_counter_ns()
                await memory.recall(text)
                ours.append(time.perf_counter_ns() - began)
            cpu += server.cpu_seconds() - before
    # Only the last ones fit into the memory: the first were closed, and their copies are on the disk.
    cold = []
    for tenant in range(2, warmed + 2):
        async with _client(server, tenant) as client:
            cold.append(await _ask(client, question()))
    index_mb = await _index_mb(made, server)
    copies = made.folder / "scale" / "server" / "copies"
    copy_bytes = sum(one.stat().st_blocks * 512 for one in copies.rglob("*")) / size.sampled
    figures: JsonObject = {
        "in_process": spread(ours),
        "warm": spread(warm),
        "cold": spread(cold),
        "first_on_machine": spread(first),
        "cpu_ms": round(cpu / len(warm) * 1000, 2),
    }
    memory_figures: JsonObject = {
        "limit_mb": INDEX_MB,
        "index_mb": round(index_mb, 1),
        "resident_mb_at_start": round(start_mb),
        "resident_mb": round(server.resident_mb()),
        "copy_bytes_per_tenant": round(copy_bytes),
    }
    server.kill()
    return figures, memory_figures


async def _index_mb(made: Cluster, server: Running) -> float:
    made.execute("UPDATE nacre.api_keys SET role = 'admin' WHERE id = 'k1'")
    async with httpx2.AsyncClient(headers={"Authorization": f"Bearer nacre_k1_{SECRET}"}) as client:
        lines = (await client.get(f"{server.url}/metrics")).text.splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith("nacre_index_bytes")) / 2**20


async def _throughput(made: Cluster, size: ScaleSize) -> JsonObject:
    servers = [await asyncio.to_thread(made.serve, f"throughput-{n}") for n in range(2)]
    tenants = range(1, min(size.tenants, CLIENTS // 2) + 1)
    for server in servers:
        for tenant in tenants:
            async with _client(server, tenant) as client:
                for _ in range(WARM_UP):
                    await _ask(client, "Which machine runs the heron service?")
    runs: dict[int, list[tuple[float, float]]] = {1: [], 2: []}
    for _ in range(3):
        for count in (1, 2):
            runs[count].append(await _run(servers[:count], tenants, size.seconds))
    for server in servers:
        server.kill()
    rates = {count: sorted(rate for rate, _ in found)[1] for count, found in runs.items()}
    cpu = {count: sorted(one for _, one in found)[1] for count, found in runs.items()}
    return {
        "clients": CLIENTS,
        "one_per_second": round(rates[1], 1),
        "two_per_second": round(rates[2], 1),
        "ratio": round(rates[2] / rates[1], 2),
        "one_cpu_ms": round(cpu[1] * 1000, 2),
        "two_cpu_ms": round(cpu[2] * 1000, 2),
        "ratio_by_processor": round(2 * cpu[1] / cpu[2], 2),
    }


async def _run(servers: Sequence[Running], tenants: Sequence[int], seconds: float) -> tuple[float, float]:
    """Return requests a second, and processor seconds of the servers for each."""
    until = time.perf_counter() + seconds
    before = sum(one.cpu_seconds() for one in servers)
    done = 0

    async def ask(number: int) -> None:
        nonlocal done
        mine = tenants[number % len(tenants)]
        async with _client(servers[number % len(servers)], mine) as client:
            while time.perf_counter() < until:
                await _ask(client, "Which machine runs the heron service?")
                done += 1

    began = time.perf_counter()
    await asyncio.gather(*(ask(number) for number in range(CLIENTS)))
    took = time.perf_counter() - began
    return done / took, (sum(one.cpu_seconds() for one in servers) - before) / done


def _paper(per_tenant: JsonObject, memory: JsonObject, throughput: JsonObject) -> JsonObject:
    """Return what a million people with as many memories each would take, from the figures of one."""
    total = int(str(per_tenant["total"]))
    copy = int(str(memory["copy_bytes_per_tenant"]))
    return {
        "users": USERS,
        "table_gb": round(total * USERS / 1e9),
        "copies_gb": round(copy * USERS / 1e9),
        "recalls_per_core_second": round(1000 / float(str(throughput["one_cpu_ms"]))),
    }


def plot(figures: JsonObject) -> str:
    """Times of a recall as bars; the first use of a machine takes too long for one."""
    from bench.plot import bar_chart

    recall = figures["recall"]
    assert isinstance(recall, dict)
    names = {
        "in_process": "in process",
        "warm": "over HTTP, index open",
        "cold": "over HTTP, index closed",
    }
    values = {
        label: float(str(found["p50_us"])) / 1000
        for name, label in names.items()
        if isinstance(found := recall[name], dict)
    }
    return bar_chart("Median time of a recall among 100 memories", values, x="milliseconds")
