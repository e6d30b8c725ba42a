"""Whoever is live on a directory and keeps a watch looks at every file once, and misses nothing (M15)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from nacre.memory.agent_memory import agent_live
from nacre.memory.checks.lint import apply_fixes
from nacre.memory.files import watch as watching
from nacre.memory.files.folder import Folder
from nacre.memory.files.location import Location
from nacre.memory.files.transaction import transact
from nacre.memory.files.undo import confirm, undo
from nacre.memory.files.watch import Watch
from nacre.memory.format.entry import MemoryChange
from nacre.memory.transfer.import_memories import ImportOptions, import_batch
from nacre.memory.transfer.import_sources import ImportBatch, ImportFile
from nacre.store.history import History
from tests.memory.chaos.saving import location

CHANGE = MemoryChange(author="user", reason="by hand")


@pytest.fixture
def where(tmp_path: Path) -> Location:
    found = location(tmp_path)
    found.directory.mkdir(parents=True)
    return found


@pytest.fixture
def watch(where: Location) -> Iterator[Watch]:
    if watching._calls() is None:
        pytest.skip("this system tells nobody what was touched")
    watch = Watch(where.directory)
    yield watch
    watch.close()


async def test_a_session_with_a_watch_looks_at_all_files_once(
    where: Location, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Patched to count, because what is not done cannot be seen otherwise; every edit is on record."""
    scans: list[Path] = []
    scan = Folder.scan
    monkeypatch.setattr(Folder, "scan", lambda self: scans.append(self.root) or scan(self))
    async with agent_live(where, watch=watch):
        async with transact(where, CHANGE, watch=watch) as tx:
            tx.write("a.md", b"one\n")
        (where.directory / "shell.md").write_bytes(b"by a shell\n")
        await confirm(where, watch=watch)
        await undo(where, tx.commit, change=CHANGE, watch=watch)
        (where.directory / "shell.md").unlink()
    assert len(scans) == 1
    assert [(one.author, one.files) for one in History(where.history).log(99)] == [
        ("unconfirmed", ("shell.md",)),
        ("user", ("a.md",)),
        ("user", ()),
        ("unconfirmed", ("shell.md",)),
        ("user", ("a.md",)),
    ]


async def test_mending_and_taking_in_see_edits_through_a_watch(where: Location, watch: Watch) -> None:
    async with transact(where, CHANGE, watch=watch) as tx:
        tx.write("MEMORY.md", b"# Index\n")
    (where.directory / "project_tea.md").write_bytes(b"Tea at four.\n")
    assert "project_tea.md" in (await apply_fixes(where, CHANGE, watch=watch)).files
    (where.directory / "milk.md").write_bytes(b"by hand\n")
    batch = ImportBatch(files=(ImportFile("milk.md", b"---\nname: Milk\n---\nNo milk.\n"),))
    done = await import_batch(where, batch, options=ImportOptions(), change=CHANGE, watch=watch)
    assert [one.was for one in done.renamed] == ["milk.md"]
    assert (where.directory / "milk.md").read_bytes() == b"by hand\n"
