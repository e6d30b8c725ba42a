"""Against a server written with the official SDK, over streamable HTTP on loopback."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from nacre.mcp_client import CallOutcome, ServerConfig, Servers, parse_servers
from nacre.mcp_client.transports import CONNECT_SECONDS
from nacre.messages.blocks import Text
from tests.mcp_client.places import HERE, QUICK, until

LIMITS = replace(QUICK, start_seconds=30.0, call_seconds=10.0)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def at(port: int, path: str = "/mcp", **headers: str) -> ServerConfig:
    entry = {"type": "http", "url": f"http://127.0.0.1:{port}{path}", "headers": dict(headers)}
    return parse_servers({"web": entry}, environ={})[0]


@asynccontextmanager
async def running(port: int) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, HERE / "sdk_server.py", str(port), env={**os.environ, "PYTHONWARNINGS": "ignore"}
    )

    def is_open() -> bool:
        assert process.returncode is None, "the server ended"
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    try:
        await until(is_open, seconds=30.0)
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


@pytest.mark.slow
async def test_a_remote_server_is_used_dies_and_is_reached_again(tmp_path: object) -> None:
    port = free_port()
    async with (
        running(port) as first,
        Servers([at(port, Authorization="Bearer t0k")], limits=LIMITS) as servers,
    ):
        assert servers.take_notices() == () and "mcp__web__add" in [tool.wire_name for tool in servers.tools]
        assert await servers.call("mcp__web__add", {"a": 2}) == CallOutcome((Text("3"),))
        assert (await servers.call("mcp__web__header", {"name": "authorization"})).text == "Bearer t0k"
        big = await servers.call("mcp__web__big", {"characters": 10_000_000})
        assert not big.is_error and "10,000,000 characters" in big.text
        assert (await servers.call("mcp__web__change", {})).text == "changed"
        notices: list[str] = []
        await until(lambda: bool(notices.extend(servers.take_notices()) or len(notices) == 2))
        assert notices[1] == "MCP server web no longer offers weather"

        call = asyncio.create_task(servers.call("mcp__web__slow", {"mark": f"{tmp_path}/slow"}))
        await asyncio.sleep(0.3)
        call.cancel()
        await asyncio.wait({call}, timeout=2.0)
        assert call.cancelled()
        assert (await servers.call("mcp__web__add", {"a": 1})).text == "2"

        hit = asyncio.create_task(servers.call("mcp__web__slow", {"mark": f"{tmp_path}/hit"}))
        await asyncio.sleep(0.3)
        first.kill()
        await first.wait()
        assert (await hit).is_error
        down = await servers.call("mcp__web__add", {"a": 1})
        assert down.is_error and down.text.startswith("MCP server web is down: it ")
        async with running(port):
            await asyncio.sleep(1.0)
            assert await servers.call("mcp__web__add", {"a": 4}) == CallOutcome((Text("5"),))


async def test_an_address_where_nobody_is_is_one_notice() -> None:
    async with Servers([at(free_port())], limits=LIMITS) as servers:
        assert servers.tools == ()
        assert servers.take_notices() == ("MCP server web cannot be used: All connection attempts failed",)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (
            b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n",
            "(HTTP 401; check its headers in mcpServers)",
        ),
        (b"HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n", "(HTTP 500)"),
        (
            b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 2\r\n\r\nhi",
            "Unexpected content type: text/html",
        ),
        (b"nonsense\r\n\r\n", "illegal status line"),
        (b"", "did not answer within 1.5 s"),
    ],
)
async def test_a_web_server_that_speaks_no_mcp_is_one_notice_that_says_why(
    answer: bytes, reason: str
) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await (reader.read() if not answer else writer.drain())
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as listening:
        port = listening.sockets[0].getsockname()[1]
        seconds = CONNECT_SECONDS if answer else 1.5
        async with Servers([at(port)], limits=replace(LIMITS, start_seconds=seconds)) as servers:
            (notice,) = servers.take_notices()
    assert notice.startswith("MCP server web ") and reason in notice and "\n" not in notice
