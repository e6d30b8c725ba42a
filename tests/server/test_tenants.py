"""What users of one database see of each other: only what is the team's, and of another tenant nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest

pytest.importorskip("psycopg", reason="needs the extra `dev`")

from nacre import open_agent
from nacre.providers.scripted import ScriptedProvider, say
from nacre.server.keys import Role, create_key, new_key
from tests.postgres import new_database, new_tenant
from tests.server import serving

ADA, EVE, BOB = ("acme", "ada"), ("acme", "eve"), ("birds", "bob")


@pytest.fixture
async def address(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    monkeypatch.chdir(tmp_path)
    found = new_database()
    for tenant in ("acme", "birds"):
        await new_tenant(found, tenant)
    monkeypatch.setattr(serving, "DATABASE", found)
    return found


@asynccontextmanager
async def client_of(
    server: serving.Serving, person: tuple[str, str], role: Role = "member"
) -> AsyncIterator[httpx2.AsyncClient]:
    tenant, user = person
    key = await create_key(server.admin_keys, new_key(tenant=tenant, user=user, role=role))
    async with server.client(key) as client:
        yield client


async def _overview(server: serving.Serving, person: tuple[str, str]) -> str:
    tenant, user = person
    key = await create_key(server.admin_keys, new_key(tenant=tenant, user=user, role="admin"))
    async with httpx2.AsyncClient(base_url=f"{server.url}/console", timeout=30) as browser:
        await browser.post("/login", data={"key": key})
        page = await browser.get("/")
        assert page.status_code == 200
        return page.text


async def test_the_overview_has_figures_and_sessions_of_its_own_user_only(
    tmp_path: Path, address: str
) -> None:
    """Also in the same minute, when figures of another person were computed just before."""
    async with open_agent(
        provider=ScriptedProvider([say("egret, of course")] * 2), store=address, tenant="acme", user="ada"
    ) as ready:
        for text in ("Where is the egret?", "And where is its nest?"):
            await ready.agent.run(text)
    async with serving.serving(tmp_path) as server:
        async with client_of(server, ADA) as client:
            await client.post("/memories", json={"text": "The build server is heron."})
        hers = await _overview(server, ADA)
        others = [await _overview(server, one) for one in (EVE, BOB)]
        again = await _overview(server, ADA)
        async with client_of(server, ADA) as ada, client_of(server, BOB) as bob:
            assert (await ada.get("/usage")).json()["requests"] == 2
            assert (await bob.get("/usage")).json()["requests"] == 0
    for words in ("heron", "egret"):
        assert words in hers and words in again
        assert not any(words in one for one in others)
    assert "1 session, 2 requests" in hers and "1 session, 2 requests" in again
    assert all("0 sessions, 0 requests" in one for one in others)


async def test_jobs_are_listed_for_their_user_and_the_tenants_administrators(
    tmp_path: Path, address: str
) -> None:
    async with serving.serving(tmp_path) as server:
        async with client_of(server, ADA) as client:
            job = (await client.post("/jobs", json={"kind": "index"})).json()["id"]
        for person, role, expected in (
            (ADA, "reader", [job]), (EVE, "member", []), (EVE, "admin", [job]), (BOB, "admin", []),
        ):  # fmt: skip
            async with client_of(server, person, role) as client:  # type: ignore[arg-type]
                listed = (await client.get("/jobs")).json()["jobs"]
                assert [one["id"] for one in listed] == expected, (person, role)


async def test_a_name_with_spaces_does_not_take_the_place_of_anothers_job(
    tmp_path: Path, address: str
) -> None:
    """A job that waits takes the input of the same work, and of no other user's."""
    wanted = {"a": "project:x extract user", "a extract project:x": "user"}
    async with serving.serving(tmp_path) as server:
        for user, space in wanted.items():
            async with client_of(server, ("acme", user)) as client:
                messages = [{"role": "user", "content": f"Remember that {user} was here."}]
                body = {"kind": "extract", "session": "s", "messages": messages}
                answer = await client.post("/jobs", params={"space": space}, json=body)
                assert (answer.status_code, answer.json()["user"]) == (202, user)


async def test_a_reader_makes_no_space_and_an_empty_one_is_not_listed(tmp_path: Path, address: str) -> None:
    async with serving.serving(tmp_path) as server, client_of(server, ADA) as ada:
        async with client_of(server, EVE, "reader") as eve:
            assert (await eve.get("/memories?space=team:shop")).status_code == 404
            assert (await ada.get("/memories?space=team:typo")).status_code == 200
            await ada.post("/memories?space=team:shop", json={"text": "We deploy on Mondays."})
            assert (await eve.get("/spaces")).json()["spaces"] == ["user", "team:shop"]
            assert "Mondays" in (await eve.get("/memories?space=team:shop&bodies=true")).text
        async with client_of(server, BOB) as bob:
            assert (await bob.get("/spaces")).json()["spaces"] == ["user"]
