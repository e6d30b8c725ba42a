"""All memories of one home in another: copied, never overwritten; what was taken away stays away."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from nacre.memory.files.location import (
    Location,
    MemoryPaths,
    agent_location,
    project_location,
    team_location,
    user_location,
)
from nacre.memory.format.entry import MemoryChange, MemoryDraft
from nacre.memory.memory import Memory
from nacre.memory.transfer.copy_home import NO_PROJECT, HomeCopy
from nacre.store.home import slug

BY_HAND = MemoryChange(author="user", reason="said so")


@pytest.fixture
def home_copy(tmp_path: Path) -> HomeCopy:
    return HomeCopy(old=tmp_path / "old", new=tmp_path / "new")


async def remember(location: Location, text: str, *, file: str = "", local_only: bool = False) -> Memory:
    memory = await Memory.at(location, location.root or location.directory)
    draft = MemoryDraft(body=text, name=text, file=file, local_only=local_only)
    await memory.save(draft, BY_HAND)
    return memory


async def brought(home_copy: HomeCopy) -> dict[str, tuple[str, ...]]:
    return {one.whose: (await home_copy.copy(one)).imported.files for one in home_copy.directories()[0]}


async def test_every_memory_finds_its_place_with_its_line_and_its_author(home_copy: HomeCopy) -> None:
    """M1, M2, M7b, M15, M26: of projects, of the person, of agents; two projects of one slug apart."""
    base = home_copy.old.parent
    for name in ("a-b", "a_b"):
        await remember(project_location(home_copy.old, base / name), f"Deploys of {name} are on Monday.")
    await remember(user_location(home_copy.old), "Likes tea.")
    agents = MemoryPaths(home=home_copy.old, cwd=base)
    await remember(agent_location("user", "reviewer", agents), "Checks names first.")
    found = await brought(home_copy)
    assert {whose: len(files) for whose, files in found.items()} == {
        "every project": 1,
        "agents of type reviewer": 1,
        str(base / "a-b"): 1,
        str(base / "a_b"): 1,
    }
    memory = Memory(project_location(home_copy.new, base / "a_b"))
    (entry,) = await memory.list()
    assert (entry.title, entry.indexed) == ("Deploys of a_b are on Monday.", True)
    (commit,) = await memory.log(limit=9)
    assert (commit.author, commit.reason) == ("import", f"brought from {home_copy.old}")
    assert memory.location.directory != project_location(home_copy.new, base / "a-b").directory
    assert set((await brought(home_copy)).values()) == {()}


async def test_another_memory_of_the_same_name_stays_and_both_are_there(home_copy: HomeCopy) -> None:
    root = home_copy.old.parent / "project"
    await remember(project_location(home_copy.old, root), "Ours.", file="deploys.md")
    there = await remember(project_location(home_copy.new, root), "Theirs.", file="deploys.md")
    (one,) = home_copy.directories()[0]
    told = await home_copy.copy(one)
    (renamed,) = told.imported.renamed
    assert renamed.was == "deploys.md"
    assert (await there.find("deploys.md")).body.strip() == "Theirs."
    assert (await there.find(renamed.file)).body.strip() == "Ours."


async def test_what_was_forgotten_or_changed_there_does_not_come_back(home_copy: HomeCopy) -> None:
    root = home_copy.old.parent / "project"
    for text in ("Deploys on Monday.", "Likes tea."):
        await remember(project_location(home_copy.old, root), text)
    await brought(home_copy)
    there = Memory(project_location(home_copy.new, root))
    await there.forget("project_likes_tea.md", BY_HAND)
    path = there.location.directory / "project_deploys_monday.md"
    path.write_text(path.read_text().replace("Monday", "Tuesday"))
    assert await brought(home_copy) == {str(root): ()}
    assert [one.file for one in await there.list()] == ["project_deploys_monday.md"]
    assert "likes_tea" not in (await there.index()).text


async def test_what_must_stay_stays_where_another_program_would_send_it(home_copy: HomeCopy) -> None:
    """M18, M27: local-only memories, credentials, and the team's, which has its own way."""
    root = home_copy.old.parent / "project"
    here = project_location(home_copy.old, root)
    await remember(here, "The plan.", local_only=True)
    (here.directory / "key.md").write_text("The key is AKIA" + "Q3EGR7ZP2LXK5WTB\n")
    team = team_location(here)
    team.directory.mkdir()
    (team.directory / "rule.md").write_text("Review first.\n")
    (one,) = home_copy.directories()[0]
    careful = replace(home_copy, leaves_local=True)
    for told in (careful.preview(one), await careful.copy(one)):
        assert (told.staying, told.has_team, told.imported.files) == (("project_plan.md",), True, ())
        assert [each.file for each in told.imported.refused] == ["key.md"]
    assert [*one.target.directory.rglob("*.md")] == []
    assert (await home_copy.copy(one)).imported.files == ("project_plan.md",)


async def test_whose_memory_nobody_claimed_is_read_off_its_sessions(home_copy: HomeCopy) -> None:
    """M2: the client writes no identity, but says where it works."""
    base = home_copy.old.parent
    for name in ("known", "unknown"):
        folder = home_copy.old / "projects" / slug(str(base / name))
        (folder / "memory").mkdir(parents=True)
        (folder / "memory" / "tea.md").write_text("Likes tea.\n")
    log = home_copy.old / "projects" / slug(str(base / "known")) / "s.jsonl"
    log.write_text(json.dumps({"type": "user", "cwd": str(base / "known")}) + "\n")
    pairs, (left,) = home_copy.directories()
    assert [one.whose for one in pairs] == [str(base / "known")]
    assert (left.why, "unknown" in left.file) == (NO_PROJECT, True)


async def test_a_memory_that_cannot_be_written_stops_no_other(home_copy: HomeCopy) -> None:
    base = home_copy.old.parent
    for name in ("first", "second"):
        await remember(project_location(home_copy.old, base / name), "Likes tea.")
    target = project_location(home_copy.new, base / "first").directory
    target.parent.mkdir(parents=True)
    target.symlink_to(base)
    told = [await home_copy.copy(one) for one in home_copy.directories()[0]]
    assert [bool(one.failed) for one in told] == [True, False]
    assert "symlink" in told[0].failed
    assert told[1].imported.files == ("project_likes_tea.md",)
