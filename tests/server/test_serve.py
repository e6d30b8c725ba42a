"""`nacre serve` as a process: first start, MCP, errors, and its end."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from nacre.asgi import bound
from tests.integrations.mcp_server.serving import said

SERVE = [sys.executable, "-m", "nacre", "serve"]
HERON = "The build server is heron, in the basement."


@dataclass(frozen=True)
class Served:
    process: subprocess.Popen[str]
    url: str
    key: str

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.key}"}


@contextmanager
def served(cwd: Path, *options: str) -> Iterator[Served]:
    """Start the server, with the key of its first start."""
    process = subprocess.Popen(
        [*SERVE, "--json", *options], cwd=cwd, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        first = json.loads(process.stdout.readline())
        assert (first["pid"], first["store"]) == (process.pid, "files")
        key = re.search(r"nacre_\w+_[\w-]+", process.stderr.readline())
        assert key is not None
        yield Served(process, first["url"], key[0])
    finally:
        process.kill()
        process.communicate(timeout=30)


@pytest.mark.slow
def test_a_request_in_progress_is_answered_before_the_server_ends(tmp_path: Path) -> None:
    with (
        served(tmp_path) as server,
        httpx2.Client(base_url=server.url, headers=server.headers) as client,
        httpx2.Client(base_url=server.url, headers=server.headers) as other,
    ):
        body = json.dumps({"text": HERON}).encode()
        assert client.get("/healthz").status_code == 200  # it serves; a signal before that only ends it

        def slowly() -> Iterator[bytes]:
            yield body[:10]
            while "nacre_requests_in_progress 1" not in other.get("/metrics").text:
                time.sleep(0.01)
            server.process.send_signal(signal.SIGTERM)
            yield body[10:]

        answer = client.post(
            "/v1/memories", content=slowly(), headers={"Content-Length": str(len(body))}, timeout=30
        )
        assert answer.status_code == 201
        assert server.process.wait(timeout=30) == 0
        assert server.process.stderr is not None
        assert server.process.stderr.read() == ""


@pytest.mark.slow
async def test_mcp_has_the_same_tools_and_the_rights_of_the_key(tmp_path: Path) -> None:
    with served(tmp_path) as server:
        made = subprocess.run(
            [sys.executable, "-m", "nacre", "keys", "create", "--role", "reader", "--json"],
            cwd=tmp_path, capture_output=True, text=True, check=True,
        )  # fmt: skip
        reader = json.loads(made.stdout)["key"]
        for key, tools in ((server.key, 12), (reader, 6)):
            async with (
                httpx2.AsyncClient(headers={"Authorization": f"Bearer {key}"}, timeout=30) as http,
                Client(streamable_http_client(f"{server.url}/mcp", http_client=http), mode="auto") as talk,
            ):
                assert len((await talk.list_tools()).tools) == tools
                if key == server.key:
                    await said(talk, "memory_save", text=HERON, type="project", name="Build server")
                assert "heron" in await said(talk, "memory_recall", query="which build server?")
        async with httpx2.AsyncClient(base_url=server.url) as client:
            refused = await client.post("/mcp", json={}, headers={"Authorization": "Bearer nacre_a_b"})
            assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")


@pytest.mark.slow
def test_errors_are_one_line(tmp_path: Path) -> None:
    taken = bound("127.0.0.1", 0)
    port = str(taken.getsockname()[1])
    cases = [
        (["--port", port], f"port {port} of 127.0.0.1"),
        (["--host", "0.0.0.0"], "add --behind-proxy"),
    ]
    for options, expected in cases:
        done = subprocess.run(
            [*SERVE, *options], cwd=tmp_path, capture_output=True, text=True, timeout=60, env={**os.environ}
        )
        assert done.returncode == 3
        assert expected in done.stderr
        assert done.stderr.count("\n") == 1
    taken.close()


@pytest.mark.slow
def test_commands_work_on_the_memory_of_a_server(tmp_path: Path) -> None:
    with served(tmp_path) as server:

        def nacre(*args: str, code: int = 0) -> str:
            done = subprocess.run(
                [sys.executable, "-m", "nacre", "--server", server.url, *args],
                cwd=tmp_path, capture_output=True, text=True, timeout=60,
                env={**os.environ, "NACRE_SERVER_KEY": server.key, "NACRE_HOME": str(tmp_path / "other")},
            )  # fmt: skip
            assert done.returncode == code, done.stderr
            assert code == 0 or done.stderr.count("\n") == 1
            return done.stdout

        saved = json.loads(nacre("memory", "save", HERON, "--name", "Build server", "--json"))
        (listed,) = json.loads(nacre("memory", "list", "--json"))
        assert listed["file"] == saved["file"]
        (found,) = json.loads(nacre("memory", "search", "heron", "--json"))
        shown = json.loads(nacre("memory", "show", "build server", "--json"))
        assert (found["file"], shown["body"]) == (saved["file"], f"{HERON}\n")
        recalled = json.loads(nacre("recall", "Which server do we build on?", "--json"))
        assert [one["file"] for one in recalled["picks"]] == [saved["file"]]
        assert "saved by hand over HTTP by owner" in nacre("memory", "why", "build server")
        forgotten = json.loads(nacre("memory", "forget", "build server", "--json"))
        assert json.loads(nacre("memory", "log", "--json"))[0]["commit"] == forgotten["commit"]
        assert json.loads(nacre("memory", "undo", "--json"))["undone"] == forgotten["commit"]
        assert "heron" in nacre("memory", "list")
        nacre("memory", "show", "egret", code=1)
        nacre("doctor", code=2)


@pytest.mark.slow
def test_the_requests_of_the_guide_work(tmp_path: Path) -> None:
    guide = (Path(__file__).parents[2] / "docs" / "how-to" / "run-a-server.md").read_text()
    commands = re.findall(r"^curl .*(?:\n  .*)*", guide, re.MULTILINE)
    assert len(commands) == 9
    with served(tmp_path) as server:
        for command in commands:
            done = subprocess.run(
                ["/bin/sh", "-c", command], capture_output=True, text=True, timeout=60,
                env={**os.environ, "URL": server.url, "KEY": server.key},
            )  # fmt: skip
            assert done.returncode == 0, (command, done.stderr)
            answer = json.loads(done.stdout)
            if "/recall" in command:
                assert "heron" in answer["picks"][0]["text"]
