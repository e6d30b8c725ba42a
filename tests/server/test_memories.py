from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from nacre.memory.files.location import user_location
from nacre.memory.memory import Memory
from nacre.settings import load
from tests.server.serving import serving

pytestmark = pytest.mark.usefixtures("store")

HERON = "The build server is heron, in the basement."


async def test_saves_reads_and_recalls_a_memory(tmp_path: Path, store: str) -> None:
    async with serving(tmp_path) as server, server.client(await server.key()) as client:
        saved = await client.post("/memories", json={"text": HERON, "type": "project"})
        assert saved.status_code == 201
        file = saved.json()["file"]
        assert saved.headers["location"].startswith(f"/v1/memories/{file}")
        read = (await client.get(f"/memories/{file}")).json()
        assert (read["body"].strip(), read["type"], read["origin"]) == (HERON, "project", "user")
        recalled = (await client.post("/recall", json={"query": "Which server do we build on?"})).json()
        assert [one["file"] for one in recalled["picks"]] == [file]
        found = (await client.post("/memories/search", json={"query": "heron"})).json()
        assert [one["file"] for one in found["memories"]] == [file]
    # The same files that every other way to memory uses.
    if store == "files":
        memory = Memory(user_location(load(tmp_path, os.environ).home))
        assert [one.file for one in await memory.list()] == [file]


async def test_a_change_needs_the_version_that_the_client_read(tmp_path: Path) -> None:
    async with serving(tmp_path) as server, server.client(await server.key()) as client:
        file = (await client.post("/memories", json={"text": HERON})).json()["file"]
        tag = (await client.get(f"/memories/{file}")).headers["etag"]
        first = await client.patch(
            f"/memories/{file}", json={"text": "The build server is egret."}, headers={"If-Match": tag}
        )
        assert first.status_code == 200
        late = await client.patch(
            f"/memories/{file}", json={"text": "The build server is ibis."}, headers={"If-Match": tag}
        )
        assert late.status_code == 409
        gone = await client.delete(f"/memories/{file}", headers={"If-Match": tag})
        assert gone.status_code == 409
        read = await client.get(f"/memories/{file}")
        assert "egret" in read.json()["body"]
        gone = await client.delete(f"/memories/{file}", headers={"If-Match": read.headers["etag"]})
        assert gone.status_code == 200
        assert (await client.get(f"/memories/{file}")).status_code == 404


async def test_a_patch_keeps_what_it_does_not_name(tmp_path: Path) -> None:
    async with serving(tmp_path) as server, server.client(await server.key()) as client:
        given = {"text": HERON, "name": "Build server", "description": "Where builds run", "type": "project"}
        file = (await client.post("/memories", json=given)).json()["file"]
        assert (await client.patch(f"/memories/{file}", json={"pinned": True})).status_code == 200
        read = (await client.get(f"/memories/{file}")).json()
        assert {**given, "text": read["body"].strip()} == given
        assert [read[name] for name in ("name", "description", "type", "pinned")] == [
            "Build server", "Where builds run", "project", True,
        ]  # fmt: skip


async def test_history_diff_undo_and_origin(tmp_path: Path) -> None:
    async with serving(tmp_path) as server, server.client(await server.key()) as client:
        saved = (await client.post("/memories", json={"text": HERON})).json()
        file = saved["file"]
        changed = (
            await client.patch(f"/memories/{file}", json={"text": "The build server is egret."})
        ).json()
        commits = (await client.get(f"/memories/{file}/history")).json()["commits"]
        assert [one["commit"] for one in commits] == [changed["commit"], saved["commit"]]
        assert "by ada (key " in commits[0]["reason"]
        diff = (await client.get(f"/history/{changed['commit']}")).json()
        assert "+The build server is egret." in next(
            one["diff"] for one in diff["files"] if one["file"] == file
        )
        undone = (await client.post("/undo", json={})).json()
        assert undone["undone"] == changed["commit"]
        assert "heron" in (await client.get(f"/memories/{file}")).json()["body"]
        why = (await client.get(f"/memories/{file}/why")).json()
        assert (why["exists"], why["origin"], len(why["history"])) == (True, "user", 3)


async def test_pages_of_memories_have_each_one_once(tmp_path: Path) -> None:
    async with serving(tmp_path) as server, server.client(await server.key()) as client:
        for number in range(7):
            text = f"Room {number} on floor {number * 3} is called {'abcdefg'[number]}lpha."
            assert (await client.post("/memories", json={"text": text, "name": f"Room {number}"})).is_success
        seen = []
        cursor: str | None = ""
        while cursor is not None:
            page = (
                await client.get("/memories", params={"limit": 3, **({"cursor": cursor} if cursor else {})})
            ).json()
            seen += [one["file"] for one in page["memories"]]
            cursor = page["next"]
        assert len(seen) == len(set(seen)) == 7


async def test_many_writers_at_once_lose_nothing(tmp_path: Path) -> None:
    async with serving(tmp_path) as server, server.client(await server.key()) as client:
        names = ("heron", "egret", "ibis", "rook", "wren", "finch", "robin", "crane")
        texts = [f"{name} has the address 10.0.0.{number}." for number, name in enumerate(names)]
        answers = await asyncio.gather(
            *(client.post("/memories", json={"text": text, "name": text.split()[0]}) for text in texts)
        )
        assert [one.status_code for one in answers] == [201] * len(texts)
        listed = (await client.get("/memories")).json()["memories"]
        assert len(listed) == len(texts)


async def test_a_credential_is_refused_and_a_repeated_write_is_not_repeated(tmp_path: Path) -> None:
    async with serving(tmp_path) as server, server.client(await server.key()) as client:
        refused = await client.post("/memories", json={"text": "The database password is hunter2-Quartz-88."})
        assert refused.status_code == 422
        assert "secrets do not belong" in refused.json()["detail"]
        head = {"Idempotency-Key": "one"}
        first = await client.post("/memories", json={"text": HERON}, headers=head)
        again = await client.post("/memories", json={"text": HERON}, headers=head)
        assert (again.status_code, again.json()) == (first.status_code, first.json())
        other = await client.post("/memories", json={"text": "Lunch is at noon."}, headers=head)
        assert other.status_code == 422


async def test_a_proposal_is_accepted_or_dropped(tmp_path: Path) -> None:
    async with serving(tmp_path) as server, server.client(await server.key()) as client:
        assert (await client.get("/review")).json() == {"proposals": []}
        missing = await client.post("/review", json={"id": "none"})
        assert missing.status_code == 404


async def test_a_name_that_leaves_the_folder_is_no_memory(tmp_path: Path) -> None:
    async with serving(tmp_path) as server, server.client(await server.key("admin")) as client:
        for name in ("..%2f..%2fserver%2fkeys.json", "%2e%2e", "MEMORY.md%00", "a" * 300):
            for method in ("GET", "PATCH", "DELETE"):
                body = {"json": {"text": "x"}} if method == "PATCH" else {}
                answer = await client.request(method, f"/memories/{name}", **body)  # type: ignore[arg-type]
                assert answer.status_code == 404, (name, method, answer.text)
                assert "digest" not in answer.text
