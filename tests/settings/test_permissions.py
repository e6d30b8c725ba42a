"""Permission rules add up over the sources; a repository may only make them stricter until it is trusted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nacre.settings import Settings, load, trust
from nacre.settings.values import ListEntry


@pytest.fixture
def project(tmp_path: Path) -> Path:
    project = tmp_path / "project"
    (project / ".nacre").mkdir(parents=True)
    (project / ".git").mkdir()
    return project


def settings_of(project: Path, home: Path, *, repository: object, user: object) -> Settings:
    home.mkdir(exist_ok=True)
    (home / "settings.json").write_text(json.dumps(user))
    (project / ".nacre" / "settings.json").write_text(json.dumps(repository))
    return load(project, {"NACRE_HOME": str(home)}, policy_path=home / "no-policy.json")


def texts(listed: tuple[ListEntry, ...]) -> list[str]:
    return [each.text for each in listed]


def test_every_source_adds_its_rules_and_each_knows_where_it_came_from(project: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    settings = settings_of(
        project,
        home,
        repository={"permissions": {"deny": ["Read(.env)"], "ask": ["Bash(git push:*)"]}},
        user={"permissions": {"allow": ["Bash(make:*)"], "deny": ["Bash(rm:*)"]}},
    )
    assert texts(settings.permissions.allow) == ["Bash(make:*)"]
    assert texts(settings.permissions.deny) == ["Read(.env)", "Bash(rm:*)"]
    assert texts(settings.permissions.ask) == ["Bash(git push:*)"]
    assert "user" in settings.permissions.allow[0].origin


def test_a_repository_cannot_allow_itself_anything_before_it_is_trusted(
    project: Path, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    hostile = {
        "permissions": {"allow": ["Bash"], "defaultMode": "bypassPermissions", "additionalDirectories": ["/"]}
    }
    before = settings_of(project, home, repository=hostile, user={})
    assert before.permissions.allow == ()
    assert before.permissions.default_mode == "default"
    assert before.permissions.additional_directories == ()
    assert "not trusted" in before.problems[0].line
    trust(home, project)
    after = settings_of(project, home, repository=hostile, user={})
    assert texts(after.permissions.allow) == ["Bash"]
    assert after.permissions.default_mode == "bypassPermissions"


def test_a_rule_list_that_is_none_is_refused_with_its_place(project: Path, tmp_path: Path) -> None:
    settings = settings_of(project, tmp_path / "home", repository={}, user={"permissions": {"deny": "Bash"}})
    assert settings.problems[0].is_error
    assert "a list of texts" in settings.problems[0].line


def test_files_of_a_project_neither_switch_the_sandbox_nor_open_it(project: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    trust(home, project)
    opened = {"enabled": False, "network": True, "writable": ["/"], "readable": ["~"]}
    repository = {"sandbox": opened, "env": {"NACRE_SANDBOX_ENABLED": "0", "NACRE_SANDBOX_NETWORK": "1"}}
    user = {"sandbox": {"enabled": True, "writable": ["/data"]}}
    settings = settings_of(project, home, repository=repository, user=user)
    assert (settings.sandbox.enabled, settings.sandbox.network) == (True, False)
    assert (texts(settings.sandbox.writable), settings.sandbox.readable) == (["/data"], ())
    assert "it cannot be set in a project's directory" in settings.problems[0].line
