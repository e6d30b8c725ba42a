"""`--everywhere`: the person's memories of all projects, each with the name of its project (R10)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nacre.cli.main import main
from nacre.store.home import slug
from tests.cli.memory_command import document, said

Capture = pytest.CaptureFixture[str]
QUESTION = "When is the staging database rebuilt?"


@pytest.fixture
def other(home: Path, here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> Path:
    """Another project, whose memory answers; the one around the working directory has an unrelated one."""
    project = tmp_path / "other"
    project.mkdir()
    monkeypatch.chdir(project)
    rebuilt = "The staging database is rebuilt every Sunday."
    said(capsys, "save", rebuilt, "--name", "Staging database", "--type", "project")
    monkeypatch.chdir(here)
    said(capsys, "save", "Tea is served at four.", "--name", "Tea", "--type", "project")
    return project


def recalled(capture: Capture, *args: str) -> Any:
    capture.readouterr()
    assert main(["recall", QUESTION, *args, "--json"]) == 0
    return json.loads(capture.readouterr().out)


def test_a_memory_of_another_project_is_recalled_with_the_project_named(
    other: Path, here: Path, capsys: Capture
) -> None:
    assert recalled(capsys)["picks"] == []
    found = recalled(capsys, "--everywhere")
    assert [(one["file"], one["project"]) for one in found["picks"]] == [
        ("project_staging_database.md", str(other))
    ]
    assert {one["file"]: one["project"] for one in found["ranked"]}["project_staging_database.md"] == str(
        other
    )
    capsys.readouterr()
    assert main(["recall", QUESTION, "--everywhere"]) == 0
    assert f"    in {other}" in capsys.readouterr().out.splitlines()


def test_words_are_searched_in_all_projects(other: Path, here: Path, home: Path, capsys: Capture) -> None:
    said(capsys, "save", "I rebuild staging by hand.", "--name", "Me", "--type", "user", "--scope", "user")
    assert document(capsys, "search", "staging", code=1) == []
    found = document(capsys, "search", "staging", "--everywhere")
    assert {(one["file"], one["project"]) for one in found} == {
        ("project_staging_database.md", str(other)),
        ("user_me.md", "all projects"),
    }
    assert str(other) in said(capsys, "search", "staging", "--everywhere")[0]
    assert len(document(capsys, "search", "staging", "--everywhere", "--limit", "1")) == 1
    assert "leave out --scope" in said(capsys, "search", "x", "--everywhere", "--scope", "user", code=2)[1]


def test_a_folder_of_claude_code_is_named_by_its_folder_and_links_are_left_out(
    other: Path, home: Path, tmp_path: Path, capsys: Capture
) -> None:
    folder = home / "projects" / slug("/work/claude")
    (folder / "memory").mkdir(parents=True)
    (folder / "memory" / "staging.md").write_text("Staging is rebuilt by Claude.\n")
    linked = home / "projects" / slug("/work/linked")
    linked.mkdir()
    (linked / "memory").symlink_to(folder / "memory")
    broken = home / "projects" / slug("/work/broken")
    (broken / "memory").mkdir(parents=True)
    (broken / "memory" / "staging.md").write_text("Staging is broken.\n")
    (broken / "identity.json").write_text("{")
    found = document(capsys, "search", "staging", "--everywhere")
    assert {one["project"] for one in found} == {str(other), slug("/work/claude")}


def test_untrusted_memories_of_other_projects_are_not_attached(
    other: Path, home: Path, capsys: Capture
) -> None:
    """M16b"""
    file = home / "projects" / slug(str(other)) / "memory" / "project_staging_database.md"
    file.write_text(file.read_text().replace("type: project", "type: project\norigin: untrusted"))
    found = recalled(capsys, "--everywhere")
    assert found["picks"] == []
    first = found["ranked"][0]
    assert (first["file"], first["why"]) == ("project_staging_database.md", "untrusted")
