"""Agents and memories of one person of many: in a home, and in a database."""

from __future__ import annotations

from pathlib import Path

import pytest

from nacre import open_agent, open_memory
from nacre.errors import ConfigError, SessionNotFound
from nacre.providers.scripted import ScriptedProvider, call, say
from tests.postgres import execute, new_database, new_tenant


@pytest.fixture(params=["files", "postgres"])
async def store(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, str]:
    """The arguments that name the store of a person."""
    monkeypatch.chdir(tmp_path)
    if request.param == "files":
        return {}
    address = new_database()
    await new_tenant(address)
    return {"store": address, "tenant": "acme"}


async def memory_of(store: dict[str, str], user: str):
    if not store:
        return await open_memory(user=user)
    return await open_memory(store["store"], tenant=store["tenant"], user=user)


async def test_session_and_memory_of_a_person_are_theirs_alone(store: dict[str, str]) -> None:
    provider = ScriptedProvider([
        call("remember", text="The build server is heron.", name="Build server"), say("saved"),
    ])  # fmt: skip
    async with open_agent(provider=provider, user="42", **store) as ready:
        await ready.agent.run("Remember that the build server is heron.")
        session = ready.agent.session.id
    assert [one.name for one in await (await memory_of(store, "42")).list()] == ["Build server"]
    assert await (await memory_of(store, "43")).list() == []
    assert await (await open_memory()).list() == []
    provider = ScriptedProvider([say("heron")])
    async with open_agent(provider=provider, user="42", session="latest", **store) as ready:
        assert ready.agent.session.id == session
        result = await ready.agent.run("Which build server do we use?")
        assert result.output == "heron"
    sent = str(provider.requests[-1])
    assert "Remember that the build server" in sent
    with pytest.raises(SessionNotFound):
        async with open_agent(provider=provider, user="43", session=session, **store):
            pass


async def test_a_memory_that_another_process_forgot_is_not_recalled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = new_database()
    await new_tenant(address)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NACRE_HOME", str(tmp_path / "elsewhere"))
    there = await open_memory(address, tenant="acme", user="42")
    saved = await there.save("The build server is heron, in the basement.")
    monkeypatch.setenv("NACRE_HOME", str(tmp_path / "here"))
    provider = ScriptedProvider([say("one"), say("two")])
    async with open_agent(provider=provider, store=address, tenant="acme", user="42") as ready:
        await ready.agent.run("Which build server do we use?")
        recalled = ready.recalled()
        assert recalled is not None
        assert [one.ranked.file for one in recalled.picks] == [saved.entry.file]
        await there.forget(saved.entry.file)
        await there.save("The staging server is egret, in the attic.")
        await ready.agent.run("And which is the staging server in the attic, and the basement?")
        recalled = ready.recalled()
        assert recalled is not None
        assert "heron" not in recalled.text
        assert "egret" in recalled.text


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"store": "postgresql://localhost/x"}, "tenant= and user="),
        ({"store": "mysql://localhost/x", "tenant": "acme", "user": "42"}, "postgresql://"),
        ({"tenant": "acme"}, "tenant="),
    ],
)
async def test_an_incomplete_store_is_refused_in_one_line(arguments: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        async with open_agent(provider=ScriptedProvider([]), **arguments):
            pass


async def test_an_unknown_tenant_is_refused_in_one_line() -> None:
    with pytest.raises(ConfigError, match="nacre tenants create"):
        await open_memory(new_database(), tenant="nobody", user="42")


async def test_records_are_rows_that_an_operator_can_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    address = new_database()
    await new_tenant(address)
    async with open_agent(
        provider=ScriptedProvider([say("hello")]), store=address, tenant="acme", user="42"
    ) as ready:
        await ready.agent.run("Good morning")
    rows = execute(address, "SELECT kind, content FROM nacre.session_records ORDER BY position")
    assert {"user", "assistant"} <= {kind for kind, _ in rows}
    assert any("Good morning" in str(content) for _, content in rows)
    assert execute(address, "SELECT holder FROM nacre.sessions") == [("",)]
