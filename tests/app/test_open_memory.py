"""A program's own memory: the one the settings lead to, saved to and recalled from in plain words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nacre import open_memory
from nacre.app.memory_locations import memory_place
from nacre.memory.format.entry import MemoryDraft
from nacre.settings import Settings, load
from nacre.testing import FrozenClock


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    home, project = tmp_path / "home", tmp_path / "project"
    home.mkdir()
    project.mkdir()
    (home / "settings.json").write_text(json.dumps({"memoryHome": str(tmp_path / "shared")}))
    return load(project, {"NACRE_HOME": str(home)})


async def test_a_program_opens_the_memory_that_the_settings_name(settings: Settings, tmp_path: Path) -> None:
    """M1: with a memory home of its own, what a program saves must not lie where no chat looks."""
    memory = await open_memory(settings)
    own = await open_memory(settings, scope="user")
    assert memory.location == memory_place(settings, "project")
    assert memory.location.directory.is_relative_to(tmp_path / "shared")
    assert own.location == memory_place(settings, "user")


async def test_a_plain_text_is_saved_recalled_corrected_and_forgotten(
    settings: Settings, clock: FrozenClock
) -> None:
    """M14, R7: three lines are enough for a program; the history says that it was one."""
    memory = await open_memory(settings, clock=clock)
    saved = await memory.save("The build server is heron, in the basement.")
    recalled = await memory.recall("Which server do we build on?")
    assert [one.ranked.entry.file for one in recalled.picks] == [saved.entry.file]
    assert "The build server is heron" in recalled.text
    assert (await memory.recall("What is for lunch today?")).text == ""
    await memory.correct(saved.entry.file, "The build server is egret.")
    await memory.forget(saved.entry.file)
    assert await memory.list() == []
    assert [(one.author, one.reason) for one in await memory.log()] == [("user", "by a program")] * 3


async def test_what_stays_here_or_came_from_outside_is_not_recalled_for_a_message(
    settings: Settings,
) -> None:
    """M16b, M27: a message leaves the machine; nobody vouches for words from outside."""
    memory = await open_memory(settings)
    await memory.save(MemoryDraft(body="The alarm code of the lab is on the fridge.", local_only=True))
    await memory.save(MemoryDraft(body="The lab's printer password is on the wall.", origin="untrusted"))
    asked = "Where are the alarm code and the printer password of the lab?"
    assert (await memory.recall(asked)).picks == ()
    here = await memory.recall("Where is the alarm code of the lab?", with_local=True)
    assert ["alarm code" in one.text for one in here.picks] == [True]


async def test_without_an_index_for_conversations_a_program_writes_none(tmp_path: Path) -> None:
    """M19: what the settings say of the index holds for a program, too."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "settings.json").write_text(json.dumps({"memory": {"index": False}}))
    memory = await open_memory(load(tmp_path, {"NACRE_HOME": str(home)}))
    await memory.save("The build server is heron.")
    assert not (memory.location.directory / "MEMORY.md").exists()
