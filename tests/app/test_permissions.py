"""The policy of a session: rules from settings, and what the person has allowed for good."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from nacre.app.build_toolset import FILE, LearnedPermissions, session_policy
from nacre.errors import ConfigError
from nacre.settings import load
from nacre.tools.rules import PermissionRule

MAKE = PermissionRule("allow", "Bash", "make test:*", "your answer")
EDIT = PermissionRule("allow", "Edit", "/a.py", "your answer")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


def texts(learned: LearnedPermissions) -> list[str]:
    return [rule.text for rule in learned.rules()]


def test_what_was_allowed_for_good_is_known_to_the_next_session_of_that_project_only(
    project: Path, home: Path
) -> None:
    """Permissions: kept in the home by project, readable by nobody else, nothing written into the project."""
    learned = LearnedPermissions(home / "deep", project)
    for rule in (MAKE, EDIT, MAKE):
        learned.add(rule)
    path = home / "deep" / FILE
    assert json.loads(path.read_text()) == {str(project): ["Bash(make test:*)", "Edit(/a.py)"]}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert sorted(each.name for each in path.parent.iterdir()) == ["locks", FILE]
    assert list(project.iterdir()) == []
    assert texts(LearnedPermissions(home / "deep", project)) == ["Bash(make test:*)", "Edit(/a.py)"]
    assert texts(LearnedPermissions(home / "deep", project.parent)) == []


def test_a_rule_comes_back_as_it_was_whatever_it_holds(project: Path, home: Path) -> None:
    odd = PermissionRule("allow", "Bash", 'for f in *; do\n  echo "$f" (ü)\ndone', "your answer")
    LearnedPermissions(home, project).add(odd)
    (back,) = LearnedPermissions(home, project).rules()
    assert (back.tool, back.pattern, back.effect) == (odd.tool, odd.pattern, "allow")


@pytest.mark.parametrize(
    "content",
    [
        b"{",
        b"\xff\x00",
        b"[]",
        b'{"/p": "Bash"}',
        b'{"/p": [1]}',
        b'{"/elsewhere": {"allow": []}}',
        b"[" * 100_000,
    ],
)
def test_a_file_that_is_odd_is_left_as_it_is_and_named(content: bytes, project: Path, home: Path) -> None:
    """Nothing is lost: not by reading, and not by the next answer."""
    (home / FILE).write_bytes(content)
    learned = LearnedPermissions(home, project)
    for use in (learned.rules, lambda: learned.add(MAKE)):
        with pytest.raises(ConfigError, match="correct it or move it away") as caught:
            use()
        assert str(home / FILE) in str(caught.value)
        assert len(str(caught.value).splitlines()) == 1
    assert (home / FILE).read_bytes() == content


def test_an_odd_rule_among_the_answers_is_named_with_its_file(project: Path, home: Path) -> None:
    (home / FILE).write_text(json.dumps({str(project): ["Bash(x"]}))
    with pytest.raises(ConfigError, match=r"permissions\.json: 'Bash\(x' is no permission rule"):
        LearnedPermissions(home, project).rules()


def test_a_home_that_takes_no_file_is_one_line(project: Path, tmp_path: Path) -> None:
    """Also for whoever may write anywhere: a file stands where the home should be."""
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="choose another name"):
        LearnedPermissions(tmp_path / "file" / "home", project).add(MAKE)


def test_the_policy_holds_every_rule_with_its_place_and_the_persons_answers(
    project: Path, home: Path
) -> None:
    (home / "settings.json").write_text(
        json.dumps(
            {
                "permissions": {
                    "allow": ["Bash(make:*)"],
                    "ask": ["Bash(git push:*)"],
                    "deny": ["Read(.env)"],
                    "defaultMode": "acceptEdits",
                    "additionalDirectories": ["../shared", "~/notes"],
                }
            }
        )
    )
    settings = load(project, {"NACRE_HOME": str(home)}, policy_path=home / "none")
    learned = LearnedPermissions(home, settings.project_root)
    learned.add(EDIT)
    policy = session_policy(settings, learned)
    assert [(rule.effect, rule.text) for rule in policy.rules] == [
        ("deny", "Read(.env)"),
        ("ask", "Bash(git push:*)"),
        ("allow", "Bash(make:*)"),
        ("allow", "Edit(/a.py)"),
    ]
    assert [Path(rule.origin.rpartition(" ")[2]).name for rule in policy.rules] == [
        *["settings.json"] * 3,
        FILE,
    ]
    assert (policy.root, policy.mode) == (project, "acceptEdits")
    assert policy.directories == (project.parent / "shared", (Path.home() / "notes").resolve())
