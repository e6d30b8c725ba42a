"""The queue of proposals: one file each, accepted in one commit, or dropped (E7)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nacre.errors import StoreError, VersionConflict
from nacre.memory.checks.review import FOLDER, Proposal, accept, find, propose, reject, waiting
from nacre.memory.files.folder import Folder
from nacre.memory.format.entry import MemoryChange, MemoryDraft
from nacre.memory.memory import Memory
from nacre.store import disk
from nacre.testing import FrozenClock

TEA = b"---\nname: Tea\ndescription: Green tea\ntype: user\n---\n\nGreen tea.\n\nNo sugar.\n"


@pytest.fixture
async def memory(tmp_path: Path, clock: FrozenClock) -> Memory:
    project = tmp_path / "project"
    project.mkdir()
    return await Memory.open(project, environ={"NACRE_HOME": str(tmp_path / "home")}, clock=clock)


def proposed(
    memory: Memory, file: str = "tea.md", *, before: bytes | None = None, after: bytes | None = TEA
) -> Proposal:
    one = Proposal(
        file=file,
        before=before,
        after=after,
        author="extract",
        reason="heard",
        session="s",
        sources=("s", "m"),
    )
    return propose(memory.location, one, clock=memory.clock)


def there(memory: Memory, file: str = "tea.md") -> bytes | None:
    return Folder(memory.location.directory).read(file)


async def test_a_proposal_waits_and_memory_stays_as_it_is(memory: Memory) -> None:
    """E7: nothing is written before the person says so; what waits is read back whole."""
    one = proposed(memory)
    assert waiting(memory.location) == [one]
    assert there(memory) is None
    assert not await memory.log()


@pytest.mark.parametrize(
    ("after", "is_kept"),
    [
        (TEA.replace(b"type: user", b'type: user\ndrift: "gone: tea"'), True),
        (TEA.replace(b"Green tea.", b"Black tea."), False),
    ],
)
async def test_a_mark_that_a_dream_proposed_keeps_the_age_of_the_memory(
    memory: Memory, after: bytes, is_kept: bool
) -> None:
    path = memory.location.directory / "tea.md"
    path.write_bytes(TEA)
    os.utime(path, (10**9, 10**9))
    made = Proposal(file="tea.md", before=TEA, after=after, author="dream", reason="marked")
    await accept(memory, propose(memory.location, made, clock=memory.clock).id)
    assert path.read_bytes() == after
    assert (path.stat().st_mtime == 10**9) is is_kept


async def test_accepting_is_one_commit_with_the_line_in_the_index(memory: Memory) -> None:
    """E7, M15: by who proposed it, with the session; then nothing waits any more."""
    one = proposed(memory)
    commit = await accept(memory, one.id[:5])
    (newest,) = await memory.log()
    assert (newest.id, newest.author, newest.session) == (commit, "extract", "s")
    assert newest.files == ("MEMORY.md", "tea.md")
    assert there(memory) == TEA
    assert waiting(memory.location) == []


async def test_an_edited_version_is_what_is_saved(memory: Memory) -> None:
    """E7: the person's own words win."""
    one = proposed(memory)
    await accept(memory, one.id, edited=TEA.replace(b"Green", b"Black"))
    assert b"Black tea." in (there(memory) or b"")


async def test_rejecting_drops_it(memory: Memory) -> None:
    """E7: memory stays as it is."""
    one = proposed(memory)
    assert await reject(memory, one.id) == one
    assert waiting(memory.location) == []
    with pytest.raises(StoreError, match="no proposal"):
        find(memory.location, one.id)


async def test_a_file_that_changed_meanwhile_is_not_overwritten(memory: Memory, clock: FrozenClock) -> None:
    """E7, M15: one line says what to do; on top of the change, where both can be had."""
    saved = await memory.put("tea.md", TEA, MemoryChange(author="user", reason="by hand"))
    one = proposed(memory, before=TEA, after=TEA.replace(b"No sugar", b"Two sugars"))
    mine = TEA.replace(b"Green tea.\n\n", b"Oolong.\n\n")
    await memory.put("tea.md", mine, MemoryChange(author="user", reason="by hand"))
    with pytest.raises(VersionConflict, match=f"--accept {one.id} --rebase"):
        await accept(memory, one.id)
    assert there(memory) == mine
    assert waiting(memory.location) == [one]
    await accept(memory, one.id, rebase=True)
    assert b"Oolong.\n\nTwo sugars" in (there(memory) or b"")
    assert saved


async def test_two_changes_of_one_line_cannot_both_be_had(memory: Memory) -> None:
    """E7: then the person has to edit."""
    one = proposed(memory, before=TEA, after=TEA.replace(b"No sugar", b"Two sugars"))
    await memory.put(
        "tea.md", TEA.replace(b"No sugar", b"Honey"), MemoryChange(author="user", reason="by hand")
    )
    with pytest.raises(VersionConflict, match="accept an edited version"):
        await accept(memory, one.id, rebase=True)


async def test_a_removal_can_be_proposed_too(memory: Memory) -> None:
    """D6: what is removed stays in the history."""
    saved = await memory.save(
        MemoryDraft(body="Tea at four.", name="Tea"), MemoryChange(author="user", reason="by hand")
    )
    data = there(memory, saved.entry.file)
    one = proposed(memory, saved.entry.file, before=data, after=None)
    await accept(memory, one.id)
    assert there(memory, saved.entry.file) is None
    assert saved.entry.file not in (memory.location.directory / "MEMORY.md").read_text()


async def test_a_newer_proposal_for_a_file_takes_the_older_ones_place(memory: Memory) -> None:
    """E7: nobody has to choose between two versions of one thought."""
    proposed(memory)
    newer = proposed(memory, after=TEA + b"\nMore.\n")
    other = proposed(memory, "milk.md")
    assert {one.id for one in waiting(memory.location)} == {newer.id, other.id}


async def test_what_is_no_proposal_is_passed_over(memory: Memory) -> None:
    """A torn or foreign file in the queue stops nobody; bytes that are no UTF-8 come back as they were."""
    odd = proposed(memory, after=b"\xff\xfe odd")
    folder = memory.location.cache / FOLDER
    for name, text in (("a.json", "{"), ("b.json", "[]"), ("c.json", '{"file": 1}'), ("D-.json", "{}")):
        (folder / name).write_text(text)
    (found,) = waiting(memory.location)
    assert (found.id, found.after) == (odd.id, b"\xff\xfe odd")


async def test_what_another_process_proposes_meanwhile_is_not_dropped(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """E7: two sessions propose at the same moment; both proposals wait."""
    write, seen = disk.replace_file, list[Proposal]()

    def writes(path: Path, data: bytes, **more: str) -> None:
        monkeypatch.setattr(disk, "replace_file", write)
        seen.append(proposed(memory, "milk.md"))
        write(path, data, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(disk, "replace_file", writes)
    seen.append(proposed(memory))
    assert {one.id for one in waiting(memory.location)} == {one.id for one in seen}
