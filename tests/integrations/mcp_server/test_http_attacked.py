"""The server over HTTP while clients without the token hold connections."""

from __future__ import annotations

import asyncio
import resource
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.integrations.hostile_clients import attacked
from tests.integrations.mcp_server.serving import TOKEN, http_server, kept, said

pytestmark = pytest.mark.slow

AUTHORIZATION = {"Authorization": f"Bearer {TOKEN}"}
DESCRIPTORS = 256
CLIENTS = 1_000
SECONDS = 2.0
"""A client with the token has its answer within this time."""


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """Where a server answers that may open few descriptors."""
    with http_server(tmp_path, "/bin/sh", "-c", f'ulimit -n {DESCRIPTORS}; exec "$@"', "sh") as found:
        yield found


def port_of(address: str) -> int:
    return int(address.rpartition(":")[2].partition("/")[0])


async def test_a_client_with_the_token_is_answered_during_an_attack(tmp_path: Path, address: str) -> None:
    if resource.getrlimit(resource.RLIMIT_NOFILE)[1] < CLIENTS + 100:
        pytest.skip("this account may not open enough connections for the attack")
    await kept(tmp_path, "The staging database is called pearl-two.", name="Staging")

    async def ask() -> float:
        began = time.monotonic()
        async with (
            httpx2.AsyncClient(headers=AUTHORIZATION, timeout=30) as http,
            Client(streamable_http_client(address, http_client=http), mode="legacy") as talk,
        ):
            assert "pearl-two" in await said(talk, "memory_recall", query="what is staging called?")
            return time.monotonic() - began

    await ask()
    async with (
        httpx2.AsyncClient(headers=AUTHORIZATION, timeout=30) as http,
        Client(streamable_http_client(address, http_client=http), mode="legacy") as before,
    ):
        with attacked(port_of(address), CLIENTS):
            slowest = max([await ask() for _ in range(5)])
            # The connection that was open before has been kept.
            assert "pearl-two" in await said(before, "memory_recall", query="what is staging called?")
    assert slowest < SECONDS


async def test_half_a_request_is_dropped(address: str) -> None:
    """A head has one time, however slowly it arrives; a body has one from part to part."""
    port = port_of(address)
    head = f"POST /mcp HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n".encode()
    with_token = head + f"authorization: Bearer {TOKEN}\r\n".encode()

    async def seconds_until_closed(sent: bytes, *, drips: bool = False) -> float:
        began = time.monotonic()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(sent)
        answer = asyncio.create_task(reader.read(-1))
        while not answer.done() and time.monotonic() < began + 60:
            await asyncio.wait({answer}, timeout=1)
            if drips and not answer.done():
                writer.write(b"a")
        writer.close()
        assert answer.done()
        answer.exception()
        return time.monotonic() - began

    silent, head_only, dripping, body, trusted_body = await asyncio.gather(
        seconds_until_closed(b""),
        seconds_until_closed(head),
        seconds_until_closed(head + b"x-slow: ", drips=True),
        seconds_until_closed(head + b"content-length: 9\r\n\r\n{"),
        seconds_until_closed(with_token + b"content-length: 9\r\n\r\n{"),
    )
    assert 9 < silent < 13
    assert 9 < head_only < 13
    assert 9 < dripping < 13
    assert body < 4
    assert 28 < trusted_body < 34
