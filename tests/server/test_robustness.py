from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import socket
from pathlib import Path

import httpx2
import pytest

from nacre import loopback
from nacre.asgi import bound
from nacre.errors import StoreError
from nacre.loopback import ConnectionLimit
from nacre.memory.files.location import user_location
from nacre.memory.memory import Memory
from nacre.messages.blocks import JsonObject
from nacre.server.audit_log import AuditFile
from nacre.server.keys import ApiKey
from nacre.server.spaces import FileSpaces, Space
from nacre.settings import load
from tests.server.serving import serving

HERON = "The build server is heron, in the basement."


class _SlowSpaces(FileSpaces):
    """Opens a space once a test allows it."""

    def __init__(self, cwd: Path) -> None:
        super().__init__(load(cwd, os.environ))
        self.entered = asyncio.Event()
        self.go = asyncio.Event()

    async def open(self, key: ApiKey, name: str) -> Space:
        self.entered.set()
        await self.go.wait()
        return await super().open(key, name)


async def test_a_write_that_is_repeated_while_the_first_is_in_progress_is_not_done_twice(
    tmp_path: Path,
) -> None:
    spaces = _SlowSpaces(tmp_path)
    async with serving(tmp_path, spaces=spaces) as server, server.client(await server.key()) as client:
        head = {"Idempotency-Key": "one"}
        first = asyncio.create_task(client.post("/memories", json={"text": HERON}, headers=head))
        await spaces.entered.wait()
        again = await client.post("/memories", json={"text": HERON}, headers=head)
        assert (again.status_code, again.headers["retry-after"]) == (409, "1")
        spaces.go.set()
        saved = await first
        assert (await client.post("/memories", json={"text": HERON}, headers=head)).json() == saved.json()
        assert len((await client.get("/history")).json()["commits"]) == 1


async def test_a_client_that_leaves_does_not_interrupt_its_write(tmp_path: Path) -> None:
    spaces = _SlowSpaces(tmp_path)
    async with serving(tmp_path, spaces=spaces) as server:
        key = await server.key("admin")
        async with server.client(key) as client:
            first = asyncio.create_task(
                client.post("/memories", json={"text": HERON}, headers={"Idempotency-Key": "one"})
            )
            await spaces.entered.wait()
            first.cancel()
            await asyncio.gather(first, return_exceptions=True)
        spaces.go.set()
        async with server.client(key) as client:
            for _ in range(200):
                if (await client.get("/audit-log")).json()["entries"]:
                    break
                await asyncio.sleep(0.01)
            assert len((await client.get("/memories")).json()["memories"]) == 1
            again = await client.post("/memories", json={"text": HERON}, headers={"Idempotency-Key": "one"})
            assert again.status_code == 201
            assert len((await client.get("/history")).json()["commits"]) == 1


async def test_a_failed_write_may_be_repeated_with_the_same_key(tmp_path: Path) -> None:
    async with serving(tmp_path) as server, server.client(await server.key()) as client:
        head = {"Idempotency-Key": "one"}
        secret = {"text": "The database password is hunter2-Quartz-88."}
        assert (await client.post("/memories", json=secret, headers=head)).status_code == 422
        assert (await client.post("/memories", json={"text": HERON}, headers=head)).status_code == 201


async def test_the_index_and_files_in_folders(tmp_path: Path) -> None:
    memory = Memory(user_location(load(tmp_path, os.environ).home))
    folder = memory.location.directory / "rooms"
    folder.mkdir(parents=True)
    (folder / "attic.md").write_text("---\nname: Attic\ntype: project\n---\nThe attic has room for two.\n")
    async with serving(tmp_path) as server, server.client(await server.key()) as client:
        await client.post("/memories", json={"text": HERON})
        for method in ("GET", "PATCH", "DELETE"):
            answer = await client.request(method, "/memories/MEMORY.md", json={"text": "Nothing."})
            assert answer.status_code == 404, method
        for path in ("rooms/attic.md", "rooms%2Fattic.md"):
            assert (await client.get(f"/memories/{path}")).json()["name"] == "Attic"
            assert (await client.get(f"/memories/{path}/why")).json()["exists"] is True
        assert (await client.delete("/memories/rooms/attic.md")).status_code == 200
        assert not (folder / "attic.md").exists()


async def test_text_in_any_script_is_saved(tmp_path: Path) -> None:
    async with serving(tmp_path) as server, server.client(await server.key()) as client:
        saved = await client.post("/memories", json={"text": "构建服务器在地下室，名字是苍鹭。"})
        assert saved.status_code == 201
        location = saved.headers["location"].removeprefix("/v1")
        assert "苍鹭" in (await client.get(location)).json()["body"]


async def test_half_a_surrogate_pair_in_a_file_name_breaks_no_list(tmp_path: Path) -> None:
    memory = Memory(user_location(load(tmp_path, os.environ).home))
    memory.location.directory.mkdir(parents=True)
    path = os.fsencode(memory.location.directory) + b"/caf\xe9.md"
    Path(os.fsdecode(path)).write_text("---\nname: Caf\n---\nThe cafe opens at noon.\n")
    async with serving(tmp_path) as server, server.client(await server.key()) as client:
        listed = await client.get("/memories")
        assert listed.status_code == 200
        found = await client.post("/memories/search", json={"query": "cafe opens noon"})
        assert found.status_code == 200


async def test_a_slash_at_the_end_is_no_redirect(tmp_path: Path) -> None:
    async with serving(tmp_path) as server, server.client(await server.key()) as client:
        for path in ("/memories/", "/sessions/", "/sessions/%2F"):
            assert (await client.get(path)).status_code == 404, path


@pytest.mark.parametrize("method", ["PUT", "OPTIONS", "DELETE"])
async def test_an_unknown_method_is_told_the_allowed_ones(tmp_path: Path, method: str) -> None:
    async with serving(tmp_path) as server, server.client(await server.key()) as client:
        answer = await client.request(method, "/memories")
        assert (answer.status_code, answer.headers["allow"]) == (405, "GET, POST")
        assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("commit", ["../../../../../../../../../etc/passwd-000", "0" * 40, "abcd", "HEAD"])
async def test_an_unknown_commit_is_not_found(tmp_path: Path, commit: str) -> None:
    async with serving(tmp_path) as server, server.client(await server.key()) as client:
        await client.post("/memories", json={"text": HERON})
        assert (await client.get(f"/history/{commit}")).status_code == 404
        assert (await client.post("/undo", json={"commit": commit})).status_code in {400, 404}


async def test_a_defect_is_logged_without_the_text_it_mentions(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(FileSpaces):
        async def open(self, key: ApiKey, name: str) -> Space:
            raise RuntimeError(f"cannot handle {HERON}")

    spaces = Broken(load(tmp_path, os.environ))
    with caplog.at_level(logging.INFO):
        async with serving(tmp_path, spaces=spaces) as server, server.client(await server.key()) as client:
            answer = await client.post("/memories", json={"text": HERON})
    assert answer.status_code == 500
    assert "heron" not in caplog.text + answer.text
    entry = next(json.loads(one.message) for one in caplog.records if one.levelno == logging.ERROR)
    assert (entry["operation"], entry["error"]) == ("saveMemory", "RuntimeError")
    assert any("test_robustness.py" in line for line in entry["where"])


async def test_a_full_disk_is_no_fault_of_the_client(tmp_path: Path) -> None:
    class Full(FileSpaces):
        async def open(self, key: ApiKey, name: str) -> Space:
            raise StoreError("no space left") from OSError(28, "no space left")

    spaces = Full(load(tmp_path, os.environ))
    async with serving(tmp_path, spaces=spaces) as server, server.client(await server.key()) as client:
        answer = await client.post("/memories", json={"text": HERON})
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")


async def test_pages_of_the_audit_log_continue_in_older_files(tmp_path: Path) -> None:
    log = AuditFile(tmp_path, max_bytes=700)
    for number in range(25):
        await log.append({"id": f"n{number}", "tenant": "local" if number % 5 else "other"})
    assert len(list((tmp_path / "server").glob("audit-*.jsonl"))) >= 1
    seen: list[JsonObject] = []
    before = ""
    while page := await log.newest("local", limit=7, before=before):
        seen += page
        before = str(page[-1]["id"])
    assert [one["id"] for one in seen] == [f"n{number}" for number in reversed(range(25)) if number % 5]


async def test_metrics_count_requests_without_content(tmp_path: Path) -> None:
    async with serving(tmp_path) as server:
        head = {"Authorization": f"Bearer {await server.key('admin')}"}
        async with httpx2.AsyncClient(base_url=server.url, headers=head) as client:
            await client.post("/v1/memories", json={"text": HERON})
            text = (await client.get("/metrics")).text
        assert 'nacre_requests_total{operation="saveMemory",status="201"} 1' in text
        assert 'nacre_request_seconds_bucket{operation="saveMemory",le="+Inf"} 1' in text
        assert "heron" not in text


async def test_parts_of_an_answer_are_sent_at_once(tmp_path: Path) -> None:
    listening = bound("127.0.0.1", 0)
    loop = asyncio.get_running_loop()
    accepted: asyncio.Future[int] = loop.create_future()

    def connected(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = writer.get_extra_info("socket")
        accepted.set_result(peer.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        writer.close()

    server = await asyncio.start_server(connected, sock=listening)
    _, writer = await asyncio.open_connection(*listening.getsockname())
    assert await accepted != 0
    writer.close()
    server.close()


@pytest.mark.parametrize("path", ["/v1/memories", "/mcp", "/healthz", "/v1/unknown"])
async def test_connections_without_a_key_keep_no_client_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    # Patched, because the real limit is hundreds of connections.
    monkeypatch.setattr(loopback, "MAX_CONNECTIONS", 16)
    async with serving(tmp_path, connections=ConnectionLimit()) as server:
        key = await server.key()
        host = server.url.removeprefix("http://")
        head = f"POST {path} HTTP/1.1\r\nhost: {host}\r\n"
        held = []
        for number in range(48):
            _, writer = await asyncio.open_connection("127.0.0.1", int(host.rpartition(":")[2]))
            rest = ("", "x-slow: ", "content-length: 9\r\n\r\n{")[number % 3]
            writer.write((head + rest).encode())
            held.append(writer)
        async with server.client(key) as client:
            answers = [await client.get("/memories") for _ in range(3)]
        for writer in held:
            writer.transport.abort()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
    assert [one.status_code for one in answers] == [200] * 3
