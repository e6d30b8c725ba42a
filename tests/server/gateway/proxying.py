"""A gateway on a loopback port, and upstreams that keep every byte they receive."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

import httpx2

from nacre.asgi import bound, serve
from nacre.server.gateway.observer import SessionObserver
from nacre.server.gateway.records import read_records
from nacre.server.gateway.report import SessionReport, report
from nacre.server.gateway.run import GatewayOptions, build_gateway
from nacre.server.gateway.upstream import Upstream


@dataclass(frozen=True)
class Running:
    """A running gateway."""

    url: str
    home: Path
    observer: SessionObserver

    def client(self, headers: dict[str, str] | None = None) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(base_url=self.url, headers=headers, timeout=10)

    async def sessions(self, requests: int) -> list[SessionReport]:
        """Return the report once so many requests are recorded: a record follows the last byte."""
        async with asyncio.timeout(10):
            while True:
                found = report(read_records(self.home))
                if sum(one.requests for one in found) >= requests:
                    return found
                await asyncio.sleep(0.01)


@asynccontextmanager
async def gateway(upstream: str, **changes: object) -> AsyncIterator[Running]:
    """Pass requests on to this address."""
    home = Path(os.environ["NACRE_HOME"])
    options = replace(GatewayOptions(home=home, upstream=Upstream(upstream)), **changes)  # type: ignore[arg-type]
    listening = bound("127.0.0.1", 0)
    port = listening.getsockname()[1]
    built = build_gateway(options, port)
    serving = serve(built.app, listening, limit=built.limit, grace_seconds=1, date_header=False)
    task = asyncio.create_task(serving)
    try:
        yield Running(f"http://127.0.0.1:{port}", home, built.observer)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        listening.close()


Answer: TypeAlias = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class RawUpstream:
    """A server that keeps head and body of each request as they came, and answers with given bytes."""

    url: str = ""
    heads: list[bytes] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    closed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a client closed its connection before the answer was whole."""


@asynccontextmanager
async def raw_upstream(answer: bytes | Answer) -> AsyncIterator[RawUpstream]:
    kept = RawUpstream()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            kept.heads.append(await reader.readuntil(b"\r\n\r\n"))
            kept.bodies.append(await _body(kept.heads[-1], reader))
            if callable(answer):
                await answer(reader, writer)
            else:
                writer.write(answer)
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            kept.closed.set()
        finally:
            writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    kept.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield kept
    finally:
        server.close()


async def _body(head: bytes, reader: asyncio.StreamReader) -> bytes:
    fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:] if b": " in line)
    if b"content-length" in fields:
        return await reader.readexactly(int(fields[b"content-length"]))
    if fields.get(b"transfer-encoding") != b"chunked":
        return b""
    parts = []
    while size := int((await reader.readline()).strip(), 16):
        parts.append(await reader.readexactly(size))
        await reader.readline()
    await reader.readline()
    return b"".join(parts)


def answer(body: bytes, *, status: bytes = b"200 OK", head: bytes = b"") -> bytes:
    """Return an answer with a length."""
    fields = head + b"content-length: %d\r\nconnection: close\r\n" % len(body)
    return b"HTTP/1.1 " + status + b"\r\n" + fields + b"\r\n" + body
