"""Saves keep the index within its load budget: pointers that do not fit are left to recall (M8, M9, M16c)."""

from __future__ import annotations

from pathlib import Path

import pytest

from nacre.memory.checks.lint import lint
from nacre.memory.format.entry import MemoryChange, MemoryDraft, compose
from nacre.memory.format.index import INDEX_FILE, MAX_LINES, MemoryIndex, index_usage, load_index
from nacre.memory.memory import Memory
from nacre.memory.recall.usage import UsageEvent, record
from nacre.memory.transfer.import_memories import ImportOptions, import_batch
from nacre.memory.transfer.import_sources import ImportBatch, ImportFile
from nacre.testing import FrozenClock
from tests.memory.clones import Clone

BY_HAND = MemoryChange(author="user", reason="by hand")
MANY = 300


@pytest.fixture
async def memory(tmp_path: Path, clock: FrozenClock) -> Memory:
    project = tmp_path / "project"
    project.mkdir()
    return await Memory.open(project, environ={"NACRE_HOME": str(tmp_path / "home")}, clock=clock)


def draft(number: int, **fields: bool) -> MemoryDraft:
    body = f"Customer number {number} pays by invoice."
    return MemoryDraft(body=body, file=f"customer_{number:03}.md", name=f"Customer {number}", **fields)


def written(number: int, clock: FrozenClock) -> bytes:
    one = draft(number)
    return compose(one, file=one.file, now=clock.now())


def listed(directory: Path) -> list[str]:
    data = (directory / INDEX_FILE).read_bytes()
    assert index_usage(data).share <= 1
    assert not load_index(data).cut
    return [line.file for line in MemoryIndex.parse(data).pointers]


@pytest.mark.slow
async def test_after_many_saves_the_index_is_loaded_whole(memory: Memory, clock: FrozenClock) -> None:
    """Pinned, most used and newest memories stay listed; the feedback names what is not; recall finds it."""
    feedback = ""
    for number in range(MANY):
        clock.advance(60)
        saved = await memory.save(draft(number, pinned=number == 0), BY_HAND)
        feedback = saved.feedback
        if number == 1:
            used = UsageEvent(file="customer_001.md", kind="cited", at=clock.now())
            await record(memory.location, [used])
    kept = listed(memory.location.directory)
    newest = [f"customer_{number:03}.md" for number in range(MANY - len(kept) + 2, MANY)]
    assert kept == ["customer_000.md", "customer_001.md", *newest]
    assert "100% of its limit" in feedback
    assert "No longer listed, but recall finds it: customer_" in feedback
    assert len(await memory.list()) == MANY
    assert [one.kind for one in lint(memory.location.directory)] == ["long-index"]
    (found, *_) = await memory.search("customer number 42 invoice")
    assert found.entry.file == "customer_042.md"
    assert "customer_042.md" not in kept


@pytest.mark.slow
async def test_one_change_with_many_files_stays_within_the_budget(memory: Memory, clock: FrozenClock) -> None:
    """Extraction writes all its files in one change."""
    files = {draft(number).file: (written(number, clock), "") for number in range(MANY)}
    await memory.put_all(files, MemoryChange(author="extract", reason="learnt"))
    assert len(listed(memory.location.directory)) > MAX_LINES - 10
    assert len(await memory.list()) == MANY


@pytest.mark.parametrize("has_index", [True, False])
async def test_an_import_stays_within_the_budget(memory: Memory, clock: FrozenClock, has_index: bool) -> None:
    files = [ImportFile(draft(number).file, written(number, clock)) for number in range(MANY)]
    lines = "".join(f"- [Customer {number}]({draft(number).file})\n" for number in range(MANY))
    batch = ImportBatch(files=tuple(files), index=f"# Memory\n\n{lines}".encode() if has_index else None)
    await import_batch(memory.location, batch, options=ImportOptions(), change=BY_HAND, clock=clock)
    assert len(listed(memory.location.directory)) > MAX_LINES - 10
    assert len(await memory.list()) == MANY


@pytest.mark.slow
async def test_a_sync_of_two_long_indexes_stays_within_the_budget(tmp_path: Path, clock: FrozenClock) -> None:
    """Both sides list the same memories afterwards, and a further sync changes nothing."""
    (tmp_path / "shared").mkdir()
    ana = await Clone.made(tmp_path, "ana", f"folder:{tmp_path / 'shared'}", clock)
    bo = await Clone.made(tmp_path, "bo", f"folder:{tmp_path / 'shared'}", clock)
    for clone, numbers in ((ana, range(150)), (bo, range(150, MANY))):
        files = {draft(number).file: (written(number, clock), "") for number in numbers}
        await (await clone.memory()).put_all(files, BY_HAND)
    for clone in (ana, bo, ana):
        await clone.sync()
    assert len(ana.bodies) == len(bo.bodies) == MANY
    assert ana.files == bo.files
    assert len(MemoryIndex.parse(ana.files[INDEX_FILE].encode()).pointers) > MAX_LINES - 10
    assert index_usage(ana.files[INDEX_FILE].encode()).share <= 1
    assert (await bo.sync()).pushed == ()
