"""What every memory does: one in a directory, and one on a server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TypeAlias

import pytest

from nacre import Memory, open_memory
from nacre.app.remote_memory import RemoteMemory
from nacre.errors import StoreError, VersionConflict
from nacre.memory.format.entry import MemoryChange, MemoryDraft
from tests.server.serving import serving

AnyMemory: TypeAlias = Memory | RemoteMemory
HERON = "The build server is heron, in the basement."
CHANGE = MemoryChange(author="user", reason="told at lunch")


@pytest.fixture(params=["directory", "server"])
async def memory(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[AnyMemory]:
    monkeypatch.chdir(tmp_path)
    if request.param == "directory":
        yield await open_memory(scope="user")
        return
    async with serving(tmp_path) as server:
        monkeypatch.setenv("NACRE_SERVER_KEY", await server.key(local=True))
        async with await open_memory(server.url) as remote:
            yield remote


async def test_a_saved_memory_is_listed_found_and_recalled(memory: AnyMemory) -> None:
    draft = MemoryDraft(body=HERON, name="Build server", description="Where builds run", kind="project")
    saved = await memory.save(draft, CHANGE)
    assert saved.before is None
    (listed,) = await memory.list()
    found = await memory.find("build server")
    assert listed.body == found.body == saved.entry.body == f"{HERON}\n"
    assert (found.file, found.name, found.description, found.kind, found.origin, found.indexed) == (
        saved.entry.file, "Build server", "Where builds run", "project", "user", True,
    )  # fmt: skip
    assert [one.entry.file for one in await memory.search("heron")] == [found.file]
    recalled = await memory.recall("Which server do we build on?")
    assert [one.ranked.file for one in recalled.picks] == [found.file]
    assert HERON in recalled.text
    assert recalled.ranked[0].file == found.file
    assert (await memory.recall("")).picks == ()


async def test_a_text_on_the_same_subject_updates_the_memory(memory: AnyMemory) -> None:
    first = await memory.save(MemoryDraft(body=HERON, name="Build server"))
    second = await memory.save(MemoryDraft(body="The build server is egret.", name="Build server"))
    assert second.entry.file == first.entry.file
    assert second.before is not None
    assert second.before.body == f"{HERON}\n"
    same = await memory.save(MemoryDraft(body="The build server is egret.", name="Build server"))
    assert same.commit == ""


async def test_the_fields_of_a_draft_are_stored(memory: AnyMemory) -> None:
    draft = MemoryDraft(
        body="The spare key is under the third pot.", file="keys.md", pinned=True, local_only=True,
        origin="unverified",
    )  # fmt: skip
    await memory.save(draft)
    found = await memory.find("keys.md")
    assert (found.file, found.pinned, found.local_only, found.origin) == ("keys.md", True, True, "unverified")


async def test_changes_are_in_the_log_and_can_be_undone(memory: AnyMemory) -> None:
    saved = await memory.save(HERON, CHANGE)
    entry, forgotten = await memory.forget(saved.entry.file, CHANGE)
    assert entry.body == f"{HERON}\n"
    assert await memory.list() == []
    commits = await memory.log()
    assert [one.id for one in commits] == [forgotten, saved.commit]
    assert all(one.author == "user" and one.reason.startswith("told at lunch") for one in commits)
    assert [one.id for one in await memory.log(file=entry.file, limit=1)] == [forgotten]
    changed = {one.file: one for one in await memory.diff(saved.commit)}
    assert changed[entry.file].before is None
    assert f"+{HERON}" in changed[entry.file].text
    undone = await memory.undo(forgotten)
    assert (await memory.log(limit=1))[0].id == undone
    assert [one.file for one in await memory.list()] == [entry.file]


async def test_a_correction_replaces_the_value_it_names(memory: AnyMemory) -> None:
    await memory.save(MemoryDraft(body="The review is on Tuesday, in room 4.", name="Review"))
    corrected = await memory.correct("Review", "it is on Friday, not Tuesday")
    assert corrected.entry.body == "The review is on Friday, in room 4.\n"
    assert corrected.before is not None
    replaced = await memory.correct("Review", "The review was cancelled.")
    assert replaced.entry.body == "The review was cancelled.\n"


async def test_what_cannot_be_done_is_an_error_in_one_line(memory: AnyMemory) -> None:
    with pytest.raises(StoreError, match="no memory matches"):
        await memory.find("heron")
    with pytest.raises(StoreError, match="no memory matches"):
        await memory.forget("heron")
    with pytest.raises(StoreError, match="the text is empty"):
        await memory.save("  ")
    with pytest.raises(StoreError, match="secrets do not belong"):
        await memory.save("The database password is hunter2-Quartz-88.")
    with pytest.raises(StoreError):
        await memory.diff("0" * 40)
    saved = await memory.save(HERON)
    with pytest.raises(VersionConflict):
        await memory.forget(saved.entry.file, if_version="sha256:of another text")
    assert len(await memory.list()) == 1


async def test_more_memories_than_fit_on_a_page_are_listed_once(
    memory: AnyMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nacre.app.remote_memory.PAGE", 3)  # 500 saves would take minutes
    names = ("heron", "egret", "ibis", "rook", "wren", "finch", "robin")
    for number, name in enumerate(names):
        await memory.save(MemoryDraft(body=f"{name} has the address 10.0.0.{number}.", name=name))
    assert sorted(one.name for one in await memory.list()) == sorted(names)


async def test_many_tasks_at_once_lose_nothing(memory: AnyMemory) -> None:
    drafts = [MemoryDraft(body=f"Room {n} has {n + 2} desks.", name=f"Room {n}") for n in range(8)]
    await asyncio.gather(*(memory.save(one) for one in drafts))
    assert len(await memory.list()) == len(drafts)
