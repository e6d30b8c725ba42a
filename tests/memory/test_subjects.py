"""A save finds the memory on the same subject, and only that."""

from __future__ import annotations

from pathlib import Path

import pytest

from nacre.errors import StoreError
from nacre.memory.format.entry import MemoryChange, MemoryDraft
from nacre.memory.memory import Memory

HAND = MemoryChange(author="user", reason="by hand")


@pytest.fixture
async def memory(tmp_path: Path) -> Memory:
    return await Memory.open(tmp_path, environ={"NACRE_HOME": str(tmp_path / "home")})


async def bodies(memory: Memory) -> set[str]:
    return {entry.body.strip() for entry in await memory.list()}


async def test_the_same_said_of_somebody_else_is_another_memory(memory: Memory) -> None:
    """M14: only the one on the same subject is updated."""
    texts = {"Alice prefers tea in the morning meetings", "Bob prefers tea in the morning meetings"}
    for text in sorted(texts):
        await memory.save(MemoryDraft(body=text), HAND)
    assert await bodies(memory) == texts


async def test_the_same_subject_is_found_whoever_wrote_it_last(memory: Memory, tmp_path: Path) -> None:
    """M14: also when another process or an editor changed the directory between two saves."""
    await memory.save(MemoryDraft(body="Deploys happen on Tuesday.", name="Deploy day"), HAND)
    other = await Memory.open(tmp_path, environ={"NACRE_HOME": str(tmp_path / "home")})
    await other.save(MemoryDraft(body="The code freeze begins in June.", name="Code freeze"), HAND)
    (memory.location.directory / "standup.md").write_text("---\nname: Standup hour\n---\nAt nine.\n")
    for name, body in (
        ("Deploy day", "Wednesday."),
        ("Code freeze", "In July."),
        ("Standup hour", "At ten."),
    ):
        saved = await memory.save(MemoryDraft(body=body, name=name), HAND)
        assert saved.before is not None
    assert await bodies(memory) == {"Wednesday.", "In July.", "At ten."}


async def test_a_name_that_is_taken_gets_a_number(memory: Memory) -> None:
    (memory.location.directory / "PROJECT_TEA.md").write_text("---\nname: Coffee\n---\nBlack.\n")
    saved = await memory.save(
        MemoryDraft(body="Green.", name="Tea", description="what to drink at noon"), HAND
    )
    assert saved.entry.file == "project_tea_2.md"


async def test_a_number_in_a_given_name_tells_two_subjects_apart(memory: Memory) -> None:
    """M14: what is said of one version must not take the place of what was said of another."""
    for number in (1, 2):
        text = f"v{number} of the API authenticates with tokens."
        saved = await memory.save(MemoryDraft(body=text, name=f"API v{number} auth", description=text), HAND)
        assert saved.before is None
    again = await memory.save(MemoryDraft(body="v2 of the API wants keys.", name="API v2 auth"), HAND)
    assert (again.entry.file, again.before is not None) == ("project_api_v2_auth.md", True)
    assert len(await bodies(memory)) == 2


async def test_a_number_in_a_title_made_from_the_words_is_a_value_that_may_change(memory: Memory) -> None:
    """M14, M14c"""
    await memory.save(MemoryDraft(body="The staging server listens on port 8080."), HAND)
    saved = await memory.save(MemoryDraft(body="The staging server listens on port 9090."), HAND)
    assert saved.before is not None
    assert await bodies(memory) == {"The staging server listens on port 9090."}


async def test_a_new_memory_is_named_by_its_kind_and_subject_and_keeps_its_file(memory: Memory) -> None:
    """M11: by the text, or by a name that is given; an update renames no file."""
    first = await memory.save(MemoryDraft(body="we deploy on Fridays, after the standup with Ana"), HAND)
    assert first.entry.file == "project_deploy_fridays.md"
    named = await memory.save(MemoryDraft(body="Tea at four.", name="The tea break", kind="user"), HAND)
    assert named.entry.file == "user_tea_break.md"
    (memory.location.directory / "we_eat_at_noon.md").write_text("---\nname: Lunch\n---\nWe eat at noon.\n")
    again = await memory.save(MemoryDraft(body="We eat at one.", name="Lunch"), HAND)
    assert again.entry.file == "we_eat_at_noon.md"
    index = (memory.location.directory / "MEMORY.md").read_text()
    assert "- [We deploy on Fridays](project_deploy_fridays.md) — after the standup with Ana\n" in index


async def test_texts_that_only_begin_alike_are_two_memories(memory: Memory) -> None:
    """M14: the title is the first clause, and one clause says too little to replace another memory."""
    for text in ("For the report, use the blue template", "For the report, ask Mia to proofread it"):
        saved = await memory.save(MemoryDraft(body=text), HAND)
        assert saved.before is None
    assert len(await bodies(memory)) == 2


async def test_a_hook_that_would_repeat_the_title_is_left_out(memory: Memory) -> None:
    """M8: also when an update leaves nothing to add."""
    saved = await memory.save(MemoryDraft(body="We deploy on Fridays, never on Mondays or Tuesdays."), HAND)
    index = memory.location.directory / "MEMORY.md"
    assert index.read_text().endswith(f"({saved.entry.file}) — never on Mondays or Tuesdays\n")
    for _ in range(2):
        await memory.save(MemoryDraft(body="We deploy on Fridays.", file=saved.entry.file), HAND)
        assert index.read_text() == f"# Memory\n\n- [We deploy on Fridays]({saved.entry.file})\n"


async def test_an_entry_is_found_by_its_file_name_without_the_kind(memory: Memory) -> None:
    saved = await memory.save(MemoryDraft(body="The office opens at nine.", name="Office hours today"), HAND)
    assert saved.entry.file == "project_office_hours_today.md"
    await memory.save(MemoryDraft(body="Office plants get water on Monday.", name="Plants"), HAND)
    assert (await memory.find("office_hours_today")).file == saved.entry.file
    for kind in ("user", "feedback"):
        file = memory.location.directory / f"{kind}_seating_plan.md"
        file.write_text(f"---\nname: For {kind}\n---\nThe seating plan is on the wall.\n")
    with pytest.raises(StoreError, match=r"no memory matches|may mean several"):
        await memory.find("seating_plan")
