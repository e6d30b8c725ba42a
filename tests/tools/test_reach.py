"""Where the words of a command lead: whatever would print what lies outside the project is asked for."""

from __future__ import annotations

import errno
import os
import subprocess
from pathlib import Path

import pytest

from nacre.errors import ToolError
from nacre.messages.blocks import JsonObject
from nacre.tools.base import Tool
from nacre.tools.glob import glob_tool
from nacre.tools.grep import grep_tool
from nacre.tools.guard import Guard
from nacre.tools.policy import Policy
from nacre.tools.rules import Effect, Rule, parse_rule
from nacre.tools.workspace import Workspace

SECRET = "the secret of another place"


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    root = tmp_path / "project"
    for folder in ("src/deep", "[x]", "a"):
        (root / folder).mkdir(parents=True)
    (root / "src" / "app.py").write_text("old\n")
    (root / "inner").write_text("words\n")
    (root / "src" / "é.txt").write_text("words\n")
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "secret").write_text(SECRET + "\n")
    (tmp_path / "secret").write_text(SECRET + "\n")
    (root / "notes").symlink_to(tmp_path / "secret")
    (root / "src" / "inner").symlink_to(tmp_path / "secret")
    (root / "folder").symlink_to(tmp_path)
    (root / "near").symlink_to(root / "src" / "app.py")
    return Workspace(root)


async def _nothing(arguments: JsonObject) -> str:
    return "done"


def effect(workspace: Workspace, command: str, *rules: Rule) -> Effect:
    bash = Tool(name="Bash", description="", input_schema={}, call=_nothing)
    policy = Policy(root=workspace.root, rules=rules)
    return policy.decide(bash, {"command": command}, workspace).effect


def printed(workspace: Workspace, command: str) -> str:
    environ = {
        **os.environ,
        "HOME": f"{workspace.root.parent}/home",
        "OLDPWD": f"{workspace.root.parent}/home",
    }
    done = subprocess.run(
        ["bash", "-c", command], cwd=workspace.cwd, env=environ, capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr


@pytest.mark.parametrize(
    "command",
    [
        "cat ../secret",
        "cat */../../secret",
        "cat ?/../../secret",
        "cat {../secret,x}",
        "cat {.,a}{.,b}/secret",
        "cat {,a}/dev/../$PWD/../secret",
        "cat {~,x}/secret",
        "cat n*",
        "cat [n]otes",
        "cat fold*/secret",
        "cat src/i*",
        "cat .*/secret",
        "cat '[x]/../../secret'",
        "cat $'\\56\\56/secret'",
        "cat ~-/secret",
        "cd && cat secret",
        "cd; cat secret",
        "cd - && cat secret",
        "cd -- && cat secret",
        "cd src && cat inner",
        "cd src && cat deep/../../../secret",
        "cd a && cd ../.. && cat secret",
        "(cd src); cat notes",
        "cd folder && cat secret",
        "grep -R secret .",
        "grep -nR secret",
        "egrep --dereference-recursive secret .",
        "diff -r folder a",
        "diff -ur . a",
        "diff src a",
        "diff --new-file src a",
        "diff --new-file s?c a",
        "/usr/bin/diff inner src",
        "cd src && diff inner deep/..",
        "grep -f../secret ../secret",
        "grep -vf../secret -e x notes",
        "strings @../secret",
        "cat < notes",
    ],
)
def test_no_spelling_reads_outside_the_project_unasked(workspace: Workspace, command: str) -> None:
    assert effect(workspace, command) == "ask"


@pytest.mark.parametrize(
    "command",
    [
        "ls -la",
        "cat near",
        "cat src/*.py",
        "cat src/{app,other}.py",
        "cat src/é.txt",
        "cd src && cat app.py",
        "cd src && cd deep && ls",
        "grep -rn old src --include=*.py",
        "cut -d/ -f1 src/app.py",
        "diff -r --no-dereference src a",
        "diff --no-dereference --new-file src a",
        "diff --no-dereference inner src",
        "diff src/app.py near",
        "grep 'a.*/b' src/app.py",
        "git log --oneline -5",
        "head -20 src/app.py 2>/dev/null",
    ],
)
def test_what_stays_inside_is_free_and_prints_no_secret(workspace: Workspace, command: str) -> None:
    assert effect(workspace, command) == "allow"
    assert SECRET not in printed(workspace, command)


@pytest.mark.parametrize("command", ["diff --new-file src a", "diff inner src"])
def test_diff_would_print_what_a_link_in_a_directory_leads_to(workspace: Workspace, command: str) -> None:
    assert SECRET in printed(workspace, command)


def test_a_word_that_cannot_be_resolved_is_asked_about(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a link vanishes while it is followed."""
    assert effect(workspace, "cat near") == "allow"
    monkeypatch.setattr(os, "readlink", _vanished)
    assert effect(workspace, "cat near") == "ask"
    assert effect(workspace, "cd near; ls") == "ask"


def _vanished(path: object) -> str:
    raise OSError(errno.EINVAL, "Invalid argument")


@pytest.mark.parametrize("command", ["ls", "cat *", "grep -r secret", "pwd"])
def test_a_working_directory_outside_the_project_makes_every_command_a_question(
    workspace: Workspace, command: str
) -> None:
    workspace.cwd = workspace.root.parent
    assert effect(workspace, command) == "ask"


@pytest.mark.parametrize(
    ("rules", "command", "expected"),
    [
        (["Read(.env)"], "cat .env", "deny"),
        (["Read(.env)"], "cat ./src/../.env", "deny"),
        (["Read(.env)"], "cat .e*", "deny"),
        (["Read(.env)"], "grep -f.env src/app.py", "deny"),
        (["Read(.env)"], "cat src/app.py", "allow"),
        (["Bash(rm:*)"], "/bin/rm x", "deny"),
        (["Bash(rm:*)"], "/usr/bin/rm x", "deny"),
    ],
)
def test_a_rule_against_a_file_or_program_holds_however_it_is_named(
    workspace: Workspace, rules: list[str], command: str, expected: str
) -> None:
    (workspace.root / ".env").write_text("KEY=1\n")
    given = [parse_rule(text, "deny") for text in rules]
    assert effect(workspace, command, *given, parse_rule("Bash", "allow")) == expected


def test_an_allowed_cd_does_not_carry_other_commands_out(workspace: Workspace) -> None:
    allowed = parse_rule("Bash(cd:*)", "allow")
    assert effect(workspace, "cd ..", allowed) == "allow"
    assert effect(workspace, "cd .. && cat secret", allowed) == "ask"


def test_always_for_a_name_with_brackets_means_that_file_and_no_other(workspace: Workspace) -> None:
    edit = Tool(name="Edit", description="", input_schema={}, call=_nothing)
    policy = Policy(root=workspace.root)
    rule = policy.rule_for(edit, {"file_path": "src/[id].{tsx}*"}, workspace)
    policy = policy.with_rules([rule])
    assert policy.decide(edit, {"file_path": "src/[id].{tsx}*"}, workspace).effect == "allow"
    assert policy.decide(edit, {"file_path": "src/i.tsx"}, workspace).effect == "ask"


async def test_a_pattern_that_names_a_directory_is_looked_for_there_behind_a_guard(
    workspace: Workspace,
) -> None:
    guard = Guard(Policy(root=workspace.root), workspace)
    [glob] = guard.stand_before([glob_tool(workspace)])
    assert await glob.call({"pattern": "src/*.py"}) == "src/app.py"
    assert await glob.call({"pattern": "*.py", "path": "src"}) == "src/app.py"
    with pytest.raises(ToolError, match="outside the project"):
        await glob.call({"pattern": "../*"})
    with pytest.raises(ToolError, match="outside the project"):
        await glob.call({"pattern": "folder/*"})


async def test_a_search_without_ripgrep_follows_no_link(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    search = grep_tool(workspace)
    assert await search.call({"pattern": "secret", "output_mode": "content"}) == "No matches."
