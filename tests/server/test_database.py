"""Sessions, usage and mail of a server with a database."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("psycopg", reason="needs the extra `dev`")

from nacre import open_agent
from nacre.providers.scripted import ScriptedProvider, call, say
from nacre.server.keys import LOCAL_TENANT
from tests.postgres import new_database, new_tenant
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
