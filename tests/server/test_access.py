from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import httpx2
import pytest

from nacre.testing import FrozenClock
from tests.server.serving import serving

pytestmark = pytest.mark.usefixtures("store")


async def test_nothing_but_health_is_served_without_a_key(tmp_path: Path) -> None:
    async with serving(tmp_path) as server, httpx2.AsyncClient(base_url=server.url) as client:
        assert (await client.get("/openapi.json")).status_code == 401
        assert (await client.get("/metrics")).status_code == 401
        head = {"Authorization": f"Bearer {await server.key()}"}
        document = (await client.get("/openapi.json", headers=head)).json()
        for path, methods in document["paths"].items():
            for method in methods:
                answer = await client.request(method, path.replace("{", "").replace("}", ""), json={})
                assert answer.status_code == 401, (method, path)
                assert answer.headers["content-type"] == "application/problem+json"
        assert (await client.get("/healthz")).status_code == 200
        assert (await client.get("/readyz")).status_code == 200


@pytest.mark.parametrize("sent", ["", "Bearer", "Bearer nacre_", "Basic abc", "Bearer nacre_x_y", "Bearer é"])
async def test_a_malformed_key_is_unauthorized(tmp_path: Path, sent: str) -> None:
    async with serving(tmp_path) as server, httpx2.AsyncClient(base_url=server.url) as client:
        answer = await client.get("/v1/memories", headers={b"Authorization": sent.encode()})  # type: ignore[dict-item]
        assert answer.status_code == 401


async def test_roles_and_spaces_limit_a_key(tmp_path: Path) -> None:
    async with serving(tmp_path) as server:
        async with server.client(await server.key("reader")) as reader:
            assert (await reader.post("/memories", json={"text": "x"})).status_code == 403
            assert (await reader.post("/recall", json={"query": "anything"})).status_code == 200
        async with server.client(await server.key("member")) as member:
            assert (await member.get("/audit-log")).status_code == 403
        async with server.client(await server.key("admin", spaces=("agent:tester",))) as bounded:
            assert (await bounded.get("/memories")).status_code == 404
            assert (await bounded.get("/memories", params={"space": "agent:tester"})).status_code == 200


async def test_an_expired_or_revoked_key_is_refused_at_once(tmp_path: Path) -> None:
    clock = FrozenClock()
    async with serving(tmp_path, clock=clock) as server:
        key = await server.key(days=1)
        async with server.client(key) as client:
            assert (await client.get("/memories")).status_code == 200
            clock.advance(timedelta(days=2).total_seconds())
            assert (await client.get("/memories")).status_code == 401
        other = await server.key()
        async with server.client(other) as client:
            assert (await client.get("/memories")).status_code == 200
            # Another process revokes it.
            await server.admin_keys.revoke(other.split("_")[1])
            assert (await client.get("/memories")).status_code == 401


@pytest.mark.parametrize("store", ["files"], indirect=True)
async def test_only_the_hash_of_a_key_is_stored(tmp_path: Path) -> None:
    async with serving(tmp_path) as server:
        key = await server.key()
        path = server.parts.settings.home / "server" / "keys.json"
        assert key.split("_", 2)[2] not in path.read_text()
        assert path.stat().st_mode & 0o077 == 0


async def test_writes_are_in_the_audit_log_without_content(tmp_path: Path) -> None:
    async with serving(tmp_path) as server, server.client(await server.key("admin")) as client:
        saved = (await client.post("/memories", json={"text": "The build server is heron."})).json()
        await client.post("/memories", json={"text": ""})
        await client.get("/memories")
        entries = (await client.get("/audit-log")).json()["entries"]
        assert [(one["operation"], one["status"]) for one in entries] == [("saveMemory", 201)]
        assert (entries[0]["commit"], entries[0]["user"]) == (saved["commit"], "ada")
        assert "heron." not in json.dumps(entries)


async def test_too_many_requests_are_told_when_to_retry(tmp_path: Path) -> None:
    clock = FrozenClock()
    async with serving(tmp_path, clock=clock) as server, server.client(await server.key()) as client:
        answers = [await client.get("/spaces") for _ in range(201)]
        assert [one.status_code for one in answers] == [200] * 200 + [429]
        assert int(answers[-1].headers["retry-after"]) >= 1


async def test_a_large_or_malformed_body_is_refused_in_one_line(tmp_path: Path) -> None:
    async with serving(tmp_path) as server, server.client(await server.key()) as client:
        bodies = [b"{", b"[]", b'{"text": 5}', b'{"text": "x", "colour": "red"}', b"\xff", b'{"text": ""}']
        for body in bodies:
            answer = await client.post("/memories", content=body)
            assert answer.status_code == 400, body
            assert "\n" not in answer.json()["detail"]
        assert (await client.post("/memories", content=b"x" * 1_100_000)).status_code == 413
