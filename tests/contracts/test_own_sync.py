"""Memories of one person's machines meet in a git repository, a folder, or on a server (M18b)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from nacre.app.sync_memory import memory_remote
from nacre.errors import ConfigError, StoreError
from nacre.memory.files.location import Location, project_location, user_location
from nacre.memory.format.entry import MemoryChange, MemoryDraft
from nacre.memory.memory import Memory
from nacre.memory.team.choice import project_name
from nacre.memory.team.sync import SyncReport, sync
from tests.memory.clones import bare_repository, git
from tests.postgres import new_database, new_tenant
from tests.server import serving as served

BY_HAND = MemoryChange(author="user", reason="by hand")
SECRET = "AKIA" + "QYLPMN5HFIQR7BBB"
REMOTES = ["git", "folder", "server", pytest.param("server on PostgreSQL", marks=pytest.mark.slow)]


@pytest.fixture(params=REMOTES)
async def remote(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[str]:
    if request.param == "git":
        yield str(bare_repository(tmp_path / "shared.git"))
    elif request.param == "folder":
        (tmp_path / "shared").mkdir()
        yield f"folder:{tmp_path / 'shared'}"
    else:
        if request.param != "server":
            address = new_database()
            await asyncio.to_thread(lambda: asyncio.run(new_tenant(address, "local")))
            monkeypatch.setattr(served, "DATABASE", address)
        async with served.serving(tmp_path) as server:
            monkeypatch.setenv("NACRE_SERVER_KEY", await server.key())
            yield f"server:{server.url}"


@dataclass(frozen=True)
class Machine:
    """One machine's memory of its person."""

    location: Location
    remote: str

    async def memory(self) -> Memory:
        return await Memory.at(self.location, Path.home())

    async def save(self, file: str, text: str, **fields: object) -> None:
        draft = MemoryDraft(body=text, file=file, name=file.removesuffix(".md"), kind="user", **fields)  # type: ignore[arg-type]
        await (await self.memory()).save(draft, BY_HAND)

    async def sync(self, *, is_dry: bool = False) -> SyncReport:
        shared = await memory_remote(self.remote, self.location)
        return await sync(self.location, shared, is_dry=is_dry)

    @property
    def files(self) -> dict[str, str]:
        return {path.name: path.read_text() for path in sorted(self.location.directory.rglob("*.md"))}


@pytest.fixture
def machines(tmp_path: Path, remote: str) -> tuple[Machine, Machine]:
    laptop, desktop = (Machine(user_location(tmp_path / name), remote) for name in ("laptop", "desktop"))
    return laptop, desktop


async def test_what_one_machine_saves_the_other_gets_byte_for_byte(machines: tuple[Machine, Machine]) -> None:
    """M18b: memories about the person, too, which a team never gets."""
    laptop, desktop = machines
    await laptop.save("tabs.md", "I prefer tabs.")
    assert (await laptop.sync()).pushed == ("MEMORY.md", "tabs.md")
    assert (await desktop.sync()).pulled == ("MEMORY.md", "tabs.md")
    assert desktop.files == laptop.files != {}
    assert await desktop.sync() == await laptop.sync() == SyncReport()
    newest, *_ = await (await desktop.memory()).log(limit=1)
    assert newest.author == "sync"


async def test_forgotten_on_one_machine_is_forgotten_on_the_other(machines: tuple[Machine, Machine]) -> None:
    laptop, desktop = machines
    await laptop.save("tabs.md", "I prefer tabs.")
    await laptop.sync()
    await desktop.sync()
    await (await desktop.memory()).forget("tabs.md", BY_HAND)
    assert (await desktop.sync()).withdrawn == ("tabs.md",)
    assert (await laptop.sync()).deleted == ("tabs.md",)
    assert "tabs" not in laptop.files["MEMORY.md"]
    assert (await desktop.sync()).pulled == ()


async def test_two_changes_of_one_memory_are_both_kept_and_reported(
    machines: tuple[Machine, Machine],
) -> None:
    laptop, desktop = machines
    await laptop.save("tabs.md", "I prefer tabs.")
    await laptop.sync()
    await desktop.sync()
    await laptop.save("tabs.md", "I prefer two spaces.")
    await desktop.save("tabs.md", "I prefer four spaces.")
    await laptop.sync()
    report = await desktop.sync()
    assert [one.file for one in report.conflicts] == ["tabs.md"]
    assert "MEMORY.md" in report.merged
    await laptop.sync()
    assert laptop.files == desktop.files
    texts = "".join(laptop.files.values())
    assert "two spaces" in texts
    assert "four spaces" in texts


async def test_local_only_memories_and_credentials_stay_where_they_are(
    machines: tuple[Machine, Machine],
) -> None:
    laptop, desktop = machines
    await laptop.save("pots.md", "The spare key is under the third pot.", local_only=True)
    (laptop.location.directory / "aws.md").write_text(f"---\nname: aws\n---\nThe key is {SECRET}.\n")
    await laptop.save("tabs.md", "I prefer tabs.")
    lines = laptop.files["MEMORY.md"]
    report = await laptop.sync()
    assert report.stayed == ("pots.md",)
    assert [one.file for one in report.refused] == ["aws.md"]
    await desktop.sync()
    assert sorted(desktop.files) == ["MEMORY.md", "tabs.md"]
    assert "pot" not in desktop.files["MEMORY.md"]
    assert laptop.files["MEMORY.md"] == lines


async def test_a_dry_run_changes_neither_side(machines: tuple[Machine, Machine]) -> None:
    laptop, desktop = machines
    await laptop.save("tabs.md", "I prefer tabs.")
    assert (await laptop.sync(is_dry=True)).pushed == ("MEMORY.md", "tabs.md")
    assert (await desktop.sync()).pulled == ()


async def test_an_unconfirmed_memory_stays_unconfirmed_on_the_other_machine(
    machines: tuple[Machine, Machine],
) -> None:
    laptop, desktop = machines
    await laptop.save("port.md", "The port is 5433.", origin="unverified")
    await laptop.sync()
    await desktop.sync()
    assert [one.origin for one in await (await desktop.memory()).list()] == ["unverified"]


async def test_the_memory_of_a_project_and_that_of_all_projects_do_not_mix(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    project = tmp_path / "shop"
    git("init", "--quiet", str(project))
    git("-C", str(project), "remote", "add", "origin", "https://ana:secret@git.example.org/acme/Shop.git")
    assert await project_name(project) == "git.example.org-acme-shop"
    place = f"folder:{tmp_path / 'shared'}"
    whole = Machine(user_location(tmp_path / "home"), place)
    shop = Machine(project_location(tmp_path / "home", project), place)
    await whole.save("tabs.md", "I prefer tabs.")
    await shop.save("port.md", "The shop listens on 8080.")
    await whole.sync()
    await shop.sync()
    shared = sorted(path.relative_to(tmp_path / "shared") for path in (tmp_path / "shared").rglob("*.md"))
    assert [str(path) for path in shared] == [
        "project/git.example.org-acme-shop/MEMORY.md",
        "project/git.example.org-acme-shop/port.md",
        "user/MEMORY.md",
        "user/tabs.md",
    ]


async def test_a_project_without_an_origin_needs_a_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--name"):
        await project_name(tmp_path)
    assert await project_name(tmp_path, "shop") == "shop"
    with pytest.raises(ConfigError, match="cannot name a project"):
        await project_name(tmp_path, "../shop")


async def test_ones_own_memory_never_goes_to_a_remote_of_the_project(tmp_path: Path) -> None:
    git("init", "--quiet", str(tmp_path / "shop"))
    git("-C", str(tmp_path / "shop"), "remote", "add", "origin", str(bare_repository(tmp_path / "its.git")))
    place = project_location(tmp_path / "home", tmp_path / "shop")
    with pytest.raises(ConfigError, match=r"memory\.syncRemote"):
        await memory_remote("origin", place)


async def test_a_server_that_is_not_there_is_one_line_and_nothing_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    laptop = Machine(user_location(tmp_path / "laptop"), "server:http://127.0.0.1:9")
    await laptop.save("tabs.md", "I prefer tabs.")
    with pytest.raises(ConfigError, match="NACRE_SERVER_KEY"):
        await laptop.sync()
    monkeypatch.setenv("NACRE_SERVER_KEY", "nacre_x")
    with pytest.raises(StoreError, match="does not answer"):
        await laptop.sync()
    assert "tabs.md" in laptop.files


@pytest.mark.slow
@pytest.mark.parametrize("remote", ["server"], indirect=True)
async def test_more_memories_than_one_request_takes_are_synchronised(
    machines: tuple[Machine, Machine],
) -> None:
    laptop, desktop = machines
    await laptop.memory()
    for number in range(520):
        text = f"---\nname: Service {number}\n---\n\nService {number} listens on {8000 + number}.\n"
        (laptop.location.directory / f"service_{number}.md").write_text(text)
    assert len((await laptop.sync()).pushed) >= 520
    await desktop.sync()
    assert len(desktop.files) == len(laptop.files) >= 520
