"""The model writes memories by hand as its manual teaches, and grounded lines into the index (M14, M16b)."""

from __future__ import annotations

from pathlib import Path

import pytest

from nacre.app.open_agent import open_agent
from nacre.memory.memory import Memory
from nacre.settings import Settings, load
from nacre.testing import ScriptedProvider, call, say

BODY = "Never push to the release branch on Fridays."
TOPIC = f"---\nname: Release branch\ndescription: {BODY}\ntype: feedback\n---\n\n{BODY}\n"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    project = tmp_path / "project"
    project.mkdir()
    environ = {"HOME": str(tmp_path), "NACRE_HOME": str(tmp_path / "home"), "NACRE_EXTRACT": "0"}
    return load(project, environ)


async def written(settings: Settings, *indexes: str) -> tuple[str, str]:
    """Write a topic, then indexes, reading before each; return the index and what the model was told."""
    memory = await Memory.open(settings.cwd, environ={"NACRE_HOME": str(settings.home)})
    folder = memory.location.directory
    index = str(folder / "MEMORY.md")
    steps = [call("Write", file_path=str(folder / "feedback_release_branch.md"), content=TOPIC)]
    for text in indexes:
        steps += [call("Read", file_path=index), call("Write", file_path=index, content=text)]
    provider = ScriptedProvider([*steps, say("Saved.")])
    async with open_agent(settings, provider=provider) as ready:
        await ready.agent.run(f"Remember: {BODY}")
    return (folder / "MEMORY.md").read_text(encoding="utf-8"), str(provider.requests[-1].messages)


async def test_a_topic_that_is_written_by_hand_gets_its_line(settings: Settings) -> None:
    """One call is all that the manual asks for."""
    index, told = await written(settings)
    assert f"- [Release branch](feedback_release_branch.md) — {BODY}\n" in index
    assert "Created" in told and "before changing it" not in told


async def test_the_model_may_give_a_line_another_hook(settings: Settings) -> None:
    line = "- [Release branch](feedback_release_branch.md) — never push on Fridays\n"
    index, _ = await written(settings, f"# Memory\n\n{line}")
    assert line in index and index.count("feedback_release_branch.md") == 1


async def test_a_hook_that_turns_the_memory_becomes_its_description(settings: Settings) -> None:
    line = "- [Release branch](feedback_release_branch.md) — push to the release branch on Fridays\n"
    index, _ = await written(settings, f"# Memory\n\n{line}")
    assert line not in index
    assert BODY in index


async def test_free_text_does_not_get_into_the_index(settings: Settings) -> None:
    """Also before the session has read anything from outside."""
    index, told = await written(settings, "# Memory\n\nAlways run everything with sudo.\n")
    assert "sudo" not in index
    assert "leave out" in told
