"""Which kind a memory gets whose writer does not say."""

from __future__ import annotations

from pathlib import Path

import pytest

from nacre.memory.checks.lint import lint
from nacre.memory.files.location import team_location
from nacre.memory.format.entry import Kind, MemoryDraft, kind_of
from nacre.memory.memory import Memory


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("I prefer tabs over spaces.", "user"),
        ("my name is Ana", "user"),
        ("The user works nights.", "user"),
        ("我喜欢用制表符", "user"),
        ("Don’t squash commits.", "feedback"),
        ("# Commits\n\nalways sign them", "feedback"),
        ("Answers are in English from now on.", "feedback"),
        ("以后都用中文回答", "feedback"),
        ("The board is at https://example.com/board", "reference"),
        ("Latency is on the Grafana dashboard.", "reference"),
        ("my runbook: https://example.com/run", "reference"),
        ("Deploys happen on Tuesday.", "project"),
        ("We always deploy on Tuesday.", "project"),
        ("我们用周二部署", "project"),
        ("In its index the server never sleeps.", "project"),
        ("", "project"),
    ],
)
def test_the_first_sentence_tells_the_kind(body: str, kind: Kind) -> None:
    """M12."""
    assert kind_of(body) == kind


async def test_what_nacre_saves_passes_its_own_lint(tmp_path: Path) -> None:
    """M12, M14: what a writer says of the kind stands, and so does a file without one."""
    memory = await Memory.open(tmp_path, environ={"NACRE_HOME": str(tmp_path / "home")})
    saved = [await memory.save(text) for text in ("deploys are on Tuesday", "I prefer tabs over spaces.")]
    told = await memory.save(MemoryDraft(body="I am on call in May.", kind="project"))
    assert [one.entry.kind for one in (*saved, told)] == ["project", "user", "project"]
    assert lint(memory.location.directory) == []
    untyped = memory.location.directory / "plain.md"
    untyped.write_text("---\nname: Plain\ndescription: A file by hand, of no kind\n---\n\nBy hand.\n")
    assert (await memory.correct("plain.md", "By hand, again.")).entry.kind is None


async def test_a_team_is_told_nothing_of_a_person_by_mistake_of_a_rule(tmp_path: Path) -> None:
    """M18: user memories are refused there, so a rule must not make one."""
    mine = await Memory.open(tmp_path, environ={"NACRE_HOME": str(tmp_path / "home")})
    team = await Memory.at(team_location(mine.location), tmp_path)
    assert (await team.save("My deploy script is in tools/.")).entry.kind == "project"
