"""What a key may not see: local-only memories, and sessions and spaces of others (M27, S9)."""

from __future__ import annotations

import json
import os
from pathlib import Path

import httpx2
import pytest

from nacre.memory.files.location import user_location
from nacre.memory.format.entry import MemoryChange, MemoryDraft
from nacre.memory.memory import Memory
from nacre.memory.secrets import find_in_draft
from nacre.settings import load
from tests.server.serving import serving

HERON = "The build server is heron, in the basement."
CLINIC = "The appointment at the Larkspur clinic is on Tuesday."


async def _local_only(cwd: Path) -> str:
    memory = Memory(user_location(load(cwd, os.environ).home))
    saved = await memory.save(MemoryDraft(body=CLINIC, name="Larkspur clinic", local_only=True))
    return saved.entry.file


async def test_local_only_memories_are_shown_to_local_clients_only(tmp_path: Path) -> None:
    file = await _local_only(tmp_path)
    paths = [
        "/memories", f"/memories/{file}", f"/memories/{file}/why", f"/memories/{file}/history", "/history",
    ]  # fmt: skip
    async with serving(tmp_path) as server:
        async with server.client(await server.key()) as client:
            commit = (await client.get("/history")).json()["commits"][0]["commit"]
            seen = [await client.get(path) for path in [*paths, f"/history/{commit}", "/review"]]
            seen += [
                await client.post("/memories/search", json={"query": "Larkspur clinic appointment"}),
                await client.patch(f"/memories/{file}", json={"pinned": True}),
                await client.delete(f"/memories/{file}"),
            ]
            assert [one.status_code for one in seen] == [200, 404, 404, 404, 200, 200, 200, 200, 404, 404]
            recalled = (await client.post("/recall", json={"query": "When is the clinic?"})).json()
            assert (recalled["picks"], recalled["ranked"], recalled["left_out"]) == ([], [], [])
            for one in [answer for answer in seen if answer.is_success]:
                assert "larkspur" not in one.text.casefold().replace("_", " "), one.url
        async with server.client(await server.key(local=True)) as client:
            for path in [*paths, f"/history/{commit}"]:
                assert "larkspur" in (await client.get(path)).text.casefold(), path
            recalled = (await client.post("/recall", json={"query": "When is the clinic?"})).json()
            assert [one["file"] for one in recalled["picks"]] == [file]
            assert CLINIC in recalled["picks"][0]["text"]


async def test_the_name_of_a_forgotten_local_only_memory_stays_hidden(tmp_path: Path) -> None:
    file = await _local_only(tmp_path)
    memory = Memory(user_location(load(tmp_path, os.environ).home))
    other = (await memory.save(MemoryDraft(body=HERON, name="Build server"))).entry.file
    await memory.forget(file, MemoryChange(author="user", reason="forget Larkspur clinic"))
    await memory.forget(other)
    paths = ["/history", f"/memories/{file}/history", f"/memories/{file}/why"]
    async with serving(tmp_path) as server, server.client(await server.key()) as client:
        answers = [await client.get(path) for path in paths]
        assert [one.status_code for one in answers] == [200, 404, 404]
        assert "larkspur" not in answers[0].text.casefold()
        assert other in answers[0].text  # what was forgotten and not local-only
        async with server.client(await server.key(local=True)) as own:
            for path in paths:
                assert file in (await own.get(path)).text, path


async def test_the_diff_of_a_forgotten_local_only_memory_stays_hidden(tmp_path: Path) -> None:
    file = await _local_only(tmp_path)
    memory = Memory(user_location(load(tmp_path, os.environ).home))
    await memory.forget(file)
    async with serving(tmp_path) as server, server.client(await server.key()) as client:
        for commit in (await client.get("/history")).json()["commits"]:
            diff = await client.get(f"/history/{commit['commit']}")
            assert "Larkspur" not in diff.text
            # A sync reads files as they are, not as they were.
            body = {"head": commit["commit"], "files": [file, "MEMORY.md"]}
            assert "Larkspur" not in (await client.post("/sync/read", json=body)).text
        for head in ("0" * 40, "x"):
            answer = await client.post("/sync/read", json={"head": head, "files": [file]})
            assert (answer.status_code, str(tmp_path) in answer.text) == (409, False)


def _session(home: Path, cwd: Path, name: str, *texts: str) -> None:
    """Write a log of user messages."""
    folder = home / "projects" / str(cwd).replace("/", "-").replace("_", "-").replace(".", "-")
    folder.mkdir(parents=True, exist_ok=True)
    rows = [
        {
            "type": "user", "uuid": f"{name}-{n}", "parentUuid": f"{name}-{n - 1}" if n else None,
            "sessionId": name, "cwd": str(cwd), "timestamp": "2026-11-18T12:00:00.000Z",
            "message": {"role": "user", "content": text},
        }
        for n, text in enumerate(texts)
    ]  # fmt: skip
    (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture
def projects(tmp_path: Path) -> tuple[Path, Path]:
    """Two projects with a session each."""
    home = load(tmp_path, os.environ).home
    web, shop = tmp_path / "a" / "web", tmp_path / "b" / "shop"
    for root, name in ((web, "1111aaaa"), (shop, "2222bbbb")):
        root.mkdir(parents=True)
        (root / ".git").mkdir()
        _session(home, root, name, f"We deploy {root.name} at dusk.", f"The password is Quartz-{name}-88.")
    return web, shop


async def _known(root: Path) -> None:
    """Save a memory in a project, so that the server knows it."""
    settings = load(root, os.environ)
    memory = await Memory.open(root, environ=settings.environ)
    await memory.save(f"The port of {root.name} is 8017.")


async def test_a_key_for_one_project_reads_its_sessions_only(
    tmp_path: Path, projects: tuple[Path, Path]
) -> None:
    for root in projects:
        await _known(root)
    async with serving(tmp_path) as server:
        async with server.client(await server.key("admin", spaces=("project:web",))) as client:
            listed = await client.get("/sessions", params={"space": "project:web"})
            assert [one["session"] for one in listed.json()["sessions"]] == ["1111aaaa"]
            assert (await client.get("/spaces")).json() == {"spaces": ["project:web"]}
            for space in ({}, {"space": "project:shop"}, {"space": f"project:{projects[1]}"}):
                for path in ("/sessions", "/sessions/2222bbbb", "/sessions/2222bbbb/requests/1", "/memories"):
                    assert (await client.get(path, params=space)).status_code == 404, (path, space)
            other = await client.get("/sessions/2222bbbb", params={"space": "project:web"})
            assert other.status_code == 404
            found = await client.post(
                "/sessions/search", params={"space": "project:web"}, json={"query": "deploy"}
            )
            assert [one["session"] for one in found.json()["hits"]] == ["1111aaaa"]
            for path in ("/usage", "/audit-log", "/jobs", "/agents"):
                assert (await client.get(path)).status_code == 403
        async with server.client(await server.key()) as client:
            assert len((await client.get("/sessions")).json()["sessions"]) == 2
            agent = await client.get("/sessions", params={"space": "agent:tester"})
            assert agent.json()["sessions"] == []
            shown = await client.get("/sessions/2222bbbb")
            assert shown.status_code == 200
            assert "deploy shop at dusk" in shown.text
            assert not find_in_draft(shown.text)


async def test_a_reader_creates_no_directory(tmp_path: Path) -> None:
    async with serving(tmp_path) as server, server.client(await server.key("reader")) as client:
        answer = await client.get("/memories", params={"space": "agent:nobody"})
        assert answer.status_code == 404
        assert not (server.parts.settings.home / "agent-memory").exists()


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({}, 200),
    ],
)
async def test_pages_of_other_origins_and_rebound_names_are_refused(
    tmp_path: Path, headers: dict[str, str], status: int
) -> None:
    async with serving(tmp_path, own_hosts=True) as server, httpx2.AsyncClient(base_url=server.url) as client:
        authorization = {"Authorization": f"Bearer {await server.key()}"}
        answer = await client.get("/v1/memories", headers={**authorization, **headers})
        assert answer.status_code == status
        own = await client.get("/v1/memories", headers={**authorization, "Origin": server.url})
        assert own.status_code == 200
