"""Rows of tenants and users as files: exported, restored, erased, and searched for afterwards (S2, S10)."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from nacre import open_memory
from nacre.app.shared_store import COPIES, folder_of_user, open_space, space_key
from nacre.errors import ConfigError, StoreError
from nacre.memory.format.entry import MemoryChange, MemoryDraft
from nacre.server.keys import new_key
from nacre.server.limits import RememberedAnswer
from nacre.server.postgres import DatabaseSpaces, KeyTable, RepeatedWrites
from nacre.server.worker import Worker
from nacre.settings import load
from nacre.store.postgres.archive import erase_rows, erased_folders, export_rows, restore_rows, tables
from nacre.store.postgres.database import Database
from nacre.store.postgres.session_rows import SessionRows
from nacre.testing import FrozenClock
from tests.postgres import as_ordinary_owner, execute, new_tenant

SECRET = "The heron nests in the basement."
HERS = "My locker is 4711."


@pytest.fixture
async def filled(tmp_path: Path) -> Database:
    """Two tenants with the same users, each with memories, a session with a file, a letter and a key."""
    address = as_ordinary_owner()
    database = Database(address, is_server=False, idle=0)
    for tenant in ("acme", "birds"):
        await new_tenant(address, tenant)
        for user, text in (("ada", HERS), ("bob", SECRET)):
            for space in ("user", "project:shop"):
                memory = await open_space(database, tmp_path / "copies", space_key(tenant, user, space))
                await memory.save(MemoryDraft(body=f"{text} {tenant} {space}", name=space))
            lease = await SessionRows(database, tenant, user).create(f"{tenant}-{user}", cwd="/x", home="/h")
            await lease.append(b'{"type":"user"}\n\xff\x00\n', {"result.txt": b"\x00\xff"})
            await lease.release()
            key = new_key(tenant=tenant, user=user, role="member", days=None)
            await KeyTable(database).create(key, "digest")
        team = await open_space(database, tmp_path / "copies", space_key(tenant, "ada", "team:shop"))
        await team.save(
            MemoryDraft(body="We deploy on Mondays.", name="Deploys", kind="project"),
            MemoryChange(author="user", reason="saved over HTTP by ada (key k1)"),
        )
    return database


async def rows_of(database: Database, tenant: str) -> dict[str, list[str]]:
    async with database.transaction(tenant) as connection:
        found = {}
        for table in await tables(connection):
            columns = ", ".join(f'"{one}"' for one in table.columns)
            query = f"SELECT ({columns})::text FROM nacre.{table.name} WHERE {table.of_tenant}"
            cursor = await connection.execute(query, {"tenant": tenant})
            found[table.name] = sorted(row for (row,) in await cursor.fetchall())
        return found


def address_of(database: Database) -> str:
    return database._url


async def test_a_backup_restores_every_row_of_every_tenant(filled: Database, tmp_path: Path) -> None:
    counts = await export_rows(filled, tmp_path / "all.gz", ["acme", "birds"])
    assert (tmp_path / "all.gz").stat().st_mode & 0o077 == 0
    assert counts["sessions"] == counts["api_keys"] == 4
    other = Database(as_ordinary_owner(), is_server=False, idle=0)
    assert await restore_rows(other, tmp_path / "all.gz") == counts
    for tenant in ("acme", "birds"):
        assert await rows_of(other, tenant) == await rows_of(filled, tenant)
    memory = await open_space(other, tmp_path / "elsewhere", space_key("acme", "ada", "user"))
    assert HERS in (await memory.list())[0].body
    with pytest.raises(StoreError, match="'acme' already; nothing was restored"):
        await restore_rows(other, tmp_path / "all.gz")


async def test_the_export_of_a_user_has_that_users_rows_only_and_no_keys(
    filled: Database, tmp_path: Path
) -> None:
    await export_rows(filled, tmp_path / "ada.gz", ["acme"], user="ada")
    text = gzip.decompress((tmp_path / "ada.gz").read_bytes()).decode()
    assert HERS in text
    for foreign in ("heron", "birds", "bob", "digest", "Mondays"):
        assert foreign not in text, foreign
    with pytest.raises(ConfigError, match="no user 'eve'"):
        await export_rows(filled, tmp_path / "eve.gz", ["acme"], user="eve")
    assert sorted(path.name for path in tmp_path.glob("*.gz*")) == ["ada.gz"]


async def test_an_erased_user_can_be_imported_again(filled: Database, tmp_path: Path) -> None:
    before = await rows_of(filled, "acme")
    await export_rows(filled, tmp_path / "ada.gz", ["acme"], user="ada")
    with pytest.raises(StoreError, match="user 'ada' already"):
        await restore_rows(filled, tmp_path / "ada.gz")
    await erase_rows(filled, "acme", "ada", folder_of=folder_of_user)
    await restore_rows(filled, tmp_path / "ada.gz")
    after = await rows_of(filled, "acme")
    assert {**after, "api_keys": []} == {**before, "api_keys": []}


async def test_erasing_a_user_leaves_no_row_of_it_and_says_what_still_names_it(filled: Database) -> None:
    others = await rows_of(filled, "birds")
    erased = await erase_rows(filled, "acme", "ada", folder_of=folder_of_user)
    assert erased.removed["sessions"] == 1
    assert erased.removed["memory_commits"] == 2
    # The team's history has her change; nothing else names her.
    assert erased.left == {"memory_commits": 1}
    left = json.dumps(await rows_of(filled, "acme"))
    assert HERS not in left
    assert "heron" in left
    assert await rows_of(filled, "birds") == others
    folders = await erased_folders(filled)
    assert len(folders) == 3
    assert not any("ada" in name or "acme" in name for name in folders)
    with pytest.raises(ConfigError, match="no user 'ada'"):
        await erase_rows(filled, "acme", "ada", folder_of=folder_of_user)


async def test_answers_that_are_kept_for_a_repeated_write_are_erased_too(filled: Database) -> None:
    """They have the texts of memories; also those of a key that was revoked before."""
    answers = RepeatedWrites(filled)
    keys = [one for one in await KeyTable(filled).list() if (one.tenant, one.user) == ("acme", "ada")]
    revoked = new_key(tenant="acme", user="ada", role="member", days=None)
    await KeyTable(filled).create(revoked, "digest")
    for key in (*keys, revoked):
        await answers.begin(key, "once", "fingerprint")
        await answers.finish(key, "once", RememberedAnswer("fingerprint", 0.0, 201, (), HERS.encode()))
    await KeyTable(filled).revoke(revoked.id)
    await erase_rows(filled, "acme", "ada", folder_of=folder_of_user)
    assert (await rows_of(filled, "acme"))["repeated_writes"] == []


async def test_erasing_a_tenant_leaves_nothing_of_it(filled: Database) -> None:
    others = await rows_of(filled, "birds")
    erased = await erase_rows(filled, "acme", folder_of=folder_of_user)
    assert erased.left == {}
    assert not any((await rows_of(filled, "acme")).values())
    assert await rows_of(filled, "birds") == others


async def test_every_table_of_a_tenant_says_which_rows_are_a_users(filled: Database) -> None:
    """A table added later is exported and erased by its columns, or this fails."""
    async with filled.transaction() as connection:
        found = {table.name: table for table in await tables(connection)}
    of_all = {name for name, table in found.items() if not table.of_user()}
    assert of_all == {"tenants", "usage", "tenant_models"}
    query = "SELECT relname FROM pg_class WHERE relnamespace = 'nacre'::regnamespace AND relkind = 'r'"
    names = {str(name) for (name,) in execute(address_of(filled), query)}
    assert names - found.keys() == {"schema_versions", "erased"}


@pytest.mark.parametrize(
    "content",
    [b"", b"not gzip", gzip.compress(b'{"nacre": "x"}\n'), gzip.compress(b"[]")],
    ids=["empty", "no gzip", "other rows", "a list"],
)
async def test_a_file_that_is_no_export_is_refused_in_one_line(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "odd.gz").write_bytes(content)
    database = Database(as_ordinary_owner(), is_server=False, idle=0)
    with pytest.raises(StoreError) as refused:
        await restore_rows(database, tmp_path / "odd.gz")
    assert len(str(refused.value).splitlines()) == 1


async def test_a_torn_file_restores_no_part_of_a_tenant(filled: Database, tmp_path: Path) -> None:
    await export_rows(filled, tmp_path / "all.gz", ["acme"])
    whole = (tmp_path / "all.gz").read_bytes()
    (tmp_path / "torn.gz").write_bytes(whole[: len(whole) * 2 // 3])
    other = Database(as_ordinary_owner(), is_server=False, idle=0)
    with pytest.raises(StoreError):
        await restore_rows(other, tmp_path / "torn.gz")
    assert not any((await rows_of(other, "acme")).values())


async def test_a_server_removes_its_copies_of_what_was_erased(filled: Database, tmp_path: Path) -> None:
    """S10: the words are on no disk of a server, either."""
    settings = replace(load(tmp_path, {"HOME": str(tmp_path)}), home=tmp_path / "copies")
    ada, bob = (new_key(tenant="acme", user=user, role="member", days=None) for user in ("ada", "bob"))
    spaces = DatabaseSpaces(filled, settings, clock=FrozenClock())
    directory = (await spaces.open(ada, "user")).memory.location.directory
    sessions = (await spaces.home(ada)).home
    assert directory.is_dir()
    assert sessions.is_dir()
    await erase_rows(filled, "acme", "ada", folder_of=folder_of_user)
    await DatabaseSpaces(filled, settings, clock=FrozenClock()).open(bob, "user")
    assert not directory.parent.exists()
    assert not sessions.exists()
    whole = b"".join(path.read_bytes() for path in (tmp_path / "copies").rglob("*") if path.is_file())
    assert f"{HERS} acme".encode() not in whole


@pytest.mark.slow
async def test_idle_workers_and_programs_with_agents_remove_their_copies_too(
    filled: Database, tmp_path: Path
) -> None:
    def has_words(folder: Path) -> bool:
        for place, _, names in os.walk(folder):  # which passes over folders that are being removed
            for name in names:
                with suppress(FileNotFoundError):
                    if f"{HERS} acme".encode() in Path(place, name).read_bytes():
                        return True
        return False

    settings = load(tmp_path, os.environ)
    address = address_of(filled)
    memory = await open_memory(address, tenant="acme", user="ada")
    await memory.list()
    of_agents, of_worker = settings.home / COPIES, tmp_path / "copies"
    assert has_words(of_agents) and has_words(of_worker)
    await erase_rows(filled, "acme", "ada", folder_of=folder_of_user)
    await open_memory(address, tenant="acme", user="bob")
    assert not has_words(of_agents)
    database, stop = Database(address), asyncio.Event()
    served = replace(settings, home=of_worker)
    spaces = DatabaseSpaces(database, served)
    working = asyncio.create_task(Worker(database, spaces, served).run(concurrency=1, stop=stop))
    try:
        async with asyncio.timeout(10):
            while has_words(of_worker):
                await asyncio.sleep(0.05)
    finally:
        stop.set()
        await working
        await spaces.close()


async def test_a_user_with_a_number_for_a_name_is_not_found_in_other_texts(
    filled: Database, tmp_path: Path
) -> None:
    memory = await open_space(filled, tmp_path / "copies", space_key("acme", "42", "user"))
    await memory.save(MemoryDraft(body="I prefer tabs.", name="Tabs"))
    memory = await open_space(filled, tmp_path / "copies", space_key("acme", "bob", "user"))
    await memory.save(MemoryDraft(body="The answer is 42, or 42.", name="Answer"))
    assert (await erase_rows(filled, "acme", "42", folder_of=folder_of_user)).left == {}
