"""Sessions, usage and mail of a server with a database."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

pytest.importorskip("psycopg", reason="needs the extra `dev`")

from nacre import open_agent, open_memory
from nacre.memory.format.entry import MemoryDraft
from nacre.providers.scripted import ScriptedProvider, call, say
from nacre.server.keys import LOCAL_TENANT
from nacre.server.spaces import MEMORY_BYTES, OPEN_BYTES
from nacre.store.postgres.database import Database
from nacre.store.postgres.session_rows import SessionRows
from nacre.testing import FrozenClock
from tests.postgres import execute, new_database, new_tenant
from tests.server import serving


@pytest.fixture
async def address(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    monkeypatch.chdir(tmp_path)
    found = new_database()
    await new_tenant(found, LOCAL_TENANT)
    monkeypatch.setattr(serving, "DATABASE", found)
    return found


async def _session(address: str, *texts: str, user: str = "ada") -> str:
    provider = ScriptedProvider([say(f"answer to {text}") for text in texts])
    place = {"store": address, "tenant": LOCAL_TENANT, "user": user}
    async with open_agent(provider=provider, **place) as ready:
        for text in texts:
            await ready.agent.run(text)
        return ready.agent.session.id


async def test_sessions_of_the_keys_user_are_listed_read_and_searched(tmp_path: Path, address: str) -> None:
    mine = await _session(address, "Where is the heron?", "And the egret?")
    theirs = await _session(address, "Where is the pelican?", user="eve")
    async with serving.serving(tmp_path) as server, server.client(await server.key()) as client:
        listed = (await client.get("/sessions")).json()["sessions"]
        assert [one["session"] for one in listed] == [mine]
        shown = (await client.get(f"/sessions/{mine[:8]}")).json()
        assert shown["requests"] == 2
        assert "egret" in str(shown["messages"])
        second = (await client.get(f"/sessions/{mine}/requests/2")).json()
        assert "answer to Where is the heron?" in str(second["messages"])
        assert "answer to And the egret?" in str(second["reply"])
        assert "answer to And the egret?" not in str(second["messages"])
        hits = (await client.post("/sessions/search", json={"query": "heron"})).json()["hits"]
        assert {one["session"] for one in hits} == {mine}
        assert (await client.post("/sessions/search", json={"query": "pelican"})).json() == {"hits": []}
        assert (await client.get(f"/sessions/{theirs}")).status_code == 404
        usage = (await client.get("/usage")).json()
        assert (usage["sessions"], usage["requests"]) == (1, 2)


async def test_what_a_session_says_is_shown_without_credentials_and_local_only_memories(
    tmp_path: Path, address: str
) -> None:
    session = await _session(address, "My blood type is zero negative, for this machine only.")
    async with serving.serving(tmp_path) as server:
        async with server.client(await server.key(local=True)) as client:
            saved = await client.post(
                "/memories",
                json={"text": "My blood type is zero negative, for this machine only.", "local_only": True},
            )
            assert saved.status_code == 201, saved.text
            assert "zero negative" in (await client.get(f"/sessions/{session}")).text
        async with server.client(await server.key()) as client:
            assert "zero negative" not in (await client.get(f"/sessions/{session}")).text


async def test_a_letter_reaches_a_session_on_another_machine_once(tmp_path: Path, address: str) -> None:
    session = await _session(address, "Hello")
    async with serving.serving(tmp_path) as server, server.client(await server.key()) as client:
        sent = await client.post("/mail", json={"to": session[:8], "text": "The build is red."})
        assert (sent.status_code, sent.json()["to"]) == (201, [session])
        assert (await client.post("/mail", json={"to": "nobody-here", "text": "x"})).status_code == 404
        assert (await client.post("/mail", json={"to": "*", "text": "x"})).status_code == 422
    place = {"store": address, "tenant": LOCAL_TENANT, "user": "ada"}
    for expected in (True, False):
        provider = ScriptedProvider([say("seen")])
        async with open_agent(provider=provider, session=session, **place) as ready:
            await ready.agent.run("Anything new?")
        last = str(provider.requests[-1].messages[-1])
        assert ("The build is red." in last) is expected


async def test_a_session_writes_to_one_on_another_machine(tmp_path: Path, address: str) -> None:
    other = await _session(address, "Hello")
    place = {"store": address, "tenant": LOCAL_TENANT, "user": "ada"}
    provider = ScriptedProvider([
        call("SendMessage", to=f"bridge:{other[:8]}", message="The tests pass.", summary="tests"),
        say("sent"),
    ])  # fmt: skip
    async with open_agent(provider=provider, **place) as ready:
        await ready.agent.run("Tell the other session.")
        sender = ready.agent.session.id
    provider = ScriptedProvider([say("seen")])
    async with open_agent(provider=provider, session=other, **place) as ready:
        await ready.agent.run("Anything new?")
    last = str(provider.requests[-1].messages[-1])
    assert "The tests pass." in last
    assert f"bridge:{sender}" in last


FACTS = {
    "Build server": "The build server is heron, in the basement of the north wing.",
    "Staging": "Staging runs on egret and is reset every Sunday night.",
    "Coffee": "Ada drinks her coffee black and never after four.",
    "Release day": "Releases go out on Thursdays, after the tests on heron have passed.",
    "Tabs": "In this project we indent with tabs.",
    "Invoice numbers": "Invoice numbers begin with the year and are never used twice.",
}
QUESTIONS = (
    "Which server do we build on?", "When do we release?", "How does Ada take her coffee?",
    "What is reset on Sunday?", "tabs or spaces?", "heron", "How do I number an invoice?", "Why?",
)  # fmt: skip


async def test_recall_equals_that_of_the_same_memories_on_files(tmp_path: Path, address: str) -> None:
    on_files = await open_memory(user="42")
    in_database = await open_memory(address, tenant=LOCAL_TENANT, user="42")
    for memory in (on_files, in_database):
        for name, body in FACTS.items():
            await memory.save(MemoryDraft(body=body, name=name, kind="project"))
        await memory.refresh()
        # A query computes missing vectors for a moment only, so that a busy machine would decide.
        assert await asyncio.to_thread(memory._ranker.deepen, seconds=60) == 0
    for question in QUESTIONS:
        expected, found = await on_files.recall(question), await in_database.recall(question)
        assert [(one.file, one.score) for one in found.ranked] == [
            (one.file, one.score) for one in expected.ranked
        ], question
        assert [one.ranked.file for one in found.picks] == [one.ranked.file for one in expected.picks]


async def test_indexes_stay_within_their_memory_and_are_loaded_again(tmp_path: Path, address: str) -> None:
    entries = 3
    each = OPEN_BYTES + entries * MEMORY_BYTES
    most = 3 * each
    async with serving.serving(tmp_path) as server:
        server.parts.spaces._open._max_bytes = most  # type: ignore[attr-defined]
        async with server.client(await server.key("admin")) as client:
            for number in range(8):
                for name in [*FACTS][:entries]:
                    body = {"text": f"{FACTS[name]} This is of site {number}.", "name": name}
                    answer = await client.post(f"/memories?space=project:{number}", json=body)
                    assert answer.status_code == 201
            for number in (*range(8), 0, 7, 3):
                recalled = await client.post(
                    f"/recall?space=project:{number}", json={"query": "Which server do we build on?"}
                )
                assert f"site {number}" in recalled.text
                assert server.parts.spaces.gauges()["nacre_index_bytes"] <= most + each
            # The three that fit, and perhaps the one in use.
            assert server.parts.spaces.gauges()["nacre_spaces_open"] in {3, 4}
            metrics = (await client.get(f"{server.url}/metrics")).text
            for name in ("spaces_open", "index_bytes", "database_connections", "jobs_waiting"):
                assert f"nacre_{name} " in metrics, name
            assert "heron" not in metrics


async def test_a_write_that_is_repeated_at_another_process_is_not_done_twice(
    tmp_path: Path, address: str
) -> None:
    async with serving.serving(tmp_path) as one, serving.serving(tmp_path) as other:
        key = await one.key()
        async with one.client(key) as here, other.client(key) as there:
            body = {"text": "The build server is heron.", "name": "Build server"}
            headers = {"Idempotency-Key": "7"}
            first = await here.post("/memories", json=body, headers=headers)
            again = await there.post("/memories", json=body, headers=headers)
            assert (first.status_code, first.json()) == (again.status_code, again.json())
            other_body = await there.post("/memories", json={"text": "x y z"}, headers=headers)
            assert other_body.status_code == 422
            failed = await there.post("/memories", json={"text": " "}, headers={"Idempotency-Key": "8"})
            assert failed.status_code >= 400
            repeated = await here.post("/memories", json=body, headers={"Idempotency-Key": "8"})
            assert repeated.status_code == 201
    assert execute(address, "SELECT count(*) FROM nacre.memory_commits") == [(1,)]


async def test_a_server_whose_database_has_another_schema_is_not_ready(tmp_path: Path, address: str) -> None:
    async with serving.serving(tmp_path) as server, server.client(await server.key()) as client:
        assert (await client.get(f"{server.url}/readyz")).status_code == 200
        execute(address, "INSERT INTO nacre.schema_versions VALUES (9999, 'future')")
        answer = await client.get(f"{server.url}/readyz")
        assert (answer.status_code, "update nacre" in answer.json()["detail"]) == (503, True)
        assert (await client.get(f"{server.url}/healthz")).status_code == 200


async def test_agents_of_a_session_run_while_a_process_has_its_lease(tmp_path: Path, address: str) -> None:
    state = {
        "id": "a1", "name": "reader", "type": "general-purpose", "pattern": "typed", "status": "running",
        "started": "2026-11-19T12:00:00+00:00", "pid": 1, "process_start": "elsewhere",
    }  # fmt: skip
    clock = FrozenClock(datetime(2026, 11, 19, 12, 5, tzinfo=UTC))
    session = await _session(address, "Where is the heron?")
    async with serving.serving(tmp_path, clock=clock) as server, server.client(await server.key()) as client:
        rows = SessionRows(Database(serving.DATABASE, idle=0), LOCAL_TENANT, "ada")
        lease = await rows.take(session)
        await lease.append(
            b'{"type": "said"}\n', {"subagents/agent-a1.meta.json": json.dumps(state).encode()}
        )
        listed = (await client.get("/agents")).json()
        assert [(one["name"], one["status"], one["session"]) for one in listed["agents"]] == [
            ("reader", "running", session)
        ]
        await lease.release()
        assert (await client.get("/agents")).json()["agents"][0]["status"] == "stopped"
        async with server.client(await server.key(user="grace")) as other:
            assert (await other.get("/agents")).json()["agents"] == []
