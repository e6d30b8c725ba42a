"""`/mcp` with a database: the tools of `nacre mcp` on the spaces of the key of each request (S8)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from nacre import open_agent
from nacre.providers.scripted import ScriptedProvider, say
from nacre.server.keys import LOCAL_TENANT, Role
from tests.integrations.mcp_server.serving import said
from tests.postgres import execute
from tests.server import serving
from tests.server.serving import Serving

ROLES: tuple[Role, ...] = ("member", "reader", "admin")
HERON = "The build server is called heron and runs every night."
pytestmark = pytest.mark.parametrize("store", ["postgres"], indirect=True)


@asynccontextmanager
async def talking(server: Serving, key: str, query: str = "") -> AsyncIterator[Client]:
    async with (
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {key}"}, timeout=30) as http,
        Client(streamable_http_client(f"{server.url}/mcp{query}", http_client=http), mode="auto") as talk,
    ):
        yield talk


async def error(talk: Client, tool: str, **arguments: object) -> str:
    answer = await talk.call_tool(tool, arguments)
    assert answer.is_error
    return str(answer.content[0].text)  # type: ignore[union-attr]


async def test_a_memory_saved_over_mcp_is_its_users_on_every_server(
    tmp_path: Path, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with AsyncExitStack() as stack:
        servers = []
        for name in ("one", "two"):  # with copies of their own, as on two machines
            monkeypatch.setenv("NACRE_HOME", str(tmp_path / name))
            servers.append(await stack.enter_async_context(serving.serving(tmp_path, has_mcp=True)))
        one, two = servers
        ada, grace = await one.key(), await one.key(user="grace")
        async with talking(one, ada) as talk:
            assert {tool.name for tool in (await talk.list_tools()).tools} == {
                "memory_recall", "memory_search", "memory_list", "memory_get", "memory_history", "mail_send",
                "memory_save", "memory_correct", "memory_forget", "memory_undo", "session_search",
            }  # fmt: skip
            await said(talk, "memory_save", text=HERON, type="project", name="Build server")
        async with talking(two, ada) as talk, talking(two, grace) as other:
            assert "heron" in await said(talk, "memory_recall", query="Which build server is it?")
            assert "heron" in await said(talk, "memory_get", name="Build server")
            assert "heron" not in await said(other, "memory_recall", query="Which build server is it?")
            assert "no memories" in await said(other, "memory_list")
            await said(talk, "memory_correct", name="Build server", old="heron", new="egret")
        async with one.client(ada) as rest, talking(one, ada) as talk:
            listed = (await rest.get("/memories?bodies=true")).json()["memories"]
            assert ["egret" in str(each) for each in listed] == [True]
            commits = (await rest.get("/history")).json()["commits"]
            assert commits[0]["reason"] == "memory_correct over MCP by ada"
            assert "heron" in await said(talk, "memory_undo")
            await said(talk, "memory_forget", name="Build server")
        async with talking(two, ada) as talk:
            assert "heron" not in await said(talk, "memory_recall", query="Which build server is it?")


async def test_the_address_or_the_tool_names_a_space_of_the_key(tmp_path: Path, store: str) -> None:
    async with serving.serving(tmp_path, has_mcp=True) as server:
        ada, grace = await server.key(), await server.key(user="grace")
        async with talking(server, ada, "?space=project:web") as talk:
            await said(talk, "memory_save", text=HERON, name="Build server")
            await said(talk, "memory_save", text="The team deploys on Mondays.", scope="team", name="Deploys")
            await said(talk, "memory_save", text="Ada prefers tabs.", scope="user", name="Tabs")
            assert "heron" in await said(talk, "memory_list")
            assert "not confirmed" in await said(talk, "memory_list", scope="user")
        async with talking(server, ada) as talk:
            assert "heron" not in await said(talk, "memory_list")
            assert "heron" in await said(talk, "memory_list", project="web")
        async with talking(server, ada, "?space=user:web") as talk:
            assert "is no space" in await error(talk, "memory_list")
        async with talking(server, grace, "?space=project:web") as talk:
            found = await said(talk, "memory_list")
            assert "Mondays" in found
            assert "heron" not in found


async def test_writes_over_mcp_are_in_the_audit_log_and_a_reader_makes_none(
    tmp_path: Path, store: str
) -> None:
    async with serving.serving(tmp_path, has_mcp=True) as server:
        member, reader, admin = [await server.key(role) for role in ROLES]
        async with talking(server, member) as talk:
            await said(talk, "memory_save", text=HERON, name="Build server")
            await error(talk, "memory_forget", name="no such memory")
            await said(talk, "memory_recall", query="Which build server is it?")
        async with talking(server, reader) as talk:
            names = {tool.name for tool in (await talk.list_tools()).tools}
            assert {"memory_recall", "session_search"} <= names
            assert not names & {"memory_save", "memory_forget", "mail_send"}
            assert "there is no tool" in await error(talk, "memory_save", text=HERON)
        async with server.client(admin) as rest:
            entries = (await rest.get("/audit-log")).json()["entries"]
            commits = (await rest.get("/history")).json()["commits"]
    assert [(one["operation"], one["status"], one["path"]) for one in entries] == [
        ("memory_forget", 422, "/mcp"),
        ("memory_save", 200, "/mcp"),
    ]
    assert commits[0]["commit"].startswith(entries[1]["commit"])
    assert entries[1]["key"] == member.split("_")[1]


async def test_local_only_memories_stay_hidden_without_the_right(tmp_path: Path, store: str) -> None:
    async with serving.serving(tmp_path, has_mcp=True) as server:
        plain, local = await server.key(), await server.key(local=True)
        body = {"text": HERON, "name": "Build server", "local_only": True}
        async with server.client(local) as rest:
            assert (await rest.post("/memories", json=body)).status_code == 201
        async with talking(server, plain) as talk, talking(server, local) as own:
            for tool, given in (
                ("memory_list", {}), ("memory_search", {"query": "build server heron"}),
                ("memory_recall", {"query": "Which build server is it?"}),
            ):  # fmt: skip
                assert "heron" not in await said(talk, tool, **given)
                assert "heron" in await said(own, tool, **given)
            assert "no memory is called" in await error(talk, "memory_get", name="Build server")


async def test_a_letter_over_mcp_reaches_a_session_of_the_user(tmp_path: Path, store: str) -> None:
    async with serving.serving(tmp_path, has_mcp=True) as server:
        ada = await server.key()
        async with server.client(ada) as rest:
            await rest.get("/memories")  # adds the user's space
        execute(
            serving.DATABASE,
            "INSERT INTO nacre.sessions (tenant, id, user_name, cwd, home)"
            " SELECT tenant, '5e55', name, '/w', '/h' FROM nacre.users",
        )
        async with talking(server, ada) as talk:
            assert "Sent to session 5e" in await said(
                talk, "mail_send", to="5e", message="The build is green."
            )
            assert "no session begins" in await error(talk, "mail_send", to="ffff", message="Hello")
            assert "at most" in await error(talk, "mail_send", to="5e", message="x" * 20_001)
        [(inbox, sender)] = execute(
            serving.DATABASE, "SELECT inbox, letter::json->>'from' FROM nacre.letters"
        )
    assert (inbox, sender) == ("5e55", "other:ada")


async def test_past_sessions_of_the_user_are_searched_and_those_of_others_are_not(
    tmp_path: Path, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with serving.serving(tmp_path, has_mcp=True) as server:
        keys = {user: await server.key(user=user) for user in ("ada", "grace")}
        for user in keys:
            provider = ScriptedProvider([say(f"The kestrel of {user} is ready.")])
            place = {"store": serving.DATABASE, "tenant": LOCAL_TENANT, "user": user}
            async with open_agent(provider=provider, **place) as ready:
                await ready.agent.run("Where is the kestrel?")
        async with talking(server, keys["ada"]) as talk:
            found = await said(talk, "session_search", text="kestrel")
            assert "kestrel of ada" in found
            assert "grace" not in found
        async with talking(server, keys["ada"], "?space=project:web") as talk:
            assert "No session" in await said(talk, "session_search", text="kestrel")
