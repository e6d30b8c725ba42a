"""`nacre instructions`: what counts here, what waits for consent, and giving it (M22-M24)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.program import nacre


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project" / ".git").mkdir(parents=True)
    (tmp_path / "shared.md").write_text("Use tabs.\n")
    (tmp_path / "project" / "CLAUDE.md").write_text("Be kind.\n@../shared.md\n@inside.md\n")
    (tmp_path / "project" / "inside.md").write_text("Be brief.\n")
    (tmp_path / "project" / "AGENTS.md").write_text("x" * 40_001)
    return tmp_path / "project"


def listed(project: Path) -> dict[str, list[dict[str, str]]]:
    ended = nacre(project, "instructions", "list", "--json")
    assert (ended.returncode, ended.stderr) == (0, "")
    value: dict[str, list[dict[str, str]]] = json.loads(ended.stdout)
    return value


def test_every_file_is_listed_with_its_kind_its_size_and_why_it_is_loaded(project: Path) -> None:
    ended = nacre(project, "instructions", "list")
    rows = [line.split() for line in ended.stdout.splitlines()]
    assert ["project", "10", str(project / "inside.md"), str(project / "CLAUDE.md"), "includes", "it"] in rows
    assert f"needs your consent: {project.parent / 'shared.md'}" in ended.stdout
    assert "40,001 characters, more than 40,000" in ended.stdout


def test_the_users_own_file_of_claude_code_is_read_and_can_be_excluded(project: Path) -> None:
    """M22: the README says that nacre reads CLAUDE.md as Claude Code does."""
    own = project.parent / "person" / ".claude" / "CLAUDE.md"
    own.parent.mkdir(parents=True)
    own.write_text("Answer in German.\n")
    given = {"HOME": str(own.parents[1])}
    shown = json.loads(nacre(project, "instructions", "list", "--json", **given).stdout)
    assert [(one["kind"], one["path"]) for one in shown["files"] if one["kind"] == "user"] == [
        ("user", str(own))
    ]
    given["NACRE_CLAUDE_MD_EXCLUDES"] = '["~/.claude/CLAUDE.md", "**/AGENTS.md"]'
    shown = json.loads(nacre(project, "instructions", "list", "--json", **given).stdout)
    assert [Path(one["path"]).name for one in shown["files"]] == ["inside.md", "CLAUDE.md"]


@pytest.mark.slow
def test_consent_is_given_and_taken_back(project: Path) -> None:
    shared = str(project.parent / "shared.md")
    assert listed(project)["outside"] == [shared]
    assert nacre(project, "instructions", "allow", "../shared.md").returncode == 0
    assert shared in {row["path"] for row in listed(project)["files"]}
    assert (listed(project)["outside"], listed(project)["allowed"]) == ([], [shared])
    assert nacre(project, "instructions", "allow", shared).stdout.endswith("is allowed already\n")
    assert nacre(project, "instructions", "forget", shared).returncode == 0
    assert nacre(project, "instructions", "forget", shared).returncode == 1
    assert listed(project)["outside"] == [shared]


def test_only_what_is_asked_for_can_be_allowed(project: Path) -> None:
    (project.parent / "other.md").write_text("Never asked for.\n")
    ended = nacre(project, "instructions", "allow", str(project.parent / "other.md"))
    assert ended.returncode == 1
    assert "nothing here asks for" in ended.stderr
