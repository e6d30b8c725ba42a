"""Memory spaces in PostgreSQL, through working copies of several servers: each a folder of its own."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from pathlib import Path

import pytest

pytest.importorskip("psycopg", reason="needs the extra `dev`")

from nacre.errors import StoreError, VersionConflict
from nacre.memory.files.transaction import transact
from nacre.memory.files.undo import purge
from nacre.memory.files.working_copy import READY
from nacre.memory.format.entry import MemoryChange
from nacre.memory.memory import Memory
from nacre.server.postgres import SpaceKey, open_space
from nacre.store.history import History
from nacre.store.postgres.database import Database
from tests.postgres import execute, new_database, new_tenant

HERON = "The build server is heron, in the basement."
CHANGE = MemoryChange(author="user", reason="test")


@pytest.fixture
async def address() -> str:
    made = new_database()
    await new_tenant(made)
    return made


async def copy_of(address: str, folder: Path, user: str = "ada") -> Memory:
    database = Database(address, idle=0)
    return await open_space(database, folder, SpaceKey("acme", user, "user", ""))


async def test_a_save_through_one_server_is_read_through_another(address: str, tmp_path: Path) -> None:
    one, other = await copy_of(address, tmp_path / "1"), await copy_of(address, tmp_path / "2")
    saved = await one.save(HERON)
    assert [entry.file for entry in await other.list()] == [saved.entry.file]
    assert [each.id for each in await other.log()] == [saved.commit]
    recalled = await other.recall("Which server do we build on?")
    assert [each.ranked.entry.file for each in recalled.picks] == [saved.entry.file]


async def test_changes_alternate_between_servers_with_the_ids_of_one_history(
    address: str, tmp_path: Path
) -> None:
    servers = [await copy_of(address, tmp_path / name) for name in "12"]
    for number in range(6):
        await servers[number % 2].save(f"Room {number} is called {'abcdef'[number]}lpha.")
    entry = (await servers[0].list())[0]
    await servers[1].correct(entry.file, "It is called zeta now.")
    _, commit = await servers[0].forget(entry.file)
    assert await servers[1].undo(commit)
    logs = [await server.log() for server in servers]
    assert logs[0] == logs[1]
    # Plain git reads either copy, and a copy made anew has the same objects.
    fresh = await copy_of(address, tmp_path / "3")
    shown = [
        subprocess.run(
            ["git", "log", "--format=%H %T %s"], cwd=memory.location.history, capture_output=True, check=True
        ).stdout
        for memory in (*servers, fresh)
    ]
    assert shown[0] == shown[1] == shown[2]
    assert len(shown[0].splitlines()) == len(logs[0]) == 9
    times = [{one.file: one.written for one in await memory.list()} for memory in (*servers, fresh)]
    assert times[0] == times[1] == times[2]


async def test_a_forgotten_memory_is_not_read_through_another_server(address: str, tmp_path: Path) -> None:
    one, other = await copy_of(address, tmp_path / "1"), await copy_of(address, tmp_path / "2")
    saved = await one.save(HERON)
    assert await other.search("heron")
    await one.forget(saved.entry.file)
    assert not (await other.recall("Which server do we build on?")).picks
    assert not await other.search("heron")
    assert not await other.list()
    assert saved.entry.file.encode() not in (await other.index()).text.encode()


async def test_a_change_that_was_not_acknowledged_is_gone(address: str, tmp_path: Path) -> None:
    """A process was killed between the change of its copy and the commit in the database."""
    one, other = await copy_of(address, tmp_path / "1"), await copy_of(address, tmp_path / "2")
    kept = await one.save(HERON)
    unacknowledged = Memory(replaced(one), writes_cache=True)  # it never reaches the rows
    lost = await unacknowledged.save("Lunch is at noon.")
    assert (one.location.directory / lost.entry.file).exists()
    assert [entry.file for entry in await one.list()] == [kept.entry.file]
    assert not (one.location.directory / lost.entry.file).exists()
    assert [each.id for each in await one.log()] == [kept.commit]
    after = await one.save("Lunch is at one.")
    assert [each.id for each in await other.log()] == [after.commit, kept.commit]


def replaced(memory: Memory) -> object:
    from dataclasses import replace

    return replace(memory.location, rows=None)


@pytest.mark.parametrize("damage", ["ready", "directory", "history", "all", "file"])
async def test_a_damaged_copy_is_made_anew(address: str, tmp_path: Path, damage: str) -> None:
    memory = await copy_of(address, tmp_path / "1")
    saved = await memory.save(HERON)
    location = memory.location
    if damage == "ready":  # as after a power cut
        (location.directory / saved.entry.file).write_bytes(b"")
        (location.cache / READY).write_text("another start\n")
    elif damage == "directory":
        shutil.rmtree(location.directory)
        (location.cache / READY).unlink()
    elif damage == "history":
        shutil.rmtree(location.history)
    elif damage == "file":  # a file that is not what its history says, when the copy falls behind
        (location.directory / saved.entry.file).write_bytes(b"torn")
        await (await copy_of(address, tmp_path / "2")).correct(saved.entry.file, "The build server is egret.")
    else:
        shutil.rmtree(tmp_path / "1")
        memory = await copy_of(address, tmp_path / "1")
    [entry] = await memory.list()
    assert ("egret" if damage == "file" else "heron") in entry.body
    [line] = [one for one in (await memory.index()).text.splitlines() if entry.file in one]
    assert line


async def test_a_change_needs_the_version_that_was_read_on_another_server(
    address: str, tmp_path: Path
) -> None:
    one, other = await copy_of(address, tmp_path / "1"), await copy_of(address, tmp_path / "2")
    file = (await one.save(HERON)).entry.file
    async with transact(one.location, CHANGE) as tx:
        _, version = tx.read(file)
    await other.correct(file, "The build server is egret.")
    with pytest.raises(VersionConflict):
        async with transact(one.location, CHANGE) as tx:
            tx.write(file, b"The build server is ibis.", if_version=version)
    assert "egret" in (await one.find(file)).body


async def test_servers_that_change_one_space_at_once_wait_for_each_other(
    address: str, tmp_path: Path
) -> None:
    servers = [await copy_of(address, tmp_path / str(number)) for number in range(4)]
    names = ("heron", "egret", "ibis", "rook", "wren", "finch", "robin", "crane")

    async def save(number: int) -> str:
        name = names[number]
        return (await servers[number % 4].save(f"{name} has the address 10.0.0.{number}.")).commit

    commits = await asyncio.gather(*(save(number) for number in range(len(names))))
    logs = [{each.id for each in await server.log()} for server in servers]
    assert all(log == set(commits) for log in logs)
    assert len(await servers[0].list()) == len(names)


async def test_a_failed_change_leaves_rows_and_copy_as_they_were(address: str, tmp_path: Path) -> None:
    memory = await copy_of(address, tmp_path / "1")
    saved = await memory.save(HERON)
    with pytest.raises(ZeroDivisionError):
        async with transact(memory.location, CHANGE) as tx:
            tx.write("a.md", b"text")
            raise ZeroDivisionError
    # The database refuses the rows of a change that the copy has made already.
    execute(address, "ALTER TABLE nacre.memory_commits ADD CONSTRAINT no CHECK (reason <> 'refused')")
    with pytest.raises(StoreError):
        await memory.save("Lunch is at noon.", MemoryChange(author="user", reason="refused"))
    assert [entry.file for entry in await memory.list()] == [saved.entry.file]
    assert [each.id for each in await memory.log()] == [saved.commit]


async def test_a_purge_rewrites_the_rows_and_every_copy(address: str, tmp_path: Path) -> None:
    one, other = await copy_of(address, tmp_path / "1"), await copy_of(address, tmp_path / "2")
    saved = await one.save(HERON)
    await one.save("Lunch is at noon.")
    await other.list()
    await one.forget(saved.entry.file)
    await purge(one.location, [saved.entry.file], scrub=lambda text: text.replace(b"heron", b"-"))
    await other.list()
    history = History(other.location.history)
    assert history.newest == History(one.location.history).newest
    repository = history.repository
    assert not [name for name in repository.names() if b"heron" in repository.read(name)[1]]
    rows = execute(
        address,
        "SELECT concat(reason, content) FROM nacre.memory_commits"
        " JOIN nacre.memory_changes USING (space, seq)",
    )
    assert rows
    assert not [text for (text,) in rows if "heron" in str(text)]


async def test_content_that_is_no_text_survives(address: str, tmp_path: Path) -> None:
    one, other = await copy_of(address, tmp_path / "1"), await copy_of(address, tmp_path / "2")
    contents = {
        "nul.md": b"a\0b",
        "latin.md": "é".encode("latin-1"),
        "empty.md": b"",
        "logs/2026/a.md": b"x\r\n",
    }
    async with transact(one.location, CHANGE) as tx:
        for file, data in contents.items():
            tx.write(file, data)
    async with transact(other.location, CHANGE) as tx:
        assert {file: tx.read(file)[0] for file in contents} == contents


async def test_commits_made_with_git_survive(address: str, tmp_path: Path) -> None:
    one = await copy_of(address, tmp_path / "1")
    await one.save(HERON)
    git = ["git", "-c", "user.name=Ada", "-c", "user.email=a@example.org"]
    tree = f"{History(one.location.history).newest}^{{tree}}"
    made = subprocess.run(
        [*git, "commit-tree", tree, "-p", "main", "-m", "with git"],
        cwd=one.location.history, capture_output=True, check=True, text=True,
    ).stdout.strip()  # fmt: skip
    async with transact(one.location, CHANGE) as tx:
        tx.write("a.md", b"text")
        # During a change: a copy that is ahead at its beginning is reset.
        (one.location.history / "refs/heads/main").write_text(f"{made}\n")
        tx._newest = made
    other = await copy_of(address, tmp_path / "2")
    assert [each.reason for each in await other.log()][:2] == ["test", "with git"]
    assert [each.id for each in await other.log()] == [each.id for each in await one.log()]


async def test_a_user_sees_no_space_of_another(address: str, tmp_path: Path) -> None:
    ada, bob = await copy_of(address, tmp_path), await copy_of(address, tmp_path, "bob")
    await ada.save(HERON)
    assert not await bob.list()
    assert ada.location.directory != bob.location.directory
