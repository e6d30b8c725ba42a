"""The server over HTTP: a real socket on loopback, a token, and nobody from elsewhere."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Iterator, MutableMapping
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from nacre.asgi import Send, bound
from nacre.errors import ConfigError
from nacre.integrations.mcp_server.http import HOST, gate, sound_token
from nacre.settings import load
from tests.integrations.mcp_server.serving import TOKEN, command, environment, http_server, kept, said

HERE = "127.0.0.1:8765"
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "x", "version": "1"},
    },
}
TAKES = {"Accept": "application/json, text/event-stream"}


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """Where a server of `tmp_path` answers."""
    with http_server(tmp_path) as found:
        yield found


@pytest.mark.slow
async def test_a_client_with_the_token_saves_and_recalls_and_nobody_else_gets_in(
    tmp_path: Path, address: str
) -> None:
    """One server for all of it, because each takes a second to start."""
    await kept(tmp_path, "The staging database is called pearl-two.", name="Staging")
    assert address.startswith("http://127.0.0.1:")
    for mode in ("legacy", "auto"):
        async with (
            httpx2.AsyncClient(headers={"Authorization": f"Bearer {TOKEN}"}, timeout=30) as http,
            Client(streamable_http_client(address, http_client=http), mode=mode) as talk,
        ):
            assert len((await talk.list_tools()).tools) == 12
            await said(talk, "memory_save", text=f"Tea of {mode} is green.", type="user", name=f"Tea {mode}")
            assert "pearl-two" in await said(talk, "memory_recall", query="what is staging called?")
    port = address.rpartition(":")[2].partition("/")[0]
    async with httpx2.AsyncClient(timeout=30) as http:

        async def status(**headers: str) -> int:
            given = {**TAKES, **{name.replace("_", "-"): value for name, value in headers.items()}}
            return (await http.post(address, json=INITIALIZE, headers=given)).status_code

        right = f"Bearer {TOKEN}"
        assert await status() == 401
        assert await status(Authorization="Bearer wrong") == 401
        assert await status(Authorization=f"{right}x") == 401
        assert await status(Authorization=TOKEN) == 401
        assert await status(Authorization=right, Host="evil.example") == 421
        assert await status(Authorization=right, Host=f"evil.example:{port}") == 421
        assert await status(Authorization=right, Host="127.0.0.1:1") == 421
        assert await status(Authorization=right, Origin="https://evil.example") == 403
        assert await status(Authorization=right, Origin="null") == 403
        assert await status(Authorization=right, Origin=f"http://127.0.0.1:{port}") == 200
        assert await status(Authorization=right) == 200
        assert await status(Authorization=f"bearer {TOKEN}") == 200
        assert await status(Authorization=f"Basic {TOKEN}") == 401
        upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
        key = {"Sec-WebSocket-Key": "x3JJHMbDL1EzLkh9GBhXDw=="}
        assert (await http.get(address, headers={**upgrade, **key})).status_code == 401


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ([], 421),
        ([("host", HERE), ("host", "evil.example")], 421),
        ([("host", "evil.example"), ("host", HERE), ("authorization", f"Bearer {TOKEN}")], 421),
        ([("host", HERE), ("origin", "http://evil.example"), ("origin", f"http://{HERE}")], 403),
        ([("host", HERE), ("authorization", "Bearer x"), ("authorization", f"Bearer {TOKEN}")], 401),
        ([("host", HERE), ("origin", f"http://{HERE}"), ("authorization", f"Bearer {TOKEN}")], 204),
    ],
)
async def test_a_header_that_stands_twice_opens_nothing(headers: list[tuple[str, str]], status: int) -> None:
    """Whoever reads the first of two and whoever reads the last would differ."""
    answers: list[int] = []

    async def send(message: MutableMapping[str, Any]) -> None:
        answers.extend([message["status"]] if "status" in message else [])

    async def served(_: object, __: object, send: Send) -> None:
        await send({"type": "http.response.start", "status": 204})

    async def receive() -> MutableMapping[str, Any]:
        return {}

    gated = gate(served, token=TOKEN, hosts=[HERE], origins=[f"http://{HERE}"])
    sent = [(name.encode(), value.encode()) for name, value in headers]
    await gated({"type": "http", "headers": sent}, receive, send)
    assert answers == [status]


@pytest.mark.slow
def test_a_token_is_made_and_printed_once_where_none_is_given(tmp_path: Path) -> None:
    server = subprocess.Popen(
        command("--http"),
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert server.stdout is not None and server.stderr is not None
    address, line = server.stdout.readline().strip(), server.stderr.readline()
    token = line.partition("token: ")[2].partition(" ")[0]
    headers = {**TAKES, "Authorization": f"Bearer {token}"}
    assert httpx2.post(address, json=INITIALIZE, headers=headers, timeout=30).status_code == 200
    server.send_signal(signal.SIGINT)
    rest, told = server.communicate(timeout=30)
    assert (len(token) >= 40, token in rest + told) == (True, False)


def test_a_token_that_can_be_guessed_and_a_port_that_is_taken_are_refused() -> None:
    for weak in ("short", "with blanks in it, long", "täglich-ein-neues-wort"):
        with pytest.raises(ConfigError, match="NACRE_MCP_TOKEN needs 16"):
            sound_token(weak)
    assert sound_token(None) != sound_token("")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(ConfigError, match="choose another"):
            bound(HOST, taken.getsockname()[1])
    free = bound(HOST, 0)
    assert free.getsockname()[0] == "127.0.0.1"
    free.close()
    assert os.environ.get("NACRE_MCP_TOKEN") is None


def test_the_token_is_no_setting_and_no_problem_either() -> None:
    """Whoever exports it for good must not be told by every `nacre doctor` that it is unknown."""
    assert load(Path.cwd(), {"NACRE_MCP_TOKEN": TOKEN}).problems == ()
